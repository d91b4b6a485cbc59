//! Test setup for runs: an engine with an agent, and helpers for common steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use recount_agent::conversation::Conversation;
use recount_agent::hooks::{HookSettings, Hooks};
use recount_agent::mcp::{McpServers, McpSettings};
use recount_agent::model::{Message, ModelsSettings, Part, Registry};
use recount_agent::policy::Policy;
use recount_agent::sandbox::{Mode, Sandbox, SandboxContext, SandboxSettings};
use recount_agent::tools::Tools;
use recount_agent::web::Web;
use recount_agent::{Agent, Experimental, Settings, Workspaces};
use recount_engine::{
    Delivery, Engine, Framing, ListQuery, NewRun, Profiles, Redactor, RunConfig, SEAL_KEY_BYTES,
};
use recount_event::family::approval::AllowanceScope;
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Event, ForeignId, Payload, RunId, SessionId, TaskId, codec};
use recount_faulty_store::{Disk, FaultyStore};
use recount_run::{CallAnswer, CallResolution, CancelledBy, Command};
use recount_world::{Kind, ManualClock, World};
use tokio::sync::OnceCell;

use crate::runs::listeners;
use crate::runs::seen;
use crate::runs::toys;

struct LineFraming;

impl Framing for LineFraming {
    fn frame(&self, _cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(envelope);
        out.extend_from_slice(b"\n");
    }
}

/// The configuration of a scene.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The script of the model `play/it`.
    pub(crate) script: String,
    /// Appended to `[models.providers.play]`.
    pub(crate) play: &'static str,
    /// Appended to `[models]`.
    pub(crate) models: String,
    /// The model of runs that name none.
    pub(crate) default: &'static str,
    pub(crate) policy: String,
    pub(crate) at_once: usize,
    pub(crate) tools_at_once: usize,
    pub(crate) mcp_at_once: usize,
    /// Replaces the system clock.
    pub(crate) clock: Option<Arc<ManualClock>>,
    pub(crate) redactor: Arc<Redactor>,
    /// The key that seals originals; without one, each start has another key.
    pub(crate) key: Option<[u8; SEAL_KEY_BYTES]>,
    pub(crate) profiles: Arc<Profiles>,
    /// `[mcp]`.
    pub(crate) mcp: String,
    /// The sandbox of its processes; by default that of commands.
    pub(crate) mcp_sandbox: Option<Arc<Sandbox>>,
    /// Adds the web tools.
    pub(crate) web: Option<Web>,
    /// `[hooks]`; programs are relative to the scene's folder.
    pub(crate) hooks: String,
    /// The system prompt; empty for none, and `None` for the default.
    pub(crate) system: Option<String>,
    pub(crate) experimental: Experimental,
    /// Whether runs may start child runs.
    pub(crate) child_runs: bool,
    /// How long the test waits for events; not a measurement.
    pub(crate) patience: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            script: String::new(),
            play: "",
            models: String::new(),
            default: "play/it",
            policy: String::new(),
            at_once: 8,
            tools_at_once: 8,
            mcp_at_once: 8,
            clock: None,
            redactor: Arc::new(Redactor::shapes()),
            key: Some([7; SEAL_KEY_BYTES]),
            profiles: Arc::default(),
            mcp: String::new(),
            mcp_sandbox: None,
            web: None,
            hooks: String::new(),
            system: Some(String::new()),
            experimental: Experimental::default(),
            child_runs: false,
            patience: PATIENCE,
        }
    }
}

pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) agent: Agent,
    pub(crate) disk: Arc<Disk>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) setup: Setup,
    /// State of the test tools, which survives restarts.
    pub(crate) toys: toys::Box,
}

/// Mode "off"; the sandbox has its own tests.
static SANDBOX: OnceCell<Arc<Sandbox>> = OnceCell::const_new();

/// The default wait of a test.
const PATIENCE: Duration = Duration::from_secs(600);

impl Scene {
    pub(crate) async fn with(script: &str) -> Self {
        Scene::with_policy(script, "", 8).await
    }

    pub(crate) async fn with_policy(script: &str, policy: &str, at_once: usize) -> Self {
        let (script, policy) = (script.to_owned(), policy.to_owned());
        Scene::with_setup(Setup { script, policy, at_once, ..Setup::default() }).await
    }

    pub(crate) async fn with_setup(setup: Setup) -> Self {
        let disk = Disk::recording();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let toys = toys::Box::default();
        let (engine, agent) = open(&disk, folder.path(), &setup, &toys).await;
        Scene { engine, agent, disk, folder, setup, toys }
    }

