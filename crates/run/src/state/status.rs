//! The status of a run, in one word. Must not know how the run got there.

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Queued,
    Running,
    /// Suspended on people or applications. External runs are never suspended: see their prompts.
    Waiting,
    Finished,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: &[Status] = &[
        Status::Queued,
        Status::Running,
        Status::Waiting,
        Status::Finished,
        Status::Failed,
        Status::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Finished => "finished",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// The status as the end of a sentence: "it has finished".
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Status::Queued => "is queued",
            Status::Running => "is running",
            Status::Waiting => "is waiting",
            Status::Finished => "has finished",
            Status::Failed => "has failed",
            Status::Cancelled => "was cancelled",
        }
    }

    pub fn is_ended(self) -> bool {
        matches!(self, Status::Finished | Status::Failed | Status::Cancelled)
    }
}
