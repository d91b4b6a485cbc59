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
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt as _;

use crate::limits;

pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Accepts until services are ended.
pub(crate) fn start(listener: TcpListener, router: Router, world: &World) {
    let world_of_connections = world.clone();
    world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
        let places = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                () = shutdown.requested() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => admit(stream, peer, &router, &places, &world_of_connections),
                Err(error) => {
                    // Out of descriptors, or a peer that left at once: rest, so as not to spin.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(limits::ACCEPT_REST).await;
                }
            }
        }
    });
}

fn admit(stream: TcpStream, peer: SocketAddr, router: &Router, places: &Arc<Semaphore>, world: &World) {
    let place = places.clone().try_acquire_owned();
    let router = router.clone();
    world.tasks.spawn(Kind::Connection, move |shutdown| async move {
        match place {
            Ok(place) => serve(stream, peer, router, place, shutdown).await,
            Err(_) => turn_away(stream).await,
        }
    });
}

async fn turn_away(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: {}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        limits::CONNECTIONS_RETRY_SECONDS
    );
    if let Err(error) = stream.write_all(answer.as_bytes()).await {
        tracing::debug!(%error, "a connection over the limit left before it was told");
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    place: OwnedSemaphorePermit,
    mut shutdown: Shutdown,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small writes may wait");
    }
    let io = TokioIo::new(StallGuard::new(stream, recount_transport::limits::WRITE_STALL));
    let service = TowerToHyperService::new(
        router.map_request(|request: http::Request<Incoming>| request.map(axum::body::Body::new)),
    );
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_WAIT)
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEADERS_MAX)
        .keep_alive(true)
        .serve_connection(io, service);
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
        tracing::debug!(%peer, %error, "a connection ended early");
    }
    drop(place);
}
