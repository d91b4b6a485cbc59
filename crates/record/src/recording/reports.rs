//! Inputs of a recording: calls and permissions.

use serde_json::Value;

/// A call that the agent is about to make.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallStart {
    /// The agent's id of the call.
    pub foreign_id: String,
    pub name: String,
    pub input: Value,
    /// The input in one line.
    pub summary: Option<String>,
    /// The kind of tool, such as `shell`, `file` or `mcp`.
    pub kind: Option<String>,
    /// For MCP: the server and the name of the tool there.
    pub mcp: Option<(String, String)>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Completed,
    Failed,
    Cancelled,
    TimedOut,
    /// It was not carried out, because a person or a rule refused it.
    Refused,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub how: How,
    pub output: Option<Value>,
    /// The error, for people; for a refusal the reason.
    pub error: Option<String>,
    pub code: Option<String>,
    pub duration_ms: Option<u64>,
    pub summary: Option<String>,
}

impl Outcome {
    pub fn of(how: How) -> Self {
        Outcome { how, output: None, error: None, code: None, duration_ms: None, summary: None }
    }

    /// As a failure, if the command ended with another status than 0, although its agent reports that the call completed.
    pub(crate) fn with_exit_status(self, status: Option<i64>) -> Self {
        match status {
            Some(status) if status != 0 && self.how == How::Completed => Outcome {
                how: How::Failed,
                error: Some(format!("exit status {status}")),
                code: Some("exit_status".to_owned()),
                ..self
            },
            _ => self,
        }
    }
}

/// A permission that the agent requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt {
    /// Unique among all approvals of the server, such as `appr_` and a ULID.
    pub approval_id: String,
    /// The call that it is about; it is recorded first, if it is not yet.
    pub call: CallStart,
    /// One line for people.
    pub summary: String,
    /// The text that a person reads before the decision, and its kind: `command`, `diff` or `input`.
    pub preview: Option<(&'static str, String)>,
    /// `low`, `medium` or `high`.
    pub risk_level: Option<&'static str>,
    /// How long an answer is waited for.
    pub timeout_seconds: Option<u64>,
    /// Whether the approval is withdrawn then, because the agent's own dialog decides. Otherwise the call is rejected.
    pub withdrawn_at_deadline: bool,
}

/// The answer from a face of Recount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Approved,
    Rejected,
    /// Nobody answered in time, and the default, to reject, was applied.
    TimedOut,
}

/// A decision that was made elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    Approved,
    Rejected,
    /// Not yet, or it is not known.
    Undecided,
}

/// Who decided elsewhere, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Such as `claude` or `editor`: where it was decided. What a person is called there is rarely known.
    pub by: String,
    pub decided: Decided,
    pub comment: String,
}

impl Elsewhere {
    pub fn approved(by: &str) -> Self {
        let comment = "the agent continued with the call, which was approved outside Recount".into();
        Elsewhere { by: by.to_owned(), decided: Decided::Approved, comment }
    }

    pub fn rejected(by: &str) -> Self {
        let comment = "the call was refused outside Recount".into();
        Elsewhere { by: by.to_owned(), decided: Decided::Rejected, comment }
    }

    pub fn undecided(by: &str, comment: &str) -> Self {
        Elsewhere { by: by.to_owned(), decided: Decided::Undecided, comment: comment.to_owned() }
    }
}
