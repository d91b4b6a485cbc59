//! The interface of every tool: its description for the model, the risk of a call, and its execution.
//!
//! It must never know models, policy or faces.
//!
//! Start at [`Tool`]. A tool reports its own typed events. Its caller writes `tool.invoked` and the outcome.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
pub use recount_engine::{OutputInLog, PatchTarget};
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use recount_event::family::{clarification, handoff};
use recount_event::{Draft, ForeignId};
use recount_redact::Redactor;
use recount_world::World;
use serde_json::Value;
use tokio::sync::watch;

use crate::approved;
pub use crate::approved::{ApprovedCall, FileChange, FileRevisions};

/// One tool.
pub trait Tool: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// `shell`, `git`, `file`, `search`, `todo`, `ask`, `web`, `run` or `mcp`; written to `tool.invoked`.
    fn kind(&self) -> &'static str;

    /// For the model.
    fn description(&self) -> &str;

    /// The JSON Schema of the input: an object without additional properties.
    fn schema(&self) -> Value;

    /// The reason why the tool cannot be called on this server, if there is one.
    fn unavailable(&self) -> Option<&'static str> {
        None
    }

    /// For a tool of an MCP server: the server, and whether its calls need approval.
    fn origin(&self) -> Option<&McpOrigin> {
        None
    }

    /// Whether no call ever changes anything, so that several calls may run concurrently.
    fn reads_only(&self) -> bool {
        false
    }

    /// Whether a call starts a child run. The worker starts it, and the run's ending is the outcome.
    fn spawns(&self) -> bool {
        false
    }

    /// Describes what a call would do. Pure; `input` is valid for the schema.
    fn assess(&self, input: &Value) -> Assessment;

    /// The complete text that a person reads before allowing a call. May read files of the workspace, so it may block.
    fn preview(&self, input: &Value, _root: &Path) -> Preview {
        Preview::of_input(input)
    }

    /// The prompt of a tool that asks a person. Such a tool is not run; the response is its output.
    fn prompt(&self, _call: &ForeignId, _input: &Value) -> Option<ToolPrompt> {
        None
    }

    /// Executes a call. `tool.invoked` is already durable. Must end soon after `job.cancel` is set.
    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome>;
}

/// The MCP server that a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOrigin {
    pub server: String,
    /// The name that the server uses.
    pub tool: String,
    pub approval: Approval,
}

/// Whether calls of a server's tools need approval, in addition to the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// The policy decides.
    Auto,
    #[default]
    RequireApproval,
    Block,
}

/// A prompt for a person. Its id is a copy of the call's id; the worker replaces it by an id of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolPrompt {
    Clarification(Box<clarification::Requested>),
    Handoff(Box<handoff::Requested>),
}

/// The risk of a call, and its targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    pub risk: RiskLevel,
    pub reversibility: Reversibility,
    /// The call in one line, such as the command or the path.
    pub summary: String,
    /// The effect, in one sentence.
    pub action: String,
    /// The consequence, in one sentence.
    pub consequence: String,
    pub targets: Targets,
    /// Whether the call changes anything outside of memory.
    pub writes: bool,
}

/// The complete effect of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// `command`, `diff` or `input`.
    pub kind: &'static str,
    pub text: String,
    /// For a diff: the files that it changes.
    pub changes: Vec<FileChange>,
}

impl Preview {
    pub fn command(line: &str) -> Self {
        Preview { kind: "command", text: line.to_owned(), changes: Vec::new() }
    }

    /// The input, for tools without a better preview.
    pub fn of_input(input: &Value) -> Self {
        let text = serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string());
        Preview { kind: "input", text, changes: Vec::new() }
    }

    /// The text that an approval is bound to. For a diff: the current revisions of the files and the changed lines.
    pub fn binding(&self) -> String {
        if self.kind != approved::DIFF {
            return self.text.clone();
        }
        approved::binding(&self.changes)
    }
}

/// The values that policy rules match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// As the call names them.
    pub paths: Vec<String>,
    pub hosts: Vec<String>,
    pub command: Option<String>,
}

/// A call to execute, and everything that it may use.
pub struct Job<'a> {
    pub call: &'a ForeignId,
    pub tool_name: &'a str,
    pub turn_index: Option<u64>,
    pub input: &'a Value,
    /// The approval of this call, if it needed one. Files may only be changed as approved.
    pub approved: Option<ApprovedCall>,
    /// The revisions that calls of this run wrote. The call adds its own.
    pub revisions: FileRevisions,
    pub terms: &'a Terms,
    pub reporter: &'a mut dyn EventReporter,
    pub artifacts: &'a dyn ArtifactStore,
    pub redactor: &'a Arc<Redactor>,
    pub cancel: Cancel,
    pub world: &'a World,
}

/// The settings that hold for all calls of a run.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The workspace folder. It exists and is not a symbolic link.
    pub root: PathBuf,
    /// Whether commands may use the network.
    pub network: bool,
    /// The timeout of commands. A call may set a shorter one.
    pub command_timeout: std::time::Duration,
    /// Bytes of output that a command may write before it is stopped.
    pub output_bytes_max: u64,
    /// The policy for hosts that the call did not name.
    pub hosts: HostJudge,
    /// The policy for files that the call did not name.
    pub files: FileJudge,
}

