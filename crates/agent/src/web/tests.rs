//! Tests of the web tools against a real server on this machine.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::resolve::NameResolver;
use super::*;
use crate::schema;
use crate::tool::{HostJudge, HostVerdict, Outcome, OutcomeStatus};
use crate::tools::scene::{Scene, code};

/// The server's reply to a request.
enum Reply {
    /// A complete response.
    Whole(Vec<u8>),
    /// The beginning of a response, followed by endless repetitions.
    Endless(String, Vec<u8>),
    /// The beginning of a response, then nothing while the connection stays open.
    Stall(Vec<u8>),
}

/// A server on this machine, and the requests that it received.
struct Server {
    listener: TcpListener,
    address: SocketAddr,
    seen: Mutex<Vec<String>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Server { listener, address, seen: Mutex::default() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Serves requests until the future is dropped.
    async fn serve(&self, reply: &(impl Fn(&str) -> Reply + Sync)) {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => open.push(self.answer(accepted.unwrap().0, reply)),
                Some(()) = open.next() => {}
            }
        }
    }

    async fn answer(&self, mut stream: TcpStream, reply: &(impl Fn(&str) -> Reply + Sync)) {
        let mut request = Vec::new();
        let length = loop {
            let mut room = [0; 4096];
            let count = stream.read(&mut room).await.unwrap();
            request.extend_from_slice(&room[..count]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                assert!(count > 0, "the request ended in its head: {text}");
                continue;
            };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                break length;
            }
        };
        let request = String::from_utf8(request).unwrap();
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1.len(), length);
        let path = request.split(' ').nth(1).unwrap().to_owned();
        self.seen.lock().unwrap().push(request);
        // A client may close the connection early.
        match reply(&path) {
            Reply::Whole(bytes) => drop(stream.write_all(&bytes).await),
            Reply::Endless(head, chunk) => {
                let mut going = stream.write_all(head.as_bytes()).await;
                while going.is_ok() {
                    going = stream.write_all(&chunk).await;
                }
            }
            Reply::Stall(bytes) => {
                stream.write_all(&bytes).await.ok();
                stream.read_exact(&mut [0]).await.ok();
            }
        }
    }
}

fn response(status: &str, headers: &str, body: &[u8]) -> Reply {
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
    Reply::Whole([head.as_bytes(), body].concat())
}

fn page(body: &str) -> Reply {
    response("200 OK", "content-type: text/html\r\n", body.as_bytes())
}

fn moved(status: u16, to: &str) -> Reply {
    response(&format!("{status} Moved"), &format!("location: {to}\r\n"), b"")
}

/// The web tools with this configuration.
fn web(toml: &str, private: &[String]) -> Web {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct WebToml {
        hosts: BTreeMap<String, HostSettings>,
        search: Option<SearchSettings>,
    }
    let WebToml { hosts, search } = toml::from_str(toml).unwrap();
    let private_hosts = private.iter().map(|text| text.parse().unwrap()).collect();
    let environment = |name: &str| (name == "KEY").then(|| CANARY.to_owned());
    Web::build(&WebSettings { private_hosts, hosts, search }, &environment, Path::new("/")).unwrap()
}

const CANARY: &str = "canary-in-a-header-of-the-operator";

/// A resolver with scripted results, one line per request.
struct ScriptedResolver(Mutex<VecDeque<&'static str>>);

impl NameResolver for ScriptedResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let next = self.0.lock().unwrap().pop_front();
        Box::pin(async move {
            let next = next.unwrap_or_else(|| panic!("{host} is looked up once more"));
            Ok(next.split(' ').map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect())
        })
    }
}

