//! Serves clients while this server does not own its stores: passes their connections to the owner, and responds itself
//! to `/healthz`. While there is no owner: 503 with `Retry-After`.
//!
//! It must not know stores. Start at [`serve_until`].

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use recount_engine::Redactor;
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_transport::{Share, StallGuard};
use recount_world::{Kind, Shutdown, World};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::connection_limits::{Admission, ConnectionLimits};
use crate::encryption::Encryption;
use crate::forwarding::{self, ForwardTarget, Forwarded, KnownOwner, NotForwarded};
use crate::hosting::Hosting;
use crate::peer::PeerId;
use crate::refusing::refuse_connection;
use crate::tls::ServerTls;
use crate::{Files, health, limits};

/// What all connections share.
#[derive(Clone)]
struct Standby {
    world: World,
    redactor: Arc<Redactor>,
    owner: KnownOwner,
    arrived_at: SocketAddr,
    /// Encrypts its own responses. Connections to the owner are encrypted by the owner.
    encryption: Option<Encryption>,
    /// Tenants that the owner has handed over.
    hosting: Option<Hosting>,
}

/// Serves clients until the stores are opened, and returns the result of that. Connections to the former owner are then
/// closed: the end of `owner` announces it.
pub(crate) async fn serve_until<T>(
    listener: &TcpListener,
    arrived_at: SocketAddr,
    world: &World,
    redactor: &Arc<Redactor>,
    (owner, hosting): (KnownOwner, &OnceLock<Hosting>),
    tls: Option<ServerTls>,
    opened: impl Future<Output = T>,
) -> T {
    let encryption = tls.map(|tls| Encryption::new(tls, world, redactor));
    let standby = Standby {
        world: world.clone(),
        redactor: redactor.clone(),
        owner,
        arrived_at,
        encryption,
        hosting: None,
    };
    // Each client needs one connection here and one to the owner.
    let places = ConnectionLimits::new((Files::now().connections_max() / 2).max(1));
    let mut opened = pin!(opened);
    loop {
        let accepted = tokio::select! {
            biased;
            opened = &mut opened => return opened,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let standby = Standby { hosting: hosting.get().cloned(), ..standby.clone() };
                match places.try_admit(peer) {
                    Admission::Place(place) => {
                        world.tasks.spawn(Kind::Connection, move |shutdown| async move {
                            standby.serve(stream, peer, place, shutdown).await;
                        });
                    }
                    Admission::Refusal(place) => {
                        world.tasks.spawn(Kind::Connection, move |shutdown| async move {
                            standby.refuse_client(stream, peer, shutdown).await;
                            drop(place);
                        });
                    }
                    Admission::Nothing => {}
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(limits::ACCEPT_REST).await;
            }
        }
    }
}

