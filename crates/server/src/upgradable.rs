//! A connection that signals when the HTTP library, or a WebSocket after an upgrade, drops it.
//!
//! It must not know the protocol on it. Entry point: [`upgradable`].

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// See the head of this file.
pub(crate) struct Upgradable<IO> {
    io: IO,
    _held: oneshot::Sender<Infallible>,
}

/// Waits until a connection is dropped.
pub(crate) struct Dropped(oneshot::Receiver<Infallible>);

pub(crate) fn upgradable<IO>(io: IO) -> (Upgradable<IO>, Dropped) {
    let (held, dropped) = oneshot::channel();
    (Upgradable { io, _held: held }, Dropped(dropped))
}

impl<IO> Upgradable<IO> {
    pub(crate) fn into_inner(self) -> IO {
        self.io
    }
}

impl Dropped {
    pub(crate) async fn wait(self) {
        // Nothing is ever sent.
        self.0.await.err();
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
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
