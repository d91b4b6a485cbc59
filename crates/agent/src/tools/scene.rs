//! A folder, a keeper and a teller for tests of tools. What is kept and told is remembered in order.

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
    Approved, Cancel, Gone, HostJudge, HostVerdict, How, Job, Keep, Keeper, Kept, Outcome, OutputInLog,
    Rewritten, Teller, Terms, Tool,
};
use crate::tools::Tools;

pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) world: World,
    pub(crate) kept: Shelf,
    pub(crate) told: Told,
    pub(crate) cancel: Cancel,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) approved: Option<Approved>,
    pub(crate) rewritten: Rewritten,
    /// What the policy says of hosts that no call named; it asks about all if nothing else is set.
    pub(crate) hosts: HostJudge,
}

/// Keeps in memory.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) things: Mutex<Vec<Keep>>,
    pub(crate) refuses: bool,
}

/// Remembers what was told, and does something when it is.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) meanwhile: Option<Box<dyn FnMut() + Send>>,
    pub(crate) gone: bool,
}

impl Keeper for Shelf {
    fn keep(&self, thing: Keep) -> BoxFuture<'_, Result<Kept, String>> {
        Box::pin(async move {
            if self.refuses {
                return Err("the disk is full".to_owned());
            }
            let mut things = self.things.lock().unwrap();
            let id = ForeignId::parse(&format!("art_{}", things.len() + 1)).unwrap();
            let created =
                Payload::ArtifactCreated(Box::new(artifact::Created::new(id.clone(), thing.kind.to_owned())));
            things.push(thing);
            Ok(Kept { id, created: created.into() })
        })
    }

    fn keep_output(&self, _: OutputInLog) -> BoxFuture<'_, Result<Kept, String>> {
        // The tools with this scene run no commands.
        Box::pin(std::future::ready(Err("this shelf keeps no output".to_owned())))
    }
}

impl Teller for Told {
    fn tell(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, Gone>> {
        Box::pin(async move {
            if self.gone {
                return Err(Gone);
            }
            let first = self.drafts.len() as u64;
            self.drafts.extend(drafts);
            if let Some(meanwhile) = &mut self.meanwhile {
                meanwhile();
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
            kept: Shelf::default(),
            told: Told::default(),
            cancel,
            stop,
            approved: None,
            rewritten: Rewritten::default(),
            hosts: HostJudge::new(|_, _| {
                HostVerdict::Asks("calls that use the network are asked about".to_owned())
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

    /// All files, with what is in them.
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
        self.carry(&**tool, input).await
    }

    pub(crate) async fn carry(&mut self, tool: &dyn Tool, input: Value) -> Outcome {
        let terms = Terms {
            root: self.root().to_owned(),
            network: false,
            command_timeout: crate::tools::limits::SEARCH_TIME_MAX,
            output_bytes_max: 1 << 20,
            hosts: self.hosts.clone(),
        };
        let job = Job {
            call: &ForeignId::parse("call_1").unwrap(),
            tool_name: tool.name(),
            turn_index: Some(0),
            input: &input,
            approved: self.approved.clone(),
            rewritten: self.rewritten.clone(),
            terms: &terms,
            teller: &mut self.told,
            keeper: &self.kept,
            redactor: &Arc::new(Redactor::off()),
            cancel: self.cancel.clone(),
            world: &self.world,
        };
        tool.run(job).await
    }

    /// What was told and what the outcome tells, as `type data`.
    pub(crate) fn events(&mut self, outcome: &Outcome) -> Vec<(String, Value)> {
        let drafts = self.told.drafts.drain(..).chain(outcome.events.iter().cloned());
        drafts.map(|draft| (draft.payload.type_name().to_owned(), data(&draft))).collect()
    }

    /// The bytes kept as the n-th thing.
    pub(crate) fn kept(&self, index: usize) -> (String, Bytes) {
        let things = self.kept.things.lock().unwrap();
        (things[index].kind.to_owned(), things[index].bytes.clone())
    }
}

/// The `data` of an event.
pub(crate) fn data(draft: &Draft) -> Value {
    let text = draft.payload.write();
    serde_json::from_str(&text).unwrap_or_else(|error| json!({ "unreadable": error.to_string() }))
}

/// The code of a failure.
pub(crate) fn code(outcome: &Outcome) -> &'static str {
    match &outcome.how {
        How::Failed { code, .. } | How::TimedOut { code, .. } => code,
        How::Completed => "completed",
        How::Cancelled => "cancelled",
    }
}

/// Expects a failure and answers what the model is told.
pub(crate) fn refused(outcome: &Outcome, wanted: &str) -> String {
    assert_eq!(code(outcome), wanted, "{outcome:?}");
    outcome.output.clone()
}
