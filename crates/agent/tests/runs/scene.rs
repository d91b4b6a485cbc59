//! An engine with an agent that works for it, and short words for what tests do all the time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use recount_agent::model::scripted::Scripted;
use recount_agent::model::scripted::script::Script;
use recount_agent::model::{ModelName, Models, Price, Prices, Registry};
use recount_agent::policy::Policy;
use recount_agent::tools::Tools;
use recount_agent::{Agent, Settings, Workspaces};
use recount_engine::{Delivery, Engine, Framing, NewRun, Order};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Event, ForeignId, Payload, RunId, SessionId, TaskId, codec};
use recount_run::{CancelledBy, Command};
use recount_world::World;

use crate::store::{Disk, Opened};

struct Bare;

impl Framing for Bare {
    fn frame(&self, _cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(envelope);
        out.extend_from_slice(b"\n");
    }
}

pub(crate) struct Scene {
    pub(crate) engine: Engine,
    disk: Arc<Disk>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) script: String,
    pub(crate) policy: String,
    pub(crate) at_once: usize,
}

/// How long a test waits for what must come; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(30);

impl Scene {
    pub(crate) async fn with(script: &str) -> Self {
        Scene::under(script, "", 8).await
    }

    pub(crate) async fn under(script: &str, policy: &str, at_once: usize) -> Self {
        let disk = Disk::new();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let (script, policy) = (script.to_owned(), policy.to_owned());
        let engine = open(&disk, &folder, &script, &policy, at_once).await;
        Scene { engine, disk, folder, script, policy, at_once }
    }

    /// Ends everything where it stands and opens it again.
    pub(crate) async fn restart(&mut self) {
        self.engine.world().tasks.end_all(Duration::ZERO).await;
        self.engine = open(&self.disk, &self.folder, &self.script, &self.policy, self.at_once).await;
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    /// A run of the model that works in place.
    pub(crate) async fn ask(&self, text: &str) -> RunId {
        self.ask_for(text, Order::default(), None, None).await
    }

    pub(crate) async fn ask_for(
        &self,
        text: &str,
        order: Order,
        task: Option<TaskId>,
        session: Option<SessionId>,
    ) -> RunId {
        let mut queued = Queued::new(RunKind::AgentLoop);
        queued.request_text = Some(text.into());
        self.queue(queued, order, task, session).await
    }

    pub(crate) async fn queue(
        &self,
        mut queued: Queued,
        mut order: Order,
        task: Option<TaskId>,
        session: Option<SessionId>,
    ) -> RunId {
        queued.workspace_mode.get_or_insert_with(|| "clone".into());
        order.workspace_source = Some(self.work().display().to_string());
        queued.config = Some(order.written());
        let new = NewRun { queued, task, session, resumed_from: None };
        self.engine.create_run(new).await.unwrap().0
    }

    /// Everything up to the first event of this type, or up to the ending.
    pub(crate) async fn until(&self, run: RunId, type_name: &str) -> Vec<Event> {
        let told = tokio::time::timeout(PATIENCE, async {
            let mut follow = self.engine.follow_run(run, None).await.unwrap();
            let mut told = Vec::new();
            loop {
                match follow.next().await.unwrap() {
                    Delivery::Frames { bytes, .. } => {
                        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                            let event = codec::decode(line).unwrap();
                            let is_it = event.type_name() == type_name;
                            told.push(event);
                            if is_it {
                                return told;
                            }
                        }
                    }
                    Delivery::Closed => return told,
                    Delivery::CaughtUp | Delivery::Passed { .. } | Delivery::Gap { .. } => {}
                }
            }
        })
        .await;
        match told {
            Ok(told) => told,
            Err(_) => panic!("{type_name} did not come: {:#?}", self.told(run).await),
        }
    }

    /// The whole run, once it has ended, read by the other half of the grammar, too.
    pub(crate) async fn ended(&self, run: RunId) -> Vec<Event> {
        let told = self.until(run, "no such type").await;
        if let Some(illegal) = recount_run::audit(&told) {
            panic!("{illegal:?}: {:#?}", types(&told));
        }
        told
    }

