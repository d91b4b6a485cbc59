//! `run.*`: how a run comes to be, waits and ends.

use crate::family::{part, payload, words};
use crate::{ForeignId, Json};

words! {
    /// What sort of work a run is.
    RunKind {
        AgentLoop = "agent_loop",
        Shell = "shell",
        Git = "git",
        File = "file",
        /// An agent that is not ours reports what it does.
        External = "external",
    }

    /// Who drives a run: we, or a program that reports to us.
    Driver { Own = "own", External = "external" }

    /// What a waiting run waits for.
    WaitKind {
        Approval = "approval",
        Clarification = "clarification",
        ClientTool = "client_tool",
        Handoff = "handoff",
    }
}

impl Driver {
    pub(crate) fn own() -> Self {
        Driver::Own
    }

    pub(crate) fn is_own(&self) -> bool {
        *self == Driver::Own
    }
}

part! {
    /// One thing that a run waits for.
    WaitsFor {
        /// What sort of answer is waited for.
        kind: WaitKind,
        /// The prompt's id, or the call's.
        id: ForeignId,
    } {}

    /// The program that acts, by its own account.
    Agent { name: String } { version: String }
}

/// The run was accepted. Event 0 of every run (or event 1, behind `run.resumed_from_event`).
///
/// The configuration in force stands here, secrets as references, so that an audit needs no other source.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Queued {
    /// What sort of work the run is.
    pub kind: RunKind,
    #[serde(default = "Driver::own", skip_serializing_if = "Driver::is_own")]
    pub driver: Driver,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
    /// Where the request for this run belongs in a trace of others, as the W3C's header says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_mode: Option<String>,
    /// The run that this one retries, resumes or continues.
    #[serde(default)]
    pub prior_run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_cost_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_output_tokens: Option<u64>,
    /// Whether the budget warning was already given in an earlier run of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_warned: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_budget_tokens: Option<u64>,
    /// The configuration in force: tools with their executor and trust, options and policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Json>,
    /// For runs of kind `file`: what is to be done with the patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// For runs of kind `file`: the patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_artifact_ids: Option<Vec<ForeignId>>,
}

impl Queued {
    /// With nothing but what must be there.
    pub fn new(kind: RunKind) -> Self {
        Queued {
            kind,
            driver: if kind == RunKind::External { Driver::External } else { Driver::Own },
            title: None,
            agent: None,
            requested_by: None,
            request_text: None,
            traceparent: None,
            model: None,
            provider: None,
            workspace_path: None,
            workspace_mode: None,
            prior_run_id: None,
            prior_cost_micros_usd: None,
            prior_input_tokens: None,
            prior_output_tokens: None,
            budget_warned: None,
            task_budget_micros_usd: None,
            task_budget_tokens: None,
            config: None,
            action: None,
            patch_artifact_ids: None,
        }
    }
}

/// Written by servers alone, so nobody is helped by more than the first field that does not fit.
impl crate::family::fault::Faults for Queued {
    fn faults(_: &crate::family::fault::Fields<'_>) -> Vec<String> {
        Vec::new()
    }
}

payload! {
    /// A worker has claimed the run. May come again after a takeover.
    Started {} {
        worker_id: String,
        /// Until when the worker may go on without renewing its claim, RFC 3339.
        lease_until: String,
    }

    /// The run ended well.
    Finished { final_status: String } {
        turns: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
    }

    /// The run ended badly.
    Failed {
        /// What went wrong, stable and lower case.
        code: String,
        /// What went wrong, for people.
        message: String,
        /// Whether the same run, tried again, may end well.
        retriable: bool,
    } {
        turns: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
        by: String,
    }

    /// Somebody or something stopped the run.
    Cancelled {
        /// `operator`, `system`, `policy`, `timeout` or `shutdown`.
        by: String,
        reason: String,
    } {
        turns: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
    }

    /// The first event of a run that goes on from a checkpoint of another.
    ResumedFromEvent { from_run_id: String, from_sequence: u64, prior_cost_micros_usd: u64 } {}

    /// Enough is durable to go on from exactly here.
    CheckpointSaved { checkpoint_id: ForeignId } {}

    /// The run is suspended on people or applications and holds no worker.
    Waiting {
        #[serde(rename = "for")]
        waits_for: Vec<WaitsFor>,
    } {}

    /// An answer came and the run goes on.
    Continued {
        /// Whose answer it was.
        by: String,
    } {
        /// The changed parts of the configuration.
        config: Json,
    }

    /// A named limit keeps the run in the queue.
    Throttled { reason: String, place: u64 } {}

    /// The run begins as a branch of another. Experimental.
    BranchedFrom { from_run_id: String, from_sequence: u64, reason: String } {}

    /// The run started another one. Experimental.
    ChildStarted { child_run_id: String } { tool_call_id: ForeignId, summary: String }
}
