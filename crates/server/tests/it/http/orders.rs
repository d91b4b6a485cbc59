//! Own runs over the wire: the fields of each kind, retry, resume, and messages of sessions.
//!
//! [`Worker`] executes them without models: it ends a run at once, or waits if the request is [`WAITS`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use recount_engine::{
    AgentOption, ApplyTo, ChangeKind, ChangeState, Delivery, ForeignDecision, ForeignMcpCall, ForeignVerdict,
    HeldFolders, NewRun, NewSetup, OptionKind, Performer, Profile, Profiles, RunConfig, RunOwner, Setup,
    ToolInfo, ToolRef, Unacceptable, WorkerSession, WorkspaceChange, WorkspaceChanges, WorkspaceOf,
};
use recount_event::family::approval;
use recount_event::family::approval::Reversibility;
use recount_event::family::run::{CheckpointSaved, Finished, Started, WaitKind, Waiting, WaitsFor};
use recount_event::family::tool::RiskLevel;
use recount_event::family::{assistant, turn, user};
use recount_event::{Code, Draft, ForeignId, Json, Payload};
use serde_json::{Value, json};

use crate::http::access::{make_token, request_as};
use crate::test_context::{TestContext, check_problem, text};

/// Ends every run at once, except waiting ones, which a client must end.
struct Worker;

pub(crate) const WAITS: &str = "wait";

/// A command that needs an approval.
const ASKS: &str = "ask";

/// The events that request an approval of the command that can be remembered.
fn approval_request(session: &WorkerSession) -> Vec<Draft> {
    let (id, call) = (session.mint("appr_"), session.mint("call_"));
    let mut requested = approval::Requested::new(id.clone(), call, "shell_exec".into(), ASKS.into());
    requested.preview = Some(ASKS.to_owned());
    requested.allowance_digest = Some(session.write().allowance_digest(&["shell_exec", ASKS]));
    let waits_for = vec![WaitsFor { kind: WaitKind::Approval, id }];
    vec![
        Payload::ApprovalRequested(Box::new(requested)).into(),
        Payload::RunWaiting(Box::new(Waiting::new(waits_for))).into(),
    ]
}

/// Creates a run that requests an approval, and returns the pending approval.
pub(crate) async fn pending_approval(context: &TestContext, token: Option<&str>) -> Value {
    let body = r#"{"kind":"shell","command":"ask"}"#;
    let made = request_as(context, token, "POST", "/v1/runs", Some(body)).await.data();
    loop {
        let listed = request_as(context, token, "GET", "/v1/approvals?status=pending", None).await.json();
        let approval = listed["data"].as_array().unwrap().iter().find(|row| row["run_id"] == made["id"]);
        if let Some(approval) = approval {
            return approval.clone();
        }
        tokio::task::yield_now().await;
    }
}

