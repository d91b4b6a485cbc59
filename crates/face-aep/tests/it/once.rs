//! Tests `Idempotency-Key` across crashes: a process dies at any append of a request, before or after it is durable.
//! The next process must return the response that the first one would have returned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use recount_engine::{Caller, Engine, RequestContext};
use recount_face_aep::{FaceState, SseFraming};
use recount_faulty_store::{AppendFault, Disk, FaultyStore};
use recount_log::{Append, Guard, RowPut, RowRange, Store as _};
use recount_world::World;
use serde_json::Value;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

const START_MS: u64 = 1_800_000_000_000;

/// How long a test waits for a request whose append never completes. The clock is paused.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// A server process, and the disk that outlives it.
struct Server {
    disk: Arc<Disk>,
    starts: u64,
    process: Process,
}

struct Process {
    store: Arc<FaultyStore>,
    engine: Engine,
    router: Router,
}

/// The parts of a response that a client acts on.
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
        let visitor = RequestContext { engine: engine.clone(), caller: Caller::operator() };
        let places = FaceState::new(recount_face_aep::limits::STREAMS_MAX);
        let router = recount_face_aep::router(places).layer(axum::Extension(visitor));
        let router = recount_face_aep::identified(router, world, engine.write().redactor().clone());
        Process { store, engine, router }
    }
}

impl Server {
    async fn new() -> Server {
        let disk = Disk::new();
        let process = Process::start(&disk, 0, START_MS).await;
        Server { disk, starts: 1, process }
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
        let value: Value = serde_json::from_str(&reply.body).unwrap();
        value["data"]["id"].as_str().unwrap().to_owned()
    }

    async fn append_events(&self, run: &str, events: &str) {
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
        self.process = Process::start(&self.disk, self.starts, now_ms).await;
        self.starts += 1;
    }

