//! What runs belong to: a task or a session. It knows nothing of either but its id.

use recount_event::{SessionId, TaskId};

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
