//! Webhooks and decision links of a server in the test process, with a receiver on a real socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use recount_engine::{BatchId, NewRun, Redactor};
use recount_event::door::draft;
use recount_event::family::run::{Queued, RunKind};
use recount_event::{ForeignId, RunId};
use recount_world::{Kind, World};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Running;
use crate::agents;
use crate::config::{Config, Options};
use crate::start::{assemble, begin};
use crate::webhooks::smtp::tests::MailReceiver;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request or a response as text: its first line and headers in lower case, and its body.
#[derive(Debug, Clone)]
struct Http {
    head: String,
    body: String,
}

impl Http {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

async fn read_http(stream: &mut TcpStream) -> Option<Http> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let mut head = String::new();
            for line in String::from_utf8(bytes[..end].to_vec()).unwrap().lines() {
                let (name, value) = line.split_once(": ").unwrap_or((line, ""));
                head += &format!(
                    "{}: {value}\n",
                    if value.is_empty() { name.into() } else { name.to_lowercase() }
                );
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8(bytes[end + 4..end + 4 + length].to_vec()).unwrap();
                return Some(Http { head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return None;
        }
    }
}

/// Receives webhooks: returns the statuses of its script, then 200.
struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<(u16, Http)>>>,
}

impl Receiver {
    async fn start(world: &World, script: &[u16]) -> Receiver {
        Receiver::on(world, TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    fn on(world: &World, listener: TcpListener, script: &[u16]) -> Receiver {
        let mut script: VecDeque<u16> = script.iter().copied().collect();
        Receiver::replying(world, listener, move |_| script.pop_front().unwrap_or(200))
    }

    fn replying(
        world: &World,
        listener: TcpListener,
        mut status: impl FnMut(&Http) -> u16 + Send + 'static,
    ) -> Receiver {
        let (address, received) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let found = received.clone();
        world.tasks.spawn_until_shutdown(Kind::Service, async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(request) = read_http(&mut stream).await else { continue };
                let status = status(&request);
                let reply = format!(
                    "HTTP/1.1 {status} X\r\nlocation: /else\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                found.lock().unwrap().push((status, request));
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        Receiver { address, received }
    }

    fn all(&self) -> Vec<(u16, Http)> {
        self.received.lock().unwrap().clone()
    }

    /// The requests, once there are this many.
    async fn wait_for(&self, count: usize) -> Vec<(u16, Http)> {
        until(|| self.all().len() >= count).await;
        self.all()
    }
}

/// Waits until a condition holds.
async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            // tidy: between two looks at the condition
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the condition holds in time");
}

/// A server with this configuration.
async fn server(folder: &Path, configuration: &str) -> Running {
    let file = folder.join("c.toml");
    std::fs::write(&file, configuration).unwrap();
    let options = Options {
        config: Some(file),
        data: Some(folder.join("data")),
        bind: Some("127.0.0.1:0".to_owned()),
        ..Options::default()
    };
    let config = Config::settle(options, |name| (name == "SECRET").then(|| SECRET.to_owned())).unwrap();
    let world = World::real();
    let registry = agents::registry(&config, &world).unwrap();
    let redactor = Arc::new(Redactor::shapes());
    let (running, listeners, pool) = assemble(&config, world, registry, redactor, None).await.unwrap();
    begin(&running, listeners, pool).await.unwrap();
    running
}

/// An external run with a title and these events.
async fn run(running: &Running, title: &str, events: &[(&str, Value)]) -> RunId {
    let mut queued = Queued::new(RunKind::External);
    queued.title = Some(title.to_owned());
    let new = NewRun { queued, task: None, session: None, resumed_from: None };
    let run = running.engine.write().create_run(new).await.unwrap().0;
    append(running, run, 0, events).await;
    run
}

async fn append(running: &Running, run: RunId, seq: u64, events: &[(&str, Value)]) {
    let drafts = events.iter().map(|(name, data)| draft(name, &data.to_string()).unwrap()).collect();
    let batch = BatchId { producer: ForeignId::parse("test").unwrap(), epoch: 0, seq };
    running.engine.write().ingest(run, batch, drafts).await.unwrap();
}

fn finished() -> Vec<(&'static str, Value)> {
    vec![("run.started", json!({})), ("run.finished", json!({"final_status": "done"}))]
}

fn hook(receiver: SocketAddr, more: &str) -> String {
    format!("[webhooks.ops]\nurl = 'http://{receiver}/in'\nsecret_env = 'SECRET'\n{more}\n")
}

/// Whether the signature is right, computed from the text of the specification.
fn is_signed(request: &Http) -> bool {
    let key = base64::engine::general_purpose::STANDARD.decode(&SECRET[6..]).unwrap();
    let (id, at) = (request.header("webhook-id").unwrap(), request.header("webhook-timestamp").unwrap());
    let (mut inner, mut outer) = (vec![0x36; 64], vec![0x5c; 64]);
    for (place, byte) in key.iter().enumerate() {
        inner[place] ^= byte;
        outer[place] ^= byte;
    }
    let sha = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA256, bytes);
    inner.extend(format!("{id}.{at}.{}", request.body).as_bytes());
    outer.extend(sha(&inner).as_ref());
    let expected = base64::engine::general_purpose::STANDARD.encode(sha(&outer));
    request.header("webhook-signature") == Some(&format!("v1,{expected}"))
}

fn titles(received: &[(u16, Http)]) -> Vec<String> {
    let taken = received.iter().filter(|(status, _)| *status == 200);
    taken.map(|(_, request)| request.json()["run_title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_arrive_signed_in_order_and_once_despite_an_outage_and_a_restart() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let receiver = Receiver::start(&world, &[200, 503, 302, 200]).await;
    let configuration = hook(receiver.address, "events = ['run.*']");
    let running = server(folder.path(), &configuration).await;
    // A new webhook begins with the events from now on.
    until(|| running.webhooks.statuses()[0].state().is_loaded).await;
    let first = run(&running, "one", &finished()).await;
    let received = receiver.wait_for(5).await;
    assert!(received.iter().all(|(_, request)| is_signed(request)), "{received:?}");
    let statuses: Vec<u16> = received.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 503, 302, 200, 200]);
    let types: Vec<Value> = received.iter().map(|(_, request)| request.json()["type"].clone()).collect();
    assert_eq!(types, ["run.queued", "run.started", "run.started", "run.started", "run.finished"]);
    let ids: Vec<_> = received.iter().map(|(_, request)| request.header("webhook-id")).collect();
    assert!(
        ids[1] == ids[2] && ids[2] == ids[3] && ids[0] != ids[1],
        "a retry has the id of its event: {ids:?}"
    );
    assert_eq!(received[4].1.json()["run_id"], first.to_string());
    assert_eq!(received[4].1.json()["event"]["data"], json!({"final_status": "done"}));

    // The receiver is down while events happen, and the server restarts.
    until(|| running.webhooks.statuses()[0].state().row.delivered == 3).await;
    world.tasks.end_all(PATIENCE).await;
    run(&running, "two", &finished()).await;
    until(|| running.webhooks.statuses()[0].state().failing.is_some()).await;
    running.stop().await;
    let running = server(folder.path(), &configuration).await;
    run(&running, "three", &finished()).await;
    until(|| running.webhooks.statuses()[0].state().failing.is_some()).await;
    let world = World::real();
    let listener = TcpListener::bind(receiver.address).await.unwrap();
    let receiver = Receiver::on(&world, listener, &[]);
    let received = receiver.wait_for(6).await;
    assert_eq!(titles(&received), ["two", "two", "two", "three", "three", "three"]);
    until(|| running.webhooks.statuses()[0].state().row.delivered == 9).await;
    running.stop().await;
}

#[tokio::test]
async fn an_invalid_event_becomes_a_dead_letter_and_410_disables() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let receiver = Receiver::start(&world, &[400, 400, 400, 200, 410]).await;
    let configuration = hook(receiver.address, "events = ['run.finished']");
    let running = server(folder.path(), &configuration).await;
    let status = running.webhooks.statuses()[0].clone();
    until(|| status.state().is_loaded).await;
    for title in ["bad", "good", "refused"] {
        run(&running, title, &finished()).await;
    }
    until(|| status.state().row.disabled.is_some()).await;
    let received = receiver.all();
    assert_eq!(titles(&received), ["good"]);
    let row = status.state().row;
    assert_eq!((row.delivered, row.given_up), (1, 1));
    let dead = running.engine.admin().dead_letters("ops").await.unwrap();
    assert_eq!(
        (dead.len(), dead[0].letter.attempts, dead[0].letter.type_name.as_str()),
        (1, 3, "run.finished")
    );
    let checks = || async {
        let mut checks = Vec::new();
        running.webhooks.checks(&mut checks, &running.gate.tenants).await;
        checks.into_iter().map(|check| check.value).collect::<Vec<_>>().join("\n")
    };
    let shown = checks().await;
    assert!(
        shown.contains("the receiver returned 410") && shown.contains("1 events were given up"),
        "{shown}"
    );
    assert!(shown.contains("the receiver returned 400"), "{shown}");
    running.stop().await;

    // It stays disabled until the URL changes; then the event that was refused is sent.
    let running = server(folder.path(), &configuration).await;
    let status = running.webhooks.statuses()[0].clone();
    until(|| status.state().row.disabled.is_some()).await;
    running.stop().await;
    let running = server(folder.path(), &configuration.replace("/in'", "/other'")).await;
    let received = receiver.wait_for(6).await;
    assert_eq!(titles(&received), ["good", "refused"]);
    running.stop().await;
}

#[tokio::test]
async fn mails_are_retried_after_a_failure_and_given_up_if_the_server_refuses_them() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    // The first mail is not accepted at once, and the second never.
    let script: Vec<(&str, &str)> = ["451 busy", "250 x", "550 no", "550 no", "550 no"]
        .iter()
        .flat_map(|reply| {
            let accepts =
                [("connect", "220 x"), ("EHLO", "250 AUTH PLAIN"), ("AUTH", "235 x"), ("MAIL", "250 x")];
            accepts.into_iter().chain([("RCPT", "250 x"), ("DATA", "354 x"), (".", *reply)])
        })
        .collect();
    let receiver = MailReceiver::start(&world, &script).await;
    let configuration = format!(
        "public_url = 'https://r.example'\n[webhooks.ops]\nurl = 'smtp://u:pw@{}?tls=none'\nformat = 'email'\n\
         from = 'recount@b.example'\nto = 'ada@b.example'\napprover = 'ada'\nevents = ['approval.requested']\n",
        receiver.address
    );
    let running = server(folder.path(), &configuration).await;
    let status = running.webhooks.statuses()[0].clone();
    until(|| status.state().is_loaded).await;
    for (title, id) in [("one", "a1"), ("two", "a2"), ("three", "a3")] {
        run(&running, title, &approval(id, &json!({"summary": "rm\r\nBcc: x"}))).await;
    }
    until(|| status.state().row.delivered == 2).await;
    let dead = running.engine.admin().dead_letters("ops").await.unwrap();
    assert_eq!((dead.len(), dead[0].letter.attempts), (1, 3));
    assert_eq!(dead[0].letter.reason, "the mail server replied 550 to the mail: no");
    let mails = receiver.received("!From: ");
    assert_eq!(mails.len(), 6, "{mails:?}");
    let id = |mail: &str| mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap().to_owned();
    assert!(id(&mails[0]) == id(&mails[1]) && id(&mails[1]) != id(&mails[2]), "{mails:?}");
    let (head, body) = mails[5].split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("\r\nSubject: Approval requested: rm Bcc: x\r\n") && !head.contains("\r\nBcc"),
        "{head}"
    );
    let path = body.lines().find_map(|line| line.strip_prefix("https://r.example")).unwrap();
    let page = request(running.address, "POST", path, "decision=approve").await;
    assert!(page.status() == 200 && page.body.contains("Your answer is recorded"), "{page:?}");
    running.stop().await;
}

