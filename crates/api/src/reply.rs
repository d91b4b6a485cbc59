//! Response bodies. Every body is `{"object": …, "data": …}`.

use recount_event::Json;
pub use recount_event::Receipt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::prompt::{Approval, Clarification, Handoff};

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
    /// The requested events that are missing, because they were pruned or are damaged. The events after them
    /// follow, in this page or after `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// Rows of the store that belong to the list, or may, and are not shown because their stored bytes are damaged: the
    /// name of their space and their key. Callers that see only a part of things get the name of the space alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// Events that are missing. On streams it is the data of a `gap` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Gap {
    /// They were pruned.
    Pruned { first_pruned_sequence: u64, last_pruned_sequence: u64 },
    /// Their stored bytes are damaged.
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

/// The value of [`DamagedRange::reason`].
pub const DAMAGED: &str = "damaged";

impl Gap {
    /// The first and the last pruned sequence, if this is a gap of pruning.
    pub fn pruned(&self) -> Option<(u64, u64)> {
        match self {
            Gap::Pruned { first_pruned_sequence, last_pruned_sequence } => {
                Some((*first_pruned_sequence, *last_pruned_sequence))
            }
            Gap::Damaged(_) => None,
        }
    }

    /// The cursor of the last missing event: where reading goes on after.
    pub fn last_cursor(&self) -> Option<u64> {
        match self {
            Gap::Pruned { last_pruned_sequence, .. } => Some(*last_pruned_sequence),
            Gap::Damaged(range) => range.last_position.or(range.last_sequence),
        }
    }
}

impl<T> Page<T> {
    pub fn new(data: Vec<T>, next: Option<serde_json::Value>, has_more: bool) -> Self {
        Page { object: "list".to_owned(), data, next, has_more, gap: None, damaged: Vec::new() }
    }
}

/// A run as lists show it, computed from its events.
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
    /// Whether it waits for an answer before it can continue.
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
    /// The cost includes that of the runs that it continues, and so do its tokens.
    pub cost_micros_usd: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// The part of the cost that the runs that it continues used; absent if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior_cost_micros_usd: u64,
    /// The part of the tokens that they used; absent if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior_input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prior_output_tokens: u64,
    /// Completed turns that report no cost; absent if each reports one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_turns: u64,
    /// The agent's name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// What the run was recorded from, such as `claude-code-hooks`; absent if its producer does not say, and after
    /// its events were pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The model that it uses, and its provider.
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
    /// The budget of its task when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// The run that it retries, resumes or continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_run_id: Option<String>,
    /// The runs that retry, resume or continue it, newest first, at most 50; absent in lists, and if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successor_run_ids: Vec<String>,
    pub pending_approvals: Vec<String>,
    #[serde(default)]
    pub pending_clarifications: Vec<String>,
    #[serde(default)]
    pub pending_handoffs: Vec<String>,
    /// Whether it is excluded from pruning; absent if it is not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// The first event that still exists; absent if that is 0.
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
    /// `idle` if it has no run, else the status of its latest run.
    pub status: String,
    /// Whether its latest run waits for an answer before it can continue.
    #[serde(default)]
    pub needs_attention: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_run_id: Option<String>,
    pub runs: u64,
    /// The total cost of its runs, in millionths of a US dollar.
    #[serde(default)]
    pub cost_micros_usd: u64,
    /// The tokens that its runs have used in all.
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    /// The budget for all its runs, if it has one, and the remaining amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_remaining_micros_usd: Option<u64>,
    /// The token budget for all its runs, if it has one, and how many tokens are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_remaining_tokens: Option<u64>,
}

/// A named result of a run, stored apart from the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    pub id: String,
    /// `patch`, `command_output`, `file_snapshot`, `image`, `fetched_resource`, `search_results`,
    /// `tool_result_blob`, or another value.
    pub kind: String,
    /// For a patch `proposed`, `applied` or `rejected`, else `created`.
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
    /// Whether only its beginning is kept; absent if it is complete.
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
    /// The text of a small patch, if a single artifact is shown. Otherwise request its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<PatchStats>,
    pub created_at: String,
    pub applied_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_at: Option<String>,
    /// When another patch reverted it; its status stays `applied`.
    pub reverted_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Absent until a run uses the upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_by_run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_by_tool_call_id: Option<String>,
    /// Whether it is excluded from deletion, and its run from pruning; absent if not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
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

/// A session: a conversation that consists of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `idle` if it has no run, else the status of its latest run.
    pub status: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_run_id: Option<String>,
    pub runs: u64,
}

/// A message or a tool call of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub run_id: String,
    /// The event that records it.
    pub sequence: u64,
    pub at: String,
    /// `user`, `assistant`, or `tool` for the result of a call.
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// For the assistant: whether the text was cut off.
    #[serde(default, skip_serializing_if = "is_false")]
    pub aborted: bool,
    /// An attachment of the user's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<String>,
    /// The call that the assistant proposed, or that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The input of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub input: Option<Json>,
    /// The outcome: `completed`, `failed`, `cancelled`, `timed_out` or `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The result as the model gets it: a text, or blocks of content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<Json>,
}