/// Asks the policy about a file that a tool finds, for example by a search. Cheap to clone.
#[derive(Clone)]
pub struct FileJudge(Arc<JudgeFile>);

type JudgeFile = dyn Fn(&str, &str) -> bool + Send + Sync;

impl FileJudge {
    pub fn new(hides: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        FileJudge(Arc::new(hides))
    }

    /// Whether a rule blocks reading the file, so that the results of the tool must not show it.
    pub fn hides(&self, tool: &str, path: &str) -> bool {
        (self.0)(tool, path)
    }
}

impl std::fmt::Debug for FileJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileJudge")
    }
}

/// Asks the policy about a host that appears during a call, for example through a redirect. Cheap to clone.
#[derive(Clone)]
pub struct HostJudge(Arc<JudgeHost>);

type JudgeHost = dyn Fn(&str, &Assessment) -> HostVerdict + Send + Sync;

/// The decision about a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostVerdict {
    Allowed,
    /// The host needs an approval, which this call does not have. Holds the reason.
    NeedsApproval(String),
    Blocked(String),
}

impl HostJudge {
    pub fn new(judge: impl Fn(&str, &Assessment) -> HostVerdict + Send + Sync + 'static) -> Self {
        HostJudge(Arc::new(judge))
    }

    /// Decides whether the tool may do what `assessment` describes.
    pub fn judge(&self, tool: &str, assessment: &Assessment) -> HostVerdict {
        (self.0)(tool, assessment)
    }
}

impl std::fmt::Debug for HostJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostJudge")
    }
}

/// Appends events while a call runs. Returns when they are durable, with the sequence of the first one or of an event
/// directly before it.
pub trait EventReporter: Send {
    fn report(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, RunLost>>;
}

/// The run has ended or belongs to another worker. Stop, and report nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another worker owns the run, or the run has ended")]
pub struct RunLost;

/// Stores artifacts: bytes that are too large for the log or that are worth storing separately.
pub trait ArtifactStore: Send + Sync {
    /// Stores bytes. Returns their id and the `artifact.created` event, which must be reported before the id is used.
    fn store(&self, artifact: NewArtifact) -> BoxFuture<'_, Result<StoredArtifact, String>>;

    /// Like `store`, for the output of a command. The log already has it, so it is not stored again.
    fn store_output(&self, output: OutputInLog) -> BoxFuture<'_, Result<StoredArtifact, String>>;

    /// Reads a part of the stored result of a call, of this run or of a run that it continues.
    fn result<'a>(
        &'a self,
        call: &'a ForeignId,
        _range: ResultRange,
    ) -> BoxFuture<'a, Result<ResultPart, String>> {
        Box::pin(async move { Err(format!("unknown call {call}")) })
    }
}

/// The byte range to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultRange {
    pub offset: u64,
    pub limit: u64,
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPart {
    pub text: String,
    /// The size of the whole result in bytes.
    pub total: u64,
}

/// Content to store.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// `patch`, `file_snapshot`, `image` or another kind of the protocol.
    pub kind: &'static str,
    pub mime: String,
    pub summary: Option<String>,
    pub bytes: Bytes,
    pub call: Option<ForeignId>,
    /// For a patch: the file, relative to the workspace, and the revision before (`sha256:…`, or `absent`).
    pub target: Option<PatchTarget>,
}

/// A stored artifact.
#[derive(Debug, Clone)]
pub struct StoredArtifact {
    pub id: ForeignId,
    pub created: Draft,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub status: OutcomeStatus,
    /// The complete output for the model. The caller stores output that is too long for the log as an artifact.
    pub output: String,
    /// One line for people.
    pub summary: String,
    /// The tool's last typed events, written in the same append as the outcome, before it.
    pub events: Vec<Draft>,
    /// The artifact with the complete output, if the tool stored it itself.
    pub artifact: Option<ForeignId>,
    /// An image to show to the model, stored as an artifact: `(mime, bytes)`.
    pub image: Option<(String, Bytes)>,
}

/// The status of an ended call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeStatus {
    Completed,
    /// `code` is stable and lower case; `error` is for people.
    Failed {
        code: &'static str,
        error: String,
    },
    TimedOut {
        code: &'static str,
        error: String,
    },
    Cancelled,
}

/// The code of a call of an MCP tool that was executed and whose result is marked as an error.
pub const TOOL_ERROR: &str = "tool_error";

impl OutcomeStatus {
    /// The `result` field of the event of an MCP call.
    pub fn mcp_result(&self) -> &'static str {
        match self {
            OutcomeStatus::Completed => "dispatched",
            OutcomeStatus::Failed { code: TOOL_ERROR, .. } => TOOL_ERROR,
            OutcomeStatus::Failed { .. } | OutcomeStatus::TimedOut { .. } | OutcomeStatus::Cancelled => {
                "failed"
            }
        }
    }
}

/// Tells a call whether to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

impl Cancel {
    /// Returns a sender that cancels, and its receiver.
    pub fn new() -> (watch::Sender<bool>, Cancel) {
        let (sender, receiver) = watch::channel(false);
        (sender, Cancel(receiver))
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the call is cancelled, or when the sender was dropped.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            // The worker that ran the call no longer exists.
        }
    }
}