impl Standby {
    async fn serve(mut self, client: TcpStream, peer: SocketAddr, place: Share<PeerId>, shutdown: Shutdown) {
        let first = match forwarding::first_bytes(&client).await {
            Ok(first) => first,
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection ended before a request");
                return;
            }
        };
        if first.is_empty() {
            return;
        }
        if forwarding::is_forwarded(&first) {
            drop(place);
            return self.serve_server(client, peer, shutdown).await;
        }
        if first.starts_with(b"GET /healthz") || first.starts_with(b"HEAD /healthz") {
            return self.refuse(client, peer, "this server is a standby".to_owned(), shutdown).await;
        }
        // This server owns the stores by now: the client connects again, and is served.
        if self.owner.has_changed().is_err() {
            return;
        }
        let Some(target) = self.owner.borrow_and_update().clone() else {
            let detail = "this server is starting or is a standby, and no server owns the stores at the moment; try \
                          again shortly";
            return self.refuse(client, peer, detail.to_owned(), shutdown).await;
        };
        let (forwarded, address) = (Forwarded { peer, arrived_at: self.arrived_at }, &target.address);
        // Kept until the connection ends.
        let _place = place;
        match target.connect(forwarded, &*self.world.entropy).await {
            Ok(owner) => self.pass(client, peer, owner, &target).await,
            Err(NotForwarded::Unreachable(error)) => {
                tracing::info!(%error, owner = target.node, address, "cannot pass a connection to the owner");
                let detail = format!(
                    "this server is a standby, and the owner of the stores at {address} cannot be reached; try again \
                     shortly"
                );
                self.refuse(client, peer, detail, shutdown).await;
            }
            Err(NotForwarded::TokenRequired) => {
                let detail = format!(
                    "this server is a standby that can be reached from other machines, and the owner of the stores at \
                     {address} requires no token, so it accepts only clients of its own machine; start the owner with \
                     --require-token"
                );
                self.refuse(client, peer, detail, shutdown).await;
            }
        }
    }

    /// Serves a connection of another server.
    async fn serve_server(&self, stream: TcpStream, peer: SocketAddr, shutdown: Shutdown) {
        // Without tenants, it takes this one for the owner; a connection is passed only once.
        if let Some(hosting) = &self.hosting {
            hosting.serve(stream, peer, shutdown).await;
        }
    }

    /// Refuses a client for which there is no place. Servers need none.
    async fn refuse_client(&self, client: TcpStream, peer: SocketAddr, shutdown: Shutdown) {
        if forwarding::first_bytes(&client).await.is_ok_and(|first| forwarding::is_forwarded(&first)) {
            return self.serve_server(client, peer, shutdown).await;
        }
        let detail = "this standby has no free connection for this address; try again shortly";
        self.refuse(client, peer, detail.to_owned(), shutdown).await;
    }

    /// Copies bytes in both directions until the owner ends the connection, the client accepts no data, or another server owns
    /// the stores.
    async fn pass(&mut self, client: TcpStream, peer: SocketAddr, mut owner: TcpStream, to: &ForwardTarget) {
        if let Err(error) = client.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY; small writes may be delayed");
        }
        let client = StallGuard::new(client, recount_transport::limits::WRITE_STALL);
        let (mut from_client, mut to_client) = tokio::io::split(client);
        let (mut from_owner, mut to_owner) = owner.split();
        let requests = async {
            let copied = tokio::io::copy(&mut from_client, &mut to_owner).await;
            // The owner still responds to what was sent, and then ends the connection.
            copied.and(to_owner.shutdown().await)
        };
        let responses = async {
            tokio::io::copy(&mut from_owner, &mut to_client).await?;
            to_client.shutdown().await
        };
        let passing = async {
            tokio::pin!(requests);
            tokio::pin!(responses);
            let ended = tokio::select! {
                ended = &mut responses => return ended,
                ended = &mut requests => ended,
            };
            // A client may end its direction only.
            ended.and(responses.await)
        };
        let replaced = self.owner.wait_for(|now| now.as_ref().is_some_and(|now| now.node != to.node));
        tokio::select! {
            ended = passing => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection to the owner ended early");
                }
            }
            _ = replaced => tracing::debug!(%peer, "a connection is closed: the stores have another owner"),
        }
    }

    /// Responds itself: with 200 to `/healthz`, with 503 to everything else.
    async fn refuse(&self, client: TcpStream, peer: SocketAddr, detail: String, mut shutdown: Shutdown) {
        let refuse = move || async move { refusal(&detail) };
        let router = Router::new().route("/healthz", get(health::alive)).fallback(refuse);
        let router = recount_face_aep::identified(router, self.world.clone(), self.redactor.clone());
        match &self.encryption {
            None => refuse_connection(client, peer, router).await,
            Some(encryption) => {
                if let Some(encrypted) = encryption.encrypt(client, peer, true, &mut shutdown).await {
                    refuse_connection(encrypted, peer, router).await;
                }
            }
        }
    }
}

fn refusal(detail: &str) -> Response {
    let refusal = Refusal::new(Code::StoreUnavailable, detail);
    Refusal { retry_after: Some(limits::STANDBY_RETRY), ..refusal }.into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use recount_engine::SEAL_KEY_BYTES;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::watch;

    use super::*;
    use crate::forwarding::NodeKey;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Both ends of a connection.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    /// A client could otherwise keep a place of the standby for ever.
    #[tokio::test]
    async fn a_passed_connection_ends_when_the_owner_ends_it_although_the_client_does_not() {
        let (mut client, accepted) = connected().await;
        let (mut owner, to_owner) = connected().await;
        let key = NodeKey::derive(&[1; SEAL_KEY_BYTES]);
        let (node, address) = ("owner".to_owned(), String::new());
        let target = ForwardTarget { node, address, is_encrypted: false, key };
        let (_known, known_owner) = watch::channel(Some(target.clone()));
        let address = accepted.local_addr().unwrap();
        let mut standby = Standby {
            world: World::real(),
            redactor: Arc::new(Redactor::shapes()),
            owner: known_owner,
            arrived_at: address,
            encryption: None,
            hosting: None,
        };
        let passing = standby.pass(accepted, address, to_owner, &target);
        let talking = async {
            client.write_all(b"request").await.unwrap();
            let mut request = [0; 7];
            owner.read_exact(&mut request).await.unwrap();
            owner.write_all(b"response").await.unwrap();
            drop(owner);
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            (request, response)
        };
        let both = tokio::time::timeout(PATIENCE, async { tokio::join!(passing, talking) });
        let ((), (request, response)) = both.await.expect("the place is given back while the client stays");
        assert_eq!((&request[..], &*response), (&b"request"[..], "response"));
    }
}
