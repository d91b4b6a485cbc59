//! Test setup for tools: a folder, an artifact store and an event recorder, both in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use recount_event::family::artifact;
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::Redactor;
use recount_world::World;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::schema;
use crate::tool::{
    ApprovedCall, ArtifactStore, Cancel, EventReporter, FileJudge, FileRevisions, HostJudge, HostVerdict,
    Job, NewArtifact, Outcome, OutcomeStatus, OutputInLog, RunLost, StoredArtifact, Terms, Tool,
};
use crate::tools::Tools;

pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) world: World,
    pub(crate) stored: MemoryArtifacts,
    pub(crate) recorder: EventRecorder,
    pub(crate) cancel: Cancel,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) approved: Option<ApprovedCall>,
    pub(crate) revisions: FileRevisions,
    /// The policy for hosts that no call named. By default all need approval.
    pub(crate) hosts: HostJudge,
    /// The policy for files that a search finds. By default none is hidden.
    pub(crate) file_judge: FileJudge,
}

/// Stores artifacts in memory.
#[derive(Default)]
pub(crate) struct MemoryArtifacts {
    pub(crate) artifacts: Mutex<Vec<NewArtifact>>,
    pub(crate) is_full: bool,
}

/// Records events, and runs a callback at each report.
#[derive(Default)]
pub(crate) struct EventRecorder {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) on_report: Option<Box<dyn FnMut() + Send>>,
    pub(crate) is_lost: bool,
}

impl ArtifactStore for MemoryArtifacts {
    fn store(&self, artifact: NewArtifact) -> BoxFuture<'_, Result<StoredArtifact, String>> {
        Box::pin(async move {
            if self.is_full {
                return Err("the disk is full".to_owned());
            }
            let mut artifacts = self.artifacts.lock().unwrap();
            let id = ForeignId::parse(&format!("art_{}", artifacts.len() + 1)).unwrap();
            let created = Payload::ArtifactCreated(Box::new(artifact::Created::new(
                id.clone(),
                artifact.kind.to_owned(),
            )));
            artifacts.push(artifact);
            Ok(StoredArtifact { id, created: created.into() })
        })
    }

    fn store_output(&self, _: OutputInLog) -> BoxFuture<'_, Result<StoredArtifact, String>> {
        // The tools under test run no commands.
        Box::pin(std::future::ready(Err("this shelf keeps no output".to_owned())))
    }
}

impl EventReporter for EventRecorder {
    fn report(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, RunLost>> {
        Box::pin(async move {
            if self.is_lost {
                return Err(RunLost);
            }
            let first = self.drafts.len() as u64;
            self.drafts.extend(drafts);
            if let Some(on_report) = &mut self.on_report {
                on_report();
            }
            Ok(first)
        })
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Scene::with(&[])
    }

    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let (stop, cancel) = Cancel::new();
        let scene = Scene {
            folder: tempfile::tempdir().unwrap(),
            world: World::seeded(7, 1_000),
            stored: MemoryArtifacts::default(),
            recorder: EventRecorder::default(),
            cancel,
            stop,
            approved: None,
            revisions: FileRevisions::default(),
            file_judge: FileJudge::new(|_, _| false),
            hosts: HostJudge::new(|_, _| {
                HostVerdict::NeedsApproval("calls that use the network need approval".to_owned())
            }),
        };
        for (path, text) in files {
            scene.put(path, text.as_bytes());
        }
        scene
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let at = self.at(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, bytes).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        String::from_utf8(std::fs::read(self.at(path)).unwrap()).unwrap()
    }

    /// All files with their content.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if path.is_file() {
                    let name = path.strip_prefix(self.root()).unwrap().to_string_lossy().into_owned();
                    files.insert(name, String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
                }
            }
        }
        files
    }

    pub(crate) async fn run(&mut self, name: &str, input: Value) -> Outcome {
        let tools = Tools::standard();
        let tool = tools.get(name).unwrap();
        schema::check(&tool.schema(), &input).expect("tests give what a model may give");
        self.run_tool(&**tool, input).await
    }

    pub(crate) async fn run_tool(&mut self, tool: &dyn Tool, input: Value) -> Outcome {
        let terms = Terms {
            root: self.root().to_owned(),
            network: false,
            command_timeout: crate::tools::limits::SEARCH_TIME_MAX,
            output_bytes_max: 1 << 20,
            hosts: self.hosts.clone(),
            files: self.file_judge.clone(),
        };
        let job = Job {
            call: &ForeignId::parse("call_1").unwrap(),
            tool_name: tool.name(),
            turn_index: Some(0),
            input: &input,
            approved: self.approved.clone(),
            revisions: self.revisions.clone(),
            terms: &terms,
            reporter: &mut self.recorder,
            artifacts: &self.stored,
            redactor: &Arc::new(Redactor::off()),
            cancel: self.cancel.clone(),
            world: &self.world,
        };
        tool.run(job).await
    }

    /// The reported events and those of the outcome, as `(type, data)`.
    pub(crate) fn events(&mut self, outcome: &Outcome) -> Vec<(String, Value)> {
        let drafts = self.recorder.drafts.drain(..).chain(outcome.events.iter().cloned());
        drafts.map(|draft| (draft.payload.type_name().to_owned(), data(&draft))).collect()
    }

    /// The kind and the bytes of the n-th artifact.
    pub(crate) fn stored(&self, index: usize) -> (String, Bytes) {
        let artifacts = self.stored.artifacts.lock().unwrap();
        (artifacts[index].kind.to_owned(), artifacts[index].bytes.clone())
    }
}

/// The `data` of an event.
pub(crate) fn data(draft: &Draft) -> Value {
    let text = draft.payload.write();
    serde_json::from_str(&text).unwrap_or_else(|error| json!({ "unreadable": error.to_string() }))
}

/// The code of a failure.
pub(crate) fn code(outcome: &Outcome) -> &'static str {
    match &outcome.status {
        OutcomeStatus::Failed { code, .. } | OutcomeStatus::TimedOut { code, .. } => code,
        OutcomeStatus::Completed => "completed",
        OutcomeStatus::Cancelled => "cancelled",
    }
}

/// Asserts a failure and returns the output for the model.
pub(crate) fn refused(outcome: &Outcome, expected: &str) -> String {
    assert_eq!(code(outcome), expected, "{outcome:?}");
    outcome.output.clone()
}
