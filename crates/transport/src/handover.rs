//! An event stream that the server may take from the HTTP library and write to the socket itself. See [`Handover`].
//!
//! A stream is idle most of its life, and thousands are open at a time. An HTTP library keeps its buffers for each
//! of them and processes every piece again, although after the head only chunk lengths
//! are left of HTTP. It must never know the content of the pieces.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};

/// What goes out at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Bytes,
    /// Where a reader that has this piece goes on when it comes again; `None`: where it would have before.
    pub cursor: Option<u64>,
}

/// A stream, piece by piece. An empty piece is nothing.
pub type Pieces = Pin<Box<dyn Stream<Item = Piece> + Send>>;

/// An extension of a response whose body is [`Handover::body`]: the first taker gets the stream.
#[derive(Clone)]
pub struct Handover(Arc<Mutex<Option<Pieces>>>);

impl Handover {
    pub fn new(pieces: Pieces) -> Self {
        Handover(Arc::new(Mutex::new(Some(pieces))))
    }

    /// The stream, unless it was taken before.
    pub fn take(&self) -> Option<Pieces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The bytes of the stream, for a server that does not take it: it is taken at the first poll.
    pub fn body(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let taken = stream::once(async move { self.take().unwrap_or_else(|| Box::pin(stream::empty())) });
        taken.flatten().map(|piece| piece.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handover() -> Handover {
        let piece = |text: &'static str| Piece { bytes: Bytes::from_static(text.as_bytes()), cursor: None };
        Handover::new(Box::pin(stream::iter([piece("a"), piece("b")])))
    }

    #[tokio::test]
    async fn the_stream_goes_to_who_asks_first() {
        let here = handover();
        let body = here.clone().body();
        let mut pieces = here.take().expect("the body was not asked yet");
        assert_eq!(pieces.next().await.map(|piece| piece.bytes), Some(Bytes::from_static(b"a")));
        assert_eq!(body.collect::<Vec<_>>().await, Vec::<Bytes>::new());
        let here = handover();
        let body = here.clone().body().collect::<Vec<_>>().await;
        assert_eq!(body, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
        assert!(here.take().is_none());
    }
}