    /// A server with a run that has a prompt of every kind, and with two ended runs.
    async fn with_prompts() -> (Server, Names) {
        let server = Server::new().await;
        let task = server.id("/v1/tasks", r#"{"title":"t"}"#).await;
        let run = server.id(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await;
        let prompts = r#"
            {"type":"run.started","data":{}},
            {"type":"approval.requested","data":{"approval_id":"a","tool_call_id":"c","kind":"shell","summary":"ls",
             "timeout_seconds":600,"default_decision":"reject"}},
            {"type":"clarification.requested","data":{"clarification_id":"q","question":"which?","timeout_seconds":600}},
            {"type":"handoff.requested","data":{"handoff_id":"h","reason":"hard","target_kind":"escalation_queue",
             "target_uri":"queue:x","summary_terse":"help","timeout_seconds":600,"packaged_context":{"b":1, "a":2}}}"#;
        server.append_events(&run, prompts).await;
        let mut over = Vec::new();
        for _ in 0..2 {
            let ended = server.id("/v1/runs", r#"{"kind":"external"}"#).await;
            let story = r#"{"type":"run.started","data":{}},{"type":"user.message","data":{"text":"x"}},
                {"type":"run.finished","data":{"final_status":"ok"}}"#;
            server.append_events(&ended, story).await;
            over.push(ended);
        }
        let over = over.remove(0);
        (server, Names { task, run, over })
    }
}

struct Names {
    task: String,
    run: String,
    over: String,
}

impl Names {
    /// A request to each route that takes a key and needs no worker.
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
            ("/v1/tasks".into(), r#"{"title":"s","kind":"external"}"#),
            ("/v1/runs".into(), r#"{"kind":"external"}"#),
            ("/v1/artifacts?kind=file&name=a.json".into(), r#"{"sent":"in"}"#),
            ("/v1/approvals/a/extend".into(), r#"{"seconds":60}"#),
            ("/v1/clarifications/q/extend".into(), r#"{"seconds":60}"#),
            ("/v1/handoffs/h/extend".into(), r#"{"seconds":60}"#),
        ]
    }
}

/// Crashes the process in the middle of a request, at the append with this number.
async fn crash_at(
    number: usize,
    append: usize,
    is_durable: bool,
) -> (Server, Option<Reply>, oneshot::Sender<()>) {
    let (mut server, names) = Server::with_prompts().await;
    let (target, body) = names.requests().swap_remove(number);
    let mut faults: Vec<AppendFault> = (0..append).map(|_| AppendFault::Pass).collect();
    let (go, held) = oneshot::channel();
    faults.push(if is_durable { AppendFault::NeverAnswer } else { AppendFault::Hold(held) });
    server.process.store.next_appends(faults);
    let first = tokio::time::timeout(REPLY_TIMEOUT, server.post(&target, Some("k"), body)).await.ok();
    server.crash().await;
    // A held append would become durable if the sender were dropped.
    (server, first, go)
}

#[tokio::test(start_paused = true)]
async fn a_request_repeated_after_a_crash_gets_the_original_response() {
    let (_, names) = Server::with_prompts().await;
    for number in 0..names.requests().len() {
        let (server, names) = Server::with_prompts().await;
        let (target, body) = names.requests().swap_remove(number);
        // The same world without a crash: ids and times are the same.
        let expected = server.post(&target, Some("k"), body).await;
        assert!(expected.status.is_success() && !expected.replayed, "{target}: {expected:?}");
        let mut crashes = 0;
        loop {
            let (server, first, _held) = crash_at(number, crashes, true).await;
            // Other clients send requests in the meantime.
            for _ in 0..2 {
                server.id("/v1/runs", r#"{"kind":"external"}"#).await;
            }
            let again = server.post(&target, Some("k"), body).await;
            assert_eq!(again, Reply { replayed: true, ..expected.clone() }, "{target}, append {crashes}");
            let third = server.post(&target, Some("k"), body).await;
            assert_eq!(third, again, "{target}, append {crashes}");
            if let Some(first) = first {
                assert_eq!(first, expected, "{target}");
                break;
            }
            crashes += 1;
        }
        assert!(crashes > 0, "{target} appends something");
        println!("{target}: {crashes} crash points");
        for append in 0..crashes {
            let (server, _, _held) = crash_at(number, append, false).await;
            let again = server.post(&target, Some("k"), body).await;
            assert_eq!(again.status, expected.status, "{target}, before append {append}: {}", again.body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_repeated_after_a_deletion_gets_the_original_response() {
    let (server, names) = Server::with_prompts().await;
    let other = server.id("/v1/tasks", r#"{"title":"goes"}"#).await;
    // A cancellation would end the run of the other requests, so it is left out.
    let requests = names.requests();
    let answers = [&requests[0], &requests[1], &requests[2]];
    let mut first = Vec::new();
    for (target, body) in answers {
        first.push(server.post(target, Some("k"), body).await);
    }
    let kept = server.disk.rows_of("record.once").await;
    assert!(kept.len() == 3 && !kept.iter().any(|row| row.contains("answer")), "{kept:?}");
    server.process.engine.admin().delete_task(other.parse().unwrap(), "operator").await.unwrap();
    assert_eq!(server.disk.rows_of("record.once").await, kept);
    for ((target, body), first) in answers.into_iter().zip(first) {
        let again = server.post(target, Some("k"), body).await;
        assert_eq!(again, Reply { replayed: true, ..first }, "{target}");
    }
}

/// Changes everything that a request may have created or changed: runs go on, end and are followed by others.
async fn move_on(server: &Server, names: &Names, created: &Reply) {
    let prompts = ["/v1/approvals/a/resolve", "/v1/clarifications/q/answer", "/v1/handoffs/h/reject"];
    for (prompt, body) in prompts.iter().zip([r#"{"decision":"approve"}"#, r#"{"response":1}"#, "{}"]) {
        // It is settled already, or its run has ended.
        server.post(prompt, None, body).await;
    }
    let item: Value = serde_json::from_str(&created.body).unwrap();
    let ids = [&item["data"]["id"], &item["data"]["latest_run_id"]];
    let ids = ids.iter().filter_map(|id| id.as_str()).map(str::to_owned);
    for run in ids.filter(|id| id.starts_with("run_")).chain([names.run.clone()]) {
        // It may have started or ended already.
        let events = [
            r#"{"type":"run.started","data":{}}"#,
            r#"{"type":"run.finished","data":{"final_status":"ok"}}"#,
        ];
        for (n, event) in events.into_iter().enumerate() {
            let body = format!(r#"{{"producer":{{"id":"o{n}","epoch":0,"seq":0}},"events":[{event}]}}"#);
            server.post(&format!("/v1/runs/{run}/events"), None, &body).await;
        }
    }
    let ids = [&item["data"]["id"], &item["data"]["task_id"]];
    let tasks = ids.iter().filter_map(|id| id.as_str()).filter(|id| id.starts_with("task_"));
    for task in tasks.chain([&*names.task]).collect::<BTreeSet<_>>() {
        server.id(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_repeated_after_its_run_moved_on_gets_the_original_response() {
    let (_, names) = Server::with_prompts().await;
    for number in 0..names.requests().len() {
        let (mut server, names) = Server::with_prompts().await;
        let (target, body) = names.requests().swap_remove(number);
        let first = server.post(&target, Some("k"), body).await;
        assert!(first.status.is_success() && !first.replayed, "{target}: {first:?}");
        move_on(&server, &names, &first).await;
        for _ in 0..2 {
            let again = server.post(&target, Some("k"), body).await;
            assert_eq!(again, Reply { replayed: true, ..first.clone() }, "{target}");
            server.crash().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_an_earlier_release_stored_is_returned_until_a_deletion() {
    let server = Server::new().await;
    let (target, body) = ("/v1/sessions", r#"{"title":"s"}"#);
    let first = server.post(target, Some("k"), body).await;
    let store = server.process.store.clone();
    let all =
        RowRange { space: "record.once".into(), prefix: "".into(), after: None, backwards: false, limit: 9 };
    let row = store.rows(all).await.unwrap().remove(0);
    let mut stored: Value = serde_json::from_slice(&row.value).unwrap();
    stored["answer"] = serde_json::json!({"status": 201, "location": "/old", "body": "{\"old\":1}"});
    let value = Some(stored.to_string().into());
    let put = RowPut { space: "record.once".into(), key: row.key, guard: Guard::Any, value };
    store.append(Append { rows: vec![put], ..Append::default() }).await.unwrap();
    let (status, location) = (StatusCode::CREATED, Some("/old".to_owned()));
    let old = Reply { status, location, body: "{\"old\":1}".into(), replayed: true };
    assert_eq!(server.post(target, Some("k"), body).await, old);
    let other = server.id("/v1/tasks", r#"{"title":"goes"}"#).await;
    server.process.engine.admin().delete_task(other.parse().unwrap(), "operator").await.unwrap();
    assert!(!server.disk.rows_of("record.once").await[0].contains("answer"));
    assert_eq!(server.post(target, Some("k"), body).await, Reply { replayed: true, ..first });
}

#[tokio::test(start_paused = true)]
async fn a_request_repeated_after_its_events_were_removed_gets_a_clear_response() {
    let (server, names) = Server::with_prompts().await;
    let cancel = format!("/v1/runs/{}/cancel", names.run);
    let extend = "/v1/approvals/a/extend";
    for (target, body) in [(extend, r#"{"seconds":60}"#), (&*cancel, "{}")] {
        assert_eq!(server.post(target, Some("k"), body).await.status, 200, "{target}");
    }
    let admin = server.process.engine.admin();
    admin.prune(names.run.parse().unwrap(), None, "test").await.unwrap();
    let again = server.post(&cancel, Some("k"), "{}").await;
    assert!(again.replayed && again.body.contains(r#""first_sequence":"#), "{again:?}");
    assert_eq!(server.post(extend, Some("k"), r#"{"seconds":60}"#).await.status, 404);
    admin.delete_task(names.task.parse().unwrap(), "operator").await.unwrap();
    assert_eq!(server.post(&cancel, Some("k"), "{}").await.status, 410);
}

#[tokio::test(start_paused = true)]
async fn keys_expire_after_a_day() {
    let (mut server, names) = Server::with_prompts().await;
    let requests = names.requests();
    for (target, body) in &requests[..5] {
        server.post(target, Some("k"), body).await;
    }
    let kept = server.disk.rows_of("record.once").await.len();
    assert!(kept >= 4, "{kept}");
    assert_eq!(server.disk.rows_of("record.once_due").await.len(), kept);
    let day = u64::try_from(recount_engine::limits::IDEMPOTENCY_KEY_LIFE.as_millis()).unwrap();
    server.crash_until(START_MS + day + 1).await;
    let reply = server.post("/v1/sessions", Some("next"), "{}").await;
    assert_eq!(reply.status, 201);
    for space in ["record.once", "record.once_due"] {
        assert_eq!(server.disk.rows_of(space).await.len(), 1, "{space}: only the new one");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_in_progress_until_its_outcome_is_known_though_its_client_has_disconnected() {
    let server = Server::new().await;
    let (target, body) = ("/v1/runs", r#"{"kind":"external"}"#);
    let (write, held) = oneshot::channel();
    server.process.store.next_appends([AppendFault::Hold(held)]);
    let disconnected = tokio::time::timeout(REPLY_TIMEOUT, server.post(target, Some("k"), body)).await;
    assert!(disconnected.is_err(), "{disconnected:?}");
    let repeated = server.post(target, Some("k"), body).await;
    assert_eq!(repeated.status, 409, "{repeated:?}");
    assert!(repeated.body.contains("idempotency_in_progress"), "{repeated:?}");
    write.send(()).unwrap();
    let repeated = loop {
        let repeated = server.post(target, Some("k"), body).await;
        if repeated.status != 409 {
            break repeated;
        }
        tokio::task::yield_now().await;
    };
    assert!(repeated.replayed && repeated.status == 201, "{repeated:?}");
    let runs = server
        .process
        .engine
        .catalogue()
        .list_runs(&recount_engine::ListQuery { limit: 10, ..Default::default() })
        .await
        .unwrap();
    assert_eq!(runs.items.len(), 1, "it was executed once");
}
