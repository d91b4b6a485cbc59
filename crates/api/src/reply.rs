//! What the server answers. Every body is `{"object": …, "data": …}`.

use recount_event::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// One thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct One<T> {
    pub object: String,
    pub data: T,
}

impl<T> One<T> {
    pub fn new(object: &str, data: T) -> Self {
        One { object: object.to_owned(), data }
    }
}

/// A page of things. `next` is the cursor for what follows and never moves back; it is there even when
/// the page is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    pub object: String,
    pub data: Vec<T>,
    pub next: Option<serde_json::Value>,
    pub has_more: bool,
    /// Which of the events that were asked for are not given, because they were pruned or are damaged. What is left
    /// follows, in this page or after `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// Rows of the store that belong to the list, or may, and are not shown because their stored bytes are damaged: the
    /// name of their space and their key. Callers that see only a part of things get the name of the space alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// Events that are not given. On streams the data of a `gap` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Gap {
    /// They are not there any more.
    Pruned { first_pruned_sequence: u64, last_pruned_sequence: u64 },
    /// Their stored bytes are not those that were written.
    Damaged(DamagedRange),
}

/// Which events are damaged. In a run's events the sequences are there; in the feed the positions, and the run and the
/// sequences where they are known and may be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamagedRange {
    /// `damaged`.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_position: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_position: Option<u64>,
}

/// What [`DamagedRange::reason`] says.
pub const DAMAGED: &str = "damaged";

impl Gap {
    /// The first and the last sequence that were pruned, if that is what it tells.
    pub fn pruned(&self) -> Option<(u64, u64)> {
        match self {
            Gap::Pruned { first_pruned_sequence, last_pruned_sequence } => {
                Some((*first_pruned_sequence, *last_pruned_sequence))
            }
            Gap::Damaged(_) => None,
        }
    }
}

impl DamagedRange {
    /// The cursor of the last damaged event: where reading goes on after.
    pub fn last_cursor(&self) -> Option<u64> {
        self.last_position.or(self.last_sequence)
    }
}

impl<T> Page<T> {
    pub fn new(data: Vec<T>, next: Option<serde_json::Value>, has_more: bool) -> Self {
        Page { object: "list".to_owned(), data, next, has_more, gap: None, damaged: Vec::new() }
    }
}

/// A run as lists show it: a fold of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub kind: String,
    /// `own` or `external`.
    pub driver: String,
    /// `queued`, `running`, `waiting`, `finished`, `failed` or `cancelled`.
    pub status: String,
    /// Whether somebody must answer something before it can go on.
    pub needs_attention: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The code of a failure, or who cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub turns: u64,
    /// With that of the runs it goes on from, as are its tokens.
    pub cost_micros_usd: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// The model it asks, and who provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The folder it works in, on the server's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    /// `clone` or `in_place`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_mode: Option<String>,
    /// What its task may cost when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// The run that it retries, resumes or continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_run_id: Option<String>,
    pub pending_approvals: Vec<String>,
    #[serde(default)]
    pub pending_clarifications: Vec<String>,
    #[serde(default)]
    pub pending_handoffs: Vec<String>,
    /// Whether it is withheld from pruning; absent when it is not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// The first event that is left; absent while that is 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
}

fn is_false(is: &bool) -> bool {
    !is
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A task: what an operator asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `idle` while it has no run, else the status of its latest one.
    pub status: String,
    /// Whether somebody must answer something before its latest run can go on.
    #[serde(default)]
    pub needs_attention: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_run_id: Option<String>,
    pub runs: u64,
    /// What its runs have cost together, in millionths of a US dollar.
    #[serde(default)]
    pub cost_micros_usd: u64,
    /// Tokens that its runs have used together.
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    /// What they may cost together, where that is bounded, and what is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_remaining_micros_usd: Option<u64>,
    /// How many tokens they may use together, where that is bounded, and how many are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_remaining_tokens: Option<u64>,
}

/// Something that is kept apart from the log, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    pub id: String,
    /// `patch`, `command_output`, `file_snapshot`, `image`, `fetched_resource`, `search_results`,
    /// `tool_result_blob`, or another word.
    pub kind: String,
    /// Of a patch `proposed`, `applied` or `rejected`, else `created`.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Whether only its head is kept; absent when it is whole.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_size_bytes: Option<u64>,
    /// The file that a patch changes, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_path: Option<String>,
    /// What that file was before: `sha256:` and its digest, or `absent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_revision: Option<String>,
    /// The patch. Only when one is shown, and only when it is small: else its bytes are to be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<PatchStats>,
    pub created_at: String,
    pub applied_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_at: Option<String>,
    /// When another patch took it back; its status stays `applied`.
    pub reverted_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Absent while no run has used what was sent in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_by_run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_by_tool_call_id: Option<String>,
}

/// How much a patch changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchStats {
    /// Lines.
    pub additions: u64,
    pub deletions: u64,
    /// Places.
    pub hunks: u64,
}

/// A session: a conversation, whose runs belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `idle` while it has no run, else the status of its latest one.
    pub status: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_run_id: Option<String>,
    pub runs: u64,
}

/// Something that was said in a session, or done in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub run_id: String,
    /// The event that says it.
    pub sequence: u64,
    pub at: String,
    /// `user`, `assistant`, or `tool` for what came of a call.
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of the assistant: whether the text was cut off.
    #[serde(default, skip_serializing_if = "is_false")]
    pub aborted: bool,
    /// Something that came with what the user said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<String>,
    /// The call that the assistant asks for, or that came to something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// What the assistant calls it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub input: Option<Json>,
    /// What came of it: `completed`, `failed`, `cancelled`, `timed_out` or `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What the model was told of it: a text, or blocks of content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<Json>,
}

