//! Accepts connections up to the limit. `connection.rs` serves each of them.
//!
//! A [`Listener`] is a TCP listener, or the Unix socket of `unix_socket.rs`. Start at [`start`].

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use recount_transport::Share;
use recount_world::{Kind, Shutdown, World};
use tokio::net::{TcpListener, TcpStream};

use crate::connection::{self, Ends, ServerContext};
use crate::connection_limits::Admission;
use crate::limits;
use crate::peer::{Peer, PeerId};
use crate::refusing::refuse_connection;
use crate::tls;

pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Where connections arrive, and how they are served.
pub(crate) trait Listener: Send + Sync + 'static {
    type Stream: Send + 'static;
    /// The other end of a connection.
    type Origin: Clone + Into<PeerId> + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Self::Origin)>> + Send;

    /// Serves a connection, which keeps its place until it ends.
    fn serve(
        stream: Self::Stream,
        peer: Self::Origin,
        place: Share<PeerId>,
        context: Arc<ServerContext>,
        full: Router,
        shutdown: Shutdown,
    ) -> impl Future<Output = ()> + Send;

    /// Refuses a connection over the limit.
    fn refuse(
        stream: Self::Stream,
        peer: Self::Origin,
        context: Arc<ServerContext>,
        full: Router,
        shutdown: Shutdown,
    ) -> impl Future<Output = ()> + Send;
}

/// Accepts connections until shutdown. `full` serves the refusal to connections over the limit.
pub(crate) fn start<L: Listener>(listener: L, context: ServerContext, full: Router, world: &World) {
    let context = Arc::new(context);
    let world_of_connections = world.clone();
    world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
        loop {
            let accepted = tokio::select! {
                () = shutdown.requested() => return,
                accepted = listener.next() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => admit::<L>(stream, peer, &context, &full, &world_of_connections),
                Err(error) => {
                    // Out of descriptors, or the peer disconnected at once. The pause avoids a busy loop.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(limits::ACCEPT_REST).await;
                }
            }
        }
    });
}

fn admit<L: Listener>(
    stream: L::Stream,
    peer: L::Origin,
    context: &Arc<ServerContext>,
    full: &Router,
    world: &World,
) {
    let (full, context) = (full.clone(), context.clone());
    match context.connections.try_admit(peer.clone()) {
        Admission::Place(place) => {
            world.tasks.spawn(Kind::Connection, move |shutdown| {
                L::serve(stream, peer, place, context, full, shutdown)
            });
        }
        Admission::Refusal(place) => {
            world.tasks.spawn(Kind::Connection, move |shutdown| async move {
                L::refuse(stream, peer, context, full, shutdown).await;
                drop(place);
            });
        }
        Admission::Nothing => drop(stream),
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Origin = SocketAddr;

    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept().await
    }

    /// Serves a connection of a client, or one that another server passes for its client.
    async fn serve(
        mut stream: TcpStream,
        mut peer: SocketAddr,
        mut place: Share<PeerId>,
        context: Arc<ServerContext>,
        full: Router,
        mut shutdown: Shutdown,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY; small writes may be delayed");
        }
        let mut ends = Ends { peer: Peer::Address(peer), arrived_at: None, is_encrypted: false };
        if let Some(acceptor) = &context.forwards {
            let accepted = tokio::select! {
                () = shutdown.requested() => return,
                accepted = acceptor.accept(&mut stream, peer) => accepted,
            };
            let client = match accepted {
                Ok(client) => client,
                Err(error) => {
                    tracing::info!(%peer, %error, "a connection was closed before a request");
                    return;
                }
            };
            if let Some(client) = client {
                peer = client.peer;
                ends = Ends { peer: Peer::Address(peer), arrived_at: Some(client.arrived_at), ..ends };
                place = match context.connections.readmit(place, peer) {
                    Admission::Place(place) => place,
                    Admission::Refusal(_place) => {
                        return refuse(stream, peer, &context, full, shutdown).await;
                    }
                    Admission::Nothing => return,
                };
            }
        }
        match context.encryption.clone() {
            None => connection::serve(stream, ends, context, shutdown).await,
            Some(encryption) => {
                let Some(encrypted) = encryption.encrypt(stream, peer, false, &mut shutdown).await else {
                    return;
                };
                let ends = Ends { is_encrypted: true, ..ends };
                if tls::is_http2(&encrypted) {
                    Box::pin(connection::serve_http2(encrypted, ends, context, shutdown)).await;
                } else {
                    Box::pin(connection::serve(encrypted, ends, context, shutdown)).await;
                }
            }
        }
        drop(place);
    }

    async fn refuse(
        stream: TcpStream,
        peer: SocketAddr,
        context: Arc<ServerContext>,
        full: Router,
        shutdown: Shutdown,
    ) {
        refuse(stream, peer, &context, full, shutdown).await;
    }
}

/// Refuses a connection over the limit.
async fn refuse(
    stream: TcpStream,
    peer: SocketAddr,
    context: &ServerContext,
    full: Router,
    mut shutdown: Shutdown,
) {
    match &context.encryption {
        None => refuse_connection(stream, peer, full).await,
        Some(encryption) => {
            if let Some(encrypted) = encryption.encrypt(stream, peer, true, &mut shutdown).await {
                refuse_connection(encrypted, peer, full).await;
            }
        }
    }
}