/// Creates an allowance and returns its id.
pub(crate) async fn allowed(context: &TestContext, token: Option<&str>) -> String {
    let approval = pending_approval(context, token).await;
    let target = format!("/v1/approvals/{}/resolve", text(&approval["id"]));
    let body = r#"{"decision":"approve","remember":"run"}"#;
    let reply = request_as(context, token, "POST", &target, Some(body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    text(&reply.data()["allowance_id"])
}

impl Performer for Worker {
    fn judge_mcp_call(&self, call: &ForeignMcpCall) -> Option<ForeignVerdict> {
        let decision = if call.destroys {
            ForeignDecision::Blocked {
                policy_id: "no-harm".to_owned(),
                reason: format!("{} harms", call.tool),
            }
        } else {
            ForeignDecision::Allowed
        };
        Some(ForeignVerdict {
            decision,
            risk: RiskLevel::Medium,
            reversibility: Reversibility::Reversible,
            policy_digest: None,
        })
    }

    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        if new.queued.model.as_deref() == Some("unknown") {
            let message = "there is no model unknown; configure one".to_owned();
            return Err(Unacceptable { code: Code::ModelUnknown, message });
        }
        new.queued.provider = new.queued.model.is_some().then(|| "here".to_owned());
        new.queued.workspace_path.get_or_insert("/w".to_owned());
        Ok(())
    }

    fn perform(&self, mut session: WorkerSession) -> BoxFuture<'static, Option<WorkerSession>> {
        Box::pin(async move {
            let queued = session.state().queued().expect("it was queued").clone();
            let config = RunConfig::from_json(queued.config.as_ref()).expect("a config");
            let mut started = Started::new();
            started.worker_id = Some(session.worker_id().to_owned());
            session.report(vec![Payload::RunStarted(Box::new(started)).into()]).await.ok()?;
            let request_text = queued.request_text.clone().unwrap_or_default();
            if config.command.as_deref() == Some(WAITS) || request_text == WAITS {
                session.watch().ended().await;
                session.catch_up().await.ok()?;
                return Some(session);
            }
            if config.command.as_deref() == Some(ASKS) {
                let has_open_call = session.state().open_calls().next().is_some();
                if has_open_call {
                    session.fail("done", "it was allowed".to_owned(), false).await.ok()?;
                } else {
                    let drafts = approval_request(&session);
                    session.report(drafts).await.ok()?;
                }
                return Some(session);
            }
            let mut drafts = conversation(&request_text);
            drafts.push(Payload::RunFinished(Box::new(Finished::new("done".into()))).into());
            session.report(drafts).await.ok()?;
            Some(session)
        })
    }

    fn changes(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        let change = WorkspaceChange {
            path: "a.txt".to_owned(),
            kind: ChangeKind::Changed,
            thing: "file",
            state: ChangeState::Open,
            conflict: None,
            executed_by: None,
        };
        let changes = WorkspaceChanges {
            path: copy.path,
            source: "/s".to_owned(),
            changes: vec![change],
            count: 1,
            ignored: 0,
            diff: "-one\n+two\n".to_owned(),
            diff_cut: false,
            branch: None,
            commit: None,
            active: None,
            put_back: 0,
            digest: "d".to_owned(),
        };
        Box::pin(async { Ok(changes) })
    }

    fn apply(
        &self,
        copy: WorkspaceOf,
        to: ApplyTo,
        _: HeldFolders,
    ) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        let changes = self.changes(copy);
        Box::pin(async { Ok(WorkspaceChanges { branch: to.branch, ..changes.await? }) })
    }

    fn forget(&self, _: RunOwner) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