    /// Ends everything immediately and opens it again.
    pub(crate) async fn restart(&mut self) {
        let tasks = &self.engine.world().tasks;
        tasks.end_all(Duration::ZERO).await;
        // The tasks of an ended process do nothing. Here, blocking work such as copying a folder would continue.
        assert_eq!(tasks.end(Kind::Effect, PATIENCE).await, 0, "something of the last process goes on");
        (self.engine, self.agent) = open(&self.disk, self.folder.path(), &self.setup, &self.toys).await;
    }

    /// The source folder of workspaces.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    /// Writes a file there.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Starts a model run that works in a copy.
    pub(crate) async fn start(&self, text: &str) -> RunId {
        self.start_with(text, RunConfig::default(), None, None).await
    }

    pub(crate) async fn start_with(
        &self,
        text: &str,
        order: RunConfig,
        task: Option<TaskId>,
        session: Option<SessionId>,
    ) -> RunId {
        self.queue(model_run(text), order, task, session).await
    }

    /// Starts a run that is one call.
    pub(crate) async fn call(&self, kind: RunKind, order: RunConfig) -> RunId {
        self.queue(Queued::new(kind), order, None, None).await
    }

    pub(crate) async fn queue(
        &self,
        queued: Queued,
        order: RunConfig,
        task: Option<TaskId>,
        session: Option<SessionId>,
    ) -> RunId {
        self.try_queue(queued, order, task, session).await.unwrap()
    }

    pub(crate) async fn try_queue(
        &self,
        mut queued: Queued,
        mut order: RunConfig,
        task: Option<TaskId>,
        session: Option<SessionId>,
    ) -> Result<RunId, recount_engine::Error> {
        queued.workspace_mode.get_or_insert_with(|| "clone".into());
        order.workspace_source.get_or_insert_with(|| self.work().display().to_string());
        queued.config = Some(order.written());
        let new = NewRun { queued, task, session, resumed_from: None };
        Ok(self.engine.write().create_run(new).await?.0)
    }

    /// All events up to the first one of this type, or up to the ending.
    pub(crate) async fn until(&self, run: RunId, type_name: &str) -> Vec<Event> {
        self.until_after(run, None, type_name).await
    }

