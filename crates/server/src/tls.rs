//! TLS of the server: reads the certificate and its key, uses them for connections, and reads them again when their files
//! change.
//!
//! The protocols and ciphers are those of rustls: TLS 1.3 and 1.2 with forward secrecy, as Mozilla's intermediate profile
//! asks. It must not know HTTP. Start at [`ServerTls`].

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use recount_world::{Kind, World};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::{StartError, limits};

/// The files of a certificate and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server first, then those of intermediate authorities.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Accepts TLS connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerTls {
    acceptor: TlsAcceptor,
    /// Offers HTTP/1 only.
    refusing: TlsAcceptor,
    certificate: Arc<Certificate>,
}

/// The certificate in use.
#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

/// The names of the protocols that a client may choose.
const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

impl ServerTls {
    pub(crate) fn load(files: TlsFiles) -> Result<Self, StartError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = read(&files, &provider).map_err(StartError::usage)?;
        let certificate = Arc::new(Certificate { files, current: RwLock::new(Arc::new(key)) });
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| StartError::failed(format!("cannot set up TLS: {why}")))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        let refusing = TlsAcceptor::from(Arc::new(config.clone()));
        config.alpn_protocols.insert(0, HTTP_2.to_vec());
        Ok(ServerTls { acceptor: TlsAcceptor::from(Arc::new(config)), refusing, certificate })
    }

    /// Encrypts a connection. One that is refused afterwards needs HTTP/1.
    pub(crate) async fn handshake(
        &self,
        stream: TcpStream,
        will_refuse: bool,
    ) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = if will_refuse { &self.refusing } else { &self.acceptor };
        let handshake = acceptor.accept(stream);
        let too_slow = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake takes too long"));
        tokio::time::timeout(limits::HEAD_WAIT, handshake).await.unwrap_or_else(too_slow)
    }

    /// Reads the files again when they change, until shutdown. Unusable ones are reported, and the certificate stays.
    pub(crate) fn keep_current(&self, world: &World) {
        let certificate = self.certificate.clone();
        let mut seen = certificate.files.modified();
        world.tasks.spawn_until_shutdown(Kind::Service, async move {
            loop {
                tokio::time::sleep(limits::CERTIFICATE_LOOK_EVERY).await;
                let now = certificate.files.modified();
                if now != seen {
                    seen = now;
                    certificate.read_again();
                }
            }
        });
    }
}

impl TlsFiles {
    fn modified(&self) -> [Option<SystemTime>; 2] {
        [&self.cert, &self.key].map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
    }
}

impl Certificate {
    fn read_again(&self) {
        match read(&self.files, &rustls::crypto::ring::default_provider()) {
            Ok(key) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                tracing::info!(cert = %self.files.cert.display(), "new connections use the changed certificate");
            }
            Err(error) => {
                tracing::warn!(error, "the changed certificate cannot be used; the previous one stays")
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let TlsFiles { cert, key } = files;
    let of_cert = |why: &dyn std::fmt::Display| {
        format!("cannot use the certificate {}: {why}; name a PEM file with --tls-cert", cert.display())
    };
    let of_key = |why: &dyn std::fmt::Display| {
        format!("cannot use the private key {}: {why}; name a PEM file with --tls-key", key.display())
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).map_err(|why| of_cert(&why))?.collect();
    let chain = chain.map_err(|why| of_cert(&why))?;
    if chain.is_empty() {
        return Err(of_cert(&"it has no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| of_key(&why))?;
    let signer = provider.key_provider.load_private_key(private).map_err(|why| of_key(&why))?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(why) => Err(of_key(&format!("it does not belong to the certificate {} ({why})", cert.display()))),
    }
}

/// Encrypts a connection to another server without checking its certificate: what follows proves by [`session`] that no one
/// is in between.
pub(crate) async fn connect_unverified(
    stream: TcpStream,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Unverified(provider.clone()));
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A secret that only the two ends of this encrypted connection have. Someone in between has two connections.
pub(crate) fn session<Side>(connection: &rustls::ConnectionCommon<Side>) -> io::Result<[u8; 32]> {
    let exported = connection.export_keying_material([0; 32], b"EXPORTER-recount-servers", None);
    exported.map_err(io::Error::other)
}

/// Accepts every certificate.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a client has chosen HTTP/2.
pub(crate) fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP_2)
}

/// Whether the first bytes of a connection begin a handshake.
pub(crate) fn is_handshake(first: &[u8]) -> bool {
    first.first() == Some(&22)
}
