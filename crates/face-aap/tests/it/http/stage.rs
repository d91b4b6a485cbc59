//! The face on a complete server in memory, with helpers for common steps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::BytesMut;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use recount_agent::model::{ModelsSettings, Registry};
use recount_agent::sandbox::{Mode, Sandbox, SandboxContext, SandboxSettings};
use recount_agent::tool::{Assessment, Job, Outcome, OutcomeStatus, Targets, Tool};
use recount_agent::tools::Tools;
use recount_agent::{Agent, Settings, Workspaces};
use recount_engine::{
    AgentOption, Caller, Capabilities, Engine, Framing, Narrowing, OptionKind, Profile, Profiles, Redactor,
    RequestContext, Scope, ToolInfo,
};
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use recount_event::{Event, Json, RunId, SessionId, codec};
use recount_face_aap::{FaceState, router};
use recount_transport::RequestId;
use recount_world::World;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use crate::http::counted::Counted;

/// How long a test waits for what must come; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(600);

struct Bare;

impl Framing for Bare {
    fn frame(&self, _cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(envelope);
        out.extend_from_slice(b"\n");
    }
}

/// What a stage is set with.
pub(crate) struct Scenery {
    /// The script of the model.
    pub(crate) script: String,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) streams_max: usize,
    pub(crate) redactor: Arc<Redactor>,
}

impl Default for Scenery {
    fn default() -> Self {
        Scenery {
            script: String::new(),
            profiles: vec![clerk()],
            streams_max: 100,
            redactor: Arc::new(Redactor::shapes()),
        }
    }
}

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) world: World,
    pub(crate) store: Arc<Counted>,
    router: Router,
    pub(crate) toys: Toys,
    folder: tempfile::TempDir,
}

/// What the tools of the stage were made to do.
#[derive(Clone)]
pub(crate) struct Toys {
    /// How often `lookup` was executed.
    pub(crate) lookups: Arc<AtomicUsize>,
    /// How often `gate` was started, and what it waits for.
    pub(crate) at_gate: watch::Sender<usize>,
    pub(crate) gate: Arc<Semaphore>,
}

impl Toys {
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }

    /// Returns when this many have come to the gate.
    pub(crate) async fn at_gate(&self, count: usize) {
        let mut at = self.at_gate.subscribe();
        tokio::time::timeout(PATIENCE, at.wait_for(|at| *at >= count))
            .await
            .expect("they came to the gate")
            .unwrap();
    }

    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1000);
    }
}

