//! Commands: requests to change a run. [`crate::decide`] checks a command once; it is never stored.

use recount_event::family::approval::AllowanceScope;
use recount_event::family::run;
use recount_event::{Draft, ForeignId, Json};

use crate::state::PromptKind;

/// A request to change one run.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Queue the run. With `resumed_from` it continues another one.
    Queue { queued: Box<run::Queued>, resumed_from: Option<Box<run::ResumedFromEvent>> },
    /// Events that the producer of an external run reports: all are accepted, or none.
    Append { drafts: Vec<Draft> },
    /// Events that our own performer reports for an own run; for any run, `gap.*` from this server.
    Progress { drafts: Vec<Draft> },
    /// Stop the run, closing whatever is open.
    Cancel { by: CancelledBy, reason: String },
    /// End an own run that cannot continue, and close everything open.
    Fail { code: String, message: String, retriable: bool },
    /// Approve or deny a call. With `remember` an approval also applies to calls like it, as far as the scope reaches.
    ResolveApproval {
        approval_id: ForeignId,
        approve: bool,
        by: String,
        comment: Option<String>,
        remember: Option<AllowanceScope>,
    },
    /// Answers of the application that owns the session, all at once. With `lenient`, unexpected answers are
    /// ignored; otherwise they are rejected. A waiting run continues with these answers, or waits for the rest.
    AnswerCalls { answers: Vec<CallAnswer>, by: String, via: String, config: Option<Json>, lenient: bool },
    /// Answer a question. `blocks` is the same answer as blocks, if it came that way. `config` is the change of the
    /// configuration from here on.
    AnswerClarification {
        clarification_id: ForeignId,
        response: Json,
        blocks: Option<Vec<Json>>,
        by: String,
        config: Option<Json>,
    },
    /// Move the deadline of a prompt.
    ExtendPrompt { kind: PromptKind, id: ForeignId, seconds: u64, by: String },
    /// Take over from the agent.
    AcknowledgeHandoff { handoff_id: ForeignId, by: String, comment: Option<String> },
    /// Decline a handoff.
    RejectHandoff { handoff_id: ForeignId, by: String, reason: Option<String> },
    /// The clock reached the stamp's time: settle every timer that is due.
    Tick,
    /// Remove the events before `before`, at most those before the ending (all of them when `None`). A
    /// marker describes them; the caller that appends the marker cuts in the same append.
    Prune { before: Option<u64>, reason: String },
    /// Another worker continues an own run after its worker was lost.
    TakeOver { worker_id: String, lease_until_ms: Option<u64>, reason: String },
}

/// The answer of an application to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    pub tool_call_id: ForeignId,
    pub resolution: CallResolution,
}

/// See [`CallAnswer`].
#[derive(Debug, Clone, PartialEq)]
pub enum CallResolution {
    /// The result of a call that the application executed: text or content blocks. `text` is the same for a call that the
    /// server executes, which is then refused with this text for the model.
    Output { output: Json, text: String },
    /// The server may execute it.
    Granted,
    /// The server may not.
    Denied { reason: Option<String> },
}

/// The cause of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CancelledBy {
    Operator,
    System,
    Policy,
    Timeout,
    Shutdown,
}

impl CancelledBy {
    pub const ALL: &[CancelledBy] = &[
        CancelledBy::Operator,
        CancelledBy::System,
        CancelledBy::Policy,
        CancelledBy::Timeout,
        CancelledBy::Shutdown,
    ];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            CancelledBy::Operator => "operator",
            CancelledBy::System => "system",
            CancelledBy::Policy => "policy",
            CancelledBy::Timeout => "timeout",
            CancelledBy::Shutdown => "shutdown",
        }
    }
}