    /// What there is of a run now.
    pub(crate) async fn told(&self, run: RunId) -> Vec<String> {
        let (page, _) = self.engine.read_run(run, None, 10_000).await.unwrap();
        page.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    pub(crate) async fn decide(&self, run: RunId, events: &[Event], approve: bool) {
        let Some(Payload::ApprovalRequested(asked)) = events
            .iter()
            .map(Event::payload)
            .find(|payload| matches!(payload, Payload::ApprovalRequested(_)))
        else {
            panic!("nobody was asked: {:?}", types(events));
        };
        let approval_id = asked.approval_id.clone();
        let comment = (!approve).then(|| "not today".to_owned());
        let command = Command::ResolveApproval { approval_id, approve, by: "ann".into(), comment };
        self.engine.submit(run, command).await.unwrap();
    }

    pub(crate) async fn answer(&self, run: RunId, id: ForeignId, response: &str) {
        let response = recount_event::Json::parse(response).unwrap();
        let command = Command::AnswerClarification { clarification_id: id, response, by: "ann".into() };
        self.engine.submit(run, command).await.unwrap();
    }

    pub(crate) async fn cancel(&self, run: RunId) {
        let command = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
        self.engine.submit(run, command).await.unwrap();
    }
}

async fn open(
    disk: &Arc<Disk>,
    folder: &tempfile::TempDir,
    script: &str,
    policy: &str,
    at_once: usize,
) -> Engine {
    let world = World::real();
    let root = folder.path().canonicalize().unwrap();
    let engine = Engine::open(Arc::new(Opened(disk.clone())), world.clone(), Arc::new(Bare)).await.unwrap();
    let mut models = Models::default();
    let script = Script::parse(script).unwrap();
    models.by_name.insert("play".into(), Arc::new(Scripted::new(script)));
    let price: Price =
        toml::from_str("model = 'play/*'\ninput_micros_usd = 1_000_000\noutput_micros_usd = 2_000_000")
            .unwrap();
    let models = Registry {
        models,
        default: Some(ModelName { provider: "play".into(), model: "it".into() }),
        prices: Prices::new(vec![price]),
        ..Registry::default()
    };
    let settings = Settings {
        models,
        tools: Tools::standard(),
        policy: if policy.is_empty() { Policy::default() } else { Policy::parse(policy).unwrap() },
        sandbox_layer: "off".into(),
        sandboxed: true,
        no_network: None,
        workspaces: Workspaces {
            home: root.join("workspaces"),
            allowed: [root.join("work")].into(),
            forbidden: [root.join("data")].into(),
        },
        system: None,
    };
    engine.employ(Arc::new(Agent::new(settings, world)), at_once).await.unwrap();
    engine
}

/// The types of events, deltas of one text told once.
pub(crate) fn types(events: &[Event]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(Event::type_name).collect();
    types.dedup_by(|a, b| a == b && *a == "assistant.text_delta");
    types
}

/// Like [`types`], without what stands in every run.
pub(crate) fn course(events: &[Event]) -> Vec<&str> {
    let usual = [
        "run.queued",
        "run.started",
        "user.message",
        "workspace.provisioned",
        "turn.started",
        "assistant.text_delta",
        "assistant.text_complete",
        "cost.tick",
        "run.checkpoint_saved",
    ];
    types(events).into_iter().filter(|name| !usual.contains(name)).collect()
}

/// The payload of the first event of a kind.
macro_rules! first {
    ($events:expr, $variant:ident) => {{
        let events = &$events;
        events
            .iter()
            .find_map(|event| match event.payload() {
                recount_event::Payload::$variant(payload) => Some((**payload).clone()),
                _ => None,
            })
            .unwrap_or_else(|| {
                panic!("there is no {}: {:?}", stringify!($variant), crate::scene::types(events))
            })
    }};
}

pub(crate) use first;
