//! Cuts a peer that stopped reading (a slow or stalled reader). See [`StallGuard`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection whose writes fail with [`io::ErrorKind::TimedOut`] when the peer reads nothing for too long.
///
/// Only pending writes count: a connection with nothing to write may be idle as long as it likes.
pub struct StallGuard<IO> {
    io: IO,
    limit: Duration,
    /// Whether a write waits for the peer.
    waiting: Arc<AtomicBool>,
    /// Made at the first wait; most connections never have one.
    timer: Option<Pin<Box<Sleep>>>,
    /// What was read from the peer and given back; it is read again first.
    given_back: BytesMut,
}

impl<IO> StallGuard<IO> {
    /// Must be created within the runtime, whose timer it needs.
    pub fn new(io: IO, limit: Duration) -> Self {
        StallGuard { io, limit, waiting: Arc::default(), timer: None, given_back: BytesMut::new() }
    }

    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// Whether a write waits for the peer, readable also after the connection was handed over.
    pub fn waiting(&self) -> Arc<AtomicBool> {
        self.waiting.clone()
    }

    /// Takes back bytes that were read last, to be read again.
    pub fn give_back(&mut self, bytes: &[u8]) {
        let later = std::mem::replace(&mut self.given_back, BytesMut::from(bytes));
        self.given_back.extend_from_slice(&later);
    }

    /// Passes an outcome on; a wait beyond the limit becomes an error.
    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting.store(false, Ordering::Relaxed);
            return outcome;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.limit)));
        if !self.waiting.swap(true, Ordering::Relaxed) {
            timer.as_mut().reset(recount_world::moment() + self.limit);
        }
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the peer accepted no data for {} ms", self.limit.as_millis()),
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for StallGuard<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.given_back.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, into);
        }
        let count = this.given_back.len().min(into.remaining());
        into.put_slice(&this.given_back.split_to(count));
        if this.given_back.is_empty() {
            this.given_back = BytesMut::new();
        }
        Poll::Ready(Ok(()))
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
        assert_eq!(failed.to_string(), "the peer accepted no data for 30000 ms");
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
        near.give_back(b"lo");
        near.give_back(b"hel");
        far.write_all(b"!").await.expect("there is room");
        let mut again = [0; 6];
        near.read_exact(&mut again).await.expect("it was given back");
        assert_eq!(&again, b"hello!");
        assert_eq!(near.get_ref().is_write_vectored(), near.is_write_vectored());
    }
}
