//! The listener: accepts connections, bounds them, and serves each until it ends or we do.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use recount_transport::StallGuard;
use recount_world::{Kind, Shutdown, World};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::doors::{Doors, Welcome};
use crate::limits;

pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Accepts until services are ended. `full` answers those for whom there is no place.
pub(crate) fn start(listener: TcpListener, router: Router, full: Router, doors: Arc<Doors>, world: &World) {
    let world_of_connections = world.clone();
    world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
        loop {
            let accepted = tokio::select! {
                () = shutdown.requested() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => admit(stream, peer, &router, &full, &doors, &world_of_connections),
                Err(error) => {
                    // Out of descriptors, or a peer that left at once: rest, so as not to spin.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(limits::ACCEPT_REST).await;
                }
            }
        }
    });
}

fn admit(
    stream: TcpStream,
    peer: SocketAddr,
    router: &Router,
    full: &Router,
    doors: &Arc<Doors>,
    world: &World,
) {
    match doors.knock() {
        Welcome::Place(place) => {
            let (router, doors) = (router.clone(), doors.clone());
            world.tasks.spawn(Kind::Connection, move |shutdown| async move {
                serve(stream, peer, router, &doors, shutdown).await;
                drop(place);
            });
        }
        Welcome::Refusal(place) => {
            let full = full.clone();
            world.tasks.spawn(Kind::Connection, move |_| async move {
                turn_away(stream, peer, full).await;
                drop(place);
            });
        }
        Welcome::Nothing => drop(stream),
    }
}

/// Answers one request: a refusal that came before it was read could be lost with the connection.
async fn turn_away(stream: TcpStream, peer: SocketAddr, full: Router) {
    let connection = http1::Builder::new()
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service(full));
    match tokio::time::timeout(limits::REFUSAL_WAIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection over the limit left before it was told")
        }
        Err(_) => tracing::debug!(%peer, "a connection over the limit was closed before it was told"),
    }
}

type RequestService = TowerToHyperService<
    tower::util::MapRequest<Router, fn(http::Request<Incoming>) -> http::Request<axum::body::Body>>,
>;

fn service(router: Router) -> RequestService {
    TowerToHyperService::new(router.map_request(|request| request.map(axum::body::Body::new)))
}

async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, doors: &Doors, mut shutdown: Shutdown) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small writes may wait");
    }
    let io = TokioIo::new(StallGuard::new(stream, recount_transport::limits::WRITE_STALL));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_WAIT)
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEADERS_MAX)
        .keep_alive(true)
        .serve_connection(io, service(router));
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown.requested() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(limits::DRAIN_WAIT, connection).await {
                Ok(outcome) => outcome,
                Err(_) => Ok(()),
            }
        }
    };
    if let Err(error) = outcome {
        if is_stall(&error) {
            doors.cut();
            tracing::info!(%peer, "a connection was cut: its peer took nothing for too long");
        } else {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
    }
}

/// Whether it is [`StallGuard`] that ended a connection.
fn is_stall(error: &hyper::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}
