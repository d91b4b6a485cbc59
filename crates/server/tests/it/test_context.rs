//! A server in the test process, the runs reported to it, and checks of every response.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use recount_event::Code;
use recount_log::{MemoryStore, Store};
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_server::Running;
use recount_world::World;
use serde_json::Value;

use crate::wire::{Listener, Reply, Wire, request};

pub(crate) const PREFIXES: [&str; 2] = ["/v1", "/hecate/v1"];

/// The events that a producer reports of a whole run, after `run.queued`.
pub(crate) const STORY: &[(&str, &str)] = &[
    ("run.started", "{}"),
    ("user.message", r#"{"text":"list the files"}"#),
    ("turn.started", r#"{"turn_index":0,"model":"m"}"#),
    ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"I will "}"#),
    ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"look."}"#),
    ("assistant.text_complete", r#"{"turn_index":0,"block_index":0,"text":"I will look."}"#),
    (
        "assistant.tool_call_proposed",
        r#"{"turn_index":0,"tool_call_id":"c1","tool_name":"shell","input":{"cmd":"ls"}}"#,
    ),
    ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use","tool_calls":1}"#),
    ("tool.invoked", r#"{"tool_call_id":"c1","tool_name":"shell"}"#),
    ("tool.completed", r#"{"tool_call_id":"c1","tool_name":"shell","output":"a b"}"#),
    ("turn.started", r#"{"turn_index":1}"#),
    ("assistant.text_complete", r#"{"turn_index":1,"block_index":0,"text":"a and b"}"#),
    ("turn.completed", r#"{"turn_index":1,"stop_reason":"end_turn","tool_calls":0}"#),
    ("run.finished", r#"{"final_status":"done"}"#),
];

pub(crate) struct TestContext {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

impl TestContext {
    pub(crate) async fn over(store: Arc<dyn Store>) -> TestContext {
        let bind = "127.0.0.1:0".parse().unwrap();
        let running = Running::start(store, World::real(), bind).await.expect("a free port");
        TestContext { address: running.address, running }
    }

    pub(crate) async fn memory() -> TestContext {
        TestContext::over(Arc::new(MemoryStore::new())).await
    }

    pub(crate) async fn sqlite(folder: &Path) -> TestContext {
        let store = SqliteStore::open(SqliteOptions::new(folder)).expect("an empty folder or our own");
        TestContext::over(Arc::new(store)).await
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        let mut wire = Wire::connect(self.address).await;
        wire.send(&request(self.address, method, target, headers, body)).await;
        let reply = wire.reply(method).await;
        reply.unwrap_or_else(|| panic!("{method} {target}: the connection ended without a response"))
    }

    /// Checks that the server is still ready.
    pub(crate) async fn assert_ready(&self) {
        assert_eq!(self.get("/readyz").await.status, 200);
    }

    pub(crate) async fn get(&self, target: &str) -> Reply {
        self.request("GET", target, &[], None).await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Reply {
        self.request("POST", target, &[], Some(body.as_bytes())).await
    }

    pub(crate) async fn listen(&self, target: &str) -> Listener {
        Listener::open(self.address, target, &[]).await
    }

    pub(crate) async fn new_run(&self) -> String {
        let reply = self.post("/v1/runs", r#"{"kind":"external"}"#).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        text(&reply.data()["id"])
    }

    /// Appends as producer `p`, epoch 1.
    pub(crate) async fn append(&self, run: &str, seq: u64, events: &[(&str, &str)]) -> Reply {
        self.post(&format!("/v1/runs/{run}/events"), &batch("p", 1, seq, events)).await
    }

    /// Appends like [`TestContext::append`], and checks the success.
    pub(crate) async fn report(&self, run: &str, seq: u64, events: &[(&str, &str)]) {
        let reply = self.append(run, seq, events).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    /// Creates a run with the whole [`STORY`].
    pub(crate) async fn run_with_story(&self) -> String {
        let run = self.new_run().await;
        self.report(&run, 0, STORY).await;
        run
    }

    /// The envelopes of a run or the feed, by pages, each as its raw text.
    pub(crate) async fn envelopes(&self, target: &str) -> Vec<String> {
        let mut all = Vec::new();
        let mut after = String::from("-1");
        let name = if target.ends_with("/v1/events") { "after_position" } else { "after_sequence" };
        loop {
            let reply = self.get(&format!("{target}?{name}={after}&limit=1000")).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            all.extend(elements(reply.text()));
            let page = reply.json();
            after = page["next"].to_string();
            if page["has_more"] == false {
                return all;
            }
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is a text")).to_owned()
}

pub(crate) fn batch(producer: &str, epoch: u64, seq: u64, events: &[(&str, &str)]) -> String {
    let events: Vec<String> =
        events.iter().map(|(name, data)| format!(r#"{{"type":"{name}","data":{data}}}"#)).collect();
    format!(
        r#"{{"producer":{{"id":"{producer}","epoch":{epoch},"seq":{seq}}},"events":[{}]}}"#,
        events.join(",")
    )
}

/// The raw elements of a page's `data`, cut out without parsing them.
pub(crate) fn elements(page: &str) -> Vec<String> {
    let start = r#"{"object":"list","data":["#;
    let body = page.strip_prefix(start).unwrap_or_else(|| panic!("not a page: {page:.80}"));
    let (mut elements, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                if depth == 0 {
                    from = at;
                }
                depth += 1;
            }
            b']' if depth == 0 => return elements,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    elements.push(body[from..=at].to_owned());
                }
            }
            _ => {}
        }
    }
    panic!("the list has no end: {page:.80}");
}

/// Checks the headers that every response has.
pub(crate) fn check_reply(reply: &Reply) {
    let id = reply.header("x-request-id").unwrap_or_else(|| panic!("no x-request-id: {reply:?}"));
    assert!(id.starts_with("req_") && id.len() == 30 && id != "req_00000000000000000000000000", "{id}");
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
}

/// Checks that a response is a problem with this code, as in the table of codes. Returns it.
pub(crate) fn check_problem(reply: &Reply, code: Code, about: &str) -> Value {
    let row = code.row();
    assert_eq!(reply.status, row.status, "{about}: {}", String::from_utf8_lossy(&reply.body));
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{about}");
    check_reply(reply);
    let problem = reply.json();
    assert_eq!(problem["code"], row.name, "{about}: {problem}");
    assert_eq!(problem["type"], format!("urn:recount:error:{}", row.name), "{about}");
    assert_eq!(problem["status"], row.status, "{about}");
    assert_eq!(problem["retryable"], row.retryable, "{about}");
    assert_eq!(problem["request_id"].as_str(), reply.header("x-request-id"), "{about}");
    for field in ["title", "detail"] {
        assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{about}: {problem}");
    }
    assert_eq!(reply.header("retry-after").is_some(), row.retryable, "{about}: {reply:?}");
    problem
}
