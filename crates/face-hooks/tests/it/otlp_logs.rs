//! Log events of Claude Code: they join the runs of its hooks, or become runs of their own.

use serde_json::{Value, json};

use super::agent::{claude, events, post, post_all, runs, the, types, until};
use super::otlp_wire::{attributes, post_otlp};
use super::test_context::TestContext;

/// What claude-code 2.1.332 sent for a prompt with three calls, without `OTEL_LOG_USER_PROMPTS`.
const CAPTURED: &str = include_str!("claude_logs.json");

/// The session of the hooks in these tests.
const SESSION: &str = "11111111-2222-3333-4444-555555555555";

/// An event of a prompt, as Claude Code sends it.
fn event(name: &str, prompt: &str, sequence: u64, fields: &Value) -> Value {
    let mut all = json!({
        "session.id": SESSION, "event.name": name, "event.sequence": sequence, "prompt.id": prompt,
    });
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let time = 1_795_974_294_000_000_000 + sequence * 1_000_000;
    json!({ "timeUnixNano": time.to_string(), "attributes": attributes(&all) })
}

fn request(prompt: &str, sequence: u64) -> Value {
    let fields = json!({
        "model": "claude-opus-5", "input_tokens": 100, "cache_read_tokens": 30, "cache_creation_tokens": 5,
        "output_tokens": 20, "cost_usd": 0.0008, "duration_ms": 133,
    });
    event("api_request", prompt, sequence, &fields)
}

/// Posts events and expects that all are taken.
async fn send(context: &TestContext, records: &[Value]) {
    let reply = post_otlp(context, "logs", &logs(records)).await;
    assert_eq!((reply.status, reply.text()), (200, "{}"));
}

fn logs(records: &[Value]) -> Value {
    json!({ "resourceLogs": [{
        "resource": { "attributes": attributes(&json!({ "service.name": "claude-code", "service.version": "2.1.332" })) },
        "scopeLogs": [{ "scope": { "name": "com.anthropic.claude_code.events" }, "logRecords": records }],
    }] })
}

fn prompted(prompt: &str, text: &str) -> Value {
    claude("UserPromptSubmit", Some(prompt), json!({ "prompt": text }))
}

fn stop(prompt: &str) -> Value {
    claude("Stop", Some(prompt), json!({ "stop_hook_active": false, "last_assistant_message": "Done." }))
}

fn tokens(run: &Value) -> (u64, u64, u64) {
    let number = |name: &str| run[name].as_u64().unwrap_or(0);
    (number("input_tokens"), number("output_tokens"), number("cost_micros_usd"))
}

#[tokio::test]
async fn a_prompt_without_hooks_is_a_run() {
    let context = TestContext::memory().await;
    // The exporter repeats a request that it got no response to.
    for _ in 0..2 {
        let reply = context.post("/otlp/v1/logs", CAPTURED).await;
        assert_eq!((reply.status, reply.text()), (200, "{}"));
    }
    let all = runs(&context).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(tokens(&all[0]), (400, 80, 3200));
    assert_eq!(
        (&all[0]["source"], &all[0]["agent_name"]),
        (&json!("claude-code-otel"), &json!("claude-code"))
    );
    let recorded = events(&context, &all[0]).await;
    let typed: Vec<&str> =
        types(&recorded).into_iter().filter(|kind| !kind.starts_with("ext.claude.")).collect();
    let call =
        ["assistant.tool_call_proposed", "turn.completed", "cost.tick", "tool.invoked", "tool.completed"];
    let calls = [["turn.started"].as_slice(), &call].concat();
    // The second and the third decision came before and after their requests, as they were captured.
    let expected = [
        ["run.queued", "run.started", "ext.recount.source", "ext.recount.session"].as_slice(),
        &calls,
        &calls,
        &["turn.started", "turn.completed", "cost.tick", "turn.started"],
        &["assistant.tool_call_proposed", "tool.invoked", "tool.completed", "turn.completed", "cost.tick"],
    ];
    assert_eq!(typed, expected.concat());
    let models = recorded.iter().filter(|(kind, _)| kind == "turn.started");
    assert!(models.clone().all(|(_, data)| data["model"] == "claude-opus-5-5"), "{models:?}");
    assert_eq!(the(&recorded, "ext.claude.otel_user_prompt")["source_time"], "2026-11-29T17:44:54.028Z");
    // The next prompt ends it.
    let next = [event("user_prompt", "p-9", 1, &json!({ "prompt": "thanks" }))];
    let session = "7c1ae216-b6d5-4f89-8be1-f3327b49e150";
    let next = [serde_json::from_str(&next[0].to_string().replace(SESSION, session)).unwrap()];
    send(&context, &next).await;
    let all = runs(&context).await;
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["status"], &all[1]["title"]), (&json!("finished"), &json!("thanks")));
    assert_eq!(the(&events(&context, &all[0]).await, "run.finished")["final_status"], "end_not_seen");
    assert_eq!(the(&events(&context, &all[1]).await, "user.message")["text"], "thanks");
    assert_eq!(all[0]["session_id"], all[1]["session_id"]);
}

