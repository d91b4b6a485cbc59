//! Runs whose model uses the web: a real local server, and what the log contains of it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use recount_agent::web::{HostSettings, SearchSettings, Web, WebSettings};
use recount_engine::{Redactor, RunConfig};
use recount_event::family::tool::{RefusalCode, RiskLevel};
use recount_event::{Event, RunId};
use recount_redact::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::runs::scene::{Scene, Setup, course, first, refusals, results};

/// Values that only requests contain.
const OPERATORS: &str = "canary-of-the-operator-8d2f";
const SEARCHES: &str = "canary-of-the-search-41ac";
const ANSWERS: &str = "canary-in-the-answer-77b0";

/// A local server.
struct Server {
    listener: TcpListener,
    requests: Mutex<Vec<String>>,
}

impl Server {
    async fn start() -> Self {
        Server { listener: TcpListener::bind("127.0.0.1:0").await.unwrap(), requests: Mutex::default() }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// Answers one request after another while it is polled.
    async fn serve(&self) {
        loop {
            let (mut stream, _) = self.listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut room = [0; 4096];
                let count = stream.read(&mut room).await.unwrap();
                assert!(count > 0, "a request ended in its head");
                request.extend_from_slice(&room[..count]);
            }
            let request = String::from_utf8(request).unwrap();
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let (status, headers, body) = answer(&path);
            self.requests.lock().unwrap().push(request);
            let length = body.len();
            let whole = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
            );
            stream.write_all(whole.as_bytes()).await.unwrap();
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(path: &str) -> (&'static str, String, String) {
    let path = path.split('?').next().unwrap();
    match path {
        "/page" => {
            let page =
                "<title>Tides</title><h1>Low water</h1><p>At <a href=/noon>noon</a>.<script>no</script>";
            ("200 OK", format!("content-type: text/html\r\nset-cookie: id={ANSWERS}\r\n"), page.to_owned())
        }
        "/moved" => ("302 Found", "location: http://localhost.other.example/\r\n".to_owned(), String::new()),
        "/inside" => ("302 Found", "location: http://169.254.169.254/latest/\r\n".to_owned(), String::new()),
        "/long" => ("200 OK", "content-type: text/plain\r\n".to_owned(), "word ".repeat(100_000)),
        "/search" => {
            let hits =
                r#"{"results":[{"title":"Tides","url":"http://tides.example/","content":"of today"}]}"#;
            ("200 OK", "content-type: application/json\r\n".to_owned(), hits.to_owned())
        }
        _ => ("200 OK", "content-type: application/json\r\n".to_owned(), "{\"done\":true}".to_owned()),
    }
}

/// A scene with a server, whose model makes these calls, one in each turn, and then ends.
async fn scene(server: &Server, policy: &str, with_search: bool, calls: &[(&str, String)]) -> Scene {
    let origin = server.origin();
    let own: HostSettings = toml::from_str("headers_env = { X-Key = 'OPERATORS' }").unwrap();
    let search = format!("url = '{origin}/search?q={{query}}'\nheaders_env = {{ X-Token = 'SEARCHES' }}");
    let settings = WebSettings {
        private_hosts: vec![origin.trim_start_matches("http://").parse().unwrap()],
        hosts: [(origin.clone(), own)].into(),
        search: with_search.then(|| toml::from_str::<SearchSettings>(&search).unwrap()),
    };
    let environment = |name: &str| match name {
        "OPERATORS" => Some(OPERATORS.to_owned()),
        "SEARCHES" => Some(SEARCHES.to_owned()),
        _ => None,
    };
    let web = Web::build(&settings, &environment, Path::new("/")).unwrap();
    let known = web.secrets().iter().map(|secret| Secret::new(secret.reveal()).unwrap()).collect();
    let turn = |(name, input): &(&str, String)| {
        format!("[[turn]]\ncall = [{{ name = \"{name}\", input = {{ {input} }} }}]\n")
    };
    let script: String = calls.iter().map(turn).chain(["[[turn]]\ntext = \"Done.\"\n".to_owned()]).collect();
    Scene::with_setup(Setup {
        script,
        policy: policy.to_owned(),
        redactor: Arc::new(Redactor::new(known, true)),
        web: Some(web),
        ..Setup::default()
    })
    .await
}

/// Waits for the end of a run while the server answers.
async fn ended(scene: &Scene, server: &Server, run: RunId) -> Vec<Event> {
    tokio::select! {
        events = scene.ended(run) => events,
        () = server.serve() => unreachable!("it serves without an end"),
    }
}

const ALLOW: &str = "[[rules]]\nid = 'web'\nhost = '127.0.0.1'\naction = 'allow'\n";

#[tokio::test]
async fn the_log_has_header_names_without_values() {
    let server = Server::start().await;
    let origin = server.origin();
    let calls = [
        ("web_fetch", format!("url = \"{origin}/page\"")),
        ("http_request", format!("url = \"{origin}/items?n=1\"")),
        ("web_search", "query = \"tides today\"".to_owned()),
        ("web_fetch", format!("url = \"{origin}/long\"")),
    ];
    let scene = scene(&server, ALLOW, true, &calls).await;
    let run = scene.start("look").await;
    let events = ended(&scene, &server, run).await;
    let between = |name: &str, inner: &[&str]| -> Vec<String> {
        let outer = ["assistant.tool_call_proposed", "turn.completed", "tool.invoked", "tool.started"];
        let typed = inner
            .iter()
            .map(|end| if end.contains('.') { (*end).to_owned() } else { format!("tool.{name}.{end}") });
        outer
            .iter()
            .map(|name| (*name).to_owned())
            .chain(typed)
            .chain(["tool.completed".to_owned()])
            .collect()
    };
    let end = ["assistant.final_answer", "turn.completed", "run.finished"].map(str::to_owned);
    assert_eq!(
        course(&events),
        [
            between("web_fetch", &["requested", "artifact.created", "response"]),
            between("http", &["requested", "response"]),
            between("web_search", &["requested", "response"]),
            between("web_fetch", &["requested", "artifact.created", "response"]),
            end.to_vec(),
        ]
        .concat()
    );
    let requested = first!(events, ToolWebFetchRequested);
    assert_eq!(requested.url.unwrap(), format!("{origin}/page"));
    assert_eq!(requested.method.as_deref(), Some("GET"));
    let keys = ["accept", "accept-encoding", "host", "user-agent", "x-key"].map(str::to_owned);
    assert_eq!(requested.header_keys.as_deref(), Some(&keys[..]));
    let response = first!(events, ToolWebFetchResponse);
    assert_eq!((response.status, response.body_truncated), (Some(200), Some(false)));
    assert!(response.duration_ms.is_some() && response.body_artifact_id.is_some());
    let search = first!(events, ToolWebSearchRequested);
    assert_eq!(
        (search.url, search.query),
        (Some(format!("{origin}/search")), Some("tides today".to_owned()))
    );
    let hits = first!(events, ToolWebSearchResponse).hits.unwrap();
    assert_eq!(hits[0].text(), r#"{"title":"Tides","url":"http://tides.example/","snippet":"of today"}"#);
    let results = results(&events);
    assert!(
        results[0].0.contains(&format!("Title: Tides\n\n# Low water\n\nAt [noon]({origin}/noon).")),
        "{results:?}"
    );
    assert!(results[1].0.ends_with("{\"done\":true}\n") && results[2].0.contains("1. Tides"), "{results:?}");
    assert!(results[3].0.contains("of 500000 bytes of the text; continue with offset"), "{}", results[3].0);
    // The values were sent and are not stored.
    let requests = server.requests().concat();
    assert!(requests.contains(OPERATORS) && requests.contains(SEARCHES), "{requests}");
    for canary in [OPERATORS, SEARCHES, ANSWERS] {
        assert!(!scene.disk.has_seen(canary), "{canary}");
    }
    assert!(scene.disk.has_seen("Low water"));
}

#[tokio::test]
async fn without_a_rule_nothing_is_sent_before_an_approval() {
    let server = Server::start().await;
    let calls =
        [("http_request", format!("url = \"{}/items\", method = \"POST\", body = \"x\"", server.origin()))];
    let scene = scene(&server, "", false, &calls).await;
    let run = scene.start("send").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    assert_eq!(request.action.as_deref(), Some("Send a POST request to 127.0.0.1."));
    assert_eq!(request.risk_level, Some(RiskLevel::Medium));
    assert_eq!(request.policy_reason.as_deref(), Some("calls that use the network need approval"));
    assert!(server.requests().is_empty());
    scene.decide(run, &events, true).await;
    let events = ended(&scene, &server, run).await;
    assert_eq!(first!(events, ToolHttpResponse).status, Some(200));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_to_a_refused_host_is_not_followed() {
    let server = Server::start().await;
    let calls =
        ["/moved", "/inside"].map(|path| ("web_fetch", format!("url = \"{}{path}\"", server.origin())));
    for (policy, wanted) in [
        (ALLOW.to_owned(), "redirect_not_followed"),
        (format!("{ALLOW}[[rules]]\nid = 'not'\nhost = '*.example'\naction = 'block'"), "redirect_blocked"),
    ] {
        let scene = scene(&server, &policy, false, &calls).await;
        let run = scene.start("look").await;
        let events = ended(&scene, &server, run).await;
        let refusals = refusals(&events);
        let codes: Vec<&str> = refusals.iter().map(|(code, _)| code.as_str()).collect();
        // The metadata service is refused although no rule names it.
        let second = if wanted == "redirect_blocked" { "redirect_not_followed" } else { wanted };
        assert_eq!(codes, [wanted, second], "{refusals:?}");
        assert_eq!(first!(events, ToolWebFetchResponse).status, Some(302));
    }
    let all = "[[rules]]\nid = 'all'\nhost = '*'\naction = 'allow'\n";
    let scene = scene(&server, all, false, &calls[1..]).await;
    let run = scene.start("look").await;
    let refusals = refusals(&ended(&scene, &server, run).await);
    assert_eq!(refusals[0].0, "address_refused", "{refusals:?}");
    assert!(refusals[0].1.contains("a cloud metadata service"), "{refusals:?}");
}

#[tokio::test]
async fn a_search_without_a_provider_is_unavailable() {
    let server = Server::start().await;
    let scene = scene(&server, "", false, &[("web_search", "query = \"x\"".to_owned())]).await;
    for tools in [None, Some(vec!["web_search".to_owned()])] {
        let order = RunConfig { tools, ..RunConfig::default() };
        let run = scene.start_with("search", order, None, None).await;
        let events = scene.ended(run).await;
        let unavailable = first!(events, ErrorToolUnavailable);
        assert_eq!(
            (unavailable.tool_name.as_str(), unavailable.reason.as_str()),
            ("web_search", "not_configured")
        );
        let refused = first!(events, ToolRefused);
        assert_eq!(refused.code, RefusalCode::Unavailable);
        assert!(refused.message.contains("[web.search]"), "{}", refused.message);
    }
    assert!(server.requests().is_empty());
}