/// Sends a request as an administrator on this machine.
async fn admin(running: &Running, method: &str, path: &str, body: &str) -> (u16, Value) {
    with_header(running, method, path, "", body).await
}

/// The same with one more header.
async fn with_header(running: &Running, method: &str, path: &str, header: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         {header}Connection: close\r\n\r\n{body}",
        running.address,
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn dead_letters_are_listed_and_sent_again_on_request() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let receiver = Receiver::start(&world, &[400, 400, 400, 200, 503, 200, 200, 500]).await;
    let running = server(folder.path(), &hook(receiver.address, "events = ['run.finished']")).await;
    let status = running.webhooks.statuses()[0].clone();
    until(|| status.state().is_loaded).await;
    let bad = run(&running, "bad", &finished()).await;
    run(&running, "good", &finished()).await;
    until(|| status.state().row.delivered == 1).await;

    let (code, listed) = admin(&running, "GET", "/admin/webhooks", "").await;
    let webhook = &listed["data"][0];
    let found = (&webhook["name"], &webhook["state"], &webhook["delivered"], &webhook["dead_letters"]);
    assert_eq!((code, found), (200, (&json!("ops"), &json!("active"), &json!(1), &json!(1))), "{listed}");
    assert!(!listed.to_string().contains("/in"), "the URL is not shown: {listed}");
    let (_, letters) = admin(&running, "GET", "/admin/webhooks/ops/dead-letters", "").await;
    let letter = letters["data"][0].clone();
    assert_eq!((&letter["run_id"], &letter["attempts"]), (&json!(bad.to_string()), &json!(3)), "{letters}");
    assert_eq!(letter["reason"], "the receiver returned 400");

    let deliver = "/admin/webhooks/ops/deliveries";
    let again = json!({"event_id": letter["event_id"]}).to_string();
    let (_, failed) = admin(&running, "POST", deliver, &again).await;
    let reason = json!("the receiver returned 503");
    assert_eq!((&failed["data"]["delivered"], &failed["data"]["reason"]), (&json!(false), &reason));
    let (_, letters) = admin(&running, "GET", "/admin/webhooks/ops/dead-letters", "").await;
    assert_eq!((&letters["data"][0]["attempts"], &letters["data"][0]["reason"]), (&json!(4), &reason));
    let (_, sent) = admin(&running, "POST", deliver, &again).await;
    assert_eq!(sent["data"]["delivered"], true, "{sent}");
    let received = receiver.all();
    let ids: Vec<_> = received.iter().map(|(_, request)| request.header("webhook-id").unwrap()).collect();
    assert!(ids[0] == ids[5] && is_signed(&received[5].1), "it is the same message: {ids:?}");
    assert_eq!(received[5].1.json()["run_title"], "bad");
    let (code, missing) = admin(&running, "POST", deliver, &again).await;
    assert_eq!((code, &missing["code"]), (404, &json!("dead_letter_not_found")));

    let (_, tested) = admin(&running, "POST", deliver, "").await;
    let received = receiver.all();
    let message = received[6].1.json();
    assert_eq!(
        (&tested["data"]["delivered"], &message["type"]),
        (&json!(true), &json!("ext.recount.webhook_test"))
    );
    assert!(is_signed(&received[6].1), "{message}");
    let (_, tested) = admin(&running, "POST", deliver, "{}").await;
    assert_eq!(tested["data"]["reason"], "the receiver returned 500");
    let (code, missing) = admin(&running, "POST", "/admin/webhooks/none/deliveries", "").await;
    assert_eq!((code, &missing["code"]), (404, &json!("webhook_not_found")));

    running.gate.tenants.audit().unwrap().end().await;
    let audited = audited(&running).await;
    let requested = audited.iter().filter(|event| event["type"] == "ext.recount.webhook_delivery_requested");
    let requested: Vec<_> =
        requested.map(|event| (&event["data"]["is_test"], &event["data"]["delivered"])).collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(requested, [(&no, &no), (&no, &yes), (&yes, &yes), (&yes, &no)]);
    running.stop().await;
}

