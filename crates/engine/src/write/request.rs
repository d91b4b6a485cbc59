//! What the writer of a run can be asked, and how it answers. It must not know who asks.

use std::sync::{Arc, Mutex};

use recount_event::{Draft, Event};
use recount_run::Command;
use tokio::sync::oneshot;

use crate::write::removal::PruneRows;
use crate::write::with_rows::CommandWithRows;
use crate::{Error, Receipt, Triple};

/// One message to a writer, and who waits for its answer.
pub(crate) struct Inbox {
    pub(crate) work: Work,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// Everything that a writer can be asked. Answered with where the events landed, or `None` when there
/// was nothing to write.
pub(crate) enum Work {
    /// A wish.
    Command(Command),
    /// A batch from the producer of an external run.
    Ingest(Triple, Vec<Draft>),
    /// What a worker did; refused when another one has the run by now. The events come out by the side, because a
    /// receipt only says where they are.
    Report { claim: Option<u64>, drafts: Vec<Draft>, out: Reported },
    /// The time has come for which the run was armed.
    Due { at_ms: u64 },
    /// A wish, with what else is to be written in the same append.
    Beside { command: Command, beside: Box<CommandWithRows> },
    /// Takes the events before a place away, at most those before the ending.
    Prune { before: Option<u64>, reason: String, rows: Option<PruneRows> },
    /// Takes all of an ended run away but for a tombstone.
    Erase { by: String },
}

impl Work {
    /// Whether it is no part of an append with others: what takes away, and what may be refused for what it brings.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Work::Beside { .. } | Work::Prune { .. } | Work::Erase { .. })
    }
}

/// Where a worker finds what its report became.
pub(crate) type Reported = Arc<Mutex<Vec<Event>>>;

pub(crate) enum Answer {
    Done(Result<Option<Receipt>, Error>),
    /// The writer had just gone to sleep; wake another with this.
    Asleep(Work),
}

pub(super) fn send(reply: oneshot::Sender<Answer>, answer: Answer) {
    if reply.send(answer).is_err() {
        tracing::debug!("the sender of a command did not wait for its answer");
    }
}
