//! Permission requests that are held open: answered by a client, decided in the agent's dialog, or not decided.

use serde_json::{Value, json};

use super::agent::{claude, events, pending, post, post_all, runs, the, types, until};
use super::held::{Held, hold};
use super::test_context::TestContext;

const ASK: &str = "?ask=1&wait_seconds=60";

fn call() -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": "rm -r build"}})
}

fn named(more: Value) -> Value {
    let mut call = call();
    call["tool_use_id"] = json!("toolu_01");
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

/// Posts a prompt whose call needs a permission.
async fn before(context: &TestContext) {
    post_all(
        context,
        "claude",
        &[
            claude("UserPromptSubmit", Some("p-1"), json!({"prompt": "clean"})),
            claude("PreToolUse", Some("p-1"), named(json!({}))),
        ],
    )
    .await;
}

/// Sends a permission request that is held open.
fn request_permission(context: &TestContext, query: &str) -> Held {
    let body = claude("PermissionRequest", Some("p-1"), call()).to_string();
    hold(context, &format!("/hooks/claude/PermissionRequest{query}"), &body)
}

async fn answer(held: Held) -> Value {
    held.await.expect("the request gets a response")
}

async fn resolves(context: &TestContext, approval: &Value, body: &str) {
    let reply =
        context.post(&format!("/v1/approvals/{}/resolve", approval["id"].as_str().unwrap()), body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn first_run(context: &TestContext) -> Vec<(String, Value)> {
    let run = runs(context).await.remove(0);
    events(context, &run).await
}

#[tokio::test]
async fn a_yes_and_a_no_from_a_face_reach_the_agent() {
    for (body, decision) in [
        (r#"{"decision":"approve"}"#, json!({"behavior": "allow"})),
        (
            r#"{"decision":"reject","comment":"keep it"}"#,
            json!({"behavior": "deny", "message": "denied in Recount: keep it"}),
        ),
    ] {
        let context = TestContext::memory().await;
        before(&context).await;
        let wire = request_permission(&context, ASK);
        let approval = pending(&context).await;
        assert_eq!(
            (&approval["tool_call_id"], &approval["summary"]),
            (&json!("toolu_01"), &json!("Bash: rm -r build"))
        );
        // A repeated request waits for the same answer.
        let again = request_permission(&context, ASK);
        resolves(&context, &approval, body).await;
        let expected =
            json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
        assert_eq!(answer(wire).await, expected);
        assert_eq!(answer(again).await, expected);
        let denied = decision["behavior"] == "deny";
        if !denied {
            post_all(
                &context,
                "claude",
                &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))],
            )
            .await;
        }
        post_all(&context, "claude", &[claude("Stop", Some("p-1"), json!({}))]).await;
        let all = first_run(&context).await;
        assert_eq!(the(&all, "approval.requested")["preview"], "rm -r build");
        assert_eq!(types(&all).contains(&"tool.refused"), denied, "{:?}", types(&all));
        assert_eq!(types(&all).contains(&"tool.completed"), !denied);
        the(&all, "run.finished");
    }
}

#[tokio::test]
async fn a_decision_in_the_agents_dialog_withdraws_the_approval() {
    let context = TestContext::memory().await;
    before(&context).await;
    let wire = request_permission(&context, ASK);
    let approval = pending(&context).await;
    post_all(
        &context,
        "claude",
        &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))],
    )
    .await;
    assert_eq!(answer(wire).await, json!({}));
    let all = first_run(&context).await;
    let resolved = the(&all, "approval.resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["decided_elsewhere"], &resolved["by"]),
        (&json!("cancelled"), &json!("approved"), &json!("claude"))
    );
    the(&all, "tool.completed");
    let late = context
        .post(
            &format!("/v1/approvals/{}/resolve", approval["id"].as_str().unwrap()),
            r#"{"decision":"approve"}"#,
        )
        .await;
    assert_eq!(late.status, 409, "{}", late.text());
}

#[tokio::test]
async fn an_agent_that_stops_leaves_or_is_not_answered_in_time_decides_itself() {
    // It stops.
    let context = TestContext::memory().await;
    before(&context).await;
    let wire = request_permission(&context, ASK);
    pending(&context).await;
    post_all(&context, "claude", &[claude("SessionEnd", None, json!({"reason": "other"}))]).await;
    assert_eq!(answer(wire).await, json!({}));
    assert_eq!(the(&first_run(&context).await, "approval.resolved")["decided_elsewhere"], "undecided");
    // It disconnects, or the answer is late. Then its dialog approves.
    for (query, leaves) in [(ASK, true), ("?ask=1&wait_seconds=1", false)] {
        let context = TestContext::memory().await;
        before(&context).await;
        let wire = request_permission(&context, query);
        pending(&context).await;
        if leaves {
            wire.abort();
        } else {
            assert_eq!(answer(wire).await, json!({}));
        }
        let resolved = until("the approval is withdrawn", async || {
            let all = first_run(&context).await;
            types(&all).contains(&"approval.resolved").then(|| the(&all, "approval.resolved").clone())
        })
        .await;
        assert_eq!(
            (&resolved["decision"], &resolved["decided_elsewhere"]),
            (&json!("cancelled"), &json!("undecided"))
        );
        let all = first_run(&context).await;
        let requested = the(&all, "approval.requested");
        let seconds = if leaves { 60 } else { 1 };
        assert_eq!(
            (
                &requested["timeout_seconds"],
                &requested["withdrawn_at_deadline"],
                requested.get("default_decision")
            ),
            (&json!(seconds), &json!(true), None),
            "the deadline is that of the hook, and nothing is rejected at it"
        );
        post_all(
            &context,
            "claude",
            &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))],
        )
        .await;
        the(&first_run(&context).await, "tool.completed");
    }
}

#[tokio::test]
async fn a_recording_without_ask_returns_at_once_and_an_operator_can_cancel_the_run() {
    let context = TestContext::memory().await;
    before(&context).await;
    let reply = post(&context, "claude", "", &claude("PermissionRequest", Some("p-1"), call())).await;
    assert_eq!(reply.text(), "{}");
    let run = runs(&context).await.remove(0);
    let cancel = context.post(&format!("/v1/runs/{}/cancel", run["id"].as_str().unwrap()), "{}").await;
    assert_eq!(cancel.status, 200, "{}", cancel.text());
    // The agent continues anyway, and that is recorded in a run of its own.
    post_all(
        &context,
        "claude",
        &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))],
    )
    .await;
    let runs = runs(&context).await;
    assert_eq!((runs.len(), &runs[0]["status"]), (2, &json!("cancelled")));
    the(&events(&context, &runs[1]).await, "tool.completed");
}
