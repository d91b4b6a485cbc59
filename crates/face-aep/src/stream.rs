//! Event streams of the native face: frames as they come, a mark when level, a heartbeat when quiet.

use std::convert::Infallible;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use recount_engine::{Delivery, Framing, Subscription};
use recount_transport::{limits, sse};
use recount_world::Shutdown;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{Refusal, problem};
use crate::project::gap;

/// `id:` is the cursor and `data:` the envelope exactly as it was stored.
pub struct SseFraming;

impl Framing for SseFraming {
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        sse::push_data(out, cursor, envelope);
    }
}

/// Tells of events that were pruned. Without an `id`, because it is no event.
const GAP: &str = "gap";

/// What the `caught_up` mark counts in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cursor {
    Sequence,
    Position,
}

struct Open {
    subscription: Subscription,
    cursor: Cursor,
    shutdown: Shutdown,
    request_id: String,
    /// Written before anything else.
    greeting: Option<Bytes>,
    over: bool,
    _place: OwnedSemaphorePermit,
}

/// The body of a stream. It ends when the run has, when the server goes down, or when the client leaves.
pub(crate) fn body(
    subscription: Subscription,
    cursor: Cursor,
    shutdown: Shutdown,
    request_id: String,
    place: OwnedSemaphorePermit,
) -> Body {
    let mut greeting = BytesMut::new();
    sse::push_retry(&mut greeting, limits::RETRY_MS);
    let open = Open {
        subscription,
        cursor,
        shutdown,
        request_id,
        greeting: Some(greeting.freeze()),
        over: false,
        _place: place,
    };
    Body::from_stream(stream::unfold(open, |mut open| async move {
        let bytes = open.next().await?;
        Some((Ok::<_, Infallible>(bytes), open))
    }))
}

impl Open {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        let mut out = BytesMut::new();
        tokio::select! {
            biased;
            () = self.shutdown.requested() => {
                self.over = true;
                sse::push_comment(&mut out, "the server is going down; come again with the last id");
            }
            delivery = self.subscription.next() => match delivery {
                Ok(Delivery::Frames { bytes, .. }) => return Some(bytes),
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
                Ok(Delivery::Closed) => return None,
                Err(error) => {
                    self.over = true;
                    let problem = problem(&Refusal::from(error), &self.request_id);
                    let data = serde_json::to_vec(&problem).expect("problems hold nothing that JSON cannot say");
                    sse::push_named(&mut out, "error", &data);
                }
            },
            () = tokio::time::sleep(limits::HEARTBEAT_EVERY) => out.extend_from_slice(sse::HEARTBEAT),
        }
        Some(out.freeze())
    }
}
