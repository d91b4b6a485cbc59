//! Wraps a connection to signal when the HTTP library, or a WebSocket after an upgrade, drops it.
//!
//! It must not know the protocol on it. Entry point: [`upgradable`].

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// See the head of this file.
pub(crate) struct Upgradable<IO> {
    io: IO,
    stalled: Arc<AtomicBool>,
    _held: oneshot::Sender<Infallible>,
}

/// Waits until a connection is dropped.
pub(crate) struct Dropped {
    held: oneshot::Receiver<Infallible>,
    stalled: Arc<AtomicBool>,
}

pub(crate) fn upgradable<IO>(io: IO) -> (Upgradable<IO>, Dropped) {
    let (held, dropped) = oneshot::channel();
    let stalled = Arc::<AtomicBool>::default();
    (Upgradable { io, stalled: stalled.clone(), _held: held }, Dropped { held: dropped, stalled })
}

impl<IO> Upgradable<IO> {
    pub(crate) fn into_inner(self) -> IO {
        self.io
    }

    /// Records that a write failed because the peer accepts no data.
    fn note<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(&outcome, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::TimedOut) {
            self.stalled.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

impl Dropped {
    /// Waits, and returns whether a write failed because the peer accepted no data.
    pub(crate) async fn wait(self) -> bool {
        // Nothing is ever sent.
        self.held.await.err();
        self.stalled.load(Ordering::Relaxed)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Upgradable<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Upgradable<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        self.note(outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.note(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
