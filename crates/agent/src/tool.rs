//! What every tool is: how it is described to a model, what harm a call can do, and how it is carried out.
//!
//! Look at [`Tool`]. A tool reports its own typed events; `tool.invoked` and the outcome are written by who runs
//! it. It must never know models, policy or faces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
pub use recount_engine::{OutputInLog, Target};
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use recount_event::family::{clarification, handoff};
use recount_event::{Draft, ForeignId};
use recount_redact::Redactor;
use recount_world::World;
use serde_json::Value;
use tokio::sync::watch;

use crate::approved;
pub use crate::approved::{Approved, FileChange, Rewritten};

/// One tool.
pub trait Tool: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// `shell`, `git`, `file`, `search`, `todo`, `ask`, `web`, `run` or `mcp`; written to `tool.invoked`.
    fn kind(&self) -> &'static str;

    /// For the model.
    fn description(&self) -> &str;

    /// A JSON Schema of its input: an object that admits no unknown property.
    fn schema(&self) -> Value;

    /// Why no call can be made, where the server lacks what it needs.
    fn unavailable(&self) -> Option<&'static str> {
        None
    }

    /// Of a tool of an MCP server: where it is from, and what the configuration says of its calls.
    fn origin(&self) -> Option<&McpOrigin> {
        None
    }

    /// Whether no call ever changes anything, so that several may run side by side.
    fn reads_only(&self) -> bool {
        false
    }

    /// Whether a call starts a run, whose ending is the outcome. The worker does that.
    fn spawns(&self) -> bool {
        false
    }

    /// What a call would do. Pure; `input` fits the schema.
    fn assess(&self, input: &Value) -> Assessment;

    /// What a person reads before allowing a call: all of what it will do. May read files of the workspace, and waits
    /// for them.
    fn preview(&self, input: &Value, _root: &Path) -> Preview {
        Preview::of_input(input)
    }

    /// A tool that asks a person is not run: this is asked instead, and the answer is its output.
    fn asks(&self, _call: &ForeignId, _input: &Value) -> Option<Ask> {
        None
    }

    /// Carries a call out. `tool.invoked` is durable by now. Must end soon after `job.cancel` says so.
    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome>;
}

/// Where a tool of an MCP server is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOrigin {
    pub server: String,
    /// As the server calls it.
    pub tool: String,
    pub approval: Approval,
}

/// What calls of a server's tools need, beside the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// The policy decides.
    Auto,
    #[default]
    RequireApproval,
    Block,
}

/// What a person is asked. The ids of the prompt are the call's own, with another prefix, set by who asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    Clarification(Box<clarification::Requested>),
    Handoff(Box<handoff::Requested>),
}

/// What harm a call can do, and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    pub risk: RiskLevel,
    pub reversibility: Reversibility,
    /// The call in one line, such as the command or the path.
    pub summary: String,
    /// What will be done, in a sentence.
    pub action: String,
    /// What follows from it, in a sentence.
    pub consequence: String,
    pub targets: Targets,
    /// Whether it changes anything outside of memory.
    pub writes: bool,
}

/// What a call will do, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// `command`, `diff` or `input`.
    pub kind: &'static str,
    pub text: String,
    /// Of a difference: the files that it changes.
    pub changes: Vec<FileChange>,
}

impl Preview {
    pub fn command(line: &str) -> Self {
        Preview { kind: "command", text: line.to_owned(), changes: Vec::new() }
    }

    /// The input, for tools that have nothing better to show.
    pub fn of_input(input: &Value) -> Self {
        let text = serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string());
        Preview { kind: "input", text, changes: Vec::new() }
    }

    /// What an approval is bound to: of a difference the files as they are and what becomes of them.
    pub fn binding(&self) -> String {
        if self.kind != approved::DIFF {
            return self.text.clone();
        }
        approved::binding(&self.changes)
    }
}

/// What rules of a policy look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// As the call names them.
    pub paths: Vec<String>,
    pub hosts: Vec<String>,
    pub command: Option<String>,
}

/// A call to be carried out, and all it may use.
pub struct Job<'a> {
    pub call: &'a ForeignId,
    pub tool_name: &'a str,
    pub turn_index: Option<u64>,
    pub input: &'a Value,
    /// What a person allowed of it, where one was asked: files are changed so and not otherwise.
    pub approved: Option<Approved>,
    /// The files that calls of this run changed, to which it adds its own.
    pub rewritten: Rewritten,
    pub terms: &'a Terms,
    pub teller: &'a mut dyn Teller,
    pub keeper: &'a dyn Keeper,
    pub redactor: &'a Arc<Redactor>,
    pub cancel: Cancel,
    pub world: &'a World,
}

