//! Who does what our own runs are owed. The engine knows that it is done, and by whom a run is held; what a model
//! or a tool is, it does not know.
//!
//! Look at [`Performer`]. It is given a [`crate::Desk`] for one run, works until nothing is owed any more, and
//! leaves; `dispatch` calls it again when something is.

use futures_util::future::BoxFuture;
use recount_event::{Code, SessionId, TaskId};

use crate::{Desk, Error, NewRun};

/// See the file's head.
pub trait Performer: Send + Sync + 'static {
    /// Fills in what a request for one of our runs left open, and refuses what cannot be done. Nothing was
    /// written by now; what stands in `new` afterwards is what the log says of the run for good.
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable>;

    /// Does what a run is owed. The run may have been asked for just now, so that the store has not confirmed its
    /// beginning yet: see [`Desk::settled`]. Dropping the future breaks it off, as a crash would: whoever comes next takes over.
    fn perform(&self, desk: Desk) -> BoxFuture<'static, Option<Desk>>;

    /// A task, or a session, was deleted with all its runs: what was kept outside of the log for it goes, too.
    fn forget(&self, whose: Whose) -> BoxFuture<'static, ()>;
}

/// What runs belong to: what was deleted, or what is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Task(TaskId),
    Session(SessionId),
}

impl From<TaskId> for Whose {
    fn from(task: TaskId) -> Self {
        Whose::Task(task)
    }
}

impl From<SessionId> for Whose {
    fn from(session: SessionId) -> Self {
        Whose::Session(session)
    }
}

/// Why a run cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unacceptable {
    pub code: Code,
    pub message: String,
}

impl From<Unacceptable> for Error {
    fn from(no: Unacceptable) -> Self {
        Error::rejected(no.code, no.message)
    }
}
