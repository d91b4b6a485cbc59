//! State of the synthetic producer: recorded actions of the subscriber, open streams, and the handshake mode.

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
pub(crate) enum StreamSurface {
    /// `/events` and `/messages`.
    Legacy,
    /// `/aaep/v1/…`.
    Versioned,
    LegacySocket,
    VersionedSocket,
}

impl StreamSurface {
    pub(crate) fn is_socket(self) -> bool {
        matches!(self, StreamSurface::LegacySocket | StreamSurface::VersionedSocket)
    }

    pub(crate) fn is_versioned(self) -> bool {
        matches!(self, StreamSurface::Versioned | StreamSurface::VersionedSocket)
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            StreamSurface::Legacy => "/events and /messages",
            StreamSurface::Versioned => "/aaep/v1",
            StreamSurface::LegacySocket => "the WebSocket at /ws",
            StreamSurface::VersionedSocket => "the WebSocket at /aaep/v1/ws",
        }
    }
}

/// The response to handshakes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HandshakeMode {
    /// As requested.
    AsRequested,
    /// As requested, with half of the event rate.
    Slower,
    /// Rejected.
    Rejected { code: &'static str, retry_after_seconds: u32 },
}

/// An action of the subscriber.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
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
    Message { text: String, surface: StreamSurface },
}

pub(super) enum Output {
    Send(Piece),
    End,
}

pub(super) struct StreamState {
    pub(super) number: u64,
    pub(super) surface: StreamSurface,
    pub(super) subscription: Option<String>,
    /// Whether events may be sent: only after the handshake, if the surface has one.
    pub(super) ready: bool,
    pub(super) sender: mpsc::Sender<Output>,
}

impl StreamState {
    pub(super) fn open(&self) -> OpenStream {
        OpenStream { line: self.number, surface: self.surface, subscription: self.subscription.clone() }
    }
}

/// The response to a handshake.
pub(super) struct HandshakeResponse {
    pub(super) body: String,
    /// The subscription, if the handshake was accepted.
    pub(super) subscription: Option<String>,
    pub(super) retry_after_seconds: Option<u32>,
}

pub(super) struct State {
    pub(super) observations: Vec<Observation>,
    pub(super) lines: Vec<StreamState>,
    streams_opened: u64,
    pub(super) handshake_mode: HandshakeMode,
    pub(super) refusing: Option<u16>,
    /// Accepted subscriptions with their honoured capabilities.
    pub(super) known: VecDeque<(String, Value)>,
    /// Responses that wait for a stream of `/events`.
    queued: VecDeque<Piece>,
    /// The subscription that the next stream of `/events` belongs to.
    queued_subscription: Option<String>,
}

pub(super) struct SharedProducer {
    pub(super) world: World,
    pub(super) token: Option<String>,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    cuts: watch::Sender<u64>,
}

