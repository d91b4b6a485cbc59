//! An event: its envelope, its payload, and the receipt for those that were appended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{EventId, RunId, SessionId, TaskId};
pub use crate::registry::Payload;

/// A fact in a run: immutable, with its sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub event_id: EventId,
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub session_id: Option<SessionId>,
    pub sequence: u64,
    pub occurred_ms: u64,
    pub body: Draft,
    /// Envelope fields that this release does not know, as `(name, JSON text)`, kept for readers that do.
    pub extra: Vec<(Box<str>, Box<str>)>,
}

/// The type and data of an event, before it has a sequence in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub payload: Payload,
    /// The `data` object exactly as a producer wrote it, without white space. `None` when the
    /// payload is our own and is yet to be written down.
    pub verbatim: Option<Box<str>>,
}

/// The numbers of the events of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    pub first_sequence: u64,
    pub last_sequence: u64,
    // If it was pruned and its batch is repeated: the position before the first event of the run that is still stored.
    /// The position of the last event in the store.
    pub position: u64,
}

impl Event {
    pub fn payload(&self) -> &Payload {
        &self.body.payload
    }

    pub fn type_name(&self) -> &str {
        self.body.payload.type_name()
    }
}

impl From<Payload> for Draft {
    fn from(payload: Payload) -> Self {
        Draft { payload, verbatim: None }
    }
}