/// An agent with tools to be enabled, a hidden one, and options of each kind.
pub(crate) fn clerk() -> Profile {
    let tool = |name: &str| ToolInfo {
        name: name.into(),
        title: None,
        description: format!("A toy called {name}."),
        parameters: Json::parse(r#"{"type":"object"}"#).unwrap(),
    };
    let option = |name: &str, kind: OptionKind, default: &str| AgentOption {
        name: name.into(),
        title: None,
        description: None,
        kind,
        default: default.into(),
        sets: None,
    };
    Profile {
        name: "clerk".into(),
        title: Some("The clerk".into()),
        version: "1.2.0".into(),
        description: Some("Looks things up.".into()),
        model: Some("play/it".into()),
        system: Some("Speak {language}.".into()),
        tools: vec![tool("lookup"), tool("gate"), tool("fails"), tool("ask_user"), tool("hand_off")],
        hidden: vec!["todo_write".into()],
        options: vec![
            option("language", OptionKind::Text, "English"),
            option("tone", OptionKind::Select(vec!["warm".into(), "dry".into()]), "warm"),
            option("key", OptionKind::Secret, ""),
        ],
        capabilities: Capabilities { images_http: true, ..Capabilities::default() },
        thinking: true,
        ..Profile::default()
    }
}

impl Stage {
    pub(crate) async fn with(script: &str) -> Stage {
        Stage::of(Scenery { script: script.to_owned(), ..Scenery::default() }).await
    }

    pub(crate) async fn of(scenery: Scenery) -> Stage {
        let world = World::real();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let store = Arc::new(Counted::default());
        let engine = Engine::open_with_key(
            store.clone(),
            world.clone(),
            Arc::new(Bare),
            scenery.redactor,
            Some([7; 32]),
        )
        .await
        .unwrap();
        std::fs::write(root.join("script.toml"), &scenery.script).unwrap();
        let models = "default = 'play/it'\n[[prices]]\nmodel = 'play/*'\ninput_micros_usd = 1_000_000\n\
                      output_micros_usd = 2_000_000\n[providers.play]\nkind = 'scripted'\nscript = 'script.toml'\n";
        let models: ModelsSettings = toml::from_str(models).unwrap();
        let models = Registry::build(&models, &|_| None, &root, &world.clock).unwrap();
        let off = SandboxSettings { mode: Mode::Off, ..SandboxSettings::default() };
        let sandbox = Arc::new(Sandbox::probe(off, SandboxContext::default()).await.unwrap());
        let mut tools = Tools::standard();
        tools.add_commands(&sandbox);
        let toys =
            Toys { lookups: Arc::default(), at_gate: watch::channel(0).0, gate: Arc::new(Semaphore::new(0)) };
        for name in ["lookup", "gate", "fails"] {
            tools.add(Toy { name, toys: toys.clone() });
        }
        let profiles = Arc::new(Profiles::new(scenery.profiles));
        let workspaces = Workspaces {
            home: root.join("workspaces"),
            allowed: BTreeSet::from([root.join("work")]).into_iter().collect(),
            forbidden: [root.join("data")].into(),
        };
        let settings = Settings {
            sandbox_layer: "off".into(),
            sandboxed: true,
            system: Some(String::new()),
            profiles: profiles.clone(),
            ..Settings::new(models, tools, workspaces)
        };
        engine.catalogue().register_profiles(profiles.clone());
        engine.work().attach_performer(Arc::new(Agent::new(settings, world.clone())), 64).await.unwrap();
        let router = router(FaceState::new(profiles, scenery.streams_max));
        Stage { engine, world, store, router, toys, folder }
    }

    /// A folder that runs may work on.
    pub(crate) fn work(&self) -> String {
        let work = self.folder.path().canonicalize().unwrap().join("work");
        std::fs::create_dir_all(&work).unwrap();
        work.display().to_string()
    }

    /// The same with other agents to work with.
    pub(crate) fn with_agents(mut self, profiles: Vec<Profile>) -> Stage {
        self.router = router(FaceState::new(Arc::new(Profiles::new(profiles)), 100));
        self
    }

    /// A client with scopes.
    pub(crate) fn caller(&self, scopes: &[Scope], narrowing: Narrowing) -> (Caller, watch::Sender<bool>) {
        let (revoke, revoked) = watch::channel(false);
        let scopes = scopes.iter().copied().collect();
        (Caller::new("tok_1".into(), "ann".into(), scopes, narrowing, revoked, None), revoke)
    }

    pub(crate) async fn send(&self, request: Request<Body>, caller: Option<Caller>) -> Response {
        let mut request = request;
        request.extensions_mut().insert(RequestId("req_1".into()));
        if let Some(caller) = caller {
            request.extensions_mut().insert(RequestContext { engine: self.engine.clone(), caller });
        }
        let sent = self.router.clone().oneshot(request);
        tokio::time::timeout(PATIENCE, sent).await.expect("an answer came").unwrap()
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: impl Into<Body>) -> Reply {
        self.ask_as(Caller::operator(), method, path, &[], body).await
    }

    pub(crate) async fn ask_as(
        &self,
        caller: Caller,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.send(request.body(body.into()).unwrap(), Some(caller)).await;
        Reply { status: response.status(), headers: response.headers().clone(), body: response.into_body() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::POST, path, body.to_string()).await
    }

    /// A session with whatever is chosen beside the agent's name.
    pub(crate) async fn session(&self, body: Value) -> String {
        let reply = self.post("/sessions", &body).await;
        let (status, body) = reply.json().await;
        assert_eq!(status, 201, "{body}");
        body["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn turn(&self, session: &str, body: &Value) -> Reply {
        self.post(&format!("/sessions/{session}/turns"), body).await
    }

    /// Sends a user message and reads the stream of pieces to its end.
    pub(crate) async fn send_message(&self, session: &str, text: &str) -> TurnStream {
        self.stream_turn(session, &user_message(text, "delta")).await
    }

    pub(crate) async fn stream_turn(&self, session: &str, body: &Value) -> TurnStream {
        self.turn(session, body).await.into_turn_stream().await
    }

    /// The runs of a session, the oldest first.
    pub(crate) async fn runs(&self, session: &str) -> Vec<RunId> {
        let session: SessionId = session.parse().unwrap();
        let query = recount_engine::ListQuery { limit: 100, ..Default::default() };
        let runs = self.engine.catalogue().list_session_runs(session, &query).await.unwrap().items;
        runs.iter().rev().map(|row| row.id).collect()
    }

    pub(crate) async fn events(&self, run: RunId) -> Vec<Event> {
        let (page, _) = self.engine.read().read_run(run, None, 10_000).await.unwrap();
        let events: Vec<Event> = page.iter().map(|(_, bytes)| codec::decode(bytes).unwrap()).collect();
        assert_eq!(recount_run::audit(&events), None);
        events
    }
}

/// One user message.
pub(crate) fn user_message(text: &str, stream: &str) -> Value {
    json!({ "stream": stream, "messages": [{ "role": "user", "content": text }] })
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) async fn text(self) -> String {
        let collected =
            tokio::time::timeout(PATIENCE, self.body.collect()).await.expect("the body ended").unwrap();
        String::from_utf8(collected.to_bytes().to_vec()).unwrap()
    }

    pub(crate) async fn json(self) -> (u16, Value) {
        let status = self.status.as_u16();
        let text = self.text().await;
        (status, serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text:?}")))
    }

    /// The status and code of a refusal, which is worded as all are.
    pub(crate) async fn refused(self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/json");
        let (status, body) = self.json().await;
        assert!(body["error"].as_str().is_some_and(|error| !error.is_empty()), "{body}");
        assert!(body["retryable"].is_boolean() && body["requestId"] == "req_1", "{body}");
        (status, body["code"].as_str().unwrap().to_owned())
    }

    /// The next piece of a stream; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("something came")?;
        Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    }

    /// A stream up to its end, each frame held against the rules of the protocol.
    pub(crate) async fn into_turn_stream(self) -> TurnStream {
        let turn = self.header("aap-turn-id").to_owned();
        let status = self.status;
        let is_stream = self.header("content-type") == "text/event-stream";
        let text = self.text().await;
        assert!(status == 200 && is_stream, "{status} {text}");
        TurnStream { turn, frames: frames(&text) }
    }
}

