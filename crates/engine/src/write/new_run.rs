//! A request for a new run, and the decision whether it may start. The `work` module provides the implementation.

use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{SessionId, TaskId};

use crate::Unacceptable;

/// A run to create.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub queued: Queued,
    pub task: Option<TaskId>,
    pub session: Option<SessionId>,
    /// The event of another run from which this one continues.
    pub resumed_from: Option<ResumedFromEvent>,
}

/// Decides whether and how an own run may start. Without an implementation, own runs are not executed here.
pub(crate) trait Admission: Send + Sync {
    /// Fills in missing options, and refuses an invalid run.
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable>;

    /// Refuses a run that cannot keep its budget.
    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable>;
}