#[tokio::test]
async fn a_webhook_whose_dead_letter_was_delivered_on_request_is_not_failing() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let receiver = Receiver::start(&world, &[400, 400, 400, 413]).await;
    let running = server(folder.path(), &hook(receiver.address, "events = ['run.finished']")).await;
    let status = running.webhooks.statuses()[0].clone();
    until(|| status.state().is_loaded).await;
    run(&running, "bad", &finished()).await;
    until(|| status.state().row.given_up == 1).await;
    let checks = || async {
        let mut checks = Vec::new();
        running.webhooks.checks(&mut checks, &running.gate.tenants).await;
        checks.into_iter().map(|check| format!("{} {:?}", check.value, check.advice)).collect::<Vec<_>>()
    };
    let shown = checks().await;
    assert!(shown.len() == 2 && shown[0].contains("deliveries failed since"), "{shown:?}");
    assert!(shown[1].contains("recount webhooks retry ops --all"), "{shown:?}");

    let (_, letters) = admin(&running, "GET", "/admin/webhooks/ops/dead-letters", "").await;
    let again = json!({"event_id": letters["data"][0]["event_id"]}).to_string();
    for (delivered, state) in [(false, "failing"), (true, "active")] {
        let (_, sent) = admin(&running, "POST", "/admin/webhooks/ops/deliveries", &again).await;
        assert_eq!(sent["data"]["delivered"], delivered, "{sent}");
        let (_, listed) = admin(&running, "GET", "/admin/webhooks", "").await;
        assert_eq!(listed["data"][0]["state"], state, "{listed}");
    }
    let shown = checks().await;
    assert!(shown.len() == 1 && shown[0].starts_with("0 events delivered"), "{shown:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_webhook_whose_event_waits_is_failing_after_a_test_message() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let is_test = |request: &Http| request.body.contains("webhook_test");
    let receiver =
        Receiver::replying(&world, listener, move |request| if is_test(request) { 200 } else { 500 });
    let running = server(folder.path(), &hook(receiver.address, "events = ['run.finished']")).await;
    let status = running.webhooks.statuses()[0].clone();
    until(|| status.state().is_loaded).await;
    run(&running, "bad", &finished()).await;
    until(|| status.state().failing.is_some()).await;
    let since_ms = status.state().failing.map(|failing| failing.since_ms);

    let (_, sent) = admin(&running, "POST", "/admin/webhooks/ops/deliveries", "{}").await;
    assert_eq!(sent["data"]["delivered"], true, "{sent}");
    let (_, listed) = admin(&running, "GET", "/admin/webhooks", "").await;
    assert_eq!(listed["data"][0]["state"], "failing", "{listed}");
    assert_eq!(status.state().failing.map(|failing| failing.since_ms), since_ms);
    running.stop().await;
}