/// The changes of a run in its copy, compared with the original folder now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    pub run_id: String,
    /// The copy, on the server's machine.
    pub path: String,
    /// The original folder.
    pub source: String,
    /// Sorted by path; fewer than `count` if there are very many.
    pub changes: Vec<Change>,
    pub count: u64,
    /// Files and folders in the copy that git ignores; they are not applied.
    pub ignored: u64,
    /// The changes that are not in the original folder yet, as a unified diff.
    pub diff: String,
    /// Whether the diff is incomplete.
    #[serde(default, skip_serializing_if = "is_false")]
    pub diff_cut: bool,
    /// The branch with the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit with the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// An active run that works in the copy or in the folder. Nothing can be applied before it ends, and it may
    /// make more changes until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<String>,
    /// Files that an interrupted earlier apply had moved away, and that were restored before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub put_back: u64,
    /// Identifies these changes. Send it as `shown_digest` to apply only what was shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// The new status of a patch, and the run that changed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatchOutcome {
    pub artifact: Artifact,
    /// The run that applied, rejected or reverted it.
    pub run_id: String,
    /// The status of that run: `finished`, unless it takes long.
    pub run_status: String,
    /// The patch that reverted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inverse: Option<Artifact>,
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
    /// `open`: not in the folder yet; `applied`: in the folder; `mergeable`: the folder has changed in another part of
    /// the file, and both changes can be kept; `conflict`: the folder has changed in the same place.
    pub state: String,
    /// The conflicting parts of the file, with both versions between conflict markers, if they can be shown so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    /// The program that executes or obeys the file on its own, for example `direnv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed_by: Option<String>,
}

/// A run's digest. Store the head elsewhere to detect later edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Digest {
    pub run_id: String,
    pub events: u64,
    /// `recount.run.v1`: for each event BLAKE3 over the previous head, the length and the bytes.
    pub algorithm: String,
    pub head: String,
    /// The first event that still exists, if the run was pruned.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
    /// The chain value before that event, if the run was pruned: the rest continues from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The head as it was signed when the run ended, or now if the run has not ended; missing if the server signs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedHead>,
}

/// A statement about the head of a run, which can be checked with a public key of `/.well-known/recount-keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignedHead {
    /// The exact text that was signed: a JSON object with run, events, head, time and key.
    pub statement: String,
    /// Ed25519 over the `Sig_structure` of COSE, as base64url.
    pub signature: String,
    /// The same as a `COSE_Sign1`, as base64url.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cose: String,
}

/// What a prune removed from one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    pub run_id: String,
    /// How many events were removed.
    pub events: u64,
    /// The first event that still exists.
    pub first_sequence: u64,
}

/// What pruning by policy removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Swept {
    pub runs: u64,
    pub events: u64,
    /// Whether another request may prune more: one request prunes a bounded number of runs.
    pub has_more: bool,
    /// Runs that the policy applies to and whose stored events are damaged. They are skipped; a damaged run can only be
    /// deleted, with its task or its session.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// With `dry_run`: the runs that would be pruned, up to 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_ids: Vec<String>,
}

/// A deleted run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunDeleted {
    pub run_id: String,
}

/// A deleted task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    pub task_id: String,
    /// How many runs were erased.
    pub runs: u64,
}

/// A deleted artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactGone {
    pub artifact_id: String,
    /// The run that created it; absent for an upload that no run had used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Whether its bytes were removed; they stay while another artifact has the same.
    pub bytes_removed: bool,
}

/// A deleted session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionDeleted {
    pub session_id: String,
    /// How many runs were erased.
    pub runs: u64,
}

/// An imported run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Import {
    pub run_id: String,
    pub events: u64,
    pub head: String,
    /// Whether this request imported it; if not, the same run was already here.
    pub imported: bool,
    /// The position of the last event in the store.
    pub position: u64,
}

/// What the policy of this server says about a call that another agent makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyVerdict {
    /// `allow`, `ask` or `block`.
    pub verdict: String,
    /// `low`, `medium` or `high`.
    pub risk_level: String,
    pub irreversible: bool,
    /// The rule that blocks the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    /// Why the call needs an approval, or is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Digest of the rules; absent without a policy file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,
}

/// An approval that also holds for later calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    pub id: String,
    /// Its scope: `run`, `session` or `workspace`.
    pub scope: String,
    /// The run in which it was given.
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The session of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The folder, for the scope `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The approval that created it.
    pub approval_id: String,
    /// The tool.
    pub kind: String,
    pub summary: String,
    /// The preview that was approved, with secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// `command`, `diff` or `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    /// Size of the complete preview in bytes, if `preview` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    pub given_by: String,
    pub given_at: String,
}

/// `/healthz` and `/readyz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub status: String,
    pub version: String,
}

/// An agent of this server, for applications and as a template for runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its model, unless an option or a request names another; the server's default if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tools that can be enabled.
    pub tools: Vec<AgentTool>,
    /// Its options.
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

/// An option of an agent.
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
    /// The default value; never shown for a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The values of a `select`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}
