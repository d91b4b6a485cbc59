//! An event stream that whoever holds the socket may take and write itself. See [`Handover`].
//!
//! A stream rests most of its life, and thousands rest at a time. An HTTP library keeps its buffers for each
//! of them and looks at every piece again, although after the head nothing of HTTP is left but the length
//! of a chunk. It must never know what the pieces say.

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

/// Put among the extensions of a response whose body is [`Handover::body`]: the stream goes to who asks first.
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

    /// The bytes of the stream, for where nobody takes it: it is taken when they are first asked for.
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
