//! The recorded lines of one subscription: [`Transcript`]. Checks read it afterwards, so they can be tested without a
//! network.

use recount_aaep::Kind;
use recount_aaep::kind::{TypeClass, classify};
use recount_aaep::lex::time;
use serde_json::Value;

/// Which side sent a line, and whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineOrigin {
    /// Received from the other side.
    Received,
    /// Sent by the suite.
    Sent,
    /// Sent by the suite, and must have no effect; checks of the other side skip it.
    SentIneffective,
}

/// One message.
#[derive(Debug, Clone)]
pub struct Line {
    /// Milliseconds since the run began, by a monotonic clock.
    pub at_ms: u64,
    /// Milliseconds since 1970 on arrival.
    pub wall_ms: u64,
    pub origin: LineOrigin,
    pub text: String,
    /// The parsed text; `Null` if it is not JSON.
    pub json: Value,
    /// The id assigned by the transport.
    pub id: Option<String>,
}

impl Line {
    pub fn new(at_ms: u64, wall_ms: u64, origin: LineOrigin, text: impl Into<String>) -> Self {
        let text = text.into();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Line { at_ms, wall_ms, origin, text, json, id: None }
    }

    pub fn str(&self, field: &str) -> &str {
        self.json.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn type_name(&self) -> &str {
        self.str("type")
    }

    /// The event kind, if it is a core event.
    pub fn kind(&self) -> Option<Kind> {
        match classify(self.type_name()) {
            TypeClass::Core(kind) if self.origin == LineOrigin::Received => Some(kind),
            _ => None,
        }
    }

    pub fn is(&self, kind: Kind) -> bool {
        self.kind() == Some(kind)
    }

    /// Whether it is an event of the protocol or of an extension.
    pub fn is_event(&self) -> bool {
        self.origin == LineOrigin::Received && self.json.get("event_id").is_some()
    }

    pub fn is_critical(&self) -> bool {
        self.str("urgency") == "critical"
    }

    pub fn is_terminal(&self) -> bool {
        self.kind().is_some_and(Kind::is_terminal)
    }

    pub fn session(&self) -> &str {
        self.str("session_id")
    }

    /// Its `timestamp`, in milliseconds since 1970.
    pub fn stamp_ms(&self) -> Option<i64> {
        time::Moment::parse(self.str("timestamp")).map(time::Moment::millis)
    }

    /// The line as evidence.
    pub fn shown(&self) -> String {
        let origin = match self.origin {
            LineOrigin::Received => "heard",
            LineOrigin::Sent => "sent",
            LineOrigin::SentIneffective => "sent in vain",
        };
        format!("{}.{:03} s {origin}: {}", self.at_ms / 1_000, self.at_ms % 1_000, self.text.trim())
    }
}

/// How much of the producer's sessions a transcript contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All sessions from start to end: rules on whole sessions apply.
    Whole,
    /// Sessions are cut, filtered or joined midway: only rules on single messages and on terms apply.
    Part,
}

/// A conversation.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The purpose of the conversation.
    pub label: String,
    pub scope: Scope,
    pub lines: Vec<Line>,
    /// When the subscription was open, by the clock of [`Line::at_ms`].
    pub opened_ms: u64,
    /// When the suite requested something of the producer while the subscription was open, by the same clock.
    pub requested_ms: Vec<u64>,
    /// Whether endings of sessions may be missing: the stream ended before they came, or they took too long.
    pub cut_short: bool,
}

impl Transcript {
    pub fn new(label: impl Into<String>, scope: Scope) -> Self {
        Transcript {
            label: label.into(),
            scope,
            lines: Vec::new(),
            opened_ms: 0,
            requested_ms: Vec::new(),
            cut_short: false,
        }
    }

    pub fn events(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.is_event())
    }

    /// The received lines of a session, in order.
    pub fn of_session<'t>(&'t self, session: &'t str) -> impl Iterator<Item = &'t Line> {
        self.events().filter(move |line| line.session() == session)
    }
}
