//! The row of a run: what lists say of it. It is made by the fold and knows nothing of events.

use recount_event::{ForeignId, RunId, SessionId, TaskId};
use serde::{Deserialize, Serialize};

/// Who drives a run of our own, as lists say it.
pub(crate) const OWN: &str = "own";

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    pub id: RunId,
    pub task_id: Option<TaskId>,
    pub session_id: Option<SessionId>,
    pub kind: String,
    pub driver: String,
    pub status: String,
    pub title: Option<String>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub ending: Option<String>,
    pub message: Option<String>,
    pub turns: u64,
    pub cost_micros_usd: u64,
    /// The part of the cost and the tokens that earlier runs of the chain used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior_cost_micros_usd: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior_input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior_output_tokens: u64,
    /// Completed turns that report no cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_turns: u64,
    /// Tokens used, like the cost with those of earlier runs of the chain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// The agent, as `run.queued` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// What an external run was recorded from, as its recorder says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_mode: Option<String>,
    /// The budget of its task as it was when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// As `run.queued` has it, which of an import may be anything.
    pub prior_run_id: Option<String>,
    /// Whether the warning of the task's budget was given, in this run or before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub budget_warned: bool,
    /// Prompts that a person must answer.
    pub pending: Vec<ForeignId>,
    pub pending_approvals: Vec<ForeignId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_clarifications: Vec<ForeignId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_handoffs: Vec<ForeignId>,
    /// The first event that is left; not 0 once the run was pruned.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
    /// Whether everything before the ending was pruned, so that no more can be.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_ending_left: bool,
}

impl RunRow {
    pub fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(is: &bool) -> bool {
    !is
}
