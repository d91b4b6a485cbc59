//! Accepts connections up to the limit. `connection.rs` serves each of them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use recount_transport::Share;
use recount_world::{Kind, Shutdown, World};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::connection::{self, Ends, ServerContext};
use crate::connection_limits::Admission;
use crate::limits;

pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Accepts connections until shutdown. `full` serves the refusal to connections over the limit.
pub(crate) fn start(listener: TcpListener, context: ServerContext, full: Router, world: &World) {
    let context = Arc::new(context);
    let world_of_connections = world.clone();
    world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
        loop {
            let accepted = tokio::select! {
                () = shutdown.requested() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => admit(stream, peer, &context, &full, &world_of_connections),
                Err(error) => {
                    // Out of descriptors, or the peer disconnected at once. The pause avoids a busy loop.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(limits::ACCEPT_REST).await;
                }
            }
        }
    });
}

fn admit(stream: TcpStream, peer: SocketAddr, context: &Arc<ServerContext>, full: &Router, world: &World) {
    match context.connections.try_admit(peer) {
        Admission::Place(place) => {
            let context = context.clone();
            let full = full.clone();
            world.tasks.spawn(Kind::Connection, move |shutdown| {
                serve_admitted(stream, peer, place, context, full, shutdown)
            });
        }
        Admission::Refusal(place) => {
            let full = full.clone();
            world.tasks.spawn(Kind::Connection, move |_| async move {
                refuse_connection(stream, peer, full).await;
                drop(place);
            });
        }
        Admission::Nothing => drop(stream),
    }
}

/// Serves a connection of a client, or one that another server passes for its client.
async fn serve_admitted(
    mut stream: TcpStream,
    peer: SocketAddr,
    mut place: Share<IpAddr>,
    context: Arc<ServerContext>,
    full: Router,
    mut shutdown: Shutdown,
) {
    let mut ends = Ends { peer, arrived_at: None };
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
            ends = Ends { peer: client.peer, arrived_at: Some(client.arrived_at) };
            place = match context.connections.readmit(place, client.peer) {
                Admission::Place(place) => place,
                Admission::Refusal(_place) => return refuse_connection(stream, client.peer, full).await,
                Admission::Nothing => return,
            };
        }
    }
    connection::serve(stream, ends, context, shutdown).await;
    drop(place);
}

/// Reads one request and refuses it. A refusal sent before the request could be lost with the connection.
pub(crate) async fn refuse_connection(stream: TcpStream, peer: SocketAddr, full: Router) {
    let connection = http1::Builder::new()
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service(full));
    match tokio::time::timeout(limits::REFUSAL_WAIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection over the limit closed before it was rejected")
        }
        Err(_) => tracing::debug!(%peer, "a connection over the limit timed out before it was rejected"),
    }
}

type RequestService = TowerToHyperService<
    tower::util::MapRequest<Router, fn(http::Request<Incoming>) -> http::Request<axum::body::Body>>,
>;

fn service(router: Router) -> RequestService {
    TowerToHyperService::new(router.map_request(|request| request.map(axum::body::Body::new)))
}
