//! The face on an engine, with helpers for common steps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::BytesMut;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use recount_aaep::{Body as AaepBody, Event as AaepEvent};
use recount_engine::{BatchId, Caller, Engine, Framing, Narrowing, NewRun, RequestContext, Scope};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{ForeignId, Json, RunId, TaskId, door};
use recount_face_aaep::{AttemptLog, FaceState, RoomAgent, TokenKey, router};
use recount_log::MemoryStore;
use recount_run::Command;
use recount_transport::sse::Decoder;
use recount_world::World;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// How long a test waits for what must come; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(600);

struct Bare;

impl Framing for Bare {
    fn frame(&self, _cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(envelope);
        out.extend_from_slice(b"\n");
    }
}

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) world: World,
    pub(crate) state: FaceState,
    router: Router,
}

impl Stage {
    pub(crate) async fn new() -> Stage {
        Stage::with_room(100).await
    }

    pub(crate) async fn with_room(subscriptions_max: usize) -> Stage {
        let world = World::real();
        let engine = tenant(&world).await;
        let state = FaceState::new(world.clone(), TokenKey::derive(b"a secret of a test"), subscriptions_max);
        Stage { engine, world, router: router(state.clone()), state }
    }

    /// In a world whose time a test may pause.
    pub(crate) async fn seeded(world: World) -> Stage {
        let engine = tenant(&world).await;
        let state = FaceState::new(world.clone(), TokenKey::derive(b"a secret of a test"), 10_000);
        Stage { engine, world, router: router(state.clone()), state }
    }

    /// In a world whose time a test may pause, with a log of attempts to reply.
    pub(crate) async fn logging(world: World, log: Arc<dyn AttemptLog>) -> Stage {
        let engine = tenant(&world).await;
        let key = TokenKey::derive(b"a secret of a test");
        let state = FaceState::new(world.clone(), key, 100).with_attempt_log(log);
        Stage { engine, world, router: router(state.clone()), state }
    }

    /// The face as a process has it that began later: it knows the store, and none of the subscriptions.
    pub(crate) fn restarted(&self) -> Stage {
        let state = FaceState::new(self.world.clone(), TokenKey::derive(b"a secret of a test"), 100);
        Stage { engine: self.engine.clone(), world: self.world.clone(), router: router(state.clone()), state }
    }

    pub(crate) async fn task(&self) -> TaskId {
        self.engine.write().create_task(None, None).await.unwrap().0.id
    }

    /// The same with an agent of a room.
    pub(crate) fn with_agent(mut self, agent: Arc<dyn RoomAgent>, announces_sessions: bool) -> Stage {
        self.state = self.state.with_agent(agent, announces_sessions);
        self.router = router(self.state.clone());
        self
    }

    /// An external run that has started.
    pub(crate) async fn run(&self) -> Run {
        self.run_in(&self.engine, None).await
    }

    pub(crate) async fn run_in(&self, engine: &Engine, task: Option<TaskId>) -> Run {
        let queued = Queued { request_text: Some("Book a room.".into()), ..Queued::new(RunKind::External) };
        let new = NewRun { queued, task, session: None, resumed_from: None };
        let (id, _) = engine.write().create_run(new).await.unwrap();
        let mut run = Run { engine: engine.clone(), id, seq: 0, open_text: String::new() };
        run.report(&[("run.started", json!({})), ("turn.started", json!({ "turn_index": 0 }))]).await;
        run
    }

    pub(crate) async fn send(&self, request: Request<Body>, visitor: Option<RequestContext>) -> Response {
        let mut request = request;
        if let Some(visitor) = visitor {
            request.extensions_mut().insert(visitor);
        }
        let sent = self.router.clone().oneshot(request);
        tokio::time::timeout(PATIENCE, sent).await.expect("a response").unwrap()
    }

    pub(crate) fn operator(&self) -> RequestContext {
        RequestContext { engine: self.engine.clone(), caller: Caller::operator() }
    }

    /// A caller with a token of its own.
    pub(crate) fn visitor(
        &self,
        id: &str,
        scopes: &[Scope],
        narrowing: Narrowing,
    ) -> (RequestContext, watch::Sender<bool>) {
        let (revoke, revoked) = watch::channel(false);
        let scopes: BTreeSet<Scope> = scopes.iter().copied().collect();
        let caller = Caller::new(id.into(), id.into(), scopes, narrowing, revoked, None);
        (RequestContext { engine: self.engine.clone(), caller }, revoke)
    }

    pub(crate) async fn post(&self, visitor: &RequestContext, path: &str, body: &Value) -> Reply {
        let request =
            Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        Reply::of(self.send(request, Some(visitor.clone())).await)
    }

    pub(crate) async fn get(
        &self,
        visitor: &RequestContext,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Reply {
        let mut request =
            Request::builder().method(Method::GET).uri(path).header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        Reply::of(self.send(request.body(Body::empty()).unwrap(), Some(visitor.clone())).await)
    }

    /// A subscription that is accepted; the path of its stream.
    pub(crate) async fn subscribe(&self, visitor: &RequestContext, request: &Value) -> String {
        let reply = self.post(visitor, "/aaep/v1/subscriptions", request).await;
        let location = reply.header("location").to_owned();
        let (status, body) = reply.json().await;
        assert_eq!(status, 201, "{body}");
        assert_eq!(
            location,
            format!("/aaep/v1/events?subscription_id={}", body["subscription_id"].as_str().unwrap())
        );
        location
    }

    pub(crate) async fn listen(
        &self,
        visitor: &RequestContext,
        location: &str,
        last_event_id: Option<&str>,
    ) -> Listener {
        let reply = self.get(visitor, location, last_event_id).await;
        assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "text/event-stream"));
        Listener { body: reply.body, decoder: Decoder::new() }
    }
}

