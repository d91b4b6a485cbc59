//! What can be wished for. A command is judged once, by [`crate::decide`], and never stored.

use recount_event::family::approval::AllowanceScope;
use recount_event::family::run;
use recount_event::{Draft, ForeignId, Json};

use crate::state::PromptKind;

/// A wish concerning one run.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Begin the run. With `resumed_from` it goes on from another one.
    Queue { queued: Box<run::Queued>, resumed_from: Option<Box<run::ResumedFromEvent>> },
    /// What the producer of an external run reports. All of it or nothing.
    Append { drafts: Vec<Draft> },
    /// What our own performer reports of one of our runs; on any run, `gap.*` from this server.
    Progress { drafts: Vec<Draft> },
    /// Stop the run, closing whatever is open.
    Cancel { by: CancelledBy, reason: String },
    /// End one of our own runs that cannot go on, closing whatever is open.
    Fail { code: String, message: String, retriable: bool },
    /// Say yes or no to a call. With `remember` a yes holds for calls like it, too, as far as the scope reaches.
    ResolveApproval {
        approval_id: ForeignId,
        approve: bool,
        by: String,
        comment: Option<String>,
        remember: Option<AllowanceScope>,
    },
    /// Answers of the application whose session it is, all in one. Those that bring nothing new are left out when
    /// `lenient`, and refused otherwise. A run that waited goes on with what it was told, or waits for the rest.
    AnswerCalls { answers: Vec<CallAnswer>, by: String, via: String, config: Option<Json>, lenient: bool },
    /// Answer a question. `blocks` say the same where somebody said it in blocks. `config` is what changes of the
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
    /// Say that nobody will take over.
    RejectHandoff { handoff_id: ForeignId, by: String, reason: Option<String> },
    /// The clock reached the stamp's time: settle every timer that is due.
    Tick,
    /// Take the events before `before` away, at most those before the ending (all of them when `None`). The
    /// marker says so; whoever appends it cuts in the same append.
    Prune { before: Option<u64>, reason: String },
    /// Another worker goes on with one of our runs after the last one was lost.
    TakeOver { worker_id: String, lease_until_ms: Option<u64>, reason: String },
}

/// What an application says of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    pub tool_call_id: ForeignId,
    pub said: CallSaid,
}

/// See [`CallAnswer`].
#[derive(Debug, Clone, PartialEq)]
pub enum CallSaid {
    /// What came of a call that the application carried out: text or content blocks. `text` says the same where a call
    /// was this server's to carry out, which is refused then, and the model told this.
    Output { output: Json, text: String },
    /// The server may carry it out.
    Granted,
    /// The server may not.
    Denied { reason: Option<String> },
}

/// Who or what stopped a run.
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
