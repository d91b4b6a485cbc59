//! A proxy that ends TLS before a server, with a certificate of an authority that only the test knows.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use recount_world::{Kind, World};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::certificates::Authority;
use crate::server::{PATIENCE, Server};

/// Its certificate is for `localhost`.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// Where the certificate of its authority lies.
    pub(crate) authority: PathBuf,
}

impl Proxy {
    /// It ends with the tests.
    pub(crate) fn before(server: &Server, folder: &Path) -> Self {
        let authority = Authority::new();
        let (certificate, key) = authority.issue(&["localhost"]);
        let path = authority.write(folder);

        // Of two that may be there in this program, this one.
        let cryptography = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(cryptography)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let (address, acceptor) = (server.address.clone(), TlsAcceptor::from(Arc::new(config)));
        let (port_sender, port_receiver) = channel();
        recount_world::thread("proxy", move || {
            let world = World::real();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
                port_sender.send(listener.local_addr().unwrap().port()).unwrap();
                while let Ok((from, _)) = listener.accept().await {
                    let (acceptor, address) = (acceptor.clone(), address.clone());
                    world.tasks.spawn(Kind::Connection, |_| async move {
                        // Who does not trust the certificate leaves here.
                        let Ok(mut from) = acceptor.accept(from).await else { return };
                        let mut to = TcpStream::connect(address).await.unwrap();
                        drop(tokio::io::copy_bidirectional(&mut from, &mut to).await);
                    });
                }
            });
        });
        Proxy { port: port_receiver.recv_timeout(PATIENCE).unwrap(), authority: path }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}