#[tokio::test]
async fn administrators_of_other_tenants_and_other_scopes_have_no_webhooks() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let receiver = Receiver::start(&world, &[]).await;
    let running = server(folder.path(), &hook(receiver.address, "")).await;
    let mut headers = Vec::new();
    for (tenant, scope) in [("acme", "admin"), ("default", "read")] {
        let token = json!({"name": scope, "tenant": tenant, "scopes": [scope]}).to_string();
        let (code, added) = admin(&running, "POST", "/admin/tokens", &token).await;
        assert_eq!(code, 201, "{added}");
        headers.push(format!("Authorization: Bearer {}\r\n", added["data"]["secret"].as_str().unwrap()));
    }
    let deliver = "/admin/webhooks/ops/deliveries";
    let (code, listed) = with_header(&running, "GET", "/admin/webhooks", &headers[0], "").await;
    assert_eq!((code, &listed["data"]), (200, &json!([])));
    for (method, path) in [("GET", "/admin/webhooks/ops/dead-letters"), ("POST", deliver)] {
        let (code, missing) = with_header(&running, method, path, &headers[0], "").await;
        assert_eq!((code, &missing["code"]), (404, &json!("webhook_not_found")), "{path}");
    }
    for (method, path) in
        [("GET", "/admin/webhooks"), ("GET", "/admin/webhooks/ops/dead-letters"), ("POST", deliver)]
    {
        let (code, refused) = with_header(&running, method, path, &headers[1], "").await;
        assert_eq!((code, &refused["code"]), (403, &json!("scope_missing")), "{path}");
    }
    assert_eq!(receiver.all().len(), 0);
    running.stop().await;
}

async fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Http {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // As a browser sends the form of a page without a referrer, through a proxy.
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: r.example\r\nOrigin: null\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    Http { head: head.replace("\r\n", "\n").to_lowercase(), body: body.to_owned() }
}

fn approval(id: &str, more: &Value) -> Vec<(&'static str, Value)> {
    let mut data = json!({
        "approval_id": id, "tool_call_id": format!("c-{id}"), "kind": "shell_exec",
        "summary": "rm <b>-r</b> old\u{200b}", "consequence": "Deletes files.", "risk_level": "high",
        "irreversible": true, "timeout_seconds": 600, "preview": "rm <b>-r</b> old\u{200b}\ntrue",
        "preview_kind": "command",
    });
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let call = json!({
        "turn_index": 0, "tool_call_id": format!("c-{id}"), "tool_name": "shell_exec", "input": {"command": "x"},
    });
    vec![
        ("run.started", json!({})),
        ("turn.started", json!({"turn_index": 0})),
        ("assistant.tool_call_proposed", call),
        ("turn.completed", json!({"turn_index": 0, "stop_reason": "tool_use"})),
        ("approval.requested", data),
    ]
}

/// A server whose webhook has links for ada, and its receiver.
async fn server_with_links(folder: &Path, world: &World) -> (Running, Receiver, String) {
    let receiver = Receiver::start(world, &[]).await;
    let more = "approver = 'ada'\nevents = ['approval.requested', 'clarification.requested']";
    let configuration = format!("public_url = 'https://r.example/'\n{}", hook(receiver.address, more));
    let running = server(folder, &configuration).await;
    until(|| running.webhooks.statuses()[0].state().is_loaded).await;
    (running, receiver, configuration)
}

