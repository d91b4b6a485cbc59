//! `run.*`: how a run is queued, starts, waits and ends.

use crate::family::{part, payload, words};
use crate::{ForeignId, Json};

words! {
    /// The kind of work of a run.
    RunKind {
        AgentLoop = "agent_loop",
        Shell = "shell",
        Git = "git",
        File = "file",
        /// A program outside the server, which reports its events.
        External = "external",
    }

    /// Who executes a run: this server, or a program that reports its events.
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
        /// The kind of answer.
        kind: WaitKind,
        /// The id of the prompt or the call.
        id: ForeignId,
    } {}

    /// The program that acts, as it names itself.
    Agent { name: String } { version: String }
}

/// The run was accepted. This is event 0 of every run, or event 1 after `run.resumed_from_event`.
///
/// It has the configuration in force, with secrets as references, so an audit needs no other source.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Queued {
    /// The kind of work of the run.
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
    /// The trace that the request belongs to, as in the W3C header.
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
    /// For runs of kind `file`: what to do with the patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// For runs of kind `file`: the patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_artifact_ids: Option<Vec<ForeignId>>,
}

impl Queued {
    /// With required fields only.
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

/// Only servers write this type, so naming the first invalid field is enough.
impl crate::family::fault::Faults for Queued {
    fn faults(_: &crate::family::fault::Fields<'_>) -> Vec<String> {
        Vec::new()
    }
}

payload! {
    /// A worker has claimed the run. It may occur again after a takeover.
    Started {} {
        worker_id: String,
        /// The end of the lease, RFC 3339; the worker renews its claim before.
        lease_until: String,
    }

    /// The run completed.
    Finished { final_status: String } {
        turns: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
    }

    /// The run failed.
    Failed {
        /// The error code: stable, lower case.
        code: String,
        /// The error, for people.
        message: String,
        /// Whether a retry of the run may succeed.
        retriable: bool,
    } {
        turns: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
        by: String,
    }

    /// The run was cancelled.
    Cancelled {
        /// `operator`, `system`, `policy`, `timeout` or `shutdown`.
        by: String,
        reason: String,
    } {
        turns: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
    }

    /// The first event of a run that continues another run from a checkpoint.
    ResumedFromEvent { from_run_id: String, from_sequence: u64, prior_cost_micros_usd: u64 } {}

    /// The run can be continued from exactly here.
    CheckpointSaved { checkpoint_id: ForeignId } {}

    /// The run waits for people or applications and uses no worker.
    Waiting {
        #[serde(rename = "for")]
        waits_for: Vec<WaitsFor>,
    } {}

    /// An answer arrived and the run continues.
    Continued {
        /// Who answered.
        by: String,
    } {
        /// The changed parts of the configuration.
        config: Json,
    }

    /// A named limit keeps the run in the queue.
    Throttled { reason: String, place: u64 } {}

    /// The run is a branch of another run. Experimental.
    BranchedFrom { from_run_id: String, from_sequence: u64, reason: String } {}

    /// The run started another one. Experimental.
    ChildStarted { child_run_id: String } { tool_call_id: ForeignId, summary: String }
}
