//! A workspace, a data folder, a home, and a sandbox around them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use recount_agent::sandbox::{Mode, Sandbox, SandboxSettings, Surroundings};
use recount_agent::tool::{
    Cancel, Gone, HostJudge, HostVerdict, How, Job, Keep, Keeper, Kept, Outcome, OutputInLog, Rewritten,
    Teller, Terms, Tool,
};
use recount_agent::tools::shell::ShellExec;
use recount_event::family::artifact;
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::Redactor;
use recount_world::World;
use serde_json::{Value, json};
use std::sync::Mutex;

/// Both layers; each must work where these tests run.
pub(crate) const LAYERS: [Mode; 2] = [Mode::Bubblewrap, Mode::Landlock];

/// Long enough for any command that is to end by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);

pub(crate) struct Ground {
    _folder: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) terms: Terms,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) kept: Shelf,
    pub(crate) world: World,
}

/// Keeps in memory.
#[derive(Default)]
pub(crate) struct Shelf(pub(crate) Mutex<Vec<OutputInLog>>);

impl Keeper for Shelf {
    fn keep(&self, thing: Keep) -> BoxFuture<'_, Result<Kept, String>> {
        Box::pin(async move { panic!("commands store nothing apart, and this was: {thing:?}") })
    }

    fn keep_output(&self, output: OutputInLog) -> BoxFuture<'_, Result<Kept, String>> {
        Box::pin(async move {
            let mut outputs = self.0.lock().unwrap();
            let id = ForeignId::parse(&format!("art_{}", outputs.len() + 1)).unwrap();
            let created = artifact::Created::new(id.clone(), "command_output".to_owned());
            outputs.push(output);
            Ok(Kept { id, created: Payload::ArtifactCreated(Box::new(created)).into() })
        })
    }
}

/// Is shown all of stdout so far.
pub(crate) type Look = Box<dyn FnMut(&[u8]) + Send>;

/// Remembers what is told, and lets a test look on.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) on_stdout: Option<Look>,
}

impl Teller for Told {
    fn tell(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, Gone>> {
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

/// Which stream, and its bytes.
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

impl Ground {
    pub(crate) async fn new(mode: Mode) -> Ground {
        Ground::with(SandboxSettings { mode, ..SandboxSettings::default() }).await
    }

    pub(crate) async fn with(settings: SandboxSettings) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let [data, home] = ["data", "home"].map(|name| at.join(name));
        // Where runs have it: in the data folder.
        let workspace = data.join("workspaces/one");
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(data.join("token"), "the-token\n").unwrap();
        std::fs::write(home.join(".ssh/id"), "the-key\n").unwrap();
        let around = Surroundings {
            data: Some(data.clone()),
            home: Some(home.clone()),
            helper: Some(env!("CARGO_BIN_EXE_recount-warden").into()),
        };
        let sandbox = Sandbox::probe(settings, around).await.unwrap_or_else(|error| panic!("{error}"));
        let terms = Terms {
            root: workspace.clone(),
            network: false,
            command_timeout: PATIENCE,
            output_bytes_max: 64 << 20,
            hosts: HostJudge::new(|_, _| HostVerdict::Blocked("these tools reach no host".to_owned())),
        };
        Ground {
            _folder: folder,
            workspace,
            data,
            home,
            sandbox: Arc::new(sandbox),
            terms,
            redactor: Arc::new(Redactor::off()),
            kept: Shelf::default(),
            world: World::seeded(7, 1_000),
        }
    }

    pub(crate) async fn carry(
        &self,
        tool: &dyn Tool,
        input: Value,
        told: &mut Told,
        cancel: Cancel,
    ) -> Outcome {
        let outcome = self.carry_with(tool, input, told, cancel).await;
        // The last of the output comes with the end.
        let last = outcome.events.iter().filter(|draft| chunk(draft).is_some()).cloned().collect();
        told.tell(last).await.unwrap();
        outcome
    }

    /// The same with any teller, which is not told the last of the output.
    pub(crate) async fn carry_with(
        &self,
        tool: &dyn Tool,
        input: Value,
        teller: &mut dyn Teller,
        cancel: Cancel,
    ) -> Outcome {
        let job = Job {
            call: &ForeignId::parse("call_1").unwrap(),
            tool_name: tool.name(),
            turn_index: Some(0),
            input: &input,
            approved: None,
            rewritten: Rewritten::default(),
            terms: &self.terms,
            teller,
            keeper: &self.kept,
            redactor: &self.redactor,
            cancel,
            world: &self.world,
        };
        tool.run(job).await
    }

    /// Runs a command line to its end.
    pub(crate) async fn shell(&self, command: &str) -> Ran {
        let (_stop, cancel) = Cancel::new();
        let mut told = Told::default();
        let tool = ShellExec::new(self.sandbox.clone());
        let outcome = self.carry(&tool, json!({ "command": command }), &mut told, cancel).await;
        Ran { told, outcome }
    }

    pub(crate) fn is_bwrap(&self) -> bool {
        self.sandbox.layer().name() == "bwrap"
    }
}

/// A command that was run.
pub(crate) struct Ran {
    pub(crate) told: Told,
    pub(crate) outcome: Outcome,
}

impl Ran {
    pub(crate) fn exited(&self) -> Value {
        of_type(&self.outcome.events, "tool.shell.exited").remove(0)
    }

    pub(crate) fn bytes(&self, stream: &str) -> Vec<u8> {
        let chunks = self.told.drafts.iter().filter_map(chunk);
        chunks.filter(|(name, _)| name == stream).flat_map(|(_, bytes)| bytes).collect()
    }

    pub(crate) fn text(&self, stream: &str) -> String {
        String::from_utf8(self.bytes(stream)).unwrap()
    }

    /// How the call ended, in a word.
    pub(crate) fn how(&self) -> &'static str {
        match &self.outcome.how {
            How::Completed => "completed",
            How::Cancelled => "cancelled",
            How::Failed { code, .. } | How::TimedOut { code, .. } => code,
        }
    }
}