/// The path of the link in the newest message.
async fn link(receiver: &Receiver, count: usize) -> String {
    let received = receiver.wait_for(count).await;
    let url = received[count - 1].1.json()["decision_url"].as_str().unwrap().to_owned();
    url.strip_prefix("https://r.example").unwrap().to_owned()
}

async fn last_event(running: &Running) -> Value {
    let last = running.engine.read().last_position().await.unwrap();
    let (events, _) = running.engine.read().read_feed(Some(last - 1), 1).await.unwrap();
    serde_json::from_slice(&events[0].1).unwrap()
}

async fn audited(running: &Running) -> Vec<Value> {
    let audit = running.gate.tenants.audit().unwrap().engine().clone();
    let (events, _) = audit.read().read_feed(None, 100).await.unwrap();
    events.iter().map(|(_, bytes)| serde_json::from_slice(bytes).unwrap()).collect()
}

#[tokio::test]
async fn a_link_answers_one_approval_once() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let (running, receiver, _) = server_with_links(folder.path(), &world).await;
    run(&running, "clean up", &approval("a1", &json!({}))).await;
    let path = link(&receiver, 1).await;

    for _ in 0..2 {
        let page = request(running.address, "GET", &path, "").await;
        assert_eq!(page.status(), 200, "{page:?}");
        for words in [
            "rm &lt;b&gt;-r&lt;/b&gt; old\\u{200b}\ntrue",
            "Deletes files. This cannot be undone.",
            "clean up",
            "reject, at 2",
            "<strong><bdi>ada</bdi></strong>",
            "value=\"approve\"",
            "value=\"reject\"",
            "name=\"comment\"",
        ] {
            assert!(page.body.contains(words), "{words}: {}", page.body);
        }
        assert!(!page.body.contains("<script") && !page.body.contains("<b>"), "{}", page.body);
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("script"),
            "{policy}"
        );
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
    }
    assert_eq!(last_event(&running).await["type"], "approval.requested", "reading decides nothing");

    for (form, words) in [
        ("", "Choose Approve or Reject"),
        ("decision=allow", "Choose Approve or Reject"),
        ("decision=approve&decision=reject", "a field twice"),
        ("decision=approve&remember=run", "an unknown field"),
    ] {
        let page = request(running.address, "POST", &path, form).await;
        assert!(page.status() == 400 && page.body.contains(words), "{form}: {page:?}");
    }
    let page = request(running.address, "POST", &path, "decision=approve&comment=fine+%3Cb%3E").await;
    assert!(page.status() == 200 && page.body.contains("Your answer is recorded"), "{page:?}");
    let event = last_event(&running).await;
    assert_eq!(event["type"], "approval.resolved");
    let (by, comment) = (&event["data"]["by"], &event["data"]["comment"]);
    assert_eq!((by, comment), (&json!("ada (link of webhook ops)"), &json!("fine <b>")), "{event}");

    for method in ["POST", "GET"] {
        let page = request(running.address, method, &path, "decision=reject").await;
        assert_eq!(page.status(), 410, "{page:?}");
        let outcome = "Outcome: approved by ada (link of webhook ops), ";
        assert!(page.body.contains(outcome) && page.body.contains("fine &lt;b&gt;"), "{}", page.body);
    }
    assert_eq!(last_event(&running).await, event);
    running.gate.tenants.audit().unwrap().end().await;
    let audited = audited(&running).await;
    let used: Vec<_> =
        audited.iter().filter(|event| event["type"] == "ext.recount.decision_link_used").collect();
    assert_eq!(
        (used.len(), &used[0]["data"]["approver"], &used[0]["data"]["decision"]),
        (1, &json!("ada"), &json!("approve"))
    );
    let refused = |code: &str| audited.iter().any(|event| event["data"]["code"] == code);
    assert!(refused("decision_prompt_answered") && refused("decision_form_invalid"), "{audited:?}");
    running.stop().await;
}