fn conversation(request_text: &str) -> Vec<Draft> {
    let call = || ForeignId::parse("call:1").expect("an id");
    let payloads = [
        Payload::UserMessage(Box::new(user::Message::new(request_text.to_owned()))),
        Payload::TurnStarted(Box::new(turn::Started::new(0))),
        Payload::AssistantTextComplete(Box::new(assistant::TextComplete::new(0, 0, "I look.".into()))),
        Payload::AssistantToolCallProposed(Box::new(assistant::ToolCallProposed::new(
            0,
            call(),
            "glob".into(),
            Json::parse(r#"{"pattern":"*"}"#).expect("JSON"),
        ))),
        Payload::TurnCompleted(Box::new(turn::Completed::new(0, turn::StopReason::ToolUse))),
        Payload::ToolRefused(Box::new(recount_event::family::tool::Refused::new(
            call(),
            "glob".into(),
            recount_event::family::tool::RefusalCode::Unavailable,
            "not here".into(),
        ))),
        Payload::RunCheckpointSaved(Box::new(CheckpointSaved::new(
            ForeignId::parse("ckpt:1").expect("an id"),
        ))),
    ];
    payloads.into_iter().map(Draft::from).collect()
}

/// Attaches a performer for own runs.
pub(crate) async fn attach_worker(context: &TestContext) {
    context
        .running
        .engine
        .work()
        .attach_performer(Arc::new(Worker), 8)
        .await
        .expect("no performer was attached before");
}

/// A server with a performer for own runs.
pub(crate) async fn context_with_worker() -> TestContext {
    let context = TestContext::memory().await;
    attach_worker(&context).await;
    context.running.engine.catalogue().register_profiles(Arc::new(Profiles::new([agent()])));
    context
}

/// The only configured agent.
fn agent() -> Profile {
    let option = |name: &str, kind, default: &str| AgentOption {
        name: name.into(),
        title: None,
        description: None,
        kind,
        default: default.into(),
        sets: None,
    };
    Profile {
        name: "a".into(),
        version: "1.2.0".into(),
        model: Some("here/m".into()),
        system: Some("Speak {language}.".into()),
        tools: vec![ToolInfo {
            name: "glob".into(),
            title: None,
            description: "Finds files.".into(),
            parameters: Json::parse(r#"{"type":"object"}"#).unwrap(),
        }],
        hidden: vec!["todo_write".into()],
        options: vec![
            option("language", OptionKind::Select(vec!["English".into(), "Dutch".into()]), "English"),
            option("key", OptionKind::Secret, "operators-default"),
        ],
        max_turns: Some(9),
        ..Profile::default()
    }
}

/// The content of a run's `run.queued`.
async fn queued(context: &TestContext, run: &Value) -> Value {
    let events = context.envelopes(&format!("/v1/runs/{}/events", text(run))).await;
    serde_json::from_str::<Value>(&events[0]).unwrap()["data"].clone()
}

#[tokio::test]
async fn request_fields_override_the_agent() {
    let context = context_with_worker().await;
    let listed = context.get("/v1/agents").await;
    let option = |name: &str| json!({"name": name});
    assert_eq!(listed.json()["data"][0]["name"], "a");
    assert_eq!(listed.json()["data"][0]["options"][0]["values"], json!(["English", "Dutch"]));
    assert_eq!(listed.json()["data"][0]["options"][1], json!({"name": "key", "type": "secret"}));
    for kept in ["operators-default", "todo_write", "Speak"] {
        assert!(!listed.text().contains(kept), "{}", listed.text());
    }
    let of = |agent: Value| json!({"kind": "agent_loop", "request_text": "x", "agent": agent});
    let mut chosen = option("a");
    chosen["options"] = json!({"language": "Dutch"});
    chosen["tools"] = json!([{"name": "glob"}]);
    let run = create(&context, "/v1/runs", &of(chosen.clone()).to_string()).await;
    let queued_data = queued(&context, &run["id"]).await;
    assert_eq!(queued_data["agent"], json!({"name": "a", "version": "1.2.0"}));
    assert_eq!(
        (&queued_data["model"], &queued_data["config"]["system"]),
        (&json!("here/m"), &json!("Speak Dutch."))
    );
    assert_eq!(queued_data["config"]["tools"], json!(["glob", "todo_write"]));
    assert_eq!(
        (&queued_data["config"]["ask_first"], &queued_data["config"]["max_turns"]),
        (&json!(["glob"]), &json!(9))
    );
    let mut own = of(option("a"));
    own["model"] = json!("here/other");
    own["system"] = json!("Be brief.");
    own["max_turns"] = json!(2);
    let run = create(&context, "/v1/runs", &own.to_string()).await;
    let queued_data = queued(&context, &run["id"]).await;
    assert_eq!(
        (&queued_data["model"], &queued_data["config"]["system"]),
        (&json!("here/other"), &json!("Be brief."))
    );
    assert_eq!(
        (&queued_data["config"]["ask_first"], &queued_data["config"]["max_turns"]),
        (&Value::Null, &json!(2))
    );
    let task = create(&context, "/v1/tasks", &of(chosen).to_string()).await;
    let queued_data = queued(&context, &task["latest_run_id"]).await;
    assert_eq!(queued_data["config"]["system"], "Speak Dutch.");

    for (agent, code, word) in [
        (json!({"name": "b"}), Code::AgentNotFound, "known agents: a"),
        (json!({"name": "a", "options": {"key": "k"}}), Code::OptionInvalid, "session"),
        (json!({"name": "a", "options": {"language": "Latin"}}), Code::OptionInvalid, "Dutch"),
        (json!({"name": "a", "options": {"tongue": "x"}}), Code::OptionInvalid, "tongue"),
        (json!({"name": "a", "tools": [{"name": "todo_write"}]}), Code::OrderRefused, "todo_write"),
        (json!({"name": "a", "version": "1"}), Code::OrderRefused, "agent.version"),
        (json!({"name": "a", "tools": ["glob"]}), Code::BodyMalformed, "object"),
    ] {
        let refused = context.post("/v1/runs", &of(agent.clone()).to_string()).await;
        let problem = check_problem(&refused, code, &agent.to_string());
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    let outside = json!({"kind": "external", "agent": {"name": "z", "tools": []}}).to_string();
    check_problem(
        &context.post("/v1/runs", &outside).await,
        Code::OrderRefused,
        "tools of a program outside",
    );
}

#[tokio::test]
async fn a_message_in_an_application_session_uses_its_setup() {
    let context = context_with_worker().await;
    let setup = Setup {
        agent: "a".into(),
        tools: Some(vec![ToolRef { name: "glob".into(), trust: Some(true) }]),
        options: [("language".to_owned(), "Dutch".to_owned())].into(),
        ..Setup::default()
    };
    let session =
        context.running.engine.write().create_setup(NewSetup { setup, ..NewSetup::default() }, None).await;
    let target = format!("/v1/sessions/{}/messages", session.unwrap().id);
    let first = create(&context, &target, r#"{"text":"hello"}"#).await;
    until_end(&context, &text(&first["id"])).await;
    let queued_data = queued(&context, &first["id"]).await;
    assert_eq!(
        (&queued_data["agent"]["name"], &queued_data["config"]["system"]),
        (&json!("a"), &json!("Speak Dutch."))
    );
    assert_eq!(queued_data["config"]["tools"], json!(["glob", "todo_write"]));
    // Fields of one message apply to its run alone.
    let second = create(&context, &target, r#"{"text":"again","system":"Be brief."}"#).await;
    until_end(&context, &text(&second["id"])).await;
    assert_eq!(queued(&context, &second["id"]).await["config"]["system"], "Be brief.");
    let third = create(&context, &target, r#"{"text":"and again"}"#).await;
    let queued_data = queued(&context, &third["id"]).await;
    assert_eq!(
        (&queued_data["config"]["system"], &queued_data["prior_run_id"]),
        (&json!("Speak Dutch."), &second["id"])
    );
}

pub(crate) async fn create(context: &TestContext, target: &str, body: &str) -> Value {
    let reply = context.post(target, body).await;
    assert_eq!(reply.status, 201, "{target} {body}: {}", reply.text());
    reply.data()
}

/// Waits for the end of a run, and returns its events.
pub(crate) async fn until_end(context: &TestContext, run: &str) -> Vec<Value> {
    let id = run.parse().expect("an id");
    let mut following = context.running.engine.read().follow_run(id, None).await.expect("the run exists");
    while !matches!(following.next().await.expect("it can be read"), Delivery::Closed) {}
    let envelopes = context.envelopes(&format!("/v1/runs/{run}/events")).await;
    envelopes.iter().map(|envelope| serde_json::from_str(envelope).expect("an envelope")).collect()
}

/// Creates a run from this body and waits for its end; returns its id.
pub(crate) async fn ended(context: &TestContext, body: &str) -> String {
    let run = text(&create(context, "/v1/runs", body).await["id"]);
    until_end(context, &run).await;
    run
}

#[tokio::test]
async fn every_requested_field_is_logged_unchanged() {
    let context = context_with_worker().await;
    let task = text(&create(&context, "/v1/tasks", "{}").await["id"]);
    let requested = json!({
        "kind": "agent_loop", "title": "t", "request_text": "do", "model": "a/b", "system": "be brief",
        "tools": ["glob", "grep"], "max_turns": 3, "max_output_tokens": 100, "workspace": "/src",
        "workspace_mode": "in_place", "network": true, "timeout_seconds": 5, "output_bytes_max": 6, "task_id": task,
    });
    let shown = create(&context, "/v1/runs", &requested.to_string()).await;
    let about = [
        &shown["driver"],
        &shown["model"],
        &shown["provider"],
        &shown["workspace_path"],
        &shown["workspace_mode"],
    ];
    assert_eq!(about, [&json!("own"), &json!("a/b"), &json!("here"), &json!("/w"), &json!("in_place")]);
    let events = until_end(&context, shown["id"].as_str().unwrap()).await;
    let queued = &events[0]["data"];
    assert_eq!(
        queued["config"],
        json!({
            "system": "be brief", "tools": ["glob", "grep"], "max_turns": 3, "max_output_tokens": 100,
            "workspace_source": "/src", "network": true, "timeout_seconds": 5, "output_bytes_max": 6,
        })
    );
    assert_eq!((&queued["request_text"], &queued["requested_by"]), (&json!("do"), &json!("operator")));
    for (kind, field, value) in [
        ("shell", "command", json!("ls -l")),
        ("git", "args", json!(["log", "-1"])),
        ("file", "file", json!({"tool": "read_file", "input": {"path": "a", "n": 1.50}})),
    ] {
        let body = json!({"kind": kind, field: value, "workspace": "/src"});
        for target in [format!("/v1/tasks/{task}/runs"), "/v1/runs".to_owned()] {
            let run = create(&context, &target, &body.to_string()).await;
            let events = until_end(&context, run["id"].as_str().unwrap()).await;
            assert_eq!(events[0]["data"]["config"], json!({field: value, "workspace_source": "/src"}));
        }
        let made = create(&context, "/v1/tasks", &body.to_string()).await;
        until_end(&context, made["latest_run_id"].as_str().unwrap()).await;
    }
}

#[tokio::test]
async fn conflicting_fields_are_refused_by_name() {
    let context = context_with_worker().await;
    let of = |kind: &str| match kind {
        "agent_loop" => json!({"kind": kind, "request_text": "x"}),
        "shell" => json!({"kind": kind, "command": "x"}),
        "git" => json!({"kind": kind, "args": ["x"]}),
        "file" => json!({"kind": kind, "file": {"tool": "glob", "input": {}}}),
        _ => json!({"kind": kind}),
    };
    let (agent, own) = (vec!["agent_loop"], vec!["agent_loop", "shell", "git", "file"]);
    let commands = vec!["agent_loop", "shell", "git"];
    let run = "run_01JXMZ00000000000000000000";
    for (field, value, kinds) in [
        ("model", json!("m"), &agent),
        ("system", json!("s"), &agent),
        ("tools", json!([]), &agent),
        ("max_turns", json!(1), &agent),
        ("max_output_tokens", json!(1), &agent),
        ("attachments", json!([]), &agent),
        ("workspace", json!("/a"), &own),
        ("workspace_mode", json!("clone"), &own),
        ("network", json!(false), &commands),
        ("timeout_seconds", json!(1), &commands),
        ("output_bytes_max", json!(1), &commands),
        ("command", json!("x"), &vec!["shell"]),
        ("args", json!(["x"]), &vec!["git"]),
        ("file", json!({"tool": "grep", "input": {}}), &vec!["file"]),
        ("agent", json!({"name": "a"}), &vec!["agent_loop", "external"]),
        ("resume", json!(run), &vec![]),
        ("from_sequence", json!(1), &vec![]),
    ] {
        for kind in ["agent_loop", "shell", "git", "file", "external"] {
            let mut body = of(kind);
            body[field] = value.clone();
            let reply = context.post("/v1/runs", &body.to_string()).await;
            if kinds.contains(&kind) {
                assert_eq!(reply.status, 201, "{body}: {}", reply.text());
            } else if field == "resume" && kind == "agent_loop" {
                check_problem(&reply, Code::RunNotFound, "resume");
            } else {
                let problem = check_problem(&reply, Code::OrderRefused, &body.to_string());
                let detail = problem["detail"].as_str().unwrap();
                assert!(
                    detail.contains(field) && (detail.contains(kind) || field == "from_sequence"),
                    "{detail}"
                );
            }
        }
        if !matches!(field, "resume" | "from_sequence") {
            let reply = context.post("/v1/tasks", &json!({field: value}).to_string()).await;
            let problem = check_problem(&reply, Code::OrderRefused, field);
            assert!(problem["detail"].as_str().unwrap().contains(field), "{problem}");
        }
    }
    for (body, field) in [
        (json!({"kind": "agent_loop"}), "request_text"),
        (json!({"kind": "agent_loop", "request_text": "  "}), "request_text"),
        (json!({"kind": "shell"}), "command"),
        (json!({"kind": "shell", "command": " "}), "command"),
        (json!({"kind": "shell", "command": "a\u{0}"}), "command"),
        (json!({"kind": "git", "args": []}), "args"),
        (json!({"kind": "git", "args": ["\u{0}"]}), "args"),
        (json!({"kind": "file"}), "file"),
        (json!({"kind": "file", "file": {"tool": "shell_exec", "input": {}}}), "file.tool"),
        (json!({"kind": "file", "file": {"tool": "glob", "input": []}}), "file.input"),
        (json!({"kind": "shell", "command": "x", "workspace_mode": "in_place"}), "workspace"),
        (json!({"kind": "shell", "command": "x", "workspace_mode": "here"}), "workspace_mode"),
        (json!({"kind": "shell", "command": "x", "timeout_seconds": 0}), "timeout_seconds"),
        (json!({"kind": "agent_loop", "request_text": "x", "max_turns": 0}), "max_turns"),
        (
            json!({"kind": "agent_loop", "request_text": "x", "attachments": [{"artifact_id": "?"}]}),
            "attachments",
        ),
    ] {
        for target in ["/v1/runs", "/v1/tasks"] {
            let problem =
                check_problem(&context.post(target, &body.to_string()).await, Code::OrderRefused, field);
            assert!(problem["detail"].as_str().unwrap().contains(field), "{body}: {problem}");
        }
    }
    for path in ["", "a", "./a", "~/a", "/a\u{0}", &format!("/{}", "x".repeat(5000))] {
        let body = json!({"kind": "shell", "command": "x", "workspace": path}).to_string();
        check_problem(&context.post("/v1/runs", &body).await, Code::WorkspaceRefused, path);
    }
    let unknown = json!({"kind": "agent_loop", "request_text": "x", "model": "unknown"}).to_string();
    check_problem(&context.post("/v1/runs", &unknown).await, Code::ModelUnknown, "unknown");
}

#[tokio::test]
async fn overlong_fields_are_refused() {
    let context = context_with_worker().await;
    let (long, name) = ("x".repeat((16 << 10) + 1), "x".repeat(257));
    for (field, value) in [
        ("request_text", json!(long)),
        ("title", json!(long)),
        ("system", json!(long)),
        ("model", json!(name)),
        ("tools", json!(vec!["x"; 101])),
        ("tools", json!([name])),
        ("max_turns", json!(1001)),
        ("max_output_tokens", json!((1 << 20) + 1)),
        ("timeout_seconds", json!(24 * 3600 + 1)),
        ("output_bytes_max", json!((1_u64 << 30) + 1)),
        ("attachments", json!(vec![json!({"artifact_id": "a"}); 21])),
    ] {
        let mut body = json!({"kind": "agent_loop", "request_text": "x"});
        body[field] = value.clone();
        let problem =
            check_problem(&context.post("/v1/runs", &body.to_string()).await, Code::LimitReached, field);
        assert!(problem["detail"].as_str().unwrap().contains(field), "{problem}");
    }
    for args in [json!(vec!["x"; 257]), json!(["x".repeat((8 << 10) + 1)])] {
        let body = json!({"kind": "git", "args": args}).to_string();
        check_problem(&context.post("/v1/runs", &body).await, Code::LimitReached, "args");
    }
    let body = json!({"kind": "shell", "command": long}).to_string();
    check_problem(&context.post("/v1/runs", &body).await, Code::LimitReached, "command");
    for body in [
        r#"{"kind":"shell","command":7}"#,
        r#"{"kind":"git","args":"log"}"#,
        r#"{"kind":"file","file":["glob",{}]}"#,
    ] {
        check_problem(&context.post("/v1/runs", body).await, Code::BodyMalformed, body);
    }
}

#[tokio::test]
async fn own_runs_need_a_performer_and_the_run_scope() {
    let context = TestContext::memory().await;
    let body = r#"{"kind":"shell","command":"ls"}"#;
    for target in ["/v1/runs", "/v1/tasks"] {
        check_problem(&context.post(target, body).await, Code::KindUnavailable, target);
    }
    let session = text(&create(&context, "/v1/sessions", "{}").await["id"]);
    let target = format!("/v1/sessions/{session}/messages");
    check_problem(&context.post(&target, r#"{"text":"hello"}"#).await, Code::KindUnavailable, &target);
    context.running.engine.work().attach_performer(Arc::new(Worker), 1).await.unwrap();
    let ingest = make_token(&context, None, r#"{"name":"in","scopes":["ingest","read"]}"#).await;
    let bearer = format!("Bearer {ingest}");
    let headers = [("authorization", bearer.as_str())];
    let reply = context.request("POST", "/v1/runs", &headers, Some(body.as_bytes())).await;
    check_problem(&reply, Code::ScopeMissing, "only from outside");
    let outside = context.request("POST", "/v1/runs", &headers, Some(br#"{"kind":"external"}"#)).await;
    assert_eq!(outside.status, 201);
}

#[tokio::test]
async fn an_ended_run_can_be_retried() {
    let context = context_with_worker().await;
    let task = text(&create(&context, "/v1/tasks", "{}").await["id"]);
    let body =
        json!({"kind": "shell", "command": "ls", "workspace": "/src", "task_id": task, "title": "list"});
    let first = ended(&context, &body.to_string()).await;
    let again = create(&context, &format!("/v1/runs/{first}/retry"), "{}").await;
    assert_eq!(
        (&again["task_id"], &again["prior_run_id"], &again["title"]),
        (&json!(task), &json!(first), &json!("list"))
    );
    let events = until_end(&context, again["id"].as_str().unwrap()).await;
    assert_eq!(events[0]["data"]["config"], json!({"command": "ls", "workspace_source": "/src"}));
    assert_eq!(events[0]["data"]["prior_run_id"], json!(first));
    // A missing body is allowed, and the same key creates one run.
    let headers = [("idempotency-key", "k")];
    let target = format!("/v1/runs/{first}/retry");
    let one = context.request("POST", &target, &headers, None).await;
    let two = context.request("POST", &target, &headers, None).await;
    assert_eq!((one.status, &one.body), (201, &two.body));
    let refused = context.post(&target, r#"{"model":"m"}"#).await;
    check_problem(&refused, Code::OrderRefused, "a shell has no model");
    let refused = context.post(&format!("/v1/runs/{first}/resume"), "{}").await;
    check_problem(&refused, Code::OrderRefused, "a shell has nothing to go on from");

    let waits = json!({"kind": "shell", "command": WAITS, "task_id": task}).to_string();
    until_end(&context, one.data()["id"].as_str().unwrap()).await;
    let active = text(&create(&context, "/v1/runs", &waits).await["id"]);
    check_problem(&context.post("/v1/runs", &waits).await, Code::TaskBusy, "one at a time");
    check_problem(&context.post(&target, "{}").await, Code::TaskBusy, "one at a time");
    for verb in ["retry", "resume"] {
        let reply = context.post(&format!("/v1/runs/{active}/{verb}"), "{}").await;
        check_problem(&reply, Code::RunActive, verb);
        let external = context.run_with_story().await;
        let reply = context.post(&format!("/v1/runs/{external}/{verb}"), "{}").await;
        check_problem(&reply, Code::RunExternal, verb);
        let unknown_run = "run_01JXMZ00000000000000000000";
        let reply = context.post(&format!("/v1/runs/{unknown_run}/{verb}"), "{}").await;
        check_problem(&reply, Code::RunNotFound, verb);
    }
    let loose = ended(&context, r#"{"kind":"shell","command":"ls"}"#).await;
    assert_eq!(context.post(&format!("/v1/runs/{loose}/prune"), "{}").await.status, 200);
    let pruned = context.get(&format!("/v1/runs/{loose}")).await.data();
    assert_eq!(pruned["workspace_path"], "/w", "its marker has it");
    check_problem(&context.post(&format!("/v1/runs/{loose}/retry"), "{}").await, Code::RunPruned, "pruned");
}

#[tokio::test]
async fn a_run_resumes_another() {
    let context = context_with_worker().await;
    let task = text(&create(&context, "/v1/tasks", "{}").await["id"]);
    let body =
        json!({"kind": "agent_loop", "request_text": "do", "system": "s", "task_id": task, "model": "a"});
    let first = ended(&context, &body.to_string()).await;
    let resumed =
        create(&context, &format!("/v1/runs/{first}/resume"), r#"{"request_text":"more","max_turns":2}"#)
            .await;
    let events = until_end(&context, resumed["id"].as_str().unwrap()).await;
    assert_eq!(events[0]["type"], "run.resumed_from_event");
    assert_eq!(
        events[0]["data"],
        json!({"from_run_id": first, "from_sequence": 9, "prior_cost_micros_usd": 0})
    );
    let queued = &events[1]["data"];
    assert_eq!((&queued["request_text"], &queued["model"]), (&json!("more"), &json!("a")));
    assert_eq!((&queued["workspace_path"], &queued["prior_run_id"]), (&json!("/w"), &json!(first)));
    assert_eq!(queued["config"], json!({"system": "s", "max_turns": 2}));
    // The same with the fields of `POST /v1/runs`.
    let other =
        json!({"kind": "agent_loop", "resume": first, "from_sequence": 3, "task_id": task}).to_string();
    let run = ended(&context, &other).await;
    let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
    assert!(
        events[0].contains(r#""from_sequence":3"#) && !events[1].contains("request_text"),
        "{}",
        events[1]
    );
    let ahead = context.post(&format!("/v1/runs/{first}/resume"), r#"{"from_sequence":10}"#).await;
    assert!(
        check_problem(&ahead, Code::OrderRefused, "ahead")["detail"]
            .as_str()
            .unwrap()
            .contains("from_sequence")
    );
    let elsewhere = json!({"kind": "agent_loop", "resume": first}).to_string();
    check_problem(&context.post("/v1/runs", &elsewhere).await, Code::OrderRefused, "of another task");
}

#[tokio::test]
async fn uploads_are_attached_to_runs() {
    let context = context_with_worker().await;
    let png = [("content-type", "image/png")];
    let sent = context.request("POST", "/v1/artifacts?name=a.png", &png, Some(b"not really one")).await;
    assert_eq!(sent.status, 201, "{}", sent.text());
    let id = text(&sent.data()["id"]);
    let attachments = json!([{"artifact_id": id}, {"artifact_id": id, "name": "b"}]);
    let body = json!({"kind": "agent_loop", "request_text": "look", "attachments": attachments});
    let run = create(&context, "/v1/runs", &body.to_string()).await;
    let events = until_end(&context, run["id"].as_str().unwrap()).await;
    let of = |name: &str| json!({"artifact_id": id, "mime": "image/png", "name": name});
    assert_eq!(events[0]["data"]["config"]["attachments"], json!([of("a.png"), of("b")]));
    let nothing =
        json!({"kind": "agent_loop", "request_text": "x", "attachments": [{"artifact_id": "art_x"}]});
    for target in ["/v1/runs", "/v1/tasks"] {
        let reply = context.post(target, &nothing.to_string()).await;
        check_problem(&reply, Code::ArtifactNotFound, target);
    }
}

#[tokio::test]
async fn a_session_is_a_conversation() {
    let context = context_with_worker().await;
    let session = text(&create(&context, "/v1/sessions", "{}").await["id"]);
    let target = format!("/v1/sessions/{session}/messages");
    let message = json!({"text": "hello", "model": "a", "system": "s", "workspace": "/src", "network": true});
    let first = create(&context, &target, &message.to_string()).await;
    assert_eq!((&first["kind"], &first["session_id"]), (&json!("agent_loop"), &json!(session)));
    until_end(&context, first["id"].as_str().unwrap()).await;
    // Omitted fields keep the values of the run before.
    let second = create(&context, &target, r#"{"text":"and now?"}"#).await;
    let events = until_end(&context, second["id"].as_str().unwrap()).await;
    let queued = &events[0]["data"];
    assert_eq!((&queued["model"], &queued["prior_run_id"]), (&json!("a"), &first["id"]));
    assert_eq!(queued["config"], json!({"system": "s", "workspace_source": "/src", "network": true}));
    let third = create(&context, &target, r#"{"text":"wait","network":false}"#).await;
    check_problem(&context.post(&target, r#"{"text":"too soon"}"#).await, Code::SessionBusy, "one at a time");
    let id = text(&third["id"]);
    assert_eq!(context.post(&format!("/v1/runs/{id}/cancel"), "{}").await.status, 200);
    assert_eq!(until_end(&context, &id).await[0]["data"]["config"]["network"], Value::Null);

    let all = context.get(&target).await.json();
    let roles: Vec<&str> =
        all["data"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "assistant", "tool"].repeat(2));
    let of = |at: usize| &all["data"][at];
    assert_eq!((&of(0)["text"], &of(4)["text"]), (&json!("hello"), &json!("and now?")));
    assert_eq!((&of(2)["tool_name"], &of(2)["input"]), (&json!("glob"), &json!({"pattern": "*"})));
    assert_eq!((&of(3)["outcome"], &of(3)["output"]), (&json!("refused"), &json!("not here")));
    assert_eq!((&of(0)["run_id"], &of(4)["run_id"]), (&first["id"], &second["id"]));
    for limit in [1, 2, 3, 8, 200] {
        let (mut messages, mut after) = (Vec::new(), String::new());
        loop {
            let page = context.get(&format!("{target}?limit={limit}&after={after}")).await.json();
            messages.extend(page["data"].as_array().unwrap().clone());
            after = text(&page["next"]);
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!(json!(messages), all["data"], "by {limit}");
    }
    let other = text(&create(&context, "/v1/sessions", "{}").await["id"]);
    let empty = context.get(&format!("/v1/sessions/{other}/messages")).await.json();
    assert_eq!(
        (&empty["data"], &empty["has_more"], &empty["next"]),
        (&json!([]), &json!(false), &Value::Null)
    );
    let foreign = format!("/v1/sessions/{other}/messages?after={}:0", text(&first["id"]));
    check_problem(&context.get(&foreign).await, Code::CursorForeign, "of another session");
    for bad in ["run_x", "run_01JXMZ00000000000000000000", "run_01JXMZ00000000000000000000:x"] {
        check_problem(&context.get(&format!("{target}?after={bad}")).await, Code::CursorMalformed, bad);
    }
    for bad in [r#"{"text":" "}"#, r#"{"text":"x","attachments":[{"artifact_id":"?"}]}"#] {
        check_problem(&context.post(&target, bad).await, Code::OrderRefused, bad);
    }
    for bad in ["{}", r#"{"text":"x","command":"ls"}"#, "[]"] {
        check_problem(&context.post(&target, bad).await, Code::BodyMalformed, bad);
    }
}