/// Where a batch landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    pub first_sequence: u64,
    pub last_sequence: u64,
    /// The place of the last event in the whole store.
    pub position: u64,
}

/// What a run changed in the copy that it worked in, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    pub run_id: String,
    /// The copy, on the server's machine.
    pub path: String,
    /// The folder that was copied.
    pub source: String,
    /// In the order of their paths; fewer than `count` where there are very many.
    pub changes: Vec<Change>,
    pub count: u64,
    /// Files and folders in the copy that git is told to ignore; they are not brought back.
    pub ignored: u64,
    /// What is not in the folder yet, as a unified diff.
    pub diff: String,
    /// Whether something is left out of the diff.
    #[serde(default, skip_serializing_if = "is_false")]
    pub diff_cut: bool,
    /// The branch that the changes were put on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// A run that works in the copy, or in the folder, and has not ended. Nothing can be applied before it ends, and there
    /// may be more changes by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<String>,
    /// Files that an earlier apply had moved away when it was cut off, and that were put back before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub put_back: u64,
}

/// One path that a run changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Relative to the folder.
    pub path: String,
    /// `added`, `changed` or `deleted`.
    pub change: String,
    /// `file`, `folder` or `link`.
    pub kind: String,
    /// `open`: not in the folder yet; `applied`: in it; `conflict`: the folder was changed in the same place.
    pub state: String,
}

/// What a run's bytes add up to. Note the head elsewhere to detect later edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Digest {
    pub run_id: String,
    pub events: u64,
    /// `recount.run.v1`: BLAKE3 over the head before, the length and the bytes, event by event.
    pub algorithm: String,
    pub head: String,
    /// The first event that is left, where the run was pruned.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
    /// The chain before that event, where the run was pruned: what is left goes on from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// What a prune took of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    pub run_id: String,
    /// How many events were taken this time.
    pub events: u64,
    /// The first that is left.
    pub first_sequence: u64,
}

/// What pruning by policy took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Swept {
    pub runs: u64,
    pub events: u64,
    /// Whether asking again may find more: one request prunes a bounded number of runs.
    pub has_more: bool,
}

/// A task that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    pub task_id: String,
    /// How many runs were erased.
    pub runs: u64,
}

/// A session that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionDeleted {
    pub session_id: String,
    /// How many runs were erased.
    pub runs: u64,
}

/// A run that was exported elsewhere and is here now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Import {
    pub run_id: String,
    pub events: u64,
    pub head: String,
    /// Whether it came in just now; else it was here before, event for event.
    pub imported: bool,
    /// The place of the last event in the whole store.
    pub position: u64,
}

/// A request for permission and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub id: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub tool_call_id: String,
    pub kind: String,
    pub summary: String,
    /// `pending`, `approved`, `rejected`, `cancelled` or `timed_out`.
    pub status: String,
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What happens when nobody answers: `approve` or `reject`.
    pub default_decision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreversible: Option<bool>,
    /// Binds the request to one exact call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_digest: Option<String>,
    /// What a person has to read before deciding: the whole command, the difference of the files, or the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// `command`, `diff` or `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    /// Bytes of the whole preview, where `preview` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    /// The artifact that is the whole preview, where `preview` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_artifact_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether an approval may carry `remember`. Not there for what is asked about every time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_be_remembered: bool,
    /// The allowance that the decision made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_id: Option<String>,
    /// How far it reaches: `run`, `session` or `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_scope: Option<String>,
}

/// A yes that holds for later calls, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    pub id: String,
    /// How far it reaches: `run`, `session` or `workspace`.
    pub scope: String,
    /// The run that it was given in.
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The session of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The folder that a scope of `workspace` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The request that was answered.
    pub approval_id: String,
    /// The tool.
    pub kind: String,
    pub summary: String,
    /// What was shown to who gave it, with secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// `command`, `diff` or `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    /// Bytes of the whole preview, where `preview` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    pub given_by: String,
    pub given_at: String,
}

/// A question and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clarification {
    pub id: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    pub question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_response_kinds: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<Json>>,
    /// What is taken for the answer when none comes in time.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default_response: Option<Json>,
    /// `pending`, `answered`, `timed_out`, or `cancelled` where it was withdrawn.
    pub status: String,
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The answer, or what was taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub response: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
}

/// Work that an agent gives to somebody else, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Handoff {
    pub id: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    pub reason: String,
    /// `human`, `specialist_agent` or `escalation_queue`.
    pub target_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uri: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency_for_handoff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_terse: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_normal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_detailed: Option<String>,
    /// What was packed for who takes over. Only when one handoff is shown: it may be large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packaged_context: Option<Json>,
    /// `pending`, `acknowledged`, `rejected` or `timed_out`.
    pub status: String,
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    /// The comment of who took over, the reason of who did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A JSON `null` is a value, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// `/healthz` and `/readyz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub status: String,
    pub version: String,
}

/// An agent of this server: what applications can work with, and runs can be made by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The model that answers, unless an option or a request says another; the server's default when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools that can be enabled.
    pub tools: Vec<AgentTool>,
    /// What can be chosen.
    pub options: Vec<AgentOption>,
}

/// A tool of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTool {
    pub name: String,
    pub description: String,
    /// A JSON Schema of its input.
    pub parameters: Json,
}

/// Something of an agent that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentOption {
    pub name: String,
    /// `text`, `secret` or `select`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What holds while nobody chooses; never said of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What a `select` can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}