#[tokio::test]
async fn tokens_join_the_run_of_the_hooks_which_waits_for_the_last_ones() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    let decision = json!({ "decision": "accept", "source": "user_temporary", "tool_name": "Bash" });
    send(&context, &[event("tool_decision", "p-1", 1, &decision), request("p-1", 2)]).await;
    send(&context, &[event("hook_execution_start", "p-1", 3, &json!({}))]).await;
    post_all(&context, "claude", &[stop("p-1"), claude("SessionEnd", None, json!({ "reason": "other" }))])
        .await;
    let run = &runs(&context).await[0];
    assert_eq!((&run["status"], tokens(run)), (&json!("running"), (135, 20, 800)));
    // A repeated request adds nothing, so the run still waits.
    send(&context, &[request("p-1", 2)]).await;
    assert_eq!(runs(&context).await[0]["status"], "running");
    send(&context, &[request("p-1", 4)]).await;
    let all = runs(&context).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((&all[0]["status"], tokens(&all[0])), (&json!("finished"), (270, 40, 1600)));
    let recorded = events(&context, &all[0]).await;
    assert_eq!(
        types(&recorded)[4..],
        [
            "user.message",
            "ext.claude.otel_tool_decision",
            "ext.claude.otel_api_request",
            "ext.recount.source",
            "cost.tick",
            "turn.started",
            "assistant.text_delta",
            "assistant.text_complete",
            "ext.claude.stop",
            "ext.claude.otel_api_request",
            "cost.tick",
            "turn.completed",
            "run.finished",
        ]
    );
    assert_eq!(the(&recorded, "run.finished")["final_status"], "completed");
    let sources: Vec<&Value> =
        recorded.iter().filter(|(kind, _)| kind == "ext.recount.source").map(|(_, data)| data).collect();
    let misses =
        |source: &Value| source["does_not_show"].as_array().unwrap().contains(&json!("tokens and cost"));
    assert_eq!((misses(sources[0]), misses(sources[1])), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_whose_tokens_never_come_ends_after_a_while() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    send(&context, &[request("p-1", 1)]).await;
    post_all(&context, "claude", &[stop("p-1")]).await;
    until("the run has ended", async || (runs(&context).await[0]["status"] == "finished").then_some(()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn tokens_that_come_after_the_end_are_a_run_that_names_the_first() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &[prompted("p-1", "list the files"), stop("p-1")]).await;
    for _ in 0..2 {
        send(&context, &[request("p-1", 1)]).await;
    }
    let all = runs(&context).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!((tokens(&all[0]), tokens(&all[1])), ((0, 0, 0), (135, 20, 800)));
    assert_eq!(all[0]["session_id"], all[1]["session_id"]);
    assert_eq!((&all[0]["title"], &all[1]["title"]), (&json!("list the files"), &json!("list the files")));
    context.refuse(2);
    let late = events(&context, &all[1]).await;
    assert_eq!(the(&late, "ext.recount.recorded_as")["raw"]["run_id"], all[0]["id"]);
    until("the second run has ended", async || {
        (runs(&context).await[1]["status"] == "finished").then_some(())
    })
    .await;
    // The next prompt waits for its tokens, and gets them although its hook comes later than a request outside of it.
    post_all(&context, "claude", &[prompted("p-2", "thanks"), stop("p-2")]).await;
    send(&context, &[request("p-2", 2)]).await;
    let all = runs(&context).await;
    assert_eq!((all.len(), tokens(&all[2]), &all[2]["status"]), (3, (135, 20, 800), &json!("finished")));
}

#[tokio::test]
async fn a_prompt_waits_for_its_tokens_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    send(&context, &[request("p-1", 1)]).await;
    context.running.stop().await;
    let context = TestContext::sqlite(folder.path()).await;
    post_all(&context, "claude", &[stop("p-1")]).await;
    assert_eq!(runs(&context).await[0]["status"], "running");
    send(&context, &[request("p-1", 2)]).await;
    let all = runs(&context).await;
    assert_eq!((all.len(), &all[0]["status"], tokens(&all[0])), (1, &json!("finished"), (270, 40, 1600)));
}