fn script(lines: &[&'static str]) -> Arc<ScriptedResolver> {
    Arc::new(ScriptedResolver(Mutex::new(lines.iter().copied().collect())))
}

/// Calls a tool while a server replies.
async fn call(
    scene: &mut Scene,
    web: &Web,
    tool: &str,
    input: Value,
    server: &Server,
    reply: impl Fn(&str) -> Reply + Sync,
) -> Outcome {
    let mut tools = Tools::default();
    web.add_to(&mut tools);
    let tool = tools.get(tool).unwrap().clone();
    schema::check(&tool.schema(), &input).unwrap();
    tokio::select! {
        outcome = scene.run_tool(&*tool, input) => outcome,
        () = server.serve(&reply) => unreachable!("it serves without an end"),
    }
}

/// The logged events without durations.
fn logged(scene: &mut Scene, outcome: &Outcome) -> Vec<(String, Value)> {
    let mut events = scene.events(outcome);
    for (_, data) in &mut events {
        let data = data.as_object_mut().unwrap();
        data.remove("tool_call_id");
        data.remove("duration_ms");
    }
    events
}

fn types(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn a_page_is_read_and_the_log_has_names_of_headers_only() {
    let (server, mut scene) = (Server::start().await, Scene::new());
    let hosts = format!("[hosts.'{}']\nheaders_env = {{ X-Key = 'KEY' }}", server.url(""));
    let web = web(&hosts, &[server.address.to_string()]);
    assert_eq!(web.secrets()[0].reveal(), CANARY);
    let html = "<title>T</title><p>Hello <a href='/x'>there</a><script>no</script>";
    let input = json!({ "url": server.url("/page?q=1#part") });
    let outcome = call(&mut scene, &web, "web_fetch", input, &server, |_| page(html)).await;
    assert_eq!(outcome.status, OutcomeStatus::Completed, "{outcome:?}");
    assert!(
        outcome.output.contains(&format!("Title: T\n\nHello [there]({})", server.url("/x"))),
        "{}",
        outcome.output
    );
    assert!(outcome.output.contains(super::call::FOREIGN));
    let [request] = &server.seen()[..] else { panic!("{:?}", server.seen()) };
    assert!(request.starts_with("GET /page?q=1 HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains(&format!("x-key: {CANARY}")) && request.contains("accept-encoding: identity"),
        "{request}"
    );
    assert_eq!(scene.stored(0), ("fetched_resource".to_owned(), html.into()));
    let events = logged(&mut scene, &outcome);
    let requested = json!({
        "method": "GET", "url": server.url("/page?q=1"),
        "header_keys": ["accept", "accept-encoding", "host", "user-agent", "x-key"],
    });
    let response = json!({ "status": 200, "body_artifact_id": "art_1", "body_truncated": false });
    assert_eq!(types(&events), ["tool.web_fetch.requested", "artifact.created", "tool.web_fetch.response"]);
    assert_eq!((&events[0].1, &events[2].1), (&requested, &response));
    assert!(!format!("{events:?} {outcome:?} {web:?}").contains("canary"));
}

#[tokio::test]
async fn a_request_sends_the_input_and_returns_the_response() {
    let (server, mut scene) = (Server::start().await, Scene::new());
    let web = web("", &[server.address.to_string()]);
    let input = json!({
        "url": server.url("/items"), "method": "POST", "body": "{\"a\":1}",
        "headers": [{ "name": "X-Mine", "value": "canary-of-the-call" }, { "name": "Accept", "value": "application/json" }]
    });
    let reply = |_: &str| {
        let headers =
            "content-type: application/json\r\nset-cookie: id=canary-of-the-answer\r\nretry-after: 7\r\n";
        response("409 Conflict", headers, b"{\"error\":\"taken\"}")
    };
    let outcome = call(&mut scene, &web, "http_request", input, &server, reply).await;
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    for message in [
        "HTTP 409 Conflict from",
        "retry-after: 7\n",
        "[more headers: connection, set-cookie]",
        "\n{\"error\":\"taken\"}\n",
    ] {
        assert!(outcome.output.contains(message), "{message}: {}", outcome.output);
    }
    let request = server.seen().remove(0);
    assert!(
        request.starts_with("POST /items HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{\"a\":1}"),
        "{request}"
    );
    assert!(
        request.contains("content-type: application/json") && request.contains("x-mine: canary-of-the-call"),
        "{request}"
    );
    let events = logged(&mut scene, &outcome);
    assert_eq!(types(&events), ["tool.http.requested", "tool.http.response"]);
    let keys =
        ["accept", "accept-encoding", "content-length", "content-type", "host", "user-agent", "x-mine"];
    assert_eq!(events[0].1, json!({ "method": "POST", "url": server.url("/items"), "header_keys": keys }));
    assert_eq!(events[1].1, json!({ "status": 409, "body_truncated": false }));
    assert!(!format!("{events:?} {outcome:?}").contains("canary"));
}

#[tokio::test]
async fn invalid_requests_are_refused_before_anything_is_sent() {
    let (server, mut scene) = (Server::start().await, Scene::new());
    let web = web("", &[]);
    for (tool, input, expected) in [
        ("web_fetch", json!({ "url": server.url("/") }), "address_refused"),
        ("web_fetch", json!({ "url": "file:///etc/passwd" }), "url_refused"),
        ("http_request", json!({ "url": "http://a:b@1.1.1.1/" }), "url_refused"),
        ("http_request", json!({ "url": "http://1.1.1.1/", "body": "x" }), "invalid_input"),
        (
            "http_request",
            json!({ "url": "http://1.1.1.1/", "headers": [{ "name": "Host", "value": "x" }] }),
            "invalid_input",
        ),
        (
            "http_request",
            json!({ "url": "http://1.1.1.1/", "headers": [{ "name": "a b", "value": "x" }] }),
            "invalid_input",
        ),
        ("web_search", json!({ "query": "x" }), "tool_unavailable"),
    ] {
        let outcome = call(&mut scene, &web, tool, input.clone(), &server, |_| page("no")).await;
        assert_eq!(code(&outcome), expected, "{input}: {outcome:?}");
        assert!(scene.events(&outcome).is_empty(), "{input}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_redirect_target_is_checked() {
    let (server, other) = (Server::start().await, Server::start().await);
    let web = web("", &[server.address.to_string()]);
    let address = server.address;
    for (to, expected) in [
        (other.url("/"), "address_refused"),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "address_refused"),
        ("http://[::1]/".to_owned(), "address_refused"),
        ("http://0x7f.1/".to_owned(), "address_refused"),
        ("file:///etc/passwd".to_owned(), "url_refused"),
        ("http://u:p@1.1.1.1/".to_owned(), "url_refused"),
        // Another host, which the policy did not allow.
        ("http://1.1.1.1/".to_owned(), "redirect_not_followed"),
        (format!("http://{address}/again"), "too_many_redirects"),
    ] {
        // Only the last URL has another host, as far as the policy knows.
        let mut scene = Scene::new();
        if expected == "address_refused" {
            scene.hosts = HostJudge::new(|_, _| HostVerdict::Allowed);
        }
        let input = json!({ "url": server.url("/start") });
        let outcome = call(&mut scene, &web, "web_fetch", input, &server, |_| moved(302, &to)).await;
        assert_eq!(code(&outcome), expected, "{to}: {outcome:?}");
        let events = logged(&mut scene, &outcome);
        let hops = if expected == "too_many_redirects" { limits::WEB_REDIRECTS_MAX + 1 } else { 1 };
        assert_eq!(events.len(), 2 * hops, "{to}: {events:?}");
        // Only the first hop is logged.
        assert_eq!(events[1], ("tool.web_fetch.response".to_owned(), json!({ "status": 302 })));
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn a_rule_may_allow_or_forbid_the_host_of_a_redirect() {
    let server = Server::start().await;
    let port = server.address.port();
    let private = [format!("127.0.0.1:{port}")];
    for (verdict, expected) in [
        (HostVerdict::Allowed, "completed"),
        (HostVerdict::NeedsApproval("why".into()), "redirect_not_followed"),
        (HostVerdict::Blocked("why".into()), "redirect_blocked"),
    ] {
        let hosts = format!("[hosts.'http://a.example:{port}']\nheaders_env = {{ X-Key = 'KEY' }}");
        let mut web = web(&hosts, &private);
        web.resolver = script(&["127.0.0.1", "127.0.0.1"]);
        let mut scene = Scene::new();
        let requested_hosts = Arc::new(Mutex::new(Vec::new()));
        let (recorded, answer) = (requested_hosts.clone(), verdict.clone());
        scene.hosts = HostJudge::new(move |tool, assessment| {
            recorded.lock().unwrap().push((tool.to_owned(), assessment.targets.hosts.clone()));
            answer.clone()
        });
        let before = server.seen().len();
        let input = json!({ "url": format!("http://a.example:{port}/"), "headers": [{ "name": "Authorization", "value": "canary" }] });
        let reply = |path: &str| {
            if path == "/" { moved(307, &format!("http://b.example:{port}/next")) } else { page("here") }
        };
        let outcome = call(&mut scene, &web, "http_request", input, &server, reply).await;
        assert_eq!(code(&outcome), expected, "{outcome:?}");
        assert_eq!(
            *requested_hosts.lock().unwrap(),
            [("http_request".to_owned(), vec!["b.example".to_owned()])]
        );
        let seen = server.seen().split_off(before);
        assert!(seen[0].contains("authorization: canary") && seen[0].contains(CANARY), "{seen:?}");
        assert_eq!(seen.len(), if expected == "completed" { 2 } else { 1 });
        // No headers of the call are sent to another server.
        assert!(seen.iter().skip(1).all(|request| !request.contains("canary")), "{seen:?}");
    }
}

#[tokio::test]
async fn a_name_is_resolved_once_for_each_request() {
    let server = Server::start().await;
    let port = server.address.port();
    // A name that resolves differently the second time is resolved only once within a request …
    let mut open = web("", &[format!("127.0.0.1:{port}")]);
    open.resolver = script(&["127.0.0.1"]);
    let mut scene = Scene::new();
    let input = json!({ "url": format!("http://rebind.example:{port}/") });
    let outcome = call(&mut scene, &open, "web_fetch", input.clone(), &server, |_| page("here")).await;
    assert_eq!(code(&outcome), "completed", "{outcome:?}");
    // … and is checked again by the next one.
    open.resolver = script(&["127.0.0.1", "10.0.0.1"]);
    let reply = |path: &str| if path == "/" { moved(302, "/next") } else { page("not here") };
    let outcome = call(&mut scene, &open, "web_fetch", input.clone(), &server, reply).await;
    assert_eq!(code(&outcome), "address_refused", "{outcome:?}");
    // One private address among others refuses the host.
    open.resolver = script(&["1.1.1.1 10.0.0.1"]);
    let outcome = call(&mut scene, &open, "web_fetch", input, &server, |_| page("not here")).await;
    assert_eq!(code(&outcome), "address_refused", "{outcome:?}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn endless_and_compressed_bodies_are_limited() {
    let server = Server::start().await;
    let web = web("", &[server.address.to_string()]);
    for (tool, most) in
        [("http_request", limits::HTTP_BODY_BYTES_MAX), ("web_fetch", limits::WEB_PAGE_BYTES_MAX)]
    {
        let mut scene = Scene::new();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_owned();
        let input = json!({ "url": server.url("/") });
        let outcome = call(&mut scene, &web, tool, input, &server, |_| {
            Reply::Endless(head.clone(), b"words ".repeat(4_000))
        })
        .await;
        assert_eq!(outcome.status, OutcomeStatus::Completed);
        assert!(outcome.output.contains(&format!("larger than {most} bytes")), "{}", outcome.output.len());
        assert_eq!(scene.stored(0).1.len(), most);
        let events = logged(&mut scene, &outcome);
        assert_eq!(events.last().unwrap().1["body_truncated"], true);
    }
    // A compressed body that was not requested is not unpacked.
    let mut scene = Scene::new();
    let bomb = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let reply = |_: &str| response("200 OK", "content-type: text/html\r\ncontent-encoding: gzip\r\n", &bomb);
    let outcome =
        call(&mut scene, &web, "web_fetch", json!({ "url": server.url("/") }), &server, reply).await;
    assert_eq!(code(&outcome), "encoding_unsupported", "{outcome:?}");
    let events = logged(&mut scene, &outcome);
    assert_eq!(events[1].1["body_truncated"], true);
    assert!(events[1].1["error"].as_str().unwrap().contains("gzip"), "{events:?}");
    // Response heads are limited too.
    let mut scene = Scene::new();
    let reply =
        |_: &str| Reply::Endless("HTTP/1.1 200 OK\r\n".to_owned(), b"x-more: and more\r\n".repeat(100));
    let outcome =
        call(&mut scene, &web, "http_request", json!({ "url": server.url("/") }), &server, reply).await;
    assert_eq!(code(&outcome), "response_invalid", "{outcome:?}");
    let reply =
        |_: &str| response("200 OK", &format!("x: {}\r\n", "y".repeat(limits::WEB_HEADER_BYTES_MAX)), b"");
    let outcome =
        call(&mut scene, &web, "http_request", json!({ "url": server.url("/") }), &server, reply).await;
    assert_eq!(code(&outcome), "response_invalid", "{outcome:?}");
}

#[tokio::test]
async fn slow_servers_are_abandoned_and_received_data_is_returned() {
    let server = Server::start().await;
    let short = Duration::from_millis(200);
    let long = Duration::from_secs(60);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\n";
    for (silence, whole, sent, message) in [
        (short, long, "", "sent nothing for"),
        (short, long, head, "sent nothing for"),
        (long, short, head, "did not finish within"),
        (long, short, "", "no response within"),
    ] {
        let mut web = web("", &[server.address.to_string()]);
        web.patience = WebPatience { silence, whole, ..WebPatience::default() };
        let mut scene = Scene::new();
        let reply = |_: &str| {
            Reply::Stall(if sent.is_empty() { Vec::new() } else { format!("{sent}half").into_bytes() })
        };
        let outcome =
            call(&mut scene, &web, "http_request", json!({ "url": server.url("/") }), &server, reply).await;
        assert!(
            matches!(&outcome.status, OutcomeStatus::TimedOut { code: "timeout", error } if error.contains(message)),
            "{message}: {outcome:?}"
        );
        assert_eq!(outcome.output.contains("\nhalf\n"), !sent.is_empty(), "{}", outcome.output);
        let events = logged(&mut scene, &outcome);
        assert_eq!(types(&events), ["tool.http.requested", "tool.http.response"]);
        assert!(events[1].1["error"].as_str().unwrap().contains(message), "{events:?}");
    }
    // A body that ends too early.
    let web = web("", &[server.address.to_string()]);
    let mut scene = Scene::new();
    let cut = |_: &str| Reply::Whole(format!("{head}half").into_bytes());
    let outcome = call(&mut scene, &web, "web_fetch", json!({ "url": server.url("/") }), &server, cut).await;
    assert_eq!(code(&outcome), "response_cut", "{outcome:?}");
    assert!(outcome.output.contains("\nhalf\n"), "{}", outcome.output);
    // A server that does not speak HTTP.
    let outcome = call(&mut scene, &web, "web_fetch", json!({ "url": server.url("/") }), &server, |_| {
        Reply::Whole(b"220 mail\r\n".to_vec())
    })
    .await;
    assert_eq!(code(&outcome), "response_invalid", "{outcome:?}");
    // A closed port, with and without encryption: the port stays bound, so that no other test can listen on it.
    let port = tokio::net::TcpSocket::new_v4().unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = port.local_addr().unwrap();
    for scheme in ["http", "https"] {
        let input = json!({ "url": format!("{scheme}://{closed}/") });
        let web = self::web("", &[closed.to_string()]);
        let outcome = call(&mut scene, &web, "web_fetch", input, &server, |_| page("no")).await;
        assert_eq!(code(&outcome), "unreachable", "{outcome:?}");
    }
}

#[tokio::test]
async fn a_call_can_be_cancelled() {
    let (server, mut scene) = (Server::start().await, Scene::new());
    let web = web("", &[server.address.to_string()]);
    let stop = scene.stop.clone();
    let reply = |_: &str| {
        stop.send_replace(true);
        Reply::Stall(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())
    };
    let outcome =
        call(&mut scene, &web, "web_fetch", json!({ "url": server.url("/") }), &server, reply).await;
    assert_eq!(outcome.status, OutcomeStatus::Cancelled);
    let events = logged(&mut scene, &outcome);
    assert_eq!(events[1].1, json!({ "error": "the call was cancelled" }));
}

#[tokio::test]
async fn a_search_queries_the_provider_and_returns_its_results() {
    let (server, mut scene) = (Server::start().await, Scene::new());
    // A provider that the operator configured needs no further permission.
    let settings = format!(
        "[search]\nurl = '{}'\nheaders_env = {{ X-Key = 'KEY' }}",
        server.url("/s?key=canary&q={query}")
    );
    let web = web(&settings, &[]);
    let answer = json!({ "results": [
        { "title": "One", "url": "http://a.example/", "content": "first" },
        { "title": "Two", "url": "http://b.example/", "content": "second" },
    ] });
    let reply = |_: &str| response("200 OK", "", answer.to_string().as_bytes());
    let input = json!({ "query": "a b", "count": 1 });
    let outcome = call(&mut scene, &web, "web_search", input, &server, reply).await;
    assert_eq!(outcome.status, OutcomeStatus::Completed, "{outcome:?}");
    assert!(outcome.output.ends_with("\n1. One\n   http://a.example/\n   first\n"), "{}", outcome.output);
    assert!(server.seen()[0].starts_with("GET /s?key=canary&q=a+b HTTP/1.1\r\n"));
    let events = logged(&mut scene, &outcome);
    let keys = ["accept", "accept-encoding", "host", "user-agent", "x-key"];
    assert_eq!(
        events,
        [
            (
                "tool.web_search.requested".to_owned(),
                json!({ "method": "GET", "url": server.url("/s"), "query": "a b", "header_keys": keys })
            ),
            (
                "tool.web_search.response".to_owned(),
                json!({
                    "status": 200, "body_truncated": false,
                    "hits": [{ "title": "One", "url": "http://a.example/", "snippet": "first" }]
                })
            ),
        ]
    );
    assert!(!format!("{outcome:?} {web:?}").contains("canary"));
    for (reply, expected) in [
        (response("401 Unauthorized", "", b"canary"), "search_failed"),
        (response("200 OK", "", b"<html>canary"), "search_unreadable"),
        (moved(302, "http://a.example/"), "redirect_not_followed"),
    ] {
        let Reply::Whole(bytes) = reply else { unreachable!() };
        let reply = |_: &str| Reply::Whole(bytes.clone());
        let outcome = call(&mut scene, &web, "web_search", json!({ "query": "x" }), &server, reply).await;
        assert_eq!(code(&outcome), expected, "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("canary"), "{outcome:?}");
    }
}
