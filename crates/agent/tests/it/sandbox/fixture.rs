//! The test fixture: a workspace, a data folder, a home, and a sandbox with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use recount_agent::sandbox::{Mode, Sandbox, SandboxContext, SandboxSettings};
use recount_agent::tool::{
    ArtifactStore, Cancel, EventReporter, FileJudge, FileRevisions, HostJudge, HostVerdict, Job, NewArtifact,
    Outcome, OutcomeStatus, OutputInLog, RunLost, StoredArtifact, Terms, Tool,
};
use recount_agent::tools::shell::ShellExec;
use recount_event::family::artifact;
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::Redactor;
use recount_world::World;
use serde_json::{Value, json};
use std::sync::Mutex;

/// Both layers; each must work on the machine of the tests.
pub(crate) const LAYERS: [Mode; 2] = [Mode::Bubblewrap, Mode::Landlock];

/// Long enough for any command that ends by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);

pub(crate) struct Fixture {
    _folder: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) terms: Terms,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) artifacts: MemoryArtifacts,
    pub(crate) world: World,
}

/// Stores artifacts in memory.
#[derive(Default)]
pub(crate) struct MemoryArtifacts(pub(crate) Mutex<Vec<OutputInLog>>);

impl ArtifactStore for MemoryArtifacts {
    fn store(&self, artifact: NewArtifact) -> BoxFuture<'_, Result<StoredArtifact, String>> {
        Box::pin(async move { panic!("commands store nothing apart, and this was: {artifact:?}") })
    }

    fn store_output(&self, output: OutputInLog) -> BoxFuture<'_, Result<StoredArtifact, String>> {
        Box::pin(async move {
            let mut outputs = self.0.lock().unwrap();
            let id = ForeignId::parse(&format!("art_{}", outputs.len() + 1)).unwrap();
            let created = artifact::Created::new(id.clone(), "command_output".to_owned());
            outputs.push(output);
            Ok(StoredArtifact { id, created: Payload::ArtifactCreated(Box::new(created)).into() })
        })
    }
}

/// Called with all of stdout so far.
pub(crate) type StdoutObserver = Box<dyn FnMut(&[u8]) + Send>;

/// Records the reported events, and lets a test observe stdout.
#[derive(Default)]
pub(crate) struct RecordingReporter {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) on_stdout: Option<StdoutObserver>,
}

impl EventReporter for RecordingReporter {
    fn report(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, RunLost>> {
        Box::pin(async move {
            let first = self.drafts.len() as u64;
            for draft in drafts {
                let (stream, bytes) = match chunk(&draft) {
                    Some(chunk) => chunk,
                    None => {
                        self.drafts.push(draft);
                        continue;
                    }
                };
                if stream == "stdout" {
                    self.stdout.extend(bytes);
                    if let Some(look) = &mut self.on_stdout {
                        look(&self.stdout);
                    }
                }
                self.drafts.push(draft);
            }
            Ok(first)
        })
    }
}

/// The stream of an output chunk, and its bytes.
pub(crate) fn chunk(draft: &Draft) -> Option<(String, Vec<u8>)> {
    use base64::Engine as _;
    let Payload::ToolShellOutputChunk(chunk) = &draft.payload else { return None };
    let bytes = match chunk.encoding {
        None => chunk.data.clone().into_bytes(),
        Some(_) => base64::engine::general_purpose::STANDARD.decode(&chunk.data).unwrap(),
    };
    let stream = data(draft)["stream"].as_str().unwrap().to_owned();
    Some((stream, bytes))
}

pub(crate) fn data(draft: &Draft) -> Value {
    serde_json::from_str(&draft.payload.write()).unwrap()
}

pub(crate) fn of_type<'a>(drafts: impl IntoIterator<Item = &'a Draft>, name: &str) -> Vec<Value> {
    drafts.into_iter().filter(|draft| draft.payload.type_name() == name).map(data).collect()
}

impl Fixture {
    pub(crate) async fn new(mode: Mode) -> Fixture {
        Fixture::with(SandboxSettings { mode, ..SandboxSettings::default() }).await
    }

