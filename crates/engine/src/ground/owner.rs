//! The owner of runs: a task or a session.

use recount_event::{SessionId, TaskId};

/// The owner of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOwner {
    Task(TaskId),
    Session(SessionId),
}

impl From<TaskId> for RunOwner {
    fn from(task: TaskId) -> Self {
        RunOwner::Task(task)
    }
}

impl From<SessionId> for RunOwner {
    fn from(session: SessionId) -> Self {
        RunOwner::Session(session)
    }
}
