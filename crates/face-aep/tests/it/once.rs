//! `Idempotency-Key` and crashes: a process that dies at any append of a request, before or after it is durable, and
//! the request sent again to the next process. What is answered then is what the first answer would have been.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use recount_engine::{Caller, Engine, Visitor};
use recount_face_aep::{FaceState, SseFraming};
use recount_faulty_store::{AppendFault, Disk, FaultyStore};
use recount_world::World;
use serde_json::Value;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

const START_MS: u64 = 1_800_000_000_000;

/// How long a request is waited for whose append is never answered. The clock is the test's own.
const GIVEN_UP: Duration = Duration::from_secs(2);

/// What outlives a process, and the process.
struct House {
    disk: Arc<Disk>,
    lives: u64,
    process: Process,
}

struct Process {
    store: Arc<FaultyStore>,
    engine: Engine,
    router: Router,
}

/// All of an answer that a client acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reply {
    status: StatusCode,
    location: Option<String>,
    body: String,
    replayed: bool,
}

impl Process {
    async fn start(disk: &Arc<Disk>, life: u64, now_ms: u64) -> Process {
        let (store, world) = (FaultyStore::new(disk), World::seeded(life, now_ms));
        let engine = Engine::open(store.clone(), world.clone(), Arc::new(SseFraming)).await.unwrap();
        let visitor = Visitor { engine: engine.clone(), caller: Caller::operator() };
        let places = FaceState::new(recount_face_aep::limits::STREAMS_MAX);
        let router = recount_face_aep::router(places).layer(axum::Extension(visitor));
        let router = recount_face_aep::identified(router, world, engine.write().redactor().clone());
        Process { store, engine, router }
    }
}

impl House {
    async fn new() -> House {
        let disk = Disk::new();
        let process = Process::start(&disk, 0, START_MS).await;
        House { disk, lives: 1, process }
    }

    async fn post(&self, target: &str, key: Option<&str>, body: &str) -> Reply {
        let mut request = Request::builder().method(Method::POST).uri(target);
        request = request.header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let reply = self.process.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap());
        let (parts, body) = reply.await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = |headers: &HeaderMap, name: &str| {
            headers.get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        Reply {
            status: parts.status,
            location: text(&parts.headers, "location"),
            body: String::from_utf8(body.to_vec()).unwrap(),
            replayed: text(&parts.headers, "idempotency-replayed").as_deref() == Some("true"),
        }
    }

    async fn id(&self, target: &str, body: &str) -> String {
        let reply = self.post(target, None, body).await;
        assert!(reply.status.is_success(), "{target}: {}", reply.body);
        let said: Value = serde_json::from_str(&reply.body).unwrap();
        said["data"]["id"].as_str().unwrap().to_owned()
    }