/// The frames of a stream.
pub(crate) fn frames(text: &str) -> Vec<Frame> {
    assert!(text.is_empty() || text.ends_with("\n\n"), "the last frame is cut: {text:?}");
    let blocks = text.split("\n\n").filter(|block| !block.is_empty());
    blocks.filter(|block| !block.starts_with(':')).map(Frame::read).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Frame {
    fn read(block: &str) -> Frame {
        let mut frame = Frame { id: None, name: String::new(), data: Value::Null };
        for line in block.lines() {
            match line.split_once(": ").unwrap() {
                ("id", id) => frame.id = Some(id.to_owned()),
                ("event", name) => frame.name = name.to_owned(),
                ("data", data) => frame.data = serde_json::from_str(data).unwrap(),
                other => panic!("what is {other:?}?"),
            }
        }
        assert!(frame.data.is_object() && frame.data.get("event").is_none(), "{block}");
        frame
    }
}

/// A whole stream.
#[derive(Debug)]
pub(crate) struct TurnStream {
    pub(crate) turn: String,
    pub(crate) frames: Vec<Frame>,
}

impl TurnStream {
    /// The names of the frames; consecutive deltas of one kind count once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.frames.iter().map(|frame| frame.name.as_str()).collect();
        names.dedup_by(|a, b| a == b && a.ends_with("_delta"));
        names
    }

    pub(crate) fn text(&self) -> String {
        let text = |frame: &Frame| {
            let key = match frame.name.as_str() {
                "text_delta" => "delta",
                "text" => "text",
                _ => return None,
            };
            Some(frame.data[key].as_str().unwrap().to_owned())
        };
        self.frames.iter().filter_map(text).collect()
    }

    pub(crate) fn stop(&self) -> &Value {
        let last = self.frames.last().expect("there are frames");
        assert_eq!(last.name, "turn_stop", "{:?}", self.names());
        assert_eq!(self.frames.iter().filter(|frame| frame.name == "turn_stop").count(), 1);
        &last.data
    }

    pub(crate) fn reason(&self) -> &str {
        self.stop()["stopReason"].as_str().unwrap()
    }

    /// The ids of the calls of a tool.
    pub(crate) fn calls(&self, name: &str) -> Vec<String> {
        let is_it = |frame: &&Frame| frame.name == "tool_call" && frame.data["name"] == name;
        let id = |frame: &Frame| frame.data["toolCallId"].as_str().unwrap().to_owned();
        self.frames.iter().filter(is_it).map(id).collect()
    }
}

/// A tool that does what its name suggests.
struct Toy {
    name: &'static str,
    toys: Toys,
}

impl Tool for Toy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> &'static str {
        "search"
    }

    fn description(&self) -> &'static str {
        "A toy."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn assess(&self, _input: &Value) -> Assessment {
        Assessment {
            risk: RiskLevel::Low,
            reversibility: Reversibility::Reversible,
            summary: self.name.to_owned(),
            action: "Play.".to_owned(),
            consequence: "None.".to_owned(),
            targets: Targets::default(),
            writes: false,
        }
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut status = OutcomeStatus::Completed;
            let output = match self.name {
                "lookup" => {
                    self.toys.lookups.fetch_add(1, Ordering::SeqCst);
                    format!("value of {}", job.input.get("key").and_then(Value::as_str).unwrap_or("nothing"))
                }
                "fails" => {
                    status = OutcomeStatus::Failed { code: "broken", error: "the toy is broken".into() };
                    "the toy is broken".to_owned()
                }
                _ => {
                    self.toys.at_gate.send_modify(|at| *at += 1);
                    tokio::select! {
                        () = job.cancel.cancelled() => {}
                        permit = self.toys.gate.acquire() => permit.unwrap().forget(),
                    }
                    "went through".to_owned()
                }
            };
            Outcome {
                status,
                summary: output.clone(),
                output,
                events: Vec::new(),
                artifact: None,
                image: None,
            }
        })
    }
}

/// All that is stored of a session, as text.
pub(crate) async fn stored(stage: &Stage, session: &str) -> String {
    let mut stored = String::new();
    for run in stage.runs(session).await {
        for (_, bytes) in stage.engine.read().read_run(run, None, 10_000).await.unwrap().0 {
            stored.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
    stored
}