/// What holds for all calls of a run.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The workspace's folder, which exists and is no symlink.
    pub root: PathBuf,
    /// Whether commands may use the network.
    pub network: bool,
    /// How long a command may take when its call does not say; it may say less.
    pub command_timeout: std::time::Duration,
    /// Bytes of output that a command may write before it is stopped.
    pub output_bytes_max: u64,
    /// What the policy says of hosts that a call did not name.
    pub hosts: HostJudge,
}

/// Asks the policy about a host that a call comes to while it runs, such as that of a redirect. Cheap to clone.
#[derive(Clone)]
pub struct HostJudge(Arc<JudgeHost>);

type JudgeHost = dyn Fn(&str, &Assessment) -> HostVerdict + Send + Sync;

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostVerdict {
    Allowed,
    /// Only with an approval, of which this call has none: why.
    Asks(String),
    Blocked(String),
}

impl HostJudge {
    pub fn new(judge: impl Fn(&str, &Assessment) -> HostVerdict + Send + Sync + 'static) -> Self {
        HostJudge(Arc::new(judge))
    }

    /// Judges what a tool is about to do.
    pub fn judge(&self, tool: &str, assessment: &Assessment) -> HostVerdict {
        (self.0)(tool, assessment)
    }
}

impl std::fmt::Debug for HostJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostJudge")
    }
}

/// Where events are told that come while a call runs. Answers when they are durable, with the sequence of the first, or
/// of an event right before it.
pub trait Teller: Send {
    fn tell(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, Gone>>;
}

/// The run has ended or belongs to another worker: stop, and report nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run goes on without this worker, or has ended")]
pub struct Gone;

/// Where bytes are kept that are too large for the log, or that are worth keeping apart.
pub trait Keeper: Send + Sync {
    /// Keeps bytes and answers their name and the `artifact.created` that must be reported before the name is used.
    fn keep(&self, thing: Keep) -> BoxFuture<'_, Result<Kept, String>>;

    /// The same for the output of a command, which was told already and is not stored again.
    fn keep_output(&self, output: OutputInLog) -> BoxFuture<'_, Result<Kept, String>>;

    /// Some of what a call of this run was answered, or of a run that it continues, as the log has it.
    fn result<'a>(
        &'a self,
        call: &'a ForeignId,
        _range: ResultRange,
    ) -> BoxFuture<'a, Result<ResultPart, String>> {
        Box::pin(async move { Err(format!("nothing is known of {call}")) })
    }
}

/// Which bytes of a result are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultRange {
    pub offset: u64,
    pub limit: u64,
}

/// Some of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPart {
    pub text: String,
    /// Bytes of the whole result.
    pub total: u64,
}

/// Something to keep.
#[derive(Debug, Clone)]
pub struct Keep {
    /// `patch`, `file_snapshot`, `image` or another word of the protocol.
    pub kind: &'static str,
    pub mime: String,
    pub summary: Option<String>,
    pub bytes: Bytes,
    pub call: Option<ForeignId>,
    /// For a patch: the file, relative to the workspace, and the revision before (`sha256:…`, or `absent`).
    pub target: Option<Target>,
}

/// What was kept.
#[derive(Debug, Clone)]
pub struct Kept {
    pub id: ForeignId,
    pub created: Draft,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub how: How,
    /// What the model is told, whole. Who reports it keeps what is too long for the log as an artifact.
    pub output: String,
    /// One line for people.
    pub summary: String,
    /// The tool's last typed events, written in the same append as the outcome, before it.
    pub events: Vec<Draft>,
    /// Where the whole output is kept, when the tool has kept it itself.
    pub artifact: Option<ForeignId>,
    /// An image that the model is shown, by artifact: `(mime, bytes)`.
    pub image: Option<(String, Bytes)>,
}

/// Well, badly, out of time, or cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    Completed,
    /// `code` is stable and lower case; `error` for people.
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

/// The code of a call of an MCP server's tool that was carried out, and of which the tool says that it failed.
pub const TOOL_ERROR: &str = "tool_error";

impl How {
    /// The outcome of a call of an MCP server's tool, as its event has it.
    pub fn mcp_result(&self) -> &'static str {
        match self {
            How::Completed => "dispatched",
            How::Failed { code: TOOL_ERROR, .. } => TOOL_ERROR,
            How::Failed { .. } | How::TimedOut { .. } | How::Cancelled => "failed",
        }
    }
}

/// Whether a call is to be broken off. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

impl Cancel {
    /// A way to say so, and the listener.
    pub fn new() -> (watch::Sender<bool>, Cancel) {
        let (sender, receiver) = watch::channel(false);
        (sender, Cancel(receiver))
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the call is to be broken off, which includes that nobody listens any more.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            // The worker that ran the call is gone.
        }
    }
}
