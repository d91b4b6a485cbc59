//! A request for a run, before there is one.

use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{SessionId, TaskId};

/// A run to be.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub queued: Queued,
    pub task: Option<TaskId>,
    pub session: Option<SessionId>,
    /// Where in another run this one goes on from.
    pub resumed_from: Option<ResumedFromEvent>,
}
