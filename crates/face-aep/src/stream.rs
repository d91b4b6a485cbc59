//! Event streams of the native face: frames, a mark when caught up, a heartbeat when idle. Start with [`open`].

use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use recount_engine::{Delivery, Framing, Subscription};
use recount_transport::{Handover, Heartbeat, Piece, limits, sse};

use crate::error::{Refusal, problem};
use crate::face_state::Permit;
use crate::project::{damaged, gap};

/// `id:` is the cursor and `data:` the envelope exactly as it was stored.
pub struct SseFraming;

impl Framing for SseFraming {
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        sse::push_data(out, cursor, envelope);
    }
}

/// Reports events that were pruned or are damaged. Without an `id`, because it is not an event.
const GAP: &str = "gap";

/// Reports the progress of a filtered feed. Its `id` is the cursor to resume from.
const PASSED: &str = "position";

/// The unit of the `caught_up` mark.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cursor {
    Sequence,
    Position,
}

struct Open {
    subscription: Subscription,
    cursor: Cursor,
    /// Whether a filter hides some events.
    hides: bool,
    /// Resolves with the reason when the stream must end. One future for the whole stream.
    end: End,
    heartbeat: Heartbeat,
    request_id: String,
    /// The newest id that was written.
    reported: Option<u64>,
    /// Written first.
    greeting: Option<Bytes>,
    over: bool,
    _place: Permit,
}

/// Resolves with the reason for the client when a stream must end.
pub(crate) type End = Pin<Box<dyn Future<Output = &'static str> + Send>>;

/// Opens a stream. It ends when the run has ended, when `end` resolves, or when the client disconnects.
pub(crate) fn open(
    subscription: Subscription,
    cursor: Cursor,
    end: End,
    request_id: String,
    place: Permit,
) -> Handover {
    let mut greeting = BytesMut::new();
    sse::push_retry(&mut greeting, limits::RETRY_MS);
    let open = Open {
        hides: subscription.hides(),
        subscription,
        cursor,
        end,
        heartbeat: Heartbeat::new(limits::HEARTBEAT_EVERY),
        request_id,
        reported: None,
        greeting: Some(greeting.freeze()),
        over: false,
        _place: place,
    };
    Handover::new(Box::pin(stream::unfold(open, |mut open| async move {
        let piece = open.next().await?;
        open.heartbeat.sent();
        Some((piece, open))
    })))
}

impl Open {
    async fn next(&mut self) -> Option<Piece> {
        if self.over {
            return None;
        }
        if let Some(bytes) = self.greeting.take() {
            return Some(Piece { bytes, cursor: None });
        }
        let mut out = BytesMut::new();
        tokio::select! {
            biased;
            why = &mut self.end => {
                self.over = true;
                sse::push_comment(&mut out, why);
            }
            delivery = self.subscription.next() => match delivery {
                Ok(Delivery::Frames { bytes, last }) => {
                    self.reported = Some(last);
                    return Some(Piece { bytes, cursor: Some(last) });
                }
                Ok(Delivery::Passed { last }) => self.push_passed(&mut out, last),
                Ok(Delivery::CaughtUp) => {
                    let name = match self.cursor {
                        Cursor::Sequence => "sequence",
                        Cursor::Position => "position",
                    };
                    let last = self.subscription.last().map_or(-1, |last| i64::try_from(last).unwrap_or(i64::MAX));
                    sse::push_named(&mut out, "caught_up", format!("{{\"{name}\":{last}}}").as_bytes());
                }
                Ok(Delivery::Gap { first, last }) => {
                    sse::push_named(&mut out, GAP, gap(first, last).as_bytes());
                }
                Ok(Delivery::Damaged(damage)) => {
                    sse::push_named(&mut out, GAP, damaged(&damage, !self.hides).as_bytes());
                }
                Ok(Delivery::Closed) => return None,
                Err(error) => {
                    self.over = true;
                    let problem = problem(&Refusal::from(error), &self.request_id);
                    let data = serde_json::to_vec(&problem).expect("problems hold only values that JSON can represent");
                    sse::push_named(&mut out, "error", &data);
                }
            },
            () = self.heartbeat.due() => match self.subscription.last() {
                // Filtered events also advance the cursor, so that they are not read again.
                Some(last) if self.hides && self.reported < Some(last) => self.push_passed(&mut out, last),
                _ => out.extend_from_slice(sse::HEARTBEAT),
            },
        }
        Some(Piece { bytes: out.freeze(), cursor: None })
    }

    fn push_passed(&mut self, out: &mut BytesMut, last: u64) {
        self.reported = Some(last);
        sse::push_mark(out, PASSED, last, format!("{{\"position\":{last}}}").as_bytes());
    }
}
