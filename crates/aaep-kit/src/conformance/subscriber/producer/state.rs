//! State of the synthetic producer: what it received, which streams are open, and how it answers handshakes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recount_world::World;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::super::piece::Piece;
use super::OpenStream;
use crate::limits;

/// The surface that a subscriber uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    /// `/events` and `/messages`.
    Legacy,
    /// `/aaep/v1/…`.
    Versioned,
    LegacySocket,
    VersionedSocket,
}

impl Face {
    pub(crate) fn is_socket(self) -> bool {
        matches!(self, Face::LegacySocket | Face::VersionedSocket)
    }

    pub(crate) fn is_versioned(self) -> bool {
        matches!(self, Face::Versioned | Face::VersionedSocket)
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Face::Legacy => "/events and /messages",
            Face::Versioned => "/aaep/v1",
            Face::LegacySocket => "the WebSocket at /ws",
            Face::VersionedSocket => "the WebSocket at /aaep/v1/ws",
        }
    }
}

/// The response to handshakes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Terms {
    /// As requested.
    AsRequested,
    /// As requested, with half of the event rate.
    Slower,
    /// Rejected.
    No { code: &'static str, retry_after_seconds: u32 },
}

/// An action of the subscriber.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub at: Instant,
    pub what: Input,
}

#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// An HTTP request, and whether it had the token.
    Request { path: String, entitled: bool },
    /// A stream was opened.
    Opened { line: u64, resumes: Option<String> },
    /// A stream ended, by either side.
    Closed,
    /// A message arrived.
    Message { text: String, face: Face },
}

pub(super) enum Output {
    Send(Piece),
    End,
}

pub(super) struct StreamState {
    pub(super) number: u64,
    pub(super) face: Face,
    pub(super) subscription: Option<String>,
    /// Whether events may be sent: not before the handshake where one is owed.
    pub(super) ready: bool,
    pub(super) sender: mpsc::Sender<Output>,
}

impl StreamState {
    pub(super) fn open(&self) -> OpenStream {
        OpenStream { line: self.number, face: self.face, subscription: self.subscription.clone() }
    }
}

/// The response to a handshake.
pub(super) struct Answer {
    pub(super) body: String,
    /// The subscription, when the answer is yes.
    pub(super) subscription: Option<String>,
    pub(super) retry_after_seconds: Option<u32>,
}

pub(super) struct State {
    pub(super) seen: Vec<Seen>,
    pub(super) lines: Vec<StreamState>,
    lines_so_far: u64,
    pub(super) terms: Terms,
    pub(super) refusing: Option<u16>,
    /// Subscriptions that were accepted, with what is honoured.
    pub(super) known: VecDeque<(String, Value)>,
    /// Responses that wait for a stream of `/events`.
    owed: VecDeque<Piece>,
    /// The subscription that the next stream of `/events` belongs to.
    owed_subscription: Option<String>,
}

pub(super) struct Shared {
    pub(super) world: World,
    pub(super) token: Option<String>,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    cuts: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(world: World, token: Option<String>) -> Shared {
        let state = State {
            seen: Vec::new(),
            lines: Vec::new(),
            lines_so_far: 0,
            terms: Terms::AsRequested,
            refusing: None,
            known: VecDeque::new(),
            owed: VecDeque::new(),
            owed_subscription: None,
        };
        let (changed, cuts) = (watch::Sender::new(0), watch::Sender::new(0));
        Shared { world, token, state: Mutex::new(state), changed, cuts }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock())
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    pub(super) fn cut(&self) {
        self.with(|state| {
            for _ in 0..std::mem::take(&mut state.lines).len() {
                state.note(Input::Closed);
            }
        });
        self.cuts.send_modify(|cuts| *cuts += 1);
        self.notify();
    }