    /// The same for the events after a sequence.
    pub(crate) async fn until_after(&self, run: RunId, after: Option<u64>, type_name: &str) -> Vec<Event> {
        let events = tokio::time::timeout(self.setup.patience, async {
            let mut follow = self.engine.read().follow_run(run, after).await.unwrap();
            let mut events = Vec::new();
            loop {
                match follow.next().await.unwrap() {
                    Delivery::Frames { bytes, .. } => {
                        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                            let event = codec::decode(line).unwrap();
                            let is_it = event.type_name() == type_name;
                            events.push(event);
                            if is_it {
                                return events;
                            }
                        }
                    }
                    Delivery::Closed => return events,
                    Delivery::CaughtUp | Delivery::Passed { .. } | Delivery::Gap { .. } => {}
                    Delivery::Damaged(damage) => panic!("{damage}"),
                }
            }
        })
        .await;
        match events {
            Ok(events) => events,
            Err(_) => panic!("{type_name} did not come: {:#?}", self.stored_lines(run).await),
        }
    }

    /// All events of a run, once it has ended. Audits them. If no run is active, also checks the catalogue against the
    /// log.
    pub(crate) async fn ended(&self, run: RunId) -> Vec<Event> {
        self.until(run, "no such type").await;
        let events = self.all(run).await;
        let query = ListQuery { limit: 100, ..ListQuery::default() };
        let runs = self.engine.catalogue().list_runs(&query).await.unwrap().items;
        if runs.iter().all(recount_engine::RunRow::has_ended) {
            let problems = recount_engine::check_catalogue(&*FaultyStore::new(&self.disk)).await.unwrap();
            assert!(problems.is_empty(), "{problems:#?}");
        }
        events
    }

    /// All current events of a run, including those after its ending.
    pub(crate) async fn all(&self, run: RunId) -> Vec<Event> {
        let events = self.stored_lines(run).await;
        let events: Vec<Event> = events.iter().map(|line| codec::decode(line.as_bytes()).unwrap()).collect();
        // A pruned run is incomplete and cannot be audited.
        let is_whole = events.first().is_some_and(|event| event.sequence == 0);
        if let Some(illegal) = recount_run::audit(&events).filter(|_| is_whole) {
            panic!("{illegal:?}: {:#?}", types(&events));
        }
        if is_whole {
            listeners::check(&events);
        }
        seen::note(events.iter().map(Event::type_name));
        events
    }

    pub(crate) async fn stored_lines(&self, run: RunId) -> Vec<String> {
        let (page, _) = self.engine.read().read_run(run, None, 10_000).await.unwrap();
        page.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// Approves and answers everything until the run has ended.
    pub(crate) async fn approve_all(&self, run: RunId) -> Vec<Event> {
        let mut after = None;
        let mut done = BTreeSet::new();
        loop {
            let events = self.until_after(run, after, "run.waiting").await;
            let Some(last) = events.last() else { return self.ended(run).await };
            after = Some(last.sequence);
            if last.type_name() != "run.waiting" {
                return self.ended(run).await;
            }
            let by = || "ann".to_owned();
            for event in self.all(run).await {
                let command = match event.payload() {
                    Payload::ApprovalRequested(request) => Command::ResolveApproval {
                        approval_id: request.approval_id.clone(),
                        approve: true,
                        by: by(),
                        comment: None,
                        remember: None,
                    },
                    Payload::ClarificationRequested(request) => Command::AnswerClarification {
                        clarification_id: request.clarification_id.clone(),
                        response: recount_event::Json::parse("\"yes\"").unwrap(),
                        by: by(),
                        blocks: None,
                        config: None,
                    },
                    Payload::HandoffRequested(request) => Command::AcknowledgeHandoff {
                        handoff_id: request.handoff_id.clone(),
                        by: by(),
                        comment: None,
                    },
                    // Client calls are answered as done.
                    Payload::ToolInvoked(call) if call.executor.is_some_and(|by| by.as_str() == "client") => {
                        let done = recount_event::Json::parse("\"done\"").unwrap();
                        let resolution = CallResolution::Output { output: done, text: "done".to_owned() };
                        Command::AnswerCalls {
                            answers: vec![CallAnswer { tool_call_id: call.tool_call_id.clone(), resolution }],
                            by: by(),
                            via: "aap".into(),
                            config: None,
                            lenient: false,
                        }
                    }
                    _ => continue,
                };
                // Responses given before a restart count; one that the disk did not accept is repeated.
                while done.insert(event.sequence) {
                    let answered = self.engine.write().submit(run, command.clone()).await;
                    if matches!(answered, Err(recount_engine::Error::Failed(_))) {
                        done.remove(&event.sequence);
                    }
                }
            }
        }
    }

    pub(crate) async fn decide(&self, run: RunId, events: &[Event], approve: bool) {
        let ids = approval_ids(events);
        let approval_id =
            ids.first().unwrap_or_else(|| panic!("no approval was requested: {:?}", types(events)));
        self.resolve(run, approval_id, approve).await.unwrap();
    }

    /// Approves the first request and adds an allowance.
    pub(crate) async fn always(
        &self,
        run: RunId,
        events: &[Event],
        scope: AllowanceScope,
    ) -> Result<(), recount_engine::Error> {
        let approval_id = approval_ids(events)[0].clone();
        let command = Command::ResolveApproval {
            approval_id,
            approve: true,
            by: "ann".into(),
            comment: None,
            remember: Some(scope),
        };
        self.engine.write().submit(run, command).await.map(drop)
    }

    pub(crate) async fn resolve(
        &self,
        run: RunId,
        approval_id: &ForeignId,
        approve: bool,
    ) -> Result<(), recount_engine::Error> {
        let comment = (!approve).then(|| "not today".to_owned());
        let approval_id = approval_id.clone();
        let command =
            Command::ResolveApproval { approval_id, approve, by: "ann".into(), comment, remember: None };
        self.engine.write().submit(run, command).await.map(drop)
    }

    pub(crate) async fn answer(&self, run: RunId, id: ForeignId, response: &str) {
        let response = recount_event::Json::parse(response).unwrap();
        let command = Command::AnswerClarification {
            clarification_id: id,
            response,
            by: "ann".into(),
            blocks: None,
            config: None,
        };
        self.engine.write().submit(run, command).await.unwrap();
    }

    pub(crate) async fn cancel(&self, run: RunId) {
        let command = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
        self.engine.write().submit(run, command).await.unwrap();
    }
}

/// A model run with this request.
pub(crate) fn model_run(text: &str) -> Queued {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.request_text = Some(text.into());
    queued
}

