//! The row of a run as shown in lists. The fold creates it. It must not depend on events.

use recount_event::{ForeignId, RunId, SessionId, TaskId};
use serde::{Deserialize, Serialize};

/// The driver of own runs, as in rows.
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
    /// Tokens used, including those of earlier runs of the chain, like the cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// The agent, as named in `run.queued`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The source of an external run, as its recorder reports it.
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
    /// The budget of the task when the run was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// As in `run.queued`; may be any text for an imported run.
    pub prior_run_id: Option<String>,
    /// Whether this run or an earlier one has reported the budget warning.
    #[serde(default, skip_serializing_if = "is_false")]
    pub budget_warned: bool,
    /// Pending prompts.
    pub pending: Vec<ForeignId>,
    pub pending_approvals: Vec<ForeignId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_clarifications: Vec<ForeignId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_handoffs: Vec<ForeignId>,
    /// The first event that is still stored; greater than 0 after a prune.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
    /// Whether everything before the ending was pruned, so that nothing more can be.
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
