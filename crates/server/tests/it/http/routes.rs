//! Every route of the table, under both prefixes.

use recount_api::routes::{ROUTES, Route, RouteName};
use recount_event::Code;

use crate::http::access::request_as;
use crate::http::contract::check_contract;
use crate::http::{import, orders};
use crate::test_context::{PREFIXES, TestContext, batch, check_problem, check_reply, text};
use crate::wire::Frame;

/// A task with a run that waits for an approval, a clarification and a handoff, and a session.
pub(crate) struct Scene {
    task: String,
    run: String,
    number: usize,
    session: String,
    pub(crate) allowance: String,
}

impl Scene {
    pub(crate) async fn set(context: &TestContext, number: usize) -> Scene {
        Scene::set_by(context, number, None).await
    }

    /// The same, for a token.
    pub(crate) async fn set_by(context: &TestContext, number: usize, token: Option<&str>) -> Scene {
        let post = async |target: &str, body: &str| {
            let reply = request_as(context, token, "POST", target, Some(body)).await;
            assert!(matches!(reply.status, 200 | 201), "{target}: {}", reply.text());
            reply.data()
        };
        let task = text(&post("/v1/tasks", r#"{"title":"tidy up"}"#).await["id"]);
        let run = text(&post(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await["id"]);
        let approval = format!(
            r#"{{"approval_id":"appr:{number}","tool_call_id":"c1","kind":"shell","summary":"rm a file","timeout_seconds":600}}"#
        );
        let question = format!(
            r#"{{"clarification_id":"clar:{number}","question":"which one?","timeout_seconds":600}}"#
        );
        let handoff = format!(
            r#"{{"handoff_id":"hand:{number}","reason":"too hard","target_kind":"human","timeout_seconds":600}}"#
        );
        let sent = post("/v1/artifacts?kind=file&name=talk.txt", r#"{"tidy up":1}"#).await;
        let artifact = format!(r#"{{"artifact_id":"art:{number}","kind":"note","hash":{}}}"#, sent["hash"]);
        let events = [
            ("run.started", "{}"),
            ("artifact.created", artifact.as_str()),
            ("approval.requested", approval.as_str()),
            ("clarification.requested", &question),
            ("handoff.requested", &handoff),
        ];
        post(&format!("/v1/runs/{run}/events"), &batch("p", 1, 0, &events)).await;
        let session = text(&post("/v1/sessions", r#"{"title":"talk"}"#).await["id"]);
        Scene { task, run, number, session, allowance: format!("allow:{number}") }
    }

    /// All names that identify it.
    pub(crate) fn names(&self) -> Vec<String> {
        let prompts = ["appr", "clar", "hand", "art"].map(|kind| format!("{kind}:{}", self.number));
        [self.task.clone(), self.run.clone(), self.session.clone()].into_iter().chain(prompts).collect()
    }

    /// The path of a route with its parameters filled in.
    pub(crate) fn path(&self, route: &Route) -> String {
        route
            .path
            .replace("{task}", &self.task)
            .replace("{run}", &self.run)
            .replace("{session}", &self.session)
            .replace("{approval}", &format!("appr:{}", self.number))
            .replace("{allowance}", &self.allowance)
            .replace("{clarification}", &format!("clar:{}", self.number))
            .replace("{handoff}", &format!("hand:{}", self.number))
            .replace("{mcp_server}", "files")
            .replace("{mcp_tool}", "read")
            .replace("{artifact}", &format!("art:{}", self.number))
    }
}

/// A valid request for a route, and the expected response.
pub(crate) struct RouteExample {
    pub(crate) body: Option<String>,
    status: u16,
    /// The `object` of the response; `None` for an event stream.
    object: Option<&'static str>,
    /// The beginning of `Location`.
    location: Option<&'static str>,
}

pub(crate) fn route_example(name: RouteName, number: usize) -> RouteExample {
    let shown = |object| RouteExample { body: None, status: 200, object: Some(object), location: None };
    let created = |object, location, body: &str| RouteExample {
        body: Some(body.to_owned()),
        status: 201,
        object: Some(object),
        location: Some(location),
    };
    let with_body = |object, body: String| RouteExample { body: Some(body), ..shown(object) };
    let run = r#"{"kind":"external","title":"t","request_text":"do","agent":{"name":"a","version":"1"}}"#;
    match name {
        RouteName::CreateTask => created("task", "/v1/tasks/task_", r#"{"title":"t","kind":"external"}"#),
        RouteName::ChangeTask => with_body("task", r#"{"title":"t","budget_tokens":5}"#.into()),
        RouteName::UploadArtifact => created("artifact", "/v1/artifacts/art_", r#"{"some":"bytes"}"#),
        RouteName::GetArtifact => shown("artifact"),
        RouteName::PinArtifact | RouteName::UnpinArtifact => shown("artifact"),
        RouteName::DeleteArtifact => shown("deleted"),
        RouteName::ReadArtifact => RouteExample { object: None, ..shown("") },
        RouteName::ApplyPatch | RouteName::RejectPatch | RouteName::RevertPatch => {
            with_body("patch", r#"{"reason":"r"}"#.into())
        }
        RouteName::ListArtifacts
        | RouteName::ListRunArtifacts
        | RouteName::ListTasks
        | RouteName::ListTaskRuns
        | RouteName::ListRuns
        | RouteName::ReadTaskRunEvents
        | RouteName::ReadRunEvents
        | RouteName::ReadFeed
        | RouteName::ListApprovals
        | RouteName::ListAllowances
        | RouteName::ListClarifications
        | RouteName::ListHandoffs
        | RouteName::ListAgents
        | RouteName::ListSessions
        | RouteName::ListMessages => shown("list"),
        RouteName::JudgeMcpCall => shown("policy_verdict"),
        RouteName::GetTask => shown("task"),
        // Both forms of no body: none at all, and an empty object.
        RouteName::CancelTask => shown("task"),
        RouteName::CreateTaskRun => created("run", "/v1/runs/run_", run),
        RouteName::GetTaskRun | RouteName::GetRun => shown("run"),
        RouteName::CancelTaskRun => with_body("run", "{}".into()),
        RouteName::CancelRun => with_body("run", r#"{"reason":"enough"}"#.into()),
        RouteName::AppendTaskRunEvents | RouteName::AppendRunEvents => {
            with_body("receipt", batch("q", 0, 0, &[("user.message", r#"{"text":"hi"}"#)]))
        }
        RouteName::CreateRun => created("run", "/v1/runs/run_", run),
        RouteName::GetRunDigest => shown("digest"),
        RouteName::GetRunChanges | RouteName::DiscardRunChanges => shown("changes"),
        RouteName::ApplyRun => with_body("changes", r#"{"branch":"b"}"#.into()),
        RouteName::ImportRun => created("import", "/v1/runs/run_", &import::queued(number)),
        RouteName::StreamFeed => RouteExample { object: None, ..shown("") },
        RouteName::DeleteTask => shown("deleted"),
        RouteName::PinRun | RouteName::UnpinRun => shown("run"),
        RouteName::DeleteRun => shown("deleted"),
        RouteName::PruneRun => with_body("pruned", r#"{"before":1}"#.into()),
        RouteName::Prune => with_body("swept", r#"{"max_age_seconds":9999}"#.into()),
        RouteName::GetApproval => shown("approval"),
        RouteName::ResolveApproval => {
            with_body("approval", r#"{"decision":"approve","comment":"fine"}"#.into())
        }
        RouteName::TakeBackAllowance => shown("allowance"),
        RouteName::GetClarification => shown("clarification"),
        RouteName::AnswerClarification => with_body("clarification", r#"{"response":{"n":[1]}}"#.into()),
        RouteName::GetHandoff => shown("handoff"),
        RouteName::AcknowledgeHandoff => shown("handoff"),
        RouteName::RejectHandoff => with_body("handoff", r#"{"reason":"no person is available"}"#.into()),
        RouteName::ExtendApproval => with_body("approval", r#"{"seconds":60}"#.into()),
        RouteName::ExtendClarification => with_body("clarification", r#"{"seconds":60}"#.into()),
        RouteName::ExtendHandoff => with_body("handoff", r#"{"seconds":60}"#.into()),
        RouteName::CreateSession => created("session", "/v1/sessions/chat_", r#"{"title":"t"}"#),
        RouteName::RetryRun => created("run", "/v1/runs/run_", r#"{"model":"m"}"#),
        RouteName::ResumeRun => {
            created("run", "/v1/runs/run_", r#"{"from_sequence":1,"request_text":"go on","max_turns":3}"#)
        }
        RouteName::ContinueRun => created("run", "/v1/runs/run_", r#"{"prompt":"and now?"}"#),
        RouteName::RetryRunFromTurn => created("run", "/v1/runs/run_", r#"{"turn_index":0}"#),
        RouteName::SendMessage => created("run", "/v1/runs/run_", r#"{"text":"hello"}"#),
        RouteName::GetSession => shown("session"),
        RouteName::DeleteSession => shown("deleted"),
    }
}

fn object_is_a_patch(name: RouteName) -> bool {
    matches!(name, RouteName::ApplyPatch | RouteName::RejectPatch | RouteName::RevertPatch)
}

async fn check_route(context: &TestContext, route: &Route, prefix: &str, number: usize) {
    let mut scene = Scene::set(context, number).await;
    if matches!(
        route.name,
        RouteName::RetryRun
            | RouteName::ResumeRun
            | RouteName::ContinueRun
            | RouteName::RetryRunFromTurn
            | RouteName::GetRunChanges
            | RouteName::ApplyRun
            | RouteName::DiscardRunChanges
    ) {
        scene.run = orders::ended(context, r#"{"kind":"agent_loop","request_text":"do"}"#).await;
    }
    if matches!(route.name, RouteName::CreateTaskRun | RouteName::PruneRun | RouteName::DeleteArtifact) {
        assert_eq!(context.post(&format!("/v1/runs/{}/cancel", scene.run), "{}").await.status, 200);
    }
    if route.name == RouteName::DeleteRun {
        scene.run = context.new_run().await;
    }
    if route.name == RouteName::TakeBackAllowance {
        scene.allowance = orders::allowed(context, None).await;
    }
    let path = scene.path(route);
    let target = format!("{prefix}{path}");
    let about = format!("{} {target}", route.method);
    let example = route_example(route.name, number);
    if route.name == RouteName::ReadArtifact {
        let reply = context.get(&target).await;
        assert_eq!((reply.status, reply.text()), (200, r#"{"tidy up":1}"#), "{about}");
        return;
    }
    if object_is_a_patch(route.name) {
        // Patches of real runs are tested with real processes; that of the scene is only recorded.
        let reply =
            context.request(route.method, &target, &[], example.body.as_deref().map(str::as_bytes)).await;
        check_problem(&reply, Code::PatchUnusable, &about);
        return;
    }
    let Some(object) = example.object else {
        // Without an Accept header, for clients that cannot set one.
        let mut stream = crate::wire::Listener::open(context.address, &target, &[("accept", "*/*")]).await;
        assert_eq!(stream.head.header("content-type"), Some("text/event-stream"), "{about}");
        check_reply(&stream.head);
        assert!(matches!(stream.next().await, Ok(Frame::Retry(_))), "{about}");
        return;
    };
    let lines = [("content-type", "application/x-ndjson")];
    let headers: &[(&str, &str)] = if route.name == RouteName::ImportRun { &lines } else { &[] };
    let reply =
        context.request(route.method, &target, headers, example.body.as_deref().map(str::as_bytes)).await;
    assert_eq!(reply.status, example.status, "{about}: {}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"), "{about}");
    check_reply(&reply);
    check_contract(route.method, &format!("/v1{}", route.path), &reply);
    let body = reply.json();
    assert_eq!(body["object"], object, "{about}: {body}");
    assert!(body["data"].is_object() || object == "list" && body["data"].is_array(), "{about}: {body}");
    if object == "list" {
        assert!(body["has_more"].is_boolean() && body.get("next").is_some(), "{about}: {body}");
    }
    match (example.location, reply.header("location")) {
        (None, None) => {}
        (Some(start), Some(location)) => {
            assert!(location.starts_with(start), "{about}: {location}");
            let there = context.get(location).await;
            assert_eq!(there.status, 200, "{about}: {location}");
            let made = &body["data"];
            let id = if made["id"].is_null() { &made["run_id"] } else { &made["id"] };
            assert_eq!(there.data()["id"], *id, "{about}");
        }
        other => panic!("{about}: {other:?}"),
    }
}

#[tokio::test]
async fn every_route_answers_under_both_prefixes() {
    let context = orders::context_with_worker().await;
    for (at, route) in ROUTES.iter().enumerate() {
        for (which, prefix) in PREFIXES.iter().enumerate() {
            check_route(&context, route, prefix, at * 2 + which).await;
        }
    }
}

#[tokio::test]
async fn every_route_lists_its_methods_when_refusing_others() {
    let context = TestContext::memory().await;
    let scene = Scene::set(&context, 0).await;
    for route in ROUTES {
        let path = scene.path(route);
        let here = |method: &str| ROUTES.iter().any(|r| r.path == route.path && r.method == method);
        for prefix in PREFIXES {
            let target = format!("{prefix}{path}");
            for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "GET", "HEAD", "POST"] {
                let taken = here(method) || method == "HEAD" && here("GET");
                if taken {
                    continue;
                }
                let about = format!("{method} {target}");
                let reply = context.request(method, &target, &[], None).await;
                if method == "HEAD" {
                    assert_eq!(reply.status, 405, "{about}");
                } else {
                    check_problem(&reply, Code::MethodNotAllowed, &about);
                }
                let allow = reply.header("allow").unwrap_or_else(|| panic!("{about}: no allow"));
                let mut allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
                allowed.sort_unstable();
                let mut expected: Vec<&str> = ["DELETE", "GET", "PATCH", "POST", "PUT"]
                    .into_iter()
                    .filter(|method| here(method))
                    .collect();
                if here("GET") {
                    expected.push("HEAD");
                    expected.sort_unstable();
                }
                assert_eq!(allowed, expected, "{about}");
            }
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_problems() {
    let context = TestContext::memory().await;
    for target in [
        "/v1",
        "/v1/",
        "/v1/unknown",
        "/v1/runs/",
        "/v1//runs",
        "/hecate/v1/unknown",
        "/hecate",
        "/hecate/v1",
        "/v2/runs",
        "/unknown",
        "/favicon.ico",
        "/v1/runs/x/y/z",
        "/v1/%72uns/x/y",
        "/V1/runs",
        "/v1/../v1/runs",
        "/../../etc/passwd",
        "/v1/%2e%2e/etc/passwd",
        "/v1/runs%2F",
        "/%00",
        "/v1/;x",
        "/v1/runs?",
        "/v1/%ff%fe",
    ] {
        let reply = context.get(target).await;
        if target == "/v1/runs?" {
            assert_eq!(reply.status, 200, "{target}");
            continue;
        }
        check_problem(&reply, Code::RouteNotFound, target);
    }
    let scripts = [
        "/console.js",
        "/account.js",
        "/page.js",
        "/src/overview.js",
        "/src/run/page.js",
        "/src/fold/fold.js",
    ];
    for path in ["/healthz", "/readyz", "/", "/console.css"].into_iter().chain(scripts) {
        let reply = context.request("DELETE", path, &[], None).await;
        check_problem(&reply, Code::MethodNotAllowed, path);
        assert!(reply.header("allow").is_some_and(|allow| allow.contains("GET")), "{path}: {reply:?}");
        let reply = context.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.header("x-request-id").is_some(), "{path}: {reply:?}");
    }
}

#[tokio::test]
async fn head_requests_match_get_requests() {
    let context = TestContext::memory().await;
    let scene = Scene::set(&context, 0).await;
    for path in [
        "/tasks",
        "/runs",
        "/events",
        "/approvals",
        "/clarifications",
        "/handoffs",
        "/sessions",
        "/runs/{run}",
        "/runs/{run}/events",
    ] {
        let target = format!("/v1{}", path.replace("{run}", &scene.run));
        let get = context.get(&target).await;
        let head = context.request("HEAD", &target, &[], None).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
        for name in ["content-type", "content-length", "cache-control"] {
            assert_eq!(head.header(name), get.header(name), "{target}: {name}");
        }
    }
}

#[tokio::test]
async fn a_run_is_found_under_its_own_task_only() {
    let context = TestContext::memory().await;
    let (one, two) = (Scene::set(&context, 1).await, Scene::set(&context, 2).await);
    let loose = context.new_run().await;
    for run in [&two.run, &loose] {
        for (method, path) in [("GET", ""), ("POST", "/cancel"), ("GET", "/events"), ("POST", "/events")] {
            let target = format!("/v1/tasks/{}/runs/{run}{path}", one.task);
            let reply = context.request(method, &target, &[], None).await;
            check_problem(&reply, Code::RunNotFound, &target);
        }
    }
    let unknown = "run_01JXMZ00000000000000000000";
    for (method, path) in [("GET", ""), ("POST", "/cancel"), ("GET", "/events"), ("GET", "/digest")] {
        let target = format!("/v1/runs/{unknown}{path}");
        check_problem(&context.request(method, &target, &[], None).await, Code::RunNotFound, &target);
    }
    let body = batch("p", 0, 0, &[("run.started", "{}")]);
    let target = format!("/v1/runs/{unknown}/events");
    check_problem(&context.post(&target, &body).await, Code::RunNotFound, &target);
    let task = "task_01JXMZ00000000000000000000";
    for (method, path) in [("GET", ""), ("POST", "/cancel"), ("GET", "/runs")] {
        let target = format!("/v1/tasks/{task}{path}");
        check_problem(&context.request(method, &target, &[], None).await, Code::TaskNotFound, &target);
    }
    let reply = context.post(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await;
    check_problem(&reply, Code::TaskNotFound, "a run of no task");
}

#[tokio::test]
async fn lists_go_from_the_newest_and_their_pages_join() {
    let context = TestContext::memory().await;
    let task = text(&context.post("/v1/tasks", "{}").await.data()["id"]);
    let mut runs = Vec::new();
    for number in 0..7 {
        let body = format!(r#"{{"kind":"external","task_id":"{task}","title":"{number}"}}"#);
        let run = text(&context.post("/v1/runs", &body).await.data()["id"]);
        if number < 6 {
            assert_eq!(context.post(&format!("/v1/runs/{run}/cancel"), "{}").await.status, 200);
        }
        runs.insert(0, run);
    }
    let other = context.new_run().await;
    let ended = &runs[1..];
    let mut with_other = runs.clone();
    with_other.insert(0, other.clone());
    let open = [other, runs[0].clone()];
    for (target, expected) in [
        ("/v1/runs?".to_owned(), with_other.as_slice()),
        (format!("/v1/tasks/{task}/runs?"), &runs),
        (format!("/v1/runs?task_id={task}&"), &runs),
        ("/v1/runs?status=cancelled&".to_owned(), ended),
        ("/v1/runs?status=queued&".to_owned(), &open),
        (format!("/v1/runs?task_id={task}&status=cancelled&"), ended),
        (format!("/v1/runs?task_id={task}&status=queued&"), &runs[..1]),
        (format!("/v1/tasks/{task}/runs?status=cancelled&"), ended),
    ] {
        for limit in [1, 2, 3, 200] {
            let mut listed = Vec::new();
            let mut after = String::new();
            loop {
                let reply = context.get(&format!("{target}limit={limit}&after={after}")).await;
                assert_eq!(reply.status, 200, "{target}: {}", reply.text());
                let page = reply.json();
                let items = page["data"].as_array().unwrap();
                assert!(items.len() <= limit, "{target}");
                listed.extend(items.iter().map(|run| text(&run["id"])));
                if page["has_more"] == false {
                    // The cursor stays, so that the next request finds nothing old.
                    if let Some(next) = page["next"].as_str() {
                        let again = context.get(&format!("{target}limit={limit}&after={next}")).await.json();
                        assert_eq!(again["data"], serde_json::json!([]), "{target}");
                        assert_eq!(again["next"], page["next"], "{target}");
                    }
                    break;
                }
                after = text(&page["next"]);
            }
            assert_eq!(listed, expected, "{target} by {limit}");
        }
    }
    for (target, code) in [
        ("/v1/runs?status=asleep", Code::ParameterInvalid),
        ("/v1/tasks?status=asleep", Code::ParameterInvalid),
        ("/v1/approvals?status=running", Code::ParameterInvalid),
        ("/v1/runs?limit=0", Code::ParameterInvalid),
        ("/v1/runs?limit=201", Code::ParameterInvalid),
        ("/v1/runs?limit=x", Code::ParameterInvalid),
        ("/v1/runs?after=task_01JXMZ00000000000000000000", Code::CursorForeign),
        ("/v1/tasks?after=run_01JXMZ00000000000000000000", Code::CursorForeign),
        ("/v1/runs?after=%2e%2e%2f", Code::CursorMalformed),
        ("/v1/runs?after=%ff", Code::CursorMalformed),
        ("/v1/runs?task_id=no", Code::TaskNotFound),
        ("/v1/runs?session_id=no", Code::SessionNotFound),
        ("/v1/runs?task_id=x&session_id=y", Code::ParameterInvalid),
        ("/v1/clarifications?status=approved", Code::ParameterInvalid),
        ("/v1/handoffs?status=answered", Code::ParameterInvalid),
        ("/v1/sessions?status=idle", Code::ParameterInvalid),
        ("/v1/sessions?after=run_01JXMZ00000000000000000000", Code::CursorForeign),
    ] {
        check_problem(&context.get(target).await, code, target);
    }
}
