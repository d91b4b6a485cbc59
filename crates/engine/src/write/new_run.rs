//! A request for a new run.

use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{SessionId, TaskId};

/// A run to create.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub queued: Queued,
    pub task: Option<TaskId>,
    pub session: Option<SessionId>,
    /// The event of another run from which this one continues.
    pub resumed_from: Option<ResumedFromEvent>,
}
