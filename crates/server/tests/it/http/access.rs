//! Access: tokens, tickets, tenants and origins, and the refusals.

use std::time::Duration;

use recount_event::Code;
use recount_server::access::Access;

use crate::http::admin::at_home_with;
use crate::test_context::{STORY, TestContext, batch, check_problem, check_reply, text};
use crate::wire::{Frame, Listener, Reply, Wire, request};

/// Sends a request with a token.
pub(crate) async fn request_as(
    context: &TestContext,
    token: Option<&str>,
    method: &str,
    target: &str,
    body: Option<&str>,
) -> Reply {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    context.request(method, target, &headers, body.map(str::as_bytes)).await
}

/// The secret of a new token.
pub(crate) async fn make_token(context: &TestContext, by: Option<&str>, body: &str) -> String {
    let made = request_as(context, by, "POST", "/admin/tokens", Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    check_reply(&made);
    text(&made.data()["secret"])
}

/// Creates a complete run with a token.
pub(crate) async fn new_tenant_run(context: &TestContext, token: &str) -> String {
    let made = request_as(context, Some(token), "POST", "/v1/runs", Some(r#"{"kind":"external"}"#)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let run = text(&made.data()["id"]);
    let events = batch("p", 1, 0, STORY);
    let reply =
        request_as(context, Some(token), "POST", &format!("/v1/runs/{run}/events"), Some(&events)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    run
}

pub(crate) fn strict() -> Access {
    Access { require_token: true, ..Access::default() }
}

/// A server that requires tokens, and a token with all scopes.
pub(crate) async fn context_with_token(data: &std::path::Path) -> (TestContext, String) {
    let open = at_home_with(data, Access::default()).await;
    let all = r#"{"name":"boss","scopes":["admin","read","run","approve","ingest"]}"#;
    let admin = make_token(&open, None, all).await;
    open.running.stop().await;
    (at_home_with(data, strict()).await, admin)
}

#[tokio::test]
async fn a_revoked_token_ends_requests_and_streams() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    check_problem(&context.get("/v1/runs").await, Code::TokenMissing, "no token");
    let made = request_as(
        &context,
        Some(&admin),
        "POST",
        "/admin/tokens",
        Some(r#"{"name":"reader","scopes":["read"],"expires_in_seconds":3600,"requests_per_second":1000}"#),
    )
    .await;
    let (id, token) = (text(&made.data()["id"]), text(&made.data()["secret"]));
    let listed = request_as(&context, Some(&admin), "GET", "/admin/tokens", None).await;
    assert!(listed.text().contains(&id) && !listed.text().contains(&token), "{}", listed.text());
    assert!(!listed.text().contains("hash"), "{}", listed.text());
    assert_eq!(request_as(&context, Some(&token), "GET", "/v1/runs", None).await.status, 200);
    let bearer = format!("Bearer {token}");
    let mut stream =
        Listener::open(context.address, "/v1/events/stream", &[("authorization", &bearer)]).await;
    stream.until_caught_up().await;
    let revoked = request_as(&context, Some(&admin), "DELETE", &format!("/admin/tokens/{id}"), None).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    let (frames, _) = stream.all().await;
    assert!(frames.iter().all(|frame| !matches!(frame, Frame::Event { .. })), "{frames:?}");
    check_problem(
        &request_as(&context, Some(&token), "GET", "/v1/runs", None).await,
        Code::TokenInvalid,
        "revoked",
    );
    let again = request_as(&context, Some(&admin), "DELETE", &format!("/admin/tokens/{id}"), None).await;
    check_problem(&again, Code::TokenNotFound, "again");
    // No file of the folder contains the secret.
    context.running.stop().await;
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            for secret in [&admin, &token] {
                let part = &secret.as_bytes()[31..];
                assert!(!bytes.windows(part.len()).any(|window| window == part), "{}", path.display());
            }
        }
    }
}

/// A client learns from the manifest of the accessibility face where it subscribes, before it has a token.
#[tokio::test]
async fn discovery_needs_no_token() {
    let data = tempfile::tempdir().unwrap();
    let (context, _) = context_with_token(data.path()).await;
    for headers in [&[][..], &[("authorization", "Bearer rct_unknown")]] {
        let found = context.request("GET", "/.well-known/aaep-manifest.json", headers, None).await;
        assert_eq!(found.status, 200, "{}", found.text());
        let manifest: serde_json::Value = serde_json::from_str(found.text()).unwrap();
        assert_eq!(manifest["endpoints"]["subscriptions"], "/aaep/v1/subscriptions");
    }
    assert_eq!(context.request("POST", "/aaep/v1/subscriptions", &[], Some(b"{}")).await.status, 401);
}

#[tokio::test]
async fn every_invalid_token_gets_the_same_error() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let mut details = std::collections::BTreeSet::new();
    let other_secret = format!("{}{}", &admin[..31], "0".repeat(64));
    let unknown = format!("rct_01JZZZZZZZZZZZZZZZZZZZZZZZ{}", &admin[30..]);
    for bad in ["x", "rct_", &admin[..40], &other_secret, &unknown] {
        let problem = check_problem(
            &request_as(&context, Some(bad), "GET", "/v1/runs", None).await,
            Code::TokenInvalid,
            bad,
        );
        details.insert(text(&problem["detail"]));
    }
    assert_eq!(details.len(), 1, "{details:?}");
    for (headers, about) in [
        (vec![("authorization", "Basic dXNlcjpwYXNz")], "another scheme"),
        (vec![("authorization", "Bearer")], "no token in it"),
        (vec![("authorization", "Bearer a"), ("authorization", "Bearer b")], "twice"),
    ] {
        check_problem(&context.request("GET", "/v1/runs", &headers, None).await, Code::TokenInvalid, about);
    }
    // A sent token must be valid, also where none is required.
    let open_data = tempfile::tempdir().unwrap();
    let open = at_home_with(open_data.path(), Access::default()).await;
    assert_eq!(open.get("/v1/runs").await.status, 200);
    check_problem(
        &request_as(&open, Some(&admin), "GET", "/v1/runs", None).await,
        Code::TokenInvalid,
        "foreign",
    );
}

#[tokio::test]
async fn tenants_see_nothing_of_each_other() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let all = r#""scopes":["admin","read","run","approve","ingest"]"#;
    let acme = make_token(&context, Some(&admin), &format!(r#"{{"name":"a","tenant":"acme",{all}}}"#)).await;
    let zeta = make_token(&context, Some(&admin), &format!(r#"{{"name":"z","tenant":"zeta",{all}}}"#)).await;
    let ours = new_tenant_run(&context, &acme).await;
    // A foreign run gets the same response as an unknown one, byte for byte.
    let never = "run_01JZZZZZZZZZZZZZZZZZZZZZZZ";
    for suffix in ["", "/events", "/digest"] {
        let foreign =
            request_as(&context, Some(&zeta), "GET", &format!("/v1/runs/{ours}{suffix}"), None).await;
        let unknown =
            request_as(&context, Some(&zeta), "GET", &format!("/v1/runs/{never}{suffix}"), None).await;
        let (foreign_id, unknown_id) =
            (foreign.header("x-request-id").unwrap(), unknown.header("x-request-id").unwrap());
        let plain = |reply: &Reply, run: &str, id: &str| reply.text().replace(run, "RUN").replace(id, "REQ");
        assert_eq!(plain(&foreign, &ours, foreign_id), plain(&unknown, never, unknown_id), "{suffix}");
        assert_eq!(foreign.status, 404);
    }
    for (token, own) in [(&acme, STORY.len() as u64 + 1), (&zeta, 0), (&admin, 0)] {
        let feed = request_as(&context, Some(token), "GET", "/v1/events?limit=1000", None).await;
        assert_eq!(feed.json()["data"].as_array().unwrap().len() as u64, own);
        let listed = request_as(&context, Some(token), "GET", "/v1/runs", None).await;
        assert_eq!(listed.json()["data"].as_array().unwrap().len(), usize::from(own > 0));
    }
    // Positions do not reveal the activity of other tenants either.
    let first = new_tenant_run(&context, &zeta).await;
    let feed = request_as(&context, Some(&zeta), "GET", "/v1/events?limit=1000", None).await;
    assert_eq!(feed.json()["next"], STORY.len() as u64 + 1, "{first}");
    // An administrator of one tenant sees no tokens of others, nor of the default tenant.
    let tokens = request_as(&context, Some(&zeta), "GET", "/admin/tokens", None).await;
    assert_eq!(tokens.json()["data"].as_array().unwrap().len(), 1, "{}", tokens.text());
    for (method, target, body) in [
        ("GET", "/metrics", None),
        ("GET", "/admin/doctor", None),
        ("POST", "/admin/backups", Some("{}")),
        ("POST", "/admin/tokens", Some(r#"{"name":"n","scopes":["read"],"tenant":"acme"}"#)),
    ] {
        check_problem(
            &request_as(&context, Some(&zeta), method, target, body).await,
            Code::ScopeMissing,
            target,
        );
    }
    let listed = request_as(&context, Some(&admin), "GET", "/admin/tokens", None).await;
    let of_acme = listed.json()["data"].as_array().unwrap().iter().find(|t| t["tenant"] == "acme").cloned();
    let id = text(&of_acme.unwrap()["id"]);
    let foreign = request_as(&context, Some(&zeta), "DELETE", &format!("/admin/tokens/{id}"), None).await;
    check_problem(&foreign, Code::TokenNotFound, "of another tenant");
    // Everything persists over a restart and in a copy.
    let made = request_as(&context, Some(&admin), "POST", "/admin/backups", Some(r#"{"name":"b"}"#)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    context.running.stop().await;
    for folder in [data.path().to_owned(), data.path().join("backups/b")] {
        let context = at_home_with(&folder, strict()).await;
        let run = request_as(&context, Some(&acme), "GET", &format!("/v1/runs/{ours}"), None).await;
        assert_eq!(run.status, 200, "{}: {}", folder.display(), run.text());
        assert_eq!(
            request_as(&context, Some(&zeta), "GET", &format!("/v1/runs/{ours}"), None).await.status,
            404
        );
        context.running.stop().await;
    }
}

#[tokio::test]
async fn a_narrowed_token_sees_its_tasks_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let made =
            request_as(&context, Some(&admin), "POST", "/v1/tasks", Some(r#"{"kind":"external"}"#)).await;
        tasks.push((text(&made.data()["id"]), text(&made.data()["latest_run_id"])));
    }
    let ((task, run), (other_task, other_run)) = (&tasks[0], &tasks[1]);
    let body = format!(r#"{{"name":"n","scopes":["read","run","ingest"],"tasks":["{task}"]}}"#);
    let narrow = make_token(&context, Some(&admin), &body).await;
    let get = async |target: String| request_as(&context, Some(&narrow), "GET", &target, None).await;
    assert_eq!(get(format!("/v1/tasks/{task}")).await.status, 200);
    assert_eq!(get(format!("/v1/runs/{run}")).await.status, 200);
    assert_eq!(get(format!("/v1/runs/{run}/events")).await.status, 200);
    for target in [
        format!("/v1/tasks/{other_task}"),
        format!("/v1/tasks/{other_task}/runs"),
        format!("/v1/runs/{other_run}"),
        format!("/v1/runs/{other_run}/events"),
        format!("/v1/runs/{other_run}/digest"),
        format!("/v1/tasks/{task}/runs/{other_run}"),
    ] {
        assert_eq!(get(target.clone()).await.status, 404, "{target}");
    }
    for (target, id) in [("/v1/runs", run), ("/v1/tasks", task)] {
        let listed = get(target.to_owned()).await.json();
        let ids: Vec<&str> =
            listed["data"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [id], "{target}");
    }
    let post = async |target: &str, body: &str| {
        request_as(&context, Some(&narrow), "POST", target, Some(body)).await
    };
    check_problem(&post("/v1/tasks", "{}").await, Code::ScopeMissing, "a task of its own");
    check_problem(&post("/v1/runs", r#"{"kind":"external"}"#).await, Code::ScopeMissing, "a run of its own");
    let outside = format!(r#"{{"kind":"external","task_id":"{other_task}"}}"#);
    check_problem(&post("/v1/runs", &outside).await, Code::TaskNotFound, "in another task");
    let batch = batch("p", 1, 0, &[("run.started", "{}")]);
    let appended = post(&format!("/v1/runs/{other_run}/events"), &batch).await;
    check_problem(&appended, Code::RunNotFound, "to another run");
    assert_eq!(post(&format!("/v1/runs/{run}/events"), &batch).await.status, 200);
}

#[tokio::test]
async fn a_ticket_opens_one_path_for_one_reader() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let run = new_tenant_run(&context, &admin).await;
    let path = format!("/v1/runs/{run}/events");
    let body = format!(r#"{{"path":"{path}"}}"#);
    let made = request_as(&context, Some(&admin), "POST", "/v1/tickets", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let ticket = text(&made.data()["ticket"]);
    let with = |path: &str| format!("{path}?after_sequence=2&ticket={ticket}");
    check_problem(&context.get(&with("/v1/events")).await, Code::TicketInvalid, "another path");
    let opened = context.get(&with(&path)).await;
    assert_eq!(opened.status, 200, "{}", opened.text());
    assert_eq!(context.get(&with(&path)).await.status, 200, "the same reader reconnects");
    let elsewhere = [("user-agent", "another")];
    check_problem(
        &context.request("GET", &with(&path), &elsewhere, None).await,
        Code::TicketInvalid,
        "another reader",
    );
    // A ticket is for reading, and creates no tickets.
    let other = format!("{path}?ticket={ticket}");
    let appended = context.post(&other, &batch("p", 1, 1, &[("run.started", "{}")])).await;
    check_problem(&appended, Code::TokenMissing, "to append");
    let made =
        request_as(&context, Some(&admin), "POST", "/v1/tickets", Some(r#"{"path":"/v1/tickets"}"#)).await;
    let ticket = text(&made.data()["ticket"]);
    let more = context.post(&format!("/v1/tickets?ticket={ticket}"), &body).await;
    check_problem(&more, Code::TokenMissing, "a ticket for a ticket");
    for bad in [r#"{"path":"v1"}"#, r#"{"path":"/v1?x"}"#, "{}", r#"{"path":1}"#, "[]"] {
        let made = request_as(&context, Some(&admin), "POST", "/v1/tickets", Some(bad)).await;
        check_problem(&made, Code::BodyMalformed, bad);
    }
    // A ticket ends with the token that requested it.
    let listed = request_as(&context, Some(&admin), "GET", "/admin/tokens", None).await;
    let id = text(&listed.json()["data"][0]["id"]);
    assert_eq!(
        request_as(&context, Some(&admin), "DELETE", &format!("/admin/tokens/{id}"), None).await.status,
        200
    );
    check_problem(&context.get(&other).await, Code::TokenInvalid, "revoked");
}

#[tokio::test]
async fn a_rate_limited_client_gets_a_retry_delay() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let slow =
        make_token(&context, Some(&admin), r#"{"name":"s","scopes":["read"],"requests_per_second":3}"#).await;
    let mut refused = None;
    for _ in 0..50 {
        let reply = request_as(&context, Some(&slow), "GET", "/v1/runs", None).await;
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("fifty at once are more than three a second");
    check_problem(&refused, Code::RateLimited, "too often");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(
        request_as(&context, Some(&admin), "GET", "/v1/runs", None).await.status,
        200,
        "other clients are served"
    );
}

#[tokio::test]
async fn an_allowed_page_passes_the_preflight_without_a_token() {
    let data = tempfile::tempdir().unwrap();
    let access = Access { allowed_origins: vec!["https://app.example".to_owned()], ..Access::default() };
    let context = at_home_with(data.path(), access).await;
    let preflight = |origin: &'static str| {
        [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ]
    };
    let reply = context.request("OPTIONS", "/v1/runs", &preflight("https://app.example"), None).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(reply.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("DELETE"));
    assert_eq!(reply.header("vary"), Some("origin"));
    for evil in ["https://evil.example", "null", "https://app.example.evil.example"] {
        let reply = context.request("OPTIONS", "/v1/runs", &preflight(evil), None).await;
        check_problem(&reply, Code::OriginRefused, evil);
        assert!(reply.header("access-control-allow-origin").is_none());
    }
    // An allowed page can read refusals too.
    let refused = context.request("GET", "/v1/runs/x", &[("origin", "https://app.example")], None).await;
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://app.example"));
    // A stream, too.
    let stream =
        Listener::open(context.address, "/v1/events/stream", &[("origin", "https://app.example")]).await;
    assert_eq!(stream.head.header("access-control-allow-origin"), Some("https://app.example"));
}

#[tokio::test]
async fn a_foreign_name_that_resolves_here_is_refused() {
    let open_data = tempfile::tempdir().unwrap();
    let open = at_home_with(open_data.path(), Access::default()).await;
    let rebound = [("host", "evil.example:8765")];
    for target in ["/v1/runs", "/", "/metrics", "/v1/events/stream", "/admin/tokens"] {
        check_problem(&open.request("GET", target, &rebound, None).await, Code::HostRefused, target);
    }
    // If tokens are required, any host name is accepted; a page of another site has no token.
    let data = tempfile::tempdir().unwrap();
    let (context, _) = context_with_token(data.path()).await;
    check_problem(&context.request("GET", "/v1/runs", &rebound, None).await, Code::TokenMissing, "rebound");
    let page = [("host", "evil.example:8765"), ("origin", "http://evil.example:8765")];
    let approve = "/v1/approvals/a/resolve";
    let body = Some(&br#"{"decision":"approve"}"#[..]);
    check_problem(&context.request("POST", approve, &page, body).await, Code::TokenMissing, "its page");
}

#[tokio::test]
async fn an_invalid_token_request_names_the_field() {
    let data = tempfile::tempdir().unwrap();
    let context = at_home_with(data.path(), Access::default()).await;
    for (body, word) in [
        ("{}", "name"),
        (r#"{"name":"","scopes":["read"]}"#, "name"),
        (r#"{"name":"a b","scopes":["read"]}"#, "name"),
        (r#"{"name":"a","scopes":[]}"#, "scopes"),
        (r#"{"name":"a","scopes":["root"]}"#, "root"),
        (r#"{"name":"a","scopes":["read"],"tenant":"../x"}"#, "tenant"),
        (r#"{"name":"a","scopes":["read"],"tenant":"A"}"#, "tenant"),
        (r#"{"name":"a","scopes":["read"],"tasks":["x"]}"#, "tasks"),
        (r#"{"name":"a","scopes":["admin"],"tasks":["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"]}"#, "admin"),
        (r#"{"name":"a","scopes":["read"],"expires_in_seconds":0}"#, "expires_in_seconds"),
        (r#"{"name":"a","scopes":["read"],"requests_per_second":-1}"#, "-1"),
        (r#"{"name":"a","scopes":["read"],"more":1}"#, "more"),
    ] {
        let problem = check_problem(&context.post("/admin/tokens", body).await, Code::BodyMalformed, body);
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
}

#[tokio::test]
async fn an_expired_token_ends_open_streams() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let short =
        make_token(&context, Some(&admin), r#"{"name":"s","scopes":["read"],"expires_in_seconds":1}"#).await;
    let bearer = format!("Bearer {short}");
    let mut stream =
        Listener::open(context.address, "/v1/events/stream", &[("authorization", &bearer)]).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), stream.all()).await;
    ended.expect("the stream ends by itself");
    check_problem(
        &request_as(&context, Some(&short), "GET", "/v1/runs", None).await,
        Code::TokenInvalid,
        "expired",
    );
}

#[tokio::test]
async fn public_paths_need_no_token() {
    let data = tempfile::tempdir().unwrap();
    let (context, _) = context_with_token(data.path()).await;
    for open in ["/", "/console.js", "/healthz", "/readyz"] {
        assert_eq!(context.get(open).await.status, 200, "{open}");
    }
    for closed in ["/metrics", "/admin/doctor", "/admin/tokens", "/v1/runs", "/nowhere", "/v1/nowhere"] {
        check_problem(&context.get(closed).await, Code::TokenMissing, closed);
    }
    let mut wire = Wire::connect(context.address).await;
    wire.send(&request(context.address, "GET", "/v1/runs", &[], None)).await;
    assert_eq!(wire.reply("GET").await.unwrap().header("www-authenticate"), Some("Bearer"));
}
