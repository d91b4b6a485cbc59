//! The TCP listener of a replay: bounds the number of connections and drops those that stop reading. `surfaces` serves
//! them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use recount_transport::StallGuard;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;

/// A listener with a limited number of connections.
pub(super) struct BoundedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

/// A connection and its permit.
pub(super) struct PermittedConnection {
    io: StallGuard<TcpStream>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener) -> BoundedListener {
        BoundedListener { listener, permits: Arc::new(Semaphore::new(limits::REPLAY_CONNECTIONS_MAX)) }
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = PermittedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PermittedConnection, SocketAddr) {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let (stream, peer) = axum::serve::Listener::accept(&mut self.listener).await;
        // Without it frames are only delayed.
        stream.set_nodelay(true).ok();
        (PermittedConnection { io: StallGuard::new(stream, limits::REPLAY_STALL), _permit: permit }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for PermittedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl AsyncWrite for PermittedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
