//! Event streams of the native face: frames, a mark when caught up, a heartbeat when idle. Start with [`open`].

use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use recount_engine::{Delivery, Error, Framing, Subscription};
use recount_transport::{Handover, Heartbeat, Piece, limits, sse};

use crate::error::{Refusal, problem};
use crate::face_state::Permit;
use crate::limits as face_limits;
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
    /// After the server began to shut down: how many more pieces are sent, if they are committed already.
    rest: Option<usize>,
    _place: Permit,
}

/// Resolves with the reason when a stream must end.
pub(crate) type End = Pin<Box<dyn Future<Output = StreamEnd> + Send>>;

/// Why a stream must end although its run has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// What was committed before is still sent.
    Shutdown,
    /// Nothing more is sent.
    Revoked,
}

impl StreamEnd {
    /// For the client.
    fn as_str(self) -> &'static str {
        match self {
            StreamEnd::Shutdown => "the server is shutting down; reconnect with the id of the last event",
            StreamEnd::Revoked => "the token or ticket of this stream was revoked",
        }
    }
}

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
        rest: None,
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
        if self.rest.is_some() {
            return self.next_of_rest();
        }
        let delivery = tokio::select! {
            biased;
            why = &mut self.end => match why {
                StreamEnd::Revoked => return Some(self.last(why)),
                StreamEnd::Shutdown => {
                    self.rest = Some(face_limits::SHUTDOWN_PIECES_MAX);
                    return self.next_of_rest();
                }
            },
            delivery = self.subscription.next() => delivery,
            () = self.heartbeat.due() => return Some(self.beat()),
        };
        self.piece(delivery)
    }

    /// A piece that is committed already, or the last one. Events that come later are read after the restart.
    fn next_of_rest(&mut self) -> Option<Piece> {
        let rest = self.rest.unwrap_or_default();
        match self.subscription.next().now_or_never().filter(|_| rest > 0) {
            Some(delivery) => {
                self.rest = Some(rest - 1);
                self.piece(delivery)
            }
            None => Some(self.last(StreamEnd::Shutdown)),
        }
    }

    fn last(&mut self, why: StreamEnd) -> Piece {
        self.over = true;
        let mut out = BytesMut::new();
        sse::push_comment(&mut out, why.as_str());
        Piece { bytes: out.freeze(), cursor: None }
    }

    fn beat(&mut self) -> Piece {
        let mut out = BytesMut::new();
        match self.subscription.last() {
            // Filtered events also advance the cursor, so that they are not read again.
            Some(last) if self.hides && self.reported < Some(last) => self.push_passed(&mut out, last),
            _ => out.extend_from_slice(sse::HEARTBEAT),
        }
        Piece { bytes: out.freeze(), cursor: None }
    }

    fn piece(&mut self, delivery: Result<Delivery, Error>) -> Option<Piece> {
        let mut out = BytesMut::new();
        match delivery {
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
                let last =
                    self.subscription.last().map_or(-1, |last| i64::try_from(last).unwrap_or(i64::MAX));
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
                let data =
                    serde_json::to_vec(&problem).expect("problems hold only values that JSON can represent");
                sse::push_named(&mut out, "error", &data);
            }
        }
        Some(Piece { bytes: out.freeze(), cursor: None })
    }

    fn push_passed(&mut self, out: &mut BytesMut, last: u64) {
        self.reported = Some(last);
        sse::push_mark(out, PASSED, last, format!("{{\"position\":{last}}}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt as _;
    use recount_engine::{Engine, NewRun};
    use recount_event::family::run::{Queued, RunKind};
    use recount_event::{RunId, door};
    use recount_log::MemoryStore;
    use recount_run::Command;
    use recount_transport::Pieces;
    use recount_world::World;
    use tokio::sync::oneshot;

    use super::*;
    use crate::FaceState;

    async fn append(engine: &Engine, run: RunId, type_name: &str, data: &str) {
        let drafts = vec![door::draft(type_name, data).unwrap()];
        engine.write().submit(run, Command::Append { drafts }).await.unwrap();
    }

    /// A run, a stream of it that has caught up, and what ends the stream.
    async fn caught_up() -> (Engine, RunId, Pieces, oneshot::Sender<StreamEnd>) {
        let engine =
            Engine::open(Arc::new(MemoryStore::new()), World::real(), Arc::new(SseFraming)).await.unwrap();
        let queued = Queued::new(RunKind::External);
        let new = NewRun { queued, task: None, session: None, resumed_from: None };
        let (run, _) = engine.write().create_run(new).await.unwrap();
        append(&engine, run, "run.started", "{}").await;
        let subscription = engine.read().follow_run(run, None).await.unwrap();
        let (ending, ended) = oneshot::channel();
        let end: End = Box::pin(async move { ended.await.unwrap() });
        let place = FaceState::new(8).streams.try_take(&engine.instance(), 1).unwrap();
        let mut pieces = open(subscription, Cursor::Sequence, end, "req".to_owned(), place).take().unwrap();
        while !text(&mut pieces).await.contains("caught_up") {}
        (engine, run, pieces, ending)
    }

    async fn text(pieces: &mut Pieces) -> String {
        String::from_utf8(pieces.next().await.expect("the stream goes on").bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_stream_that_ends_with_the_server_has_what_was_committed_before() {
        let (engine, run, mut pieces, ending) = caught_up().await;
        append(&engine, run, "user.message", r#"{"text":"the last words"}"#).await;
        append(&engine, run, "run.finished", r#"{"final_status":"completed"}"#).await;
        ending.send(StreamEnd::Shutdown).unwrap();
        let mut rest = String::new();
        while let Some(piece) = pieces.next().await {
            rest.push_str(std::str::from_utf8(&piece.bytes).unwrap());
        }
        assert!(rest.contains("the last words") && rest.contains("run.finished"), "{rest}");
    }

    #[tokio::test]
    async fn a_stream_whose_token_was_revoked_has_nothing_more() {
        let (engine, run, mut pieces, ending) = caught_up().await;
        append(&engine, run, "user.message", r#"{"text":"not for this client"}"#).await;
        ending.send(StreamEnd::Revoked).unwrap();
        assert_eq!(text(&mut pieces).await, format!(": {}\n\n", StreamEnd::Revoked.as_str()));
        assert!(pieces.next().await.is_none());
    }
}