    async fn tell(&self, run: &str, events: &str) {
        let body = format!(r#"{{"producer":{{"id":"p","epoch":0,"seq":0}},"events":[{events}]}}"#);
        let reply = self.post(&format!("/v1/runs/{run}/events"), None, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// Kills the process and starts the next one on what was durable.
    async fn crash(&mut self) {
        self.crash_until(START_MS).await;
    }

    async fn crash_until(&mut self, now_ms: u64) {
        self.process.store.cut();
        self.process.engine.world().tasks.end_all(Duration::ZERO).await;
        self.process = Process::start(&self.disk, self.lives, now_ms).await;
        self.lives += 1;
    }

    /// A task whose run asks for everything that can be asked for, and two runs that are over.
    async fn furnished() -> (House, Names) {
        let house = House::new().await;
        let task = house.id("/v1/tasks", r#"{"title":"t"}"#).await;
        let run = house.id(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await;
        let asks = r#"
            {"type":"run.started","data":{}},
            {"type":"approval.requested","data":{"approval_id":"a","tool_call_id":"c","kind":"shell","summary":"ls",
             "timeout_seconds":600,"default_decision":"reject"}},
            {"type":"clarification.requested","data":{"clarification_id":"q","question":"which?","timeout_seconds":600}},
            {"type":"handoff.requested","data":{"handoff_id":"h","reason":"hard","target_kind":"escalation_queue",
             "target_uri":"queue:x","summary_terse":"help","packaged_context":{"b":1, "a":2}}}"#;
        house.tell(&run, asks).await;
        let mut over = Vec::new();
        for _ in 0..2 {
            let ended = house.id("/v1/runs", r#"{"kind":"external"}"#).await;
            let story = r#"{"type":"run.started","data":{}},{"type":"user.message","data":{"text":"x"}},
                {"type":"run.finished","data":{"final_status":"ok"}}"#;
            house.tell(&ended, story).await;
            over.push(ended);
        }
        let over = over.remove(0);
        (house, Names { task, run, over })
    }
}

struct Names {
    task: String,
    run: String,
    over: String,
}

impl Names {
    /// What every route is asked that takes a key, and needs no worker.
    fn requests(&self) -> Vec<(String, &'static str)> {
        let Names { task, run, over } = self;
        vec![
            ("/v1/approvals/a/resolve".into(), r#"{"decision":"approve","comment":"go on"}"#),
            ("/v1/clarifications/q/answer".into(), r#"{"response":{"pick":[1.50]}}"#),
            ("/v1/handoffs/h/acknowledge".into(), r#"{"comment":"mine"}"#),
            ("/v1/handoffs/h/reject".into(), r#"{"reason":"nobody is here"}"#),
            (format!("/v1/runs/{run}/cancel"), r#"{"reason":"enough"}"#),
            (format!("/v1/tasks/{task}/cancel"), "{}"),
            (format!("/v1/tasks/{task}/runs/{run}/cancel"), "{}"),
            (format!("/v1/runs/{over}/prune"), "{}"),
            ("/v1/prune".into(), r#"{"max_events":0}"#),
            ("/v1/sessions".into(), r#"{"title":"s"}"#),
            ("/v1/tasks".into(), r#"{"title":"s"}"#),
            ("/v1/runs".into(), r#"{"kind":"external"}"#),
            ("/v1/artifacts?kind=file&name=a.json".into(), r#"{"sent":"in"}"#),
        ]
    }
}

/// A process dies in the middle of a request, at the append with this number.
async fn dies_at(number: usize, append: usize, lands: bool) -> (House, Option<Reply>, oneshot::Sender<()>) {
    let (mut house, names) = House::furnished().await;
    let (target, body) = names.requests().swap_remove(number);
    let mut fates: Vec<AppendFault> = (0..append).map(|_| AppendFault::Pass).collect();
    let (go, held) = oneshot::channel();
    fates.push(if lands { AppendFault::NeverAnswer } else { AppendFault::Hold(held) });
    house.process.store.next_appends(fates);
    let first = tokio::time::timeout(GIVEN_UP, house.post(&target, Some("k"), body)).await.ok();
    house.crash().await;
    // What is held would land if the last part were dropped.
    (house, first, go)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_after_a_crash_is_answered_as_it_would_have_been() {
    let (_, names) = House::furnished().await;
    for number in 0..names.requests().len() {
        let (house, names) = House::furnished().await;
        let (target, body) = names.requests().swap_remove(number);
        // The same world in which nothing dies: ids and times are the same.
        let expected = house.post(&target, Some("k"), body).await;
        assert!(expected.status.is_success() && !expected.replayed, "{target}: {expected:?}");
        let mut deaths = 0;
        loop {
            let (house, first, _held) = dies_at(number, deaths, true).await;
            // Others are not idle in the meantime.
            for _ in 0..2 {
                house.id("/v1/runs", r#"{"kind":"external"}"#).await;
            }
            let again = house.post(&target, Some("k"), body).await;
            assert_eq!(again, Reply { replayed: true, ..expected.clone() }, "{target}, append {deaths}");
            let third = house.post(&target, Some("k"), body).await;
            assert_eq!(third, again, "{target}, append {deaths}");
            if let Some(first) = first {
                assert_eq!(first, expected, "{target}");
                break;
            }
            deaths += 1;
        }
        assert!(deaths > 0, "{target} appends something");
        println!("{target}: {deaths} places to die at");
        for append in 0..deaths {
            let (house, _, _held) = dies_at(number, append, false).await;
            let again = house.post(&target, Some("k"), body).await;
            assert_eq!(again.status, expected.status, "{target}, before append {append}: {}", again.body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_forgotten_with_a_deletion_is_not_given_twice() {
    let (house, names) = House::furnished().await;
    let other = house.id("/v1/tasks", r#"{"title":"goes"}"#).await;
    // A cancellation ends what the others answer, so it stands alone.
    let requests = names.requests();
    let answers = [&requests[0], &requests[1], &requests[2]];
    let mut first = Vec::new();
    for (target, body) in answers {
        first.push(house.post(target, Some("k"), body).await);
    }
    let kept = house.disk.rows_of("record.once").await;
    assert!(kept.iter().all(|row| row.contains("answer")), "{kept:?}");
    house.process.engine.admin().delete_task(other.parse().unwrap(), "operator").await.unwrap();
    let left = house.disk.rows_of("record.once").await;
    assert!(left.len() == 3 && !left.iter().any(|row| row.contains("answer")), "{left:?}");
    for ((target, body), first) in answers.into_iter().zip(first) {
        let again = house.post(target, Some("k"), body).await;
        assert_eq!(again, Reply { replayed: true, ..first }, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_forgotten_after_their_day() {
    let (mut house, names) = House::furnished().await;
    let requests = names.requests();
    for (target, body) in &requests[..5] {
        house.post(target, Some("k"), body).await;
    }
    let kept = house.disk.rows_of("record.once").await.len();
    assert!(kept >= 4, "{kept}");
    assert_eq!(house.disk.rows_of("record.once_due").await.len(), kept);
    let day = u64::try_from(recount_engine::limits::ONCE_LIFE.as_millis()).unwrap();
    house.crash_until(START_MS + day + 1).await;
    let reply = house.post("/v1/sessions", Some("next"), "{}").await;
    assert_eq!(reply.status, 201);
    for space in ["record.once", "record.once_due"] {
        assert_eq!(house.disk.rows_of(space).await.len(), 1, "{space}: only the new one");
    }
}