#[tokio::test]
async fn events_that_were_recorded_before_a_restart_are_not_recorded_again() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    send(&context, &[request("p-1", 1)]).await;
    context.running.stop().await;
    let context = TestContext::sqlite(folder.path()).await;
    send(&context, &[request("p-1", 1), request("p-1", 2)]).await;
    let reply = post(&context, "claude", "", &stop("p-1")).await;
    assert_eq!(reply.status, 200);
    let all = runs(&context).await;
    assert_eq!((all.len(), tokens(&all[0])), (1, (270, 40, 1600)));
}

fn final_status(recorded: &[(String, Value)]) -> &Value {
    &the(recorded, "run.finished")["final_status"]
}

#[tokio::test]
async fn a_stop_is_not_lost_if_its_last_tokens_are_refused_once() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    send(&context, &[request("p-1", 1)]).await;
    post_all(&context, "claude", &[stop("p-1")]).await;
    context.refuse(1);
    send(&context, &[request("p-1", 2)]).await;
    let run = &runs(&context).await[0];
    assert_eq!((&run["status"], tokens(run)), (&json!("finished"), (270, 40, 1600)));
    assert_eq!(final_status(&events(&context, run).await), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_not_lost_if_its_run_is_not_in_memory_and_its_end_is_refused() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    send(&context, &[request("p-1", 1)]).await;
    post_all(&context, "claude", &[stop("p-1")]).await;
    context.refuse(recount_face_hooks::limits::TRIES_MAX + 1);
    let reply = post_otlp(&context, "logs", &logs(&[event("api_error", "p-1", 2, &json!({}))])).await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    until("the run has ended", async || (runs(&context).await[0]["status"] == "finished").then_some(()))
        .await;
    assert_eq!(final_status(&events(&context, &runs(&context).await[0]).await), "completed");
}

#[tokio::test]
async fn a_call_after_the_stop_is_in_another_run() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &[prompted("p-1", "list the files")]).await;
    send(&context, &[request("p-1", 1)]).await;
    let call = json!({ "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "toolu_9" });
    post_all(&context, "claude", &[stop("p-1"), claude("PreToolUse", Some("p-1"), call)]).await;
    let all = runs(&context).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!((&all[0]["status"], &all[1]["status"]), (&json!("finished"), &json!("running")));
    assert_eq!(final_status(&events(&context, &all[0]).await), "completed");
    the(&events(&context, &all[1]).await, "assistant.tool_call_proposed");
}

#[tokio::test]
async fn a_session_that_fails_does_not_lose_the_others_of_its_request() {
    let context = TestContext::memory().await;
    let other = request("p-2", 2).to_string().replace(SESSION, "another session");
    // Neither both nor none of the two sessions has four refusals.
    context.refuse(2 * recount_face_hooks::limits::TRIES_MAX - 1);
    let reply =
        post_otlp(&context, "logs", &logs(&[request("p-1", 1), serde_json::from_str(&other).unwrap()])).await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    let recorded = runs(&context).await.into_iter().filter(|run| tokens(run).0 > 0).count();
    assert_eq!(recorded, 1);
}