async fn open(disk: &Arc<Disk>, folder: &Path, setup: &Setup, toys: &toys::Box) -> (Engine, Agent) {
    let mut world = World::real();
    if let Some(clock) = &setup.clock {
        world.clock = clock.clone();
    }
    let root = folder.canonicalize().unwrap();
    let store = FaultyStore::new(disk);
    let redactor = setup.redactor.clone();
    let engine = Engine::open_with_key(store, world.clone(), Arc::new(LineFraming), redactor, setup.key)
        .await
        .unwrap();
    std::fs::write(root.join("script.toml"), &setup.script).unwrap();
    let models = format!(
        "default = '{}'\n{}\n[[prices]]\nmodel = 'play/*'\ninput_micros_usd = 1_000_000\n\
         output_micros_usd = 2_000_000\n[providers.play]\nkind = 'scripted'\nscript = 'script.toml'\n{}\n",
        setup.default, setup.models, setup.play
    );
    let models: ModelsSettings = toml::from_str(&models).unwrap_or_else(|why| panic!("{why}: {models}"));
    let mut models = Registry::build(&models, &|_| None, &root, &world.clock).unwrap();
    models.models.by_name.insert("broken".into(), Arc::new(toys::Broken));
    let sandbox = SANDBOX.get_or_init(|| async {
        let off = SandboxSettings { mode: Mode::Off, ..SandboxSettings::default() };
        Arc::new(Sandbox::probe(off, SandboxContext::default()).await.unwrap())
    });
    let sandbox = sandbox.await;
    let mcp: McpSettings = toml::from_str(&setup.mcp).unwrap_or_else(|why| panic!("{why}: {}", setup.mcp));
    let environment = |name: &str| (name == "TOY_PASSED").then(|| "passed on".to_owned());
    let mcp = McpServers::build(&mcp, &environment, &root).unwrap();
    let hooks: BTreeMap<String, HookSettings> =
        toml::from_str(&setup.hooks).unwrap_or_else(|why| panic!("{why}: {}", setup.hooks));
    let machine = |name: &str| std::env::var(name).ok();
    let hooks = Hooks::build(&hooks, &machine, &root).unwrap();
    let mut tools = Tools::standard();
    tools.set_at_once(setup.tools_at_once);
    tools.add_commands(sandbox);
    if let Some(web) = &setup.web {
        web.add_to(&mut tools);
    }
    toys.put_into(&mut tools);
    if setup.child_runs {
        tools.add_child_runs();
    }
    let workspaces = Workspaces {
        home: root.join("workspaces"),
        allowed: [root.join("work"), root.join("data")].into(),
        forbidden: [root.join("data")].into(),
    };
    let settings = Settings {
        policy: if setup.policy.is_empty() {
            Policy::default()
        } else {
            Policy::parse(&setup.policy).unwrap()
        },
        sandbox_layer: "off".into(),
        // Declares commands sandboxed, so that not every one needs approval.
        sandboxed: true,
        system: setup.system.clone(),
        profiles: setup.profiles.clone(),
        hooks,
        experimental: setup.experimental,
        mcp: mcp
            .in_sandbox(Some(setup.mcp_sandbox.as_ref().unwrap_or(sandbox).clone()), None)
            .with_places(setup.mcp_at_once),
        ..Settings::new(models, tools, workspaces)
    };
    let agent = Agent::new(settings, world);
    engine.work().attach_performer(Arc::new(agent.clone()), setup.at_once).await.unwrap();
    (engine, agent)
}

/// The types of events, with consecutive deltas as one.
pub(crate) fn types(events: &[Event]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(Event::type_name).collect();
    types.dedup_by(|a, b| a == b && *a == "assistant.text_delta");
    types
}

/// Like [`types`], without those of every run.
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

/// The number of events of a type.
pub(crate) fn count(events: &[Event], type_name: &str) -> usize {
    events.iter().filter(|event| event.type_name() == type_name).count()
}

/// The ids of the approval requests, in order.
pub(crate) fn approval_ids(events: &[Event]) -> Vec<ForeignId> {
    let request = |event: &Event| match event.payload() {
        Payload::ApprovalRequested(request) => Some(request.approval_id.clone()),
        _ => None,
    };
    events.iter().filter_map(request).collect()
}

/// The code and the message of each refusal, failure, timeout and cancellation.
pub(crate) fn refusals(events: &[Event]) -> Vec<(String, String)> {
    let refusal = |event: &Event| match event.payload() {
        Payload::ToolRefused(no) => Some((no.code.as_str().to_owned(), no.message.clone())),
        Payload::ToolFailed(end) | Payload::ToolTimedOut(end) | Payload::ToolCancelled(end) => {
            Some((end.code.clone().unwrap_or_default(), end.error.clone().unwrap_or_default()))
        }
        _ => None,
    };
    events.iter().filter_map(refusal).collect()
}

/// The tool results that the model gets with its next request, each with whether it is an error.
pub(crate) fn results(events: &[Event]) -> Vec<(String, bool)> {
    let mut conversation = Conversation::default();
    events.iter().for_each(|event| conversation.event(event));
    let mut texts = Vec::new();
    for message in conversation.messages(None) {
        let Message::Results(results) = message else { continue };
        for result in results {
            let text = |part: &Part| match part {
                Part::Text(text) => text.clone(),
                Part::Image { mime, .. } => format!("[{mime}]"),
                Part::ImageUrl(url) => format!("[{url}]"),
            };
            texts.push((result.parts.iter().map(text).collect(), result.is_error));
        }
    }
    texts
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
                panic!("there is no {}: {:?}", stringify!($variant), crate::runs::scene::types(events))
            })
    }};
}

pub(crate) use first;