/// An engine on a store of its own, as each tenant has.
pub(crate) async fn tenant(world: &World) -> Engine {
    Engine::open(Arc::new(MemoryStore::default()), world.clone(), Arc::new(Bare)).await.unwrap()
}

/// An external run and its only producer.
pub(crate) struct Run {
    engine: Engine,
    pub(crate) id: RunId,
    seq: u64,
    /// The open text.
    open_text: String,
}

impl Run {
    pub(crate) async fn report(&mut self, events: &[(&str, Value)]) {
        let triple = BatchId { producer: ForeignId::parse("p").unwrap(), epoch: 0, seq: self.seq };
        self.seq += 1;
        let drafts =
            events.iter().map(|(name, data)| door::draft(name, &data.to_string()).unwrap()).collect();
        self.engine.write().ingest(self.id, triple, drafts).await.unwrap();
    }

    /// One piece of its answer.
    pub(crate) async fn write(&mut self, text: &str) {
        self.open_text += text;
        let data = json!({ "turn_index": 0, "block_index": 0, "delta": text });
        self.report(&[("assistant.text_delta", data)]).await;
    }

    /// A question that waits for an answer.
    pub(crate) async fn ask_question(&mut self, id: &str) {
        let question = json!({
            "clarification_id": id, "question": "Which one?", "context": "Two fit.", "choices": ["a", "b"],
            "default_response": "a", "timeout_seconds": 600,
        });
        self.report(&[("clarification.requested", question)]).await;
    }

    /// Another client answers one of its questions.
    pub(crate) async fn answer(&self, question: &str, answer: &str) {
        let command = Command::AnswerClarification {
            clarification_id: ForeignId::parse(question).unwrap(),
            response: Json::of(&answer).unwrap(),
            blocks: None,
            by: "caller".into(),
            config: None,
        };
        self.engine.write().submit(self.id, command).await.unwrap();
    }

    pub(crate) async fn finish(&mut self) {
        self.end("run.finished", json!({ "final_status": "completed" })).await;
    }

    pub(crate) async fn fail(&mut self, data: Value) {
        self.end("run.failed", data).await;
    }

    async fn end(&mut self, ending: &str, data: Value) {
        let text = std::mem::take(&mut self.open_text);
        let mut events = Vec::new();
        if !text.is_empty() {
            let data = json!({ "turn_index": 0, "block_index": 0, "text": text });
            events.push(("assistant.text_complete", data));
        }
        events.push(("turn.completed", json!({ "turn_index": 0, "stop_reason": "end_turn" })));
        events.push((ending, data));
        self.report(&events).await;
    }
}

/// A request.
pub(crate) fn request(capabilities: Value, own: Value) -> Value {
    json!({
        "type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": capabilities, "extensions": { "recount": own },
    })
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Body,
}

impl Reply {
    fn of(response: Response) -> Reply {
        Reply { status: response.status(), headers: response.headers().clone(), body: response.into_body() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) async fn json(self) -> (u16, Value) {
        let collected =
            tokio::time::timeout(PATIENCE, self.body.collect()).await.expect("the body ends").unwrap();
        let text = String::from_utf8(collected.to_bytes().to_vec()).unwrap();
        (self.status.as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

/// A stream that is read.
pub(crate) struct Listener {
    body: Body,
    decoder: Decoder,
}

/// An event and the id of its frame.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedEvent {
    pub(crate) id: Option<String>,
    pub(crate) event: AaepEvent,
}

impl Listener {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<ReceivedEvent> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("an event or the end of the stream")
    }

    async fn read(&mut self) -> Option<ReceivedEvent> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                assert_eq!(frame.event.as_deref(), Some("aaep.event"), "{frame:?}");
                let event = AaepEvent::parse(&frame.data).unwrap();
                return Some(ReceivedEvent { id: frame.id, event });
            }
            let piece = self.body.frame().await?.unwrap().into_data().unwrap();
            self.decoder.feed(&piece).unwrap();
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<ReceivedEvent> {
        let mut received = Vec::new();
        while let Some(next) = self.next().await {
            received.push(next);
        }
        received
    }

    /// The next event of a stream that continues.
    pub(crate) async fn one(&mut self) -> ReceivedEvent {
        self.next().await.expect("the stream goes on")
    }

    /// Everything up to the first event that this holds for.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&AaepBody) -> bool) -> Vec<ReceivedEvent> {
        let mut received = Vec::new();
        loop {
            let next = self.next().await.expect("it comes before the end of the stream");
            let found = is_it(&next.event.body);
            received.push(next);
            if found {
                return received;
            }
        }
    }
}

/// The summary of an event.
pub(crate) fn summary(received: &ReceivedEvent) -> &str {
    received.event.summaries.normal.as_deref().unwrap_or_default()
}

/// The names of the events' types.
pub(crate) fn types(received: &[ReceivedEvent]) -> Vec<&str> {
    received.iter().map(|received| received.event.type_name().trim_start_matches("aaep:agent.")).collect()
}

/// The text of all output.
pub(crate) fn text(received: &[ReceivedEvent]) -> String {
    let chunk = |received: &ReceivedEvent| match &received.event.body {
        AaepBody::OutputStreaming(output) => output.chunk.clone(),
        _ => String::new(),
    };
    received.iter().map(chunk).collect()
}
