//! Cutting a peer that stopped reading. See [`StallGuard`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection whose writes fail with [`io::ErrorKind::TimedOut`] when the peer takes nothing for too long.
///
/// Only waiting counts: a connection with nothing to write may rest as long as it likes.
pub struct StallGuard<IO> {
    io: IO,
    limit: Duration,
    waiting: bool,
    timer: Pin<Box<Sleep>>,
}

impl<IO> StallGuard<IO> {
    /// Must be made within the runtime, whose timer it uses.
    pub fn new(io: IO, limit: Duration) -> Self {
        StallGuard { io, limit, waiting: false, timer: Box::pin(tokio::time::sleep(limit)) }
    }

    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// Passes an outcome on; a wait beyond the limit becomes an error.
    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = false;
            return outcome;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(recount_world::moment() + self.limit);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the peer took no byte for {} ms", self.limit.as_millis()),
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for StallGuard<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, into)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for StallGuard<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write(cx, bytes);
        this.watch(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write_vectored(cx, pieces);
        this.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_flush(cx);
        this.watch(cx, outcome)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_shutdown(cx);
        this.watch(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stops_reading_is_cut_after_the_limit() {
        let (near, far) = tokio::io::duplex(8);
        let mut near = StallGuard::new(near, LIMIT);
        near.write_all(b"12345678").await.expect("there is room");
        let began = recount_world::moment();
        let failed = near.write_all(b"9").await.expect_err("nobody reads");
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert_eq!(failed.to_string(), "the peer took no byte for 30000 ms");
        let waited = began.elapsed();
        assert!(waited >= LIMIT && waited < LIMIT + Duration::from_millis(10), "{waited:?}");
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_and_a_silent_one_are_not_cut() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut near = StallGuard::new(near, LIMIT);
        let slow = async {
            let mut got = Vec::new();
            for _ in 0..5 {
                // tidy: time is paused and what is tested.
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                got.push(far.read_u8().await.expect("the writer lives"));
            }
            got
        };
        let (wrote, got) = tokio::join!(near.write_all(b"12345"), slow);
        wrote.expect("one byte at a time is progress");
        assert_eq!(got, b"12345");
        // Nothing to write for long, and then a write that waits a little.
        // tidy: time is paused and what is tested.
        tokio::time::sleep(LIMIT * 10).await;
        near.write_all(b"6").await.expect("there is room");
        let late = async {
            // tidy: time is paused and what is tested.
            tokio::time::sleep(LIMIT / 2).await;
            [far.read_u8().await.expect("the writer lives"), far.read_u8().await.expect("the writer lives")]
        };
        let (wrote, got) = tokio::join!(near.write_all(b"7"), late);
        wrote.expect("half the limit is within it");
        assert_eq!(&got, b"67");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_goes_through_untouched() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = StallGuard::new(near, LIMIT);
        far.write_all(b"hello").await.expect("there is room");
        let mut got = [0; 5];
        near.read_exact(&mut got).await.expect("it was written");
        assert_eq!(&got, b"hello");
        assert_eq!(near.get_ref().is_write_vectored(), near.is_write_vectored());
    }
}