    pub(crate) async fn with(settings: SandboxSettings) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let [data, home] = ["data", "home"].map(|name| at.join(name));
        // In the data folder, as for runs.
        let workspace = data.join("workspaces/one");
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(data.join("token"), "the-token\n").unwrap();
        std::fs::write(home.join(".ssh/id"), "the-key\n").unwrap();
        let context = SandboxContext {
            data: Some(data.clone()),
            home: Some(home.clone()),
            helper: Some(env!("CARGO_BIN_EXE_recount-warden").into()),
        };
        let sandbox = Sandbox::probe(settings, context).await.unwrap_or_else(|error| panic!("{error}"));
        let terms = Terms {
            root: workspace.clone(),
            network: false,
            command_timeout: PATIENCE,
            output_bytes_max: 64 << 20,
            hosts: HostJudge::new(|_, _| HostVerdict::Blocked("these tools reach no host".to_owned())),
            files: FileJudge::new(|_, _| false),
        };
        Fixture {
            _folder: folder,
            workspace,
            data,
            home,
            sandbox: Arc::new(sandbox),
            terms,
            redactor: Arc::new(Redactor::off()),
            artifacts: MemoryArtifacts::default(),
            world: World::seeded(7, 1_000),
        }
    }

    pub(crate) async fn run_tool(
        &self,
        tool: &dyn Tool,
        input: Value,
        reporter: &mut RecordingReporter,
        cancel: Cancel,
    ) -> Outcome {
        let outcome = self.run_tool_with(tool, input, reporter, cancel).await;
        // The last output is part of the outcome.
        let last = outcome.events.iter().filter(|draft| chunk(draft).is_some()).cloned().collect();
        reporter.report(last).await.unwrap();
        outcome
    }

    /// Runs a tool with any reporter. The reporter does not receive the last output.
    pub(crate) async fn run_tool_with(
        &self,
        tool: &dyn Tool,
        input: Value,
        reporter: &mut dyn EventReporter,
        cancel: Cancel,
    ) -> Outcome {
        let job = Job {
            call: &ForeignId::parse("call_1").unwrap(),
            tool_name: tool.name(),
            turn_index: Some(0),
            input: &input,
            approved: None,
            revisions: FileRevisions::default(),
            terms: &self.terms,
            reporter,
            artifacts: &self.artifacts,
            redactor: &self.redactor,
            cancel,
            world: &self.world,
        };
        tool.run(job).await
    }

    /// Runs a command line to its end.
    pub(crate) async fn shell(&self, command: &str) -> CommandRun {
        let (_stop, cancel) = Cancel::new();
        let mut reporter = RecordingReporter::default();
        let tool = ShellExec::new(self.sandbox.clone());
        let outcome = self.run_tool(&tool, json!({ "command": command }), &mut reporter, cancel).await;
        CommandRun { reporter, outcome }
    }

    pub(crate) fn is_bwrap(&self) -> bool {
        self.sandbox.layer().name() == "bwrap"
    }
}

/// A command that was run.
pub(crate) struct CommandRun {
    pub(crate) reporter: RecordingReporter,
    pub(crate) outcome: Outcome,
}

impl CommandRun {
    pub(crate) fn exited(&self) -> Value {
        of_type(&self.outcome.events, "tool.shell.exited").remove(0)
    }

    pub(crate) fn bytes(&self, stream: &str) -> Vec<u8> {
        let chunks = self.reporter.drafts.iter().filter_map(chunk);
        chunks.filter(|(name, _)| name == stream).flat_map(|(_, bytes)| bytes).collect()
    }

    pub(crate) fn text(&self, stream: &str) -> String {
        String::from_utf8(self.bytes(stream)).unwrap()
    }

    /// The status or error code of the call.
    pub(crate) fn status(&self) -> &'static str {
        match &self.outcome.status {
            OutcomeStatus::Completed => "completed",
            OutcomeStatus::Cancelled => "cancelled",
            OutcomeStatus::Failed { code, .. } | OutcomeStatus::TimedOut { code, .. } => code,
        }
    }
}
