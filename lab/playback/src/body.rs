//! Streams the body of a played response: chunk by chunk, with its delays and its end.
//!
//! Start at [`Playing`]. The module must not depend on the content.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::recording::{End, RecordedResponse};

/// A body that is being played. If it is dropped before its end, it counts as abandoned.
pub(crate) struct Playing {
    chunks: VecDeque<Bytes>,
    pause: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    end: End,
    over: bool,
    abandoned: watch::Sender<usize>,
}

/// The recording breaks the connection here.
#[derive(Debug, thiserror::Error)]
#[error("cut off, as recorded")]
pub(crate) struct CutOff;

impl Playing {
    pub(crate) fn new(recorded: &RecordedResponse, abandoned: watch::Sender<usize>) -> Self {
        Playing {
            chunks: recorded.chunks().into(),
            pause: recorded.pause(),
            waiting: None,
            end: recorded.end,
            over: false,
            abandoned,
        }
    }
}

impl Body for Playing {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
        if let Some(chunk) = self.chunks.pop_front() {
            // A cut needs a delay too, or it overtakes the data before it.
            let more = !self.chunks.is_empty() || self.end == End::Cut;
            if more && !self.pause.is_zero() {
                self.waiting = Some(Box::pin(tokio::time::sleep(self.pause)));
            }
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match self.end {
            End::Hang => Poll::Pending,
            End::Whole => {
                self.over = true;
                Poll::Ready(None)
            }
            End::Cut => {
                self.over = true;
                Poll::Ready(Some(Err(CutOff)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        false
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if !self.over {
            self.abandoned.send_modify(|count| *count += 1);
        }
    }
}
