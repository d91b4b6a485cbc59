//! TLS to PostgreSQL with rustls: certificates are always checked.
//!
//! It must not know statements. Start at [`Tls`].

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use recount_log::{Fault, FaultKind, Retry};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client;

/// Makes TLS connections that trust the authorities of the system, or those of one file.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

/// The handshake with one host.
pub(crate) struct Handshake {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

pub(crate) struct Stream<S>(client::TlsStream<S>);

impl Tls {
    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, Fault> {
        let failed = |message: String| Fault::new(FaultKind::Io, Retry::Never, message);
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(path) => {
                let unreadable = |why: &dyn std::fmt::Display| {
                    failed(format!("cannot read the authorities in {} (sslrootcert): {why}", path.display()))
                };
                let certificates = CertificateDer::pem_file_iter(path).map_err(|why| unreadable(&why))?;
                for certificate in certificates {
                    let certificate = certificate.map_err(|why| unreadable(&why))?;
                    roots.add(certificate).map_err(|why| unreadable(&why))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| failed(format!("cannot set up TLS: {why}")))?;
        Ok(Tls(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        Ok(Handshake { config: self.0.clone(), host: ServerName::try_from(host.to_owned())? })
    }
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            tokio_rustls::TlsConnector::from(self.config).connect(self.host, stream).await.map(Stream)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    /// None: the certificate is checked against the authorities instead.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
