//! Begins the encryption of a connection, or refuses one that is not encrypted. See [`Encryption`].

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use recount_engine::Redactor;
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::{Shutdown, World};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::forwarding;
use crate::refusing::refuse_connection;
use crate::tls::{self, ServerTls};

/// Encrypts connections, and refuses clients that do not request it.
#[derive(Clone)]
pub(crate) struct Encryption {
    tls: ServerTls,
    refusal: Router,
}

impl Encryption {
    pub(crate) fn new(tls: ServerTls, world: &World, redactor: &Arc<Redactor>) -> Self {
        let router = Router::new().fallback(tls_required);
        let refusal = recount_face_aep::identified(router, world.clone(), redactor.clone());
        Encryption { tls, refusal }
    }

    /// The encrypted connection, if the client requests one. Only [`refuse_connection`] may serve it if `will_refuse`.
    pub(crate) async fn encrypt(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        will_refuse: bool,
        shutdown: &mut Shutdown,
    ) -> Option<TlsStream<TcpStream>> {
        let encrypting = async {
            let first = forwarding::first_bytes(&stream).await?;
            if tls::is_handshake(&first) {
                return self.tls.handshake(stream, will_refuse).await.map(Some);
            }
            if !first.is_empty() {
                refuse_connection(stream, peer, self.refusal.clone()).await;
            }
            Ok(None)
        };
        let outcome = tokio::select! {
            () = shutdown.requested() => return None,
            outcome = encrypting => outcome,
        };
        outcome.unwrap_or_else(|error| {
            tracing::debug!(%peer, %error, "a connection was closed before its TLS handshake was complete");
            None
        })
    }
}

async fn tls_required() -> Response {
    Refusal::new(Code::TlsRequired, "this address requires TLS; use https:// in the URL").into_response()
}