    fn notify(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Notes what the subscriber did.
    pub(super) fn note(&self, what: Input) {
        self.with(|state| state.note(what));
        self.notify();
    }

    /// A stream is open; answers its number and what is to be told on it.
    pub(super) fn opened(
        &self,
        face: Face,
        resumes: Option<String>,
        mut subscription: Option<String>,
        ready: bool,
    ) -> (u64, mpsc::Receiver<Output>) {
        let (sender, receiver) = mpsc::channel(limits::STAGE_QUEUE);
        let number = self.with(|state| {
            state.lines_so_far += 1;
            let number = state.lines_so_far;
            if face == Face::Legacy {
                subscription = subscription.or(state.owed_subscription.take());
                for piece in state.owed.drain(..) {
                    // The queue is longer than what can be owed.
                    sender.try_send(Output::Send(piece)).ok();
                }
            }
            state.lines.push(StreamState { number, face, subscription, ready, sender });
            state.note(Input::Opened { line: number, resumes });
            number
        });
        self.notify();
        (number, receiver)
    }

    /// The handshake of a line is done: events may come.
    pub(super) fn ready(&self, line: u64, subscription: String) {
        self.with(|state| {
            if let Some(open) = state.lines.iter_mut().find(|open| open.number == line) {
                (open.subscription, open.ready) = (Some(subscription), true);
            }
        });
        self.notify();
    }

    pub(super) fn closed(&self, line: u64) {
        self.with(|state| {
            let before = state.lines.len();
            state.lines.retain(|open| open.number != line);
            if state.lines.len() < before {
                state.note(Input::Closed);
            }
        });
        self.notify();
    }

    /// A handshake over `/messages` was answered: its answer goes to the streams of `/events`, which it is about.
    pub(super) fn send_legacy(&self, body: String, subscription: Option<String>) {
        self.with(|state| {
            let mut open = state.lines.iter_mut().filter(|line| line.face == Face::Legacy).peekable();
            if open.peek().is_none() && subscription.is_some() {
                state.owed_subscription.clone_from(&subscription);
            }
            if subscription.is_some() {
                open.for_each(|line| line.subscription.clone_from(&subscription));
            }
            state.owe(Piece::new(None, body));
        });
        self.notify();
    }

    /// Answers a handshake.
    pub(super) fn answer(&self, request: &str) -> Answer {
        let id = format!("sub_{:032x}", self.world.entropy.draw());
        let request: Value = serde_json::from_str(request).unwrap_or(Value::Null);
        self.with(|state| {
            let mut honored = match request.get("capabilities") {
                Some(Value::Object(capabilities)) => capabilities.clone(),
                _ => serde_json::Map::new(),
            };
            match state.terms.clone() {
                Terms::No { code, retry_after_seconds } => {
                    let body = json!({
                        "type": "subscription.rejected",
                        "reason_code": code,
                        "reason_message": "Not now; this producer is being tried out.",
                        "retry_after_seconds": retry_after_seconds,
                    });
                    let retry_after_seconds = Some(retry_after_seconds);
                    return Answer { body: body.to_string(), subscription: None, retry_after_seconds };
                }
                Terms::Slower => {
                    let requested_rate = honored.get("max_events_per_second").and_then(Value::as_u64);
                    let rate = requested_rate
                        .map_or(limits::STAGE_RATE, |requested_rate| (requested_rate / 2).max(1));
                    honored.insert("max_events_per_second".into(), rate.into());
                }
                Terms::AsRequested => {}
            }
            state.know(&id, Value::Object(honored.clone()));
            let body = accepted(&id, Value::Object(honored));
            Answer { body, subscription: Some(id), retry_after_seconds: None }
        })
    }

    /// Answers a wish to change the terms: what is not said keeps its value.
    pub(super) fn renegotiated(&self, wish: &str) -> Option<String> {
        let wish: Value = serde_json::from_str(wish).ok()?;
        let id = wish.get("subscription_id")?.as_str()?;
        self.with(|state| {
            let (_, honored) = state.known.iter_mut().find(|(known, _)| known == id)?;
            for (name, value) in wish.get("capabilities")?.as_object()? {
                honored[name] = value.clone();
            }
            Some(accepted(id, honored.clone()))
        })
    }
}

fn accepted(id: &str, honored: Value) -> String {
    json!({
        "type": "subscription.accepted",
        "subscription_id": id,
        "aaep_version": recount_aaep::VERSION,
        "producer": super::super::builder::producer(),
        "honored_capabilities": honored,
    })
    .to_string()
}

impl State {
    fn note(&mut self, what: Input) {
        if self.seen.len() < limits::STAGE_SEEN_MAX {
            self.seen.push(Seen { at: recount_world::moment(), what });
        }
    }

    fn know(&mut self, id: &str, honored: Value) {
        if self.known.len() >= limits::STAGE_SUBSCRIPTIONS_MAX {
            self.known.pop_front();
        }
        self.known.push_back((id.to_owned(), honored));
    }

    /// Something to be told on the streams of `/events`, now or as soon as there is one.
    fn owe(&mut self, piece: Piece) {
        let open: Vec<_> = self.lines.iter().filter(|line| line.face == Face::Legacy).collect();
        if open.is_empty() {
            if self.owed.len() >= limits::STAGE_OWED_MAX {
                self.owed.pop_front();
            }
            self.owed.push_back(piece);
            return;
        }
        for line in open {
            // A line whose queue is full is not being read; what follows shows that.
            line.sender.try_send(Output::Send(piece.clone())).ok();
        }
    }
}