impl SharedProducer {
    pub(super) fn new(world: World, token: Option<String>) -> SharedProducer {
        let state = State {
            observations: Vec::new(),
            lines: Vec::new(),
            streams_opened: 0,
            handshake_mode: HandshakeMode::AsRequested,
            refusing: None,
            known: VecDeque::new(),
            queued: VecDeque::new(),
            queued_subscription: None,
        };
        let (changed, cuts) = (watch::Sender::new(0), watch::Sender::new(0));
        SharedProducer { world, token, state: Mutex::new(state), changed, cuts }
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

    /// Records an action of the subscriber.
    pub(super) fn note(&self, what: Input) {
        self.with(|state| state.note(what));
        self.notify();
    }

    /// Registers a stream; returns its number and its outgoing messages.
    pub(super) fn opened(
        &self,
        surface: StreamSurface,
        resumes: Option<String>,
        mut subscription: Option<String>,
        ready: bool,
    ) -> (u64, mpsc::Receiver<Output>) {
        let (sender, receiver) = mpsc::channel(limits::SYNTHETIC_QUEUE);
        let number = self.with(|state| {
            state.streams_opened += 1;
            let number = state.streams_opened;
            if surface == StreamSurface::Legacy {
                subscription = subscription.or(state.queued_subscription.take());
                for piece in state.queued.drain(..) {
                    // The queue is longer than the backlog.
                    sender.try_send(Output::Send(piece)).ok();
                }
            }
            state.lines.push(StreamState { number, surface, subscription, ready, sender });
            state.note(Input::Opened { line: number, resumes });
            number
        });
        self.notify();
        (number, receiver)
    }

    /// The handshake of a stream is done: events may follow.
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

    /// Sends the response to a handshake over `/messages` on the streams of `/events`.
    pub(super) fn send_legacy(&self, body: String, subscription: Option<String>) {
        self.with(|state| {
            let mut open =
                state.lines.iter_mut().filter(|line| line.surface == StreamSurface::Legacy).peekable();
            if open.peek().is_none() && subscription.is_some() {
                state.queued_subscription.clone_from(&subscription);
            }
            if subscription.is_some() {
                open.for_each(|line| line.subscription.clone_from(&subscription));
            }
            state.queue_message(Piece::new(None, body));
        });
        self.notify();
    }

    /// Answers a handshake.
    pub(super) fn answer(&self, request: &str) -> HandshakeResponse {
        let id = format!("sub_{:032x}", self.world.entropy.draw());
        let request: Value = serde_json::from_str(request).unwrap_or(Value::Null);
        self.with(|state| {
            let mut honored = match request.get("capabilities") {
                Some(Value::Object(capabilities)) => capabilities.clone(),
                _ => serde_json::Map::new(),
            };
            match state.handshake_mode.clone() {
                HandshakeMode::Rejected { code, retry_after_seconds } => {
                    let body = json!({
                        "type": "subscription.rejected",
                        "reason_code": code,
                        "reason_message": "Not now; this producer is being tried out.",
                        "retry_after_seconds": retry_after_seconds,
                    });
                    let retry_after_seconds = Some(retry_after_seconds);
                    return HandshakeResponse {
                        body: body.to_string(),
                        subscription: None,
                        retry_after_seconds,
                    };
                }
                HandshakeMode::Slower => {
                    let requested_rate = honored.get("max_events_per_second").and_then(Value::as_u64);
                    let rate = requested_rate
                        .map_or(limits::SYNTHETIC_RATE, |requested_rate| (requested_rate / 2).max(1));
                    honored.insert("max_events_per_second".into(), rate.into());
                }
                HandshakeMode::AsRequested => {}
            }
            state.know(&id, Value::Object(honored.clone()));
            let body = accepted(&id, Value::Object(honored));
            HandshakeResponse { body, subscription: Some(id), retry_after_seconds: None }
        })
    }

    /// Responds to a renegotiation: omitted terms keep their values.
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
        if self.observations.len() < limits::SYNTHETIC_OBSERVATIONS_MAX {
            self.observations.push(Observation { at: recount_world::moment(), what });
        }
    }

    fn know(&mut self, id: &str, honored: Value) {
        if self.known.len() >= limits::SYNTHETIC_SUBSCRIPTIONS_MAX {
            self.known.pop_front();
        }
        self.known.push_back((id.to_owned(), honored));
    }

    /// Sends a message on the streams of `/events`, or queues it for the next one.
    fn queue_message(&mut self, piece: Piece) {
        let open: Vec<_> = self.lines.iter().filter(|line| line.surface == StreamSurface::Legacy).collect();
        if open.is_empty() {
            if self.queued.len() >= limits::SYNTHETIC_QUEUED_MAX {
                self.queued.pop_front();
            }
            self.queued.push_back(piece);
            return;
        }
        for line in open {
            // A stream with a full queue is not being read; later checks detect that.
            line.sender.try_send(Output::Send(piece.clone())).ok();
        }
    }
}