#[tokio::test]
async fn forged_expired_foreign_and_withdrawn_links_decide_nothing() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let (running, receiver, configuration) = server_with_links(folder.path(), &world).await;
    run(&running, "one", &approval("a1", &json!({}))).await;
    run(&running, "two", &approval("a2", &json!({}))).await;
    let (one, two) = (link(&receiver, 1).await, link(&receiver, 2).await);
    let approve = "decision=approve";

    let (body, proof) = one.split_once('.').unwrap();
    let (_, other_proof) = two.split_once('.').unwrap();
    let flipped = if proof.starts_with('A') { "B" } else { "A" };
    for forged in
        [format!("{body}.{other_proof}"), format!("{body}.{flipped}{}", &proof[1..]), body.to_owned()]
    {
        for method in ["GET", "POST"] {
            let page = request(running.address, method, &forged, approve).await;
            assert!(page.status() == 404 && page.body.contains("not valid"), "{page:?}");
        }
    }
    // Answered elsewhere.
    let command = recount_run::Command::ResolveApproval {
        approval_id: ForeignId::parse("a1").unwrap(),
        approve: false,
        by: "operator".to_owned(),
        comment: None,
        remember: None,
    };
    let claimed = receiver.all()[0].1.json()["run_id"].as_str().unwrap().parse().unwrap();
    running.engine.write().submit(claimed, command).await.unwrap();
    let page = request(running.address, "POST", &one, approve).await;
    assert!(page.status() == 410 && page.body.contains("Outcome: rejected by operator, "), "{page:?}");

    // After its deadline.
    run(&running, "three", &approval("a3", &json!({"timeout_seconds": 1}))).await;
    let three = link(&receiver, 3).await;
    let waiting = async {
        while request(running.address, "GET", &three, "").await.status() == 200 {
            // tidy: between two looks at the condition
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    let page = request(running.address, "POST", &three, approve).await;
    assert_eq!(page.status(), 410, "{page:?}");
    assert_ne!(last_event(&running).await["type"], "approval.resolved");
    running.stop().await;

    // For another person now.
    let running = server(folder.path(), &configuration.replace("'ada'", "'eve'")).await;
    let page = request(running.address, "POST", &two, approve).await;
    assert!(page.status() == 410 && page.body.contains("withdrawn"), "{page:?}");
    running.stop().await;
    let running = server(folder.path(), &configuration).await;
    let page = request(running.address, "POST", &two, "decision=reject").await;
    assert!(page.status() == 200 && page.body.contains("rejected by ada"), "{page:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_is_not_shown_whole_cannot_be_approved_and_questions_can_be_answered() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let (running, receiver, _) = server_with_links(folder.path(), &world).await;
    run(&running, "cut", &approval("a1", &json!({"preview_size_bytes": 5000}))).await;
    let path = link(&receiver, 1).await;
    let page = request(running.address, "GET", &path, "").await;
    assert!(
        page.body.contains("Not all of the call can be shown") && !page.body.contains("value=\"approve\"")
    );
    let page = request(running.address, "POST", &path, "decision=approve").await;
    assert!(page.status() == 400 && page.body.contains("cannot be approved"), "{page:?}");
    let page = request(running.address, "POST", &path, "decision=reject").await;
    assert_eq!(page.status(), 200, "{page:?}");

    let question = json!({
        "clarification_id": "q1", "question": "which <one>?", "choices": ["a", {"label": "Bee", "value": 2}],
        "timeout_seconds": 600,
    });
    run(&running, "ask", &[("run.started", json!({})), ("clarification.requested", question)]).await;
    let path = link(&receiver, 2).await;
    let page = request(running.address, "GET", &path, "").await;
    assert!(
        page.body.contains("which &lt;one&gt;?") && page.body.contains("<bdi>Bee</bdi>"),
        "{}",
        page.body
    );
    let page = request(running.address, "POST", &path, "decision=answer&choice=1&answer=").await;
    assert_eq!(page.status(), 200, "{page:?}");
    let event = last_event(&running).await;
    assert_eq!((&event["type"], &event["data"]["response"]), (&json!("clarification.answered"), &json!(2)));
    running.stop().await;
}

#[tokio::test]
async fn a_prompt_that_differs_from_the_message_is_not_answered() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::real());
    let (running, receiver, _) = server_with_links(folder.path(), &world).await;
    let claimed = run(&running, "one", &approval("a1", &json!({}))).await;
    link(&receiver, 1).await;
    let key = crate::seal::key(&folder.path().join("data"), &World::real()).unwrap();
    let links = crate::decide::DecisionLinks::new(&key, "https://r.example");
    let id = ForeignId::parse("a1").unwrap();
    let row = running.engine.catalogue().prompt_of(recount_event::PromptKind::Approval, claimed, &id).await;
    let Some(recount_engine::PromptRow::Approval(mut row)) = row.unwrap() else { panic!("an approval") };
    row.summary = "ls".to_owned();
    let webhook = running.webhooks.statuses()[0].webhook.clone();
    let url = links.create(&webhook, "ada", &recount_engine::PromptRow::Approval(row), 1 << 50).unwrap();
    let path = url.strip_prefix("https://r.example").unwrap();
    for method in ["GET", "POST"] {
        let page = request(running.address, method, path, "decision=approve").await;
        assert!(page.status() == 409 && page.body.contains("The prompt has changed"), "{page:?}");
    }
    running.stop().await;
}
