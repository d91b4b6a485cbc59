//! Permissions that are held open: answered from a face, decided in the agent's dialog, or by nobody.

use serde_json::{Value, json};

use super::agent::{claude, events, pending, post, runs, tell, the, types, until};
use super::held::{Held, hold};
use super::house::House;

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

/// A prompt whose call is about to ask.
async fn before(house: &House) {
    tell(
        house,
        "claude",
        &[
            claude("UserPromptSubmit", Some("p-1"), json!({"prompt": "clean"})),
            claude("PreToolUse", Some("p-1"), named(json!({}))),
        ],
    )
    .await;
}

/// The request of a permission that is held open.
fn asks(house: &House, query: &str) -> Held {
    let body = claude("PermissionRequest", Some("p-1"), call()).to_string();
    hold(house, &format!("/hooks/claude/PermissionRequest{query}"), &body)
}

async fn answer(held: Held) -> Value {
    held.await.expect("the request is answered")
}

async fn resolves(house: &House, approval: &Value, body: &str) {
    let reply =
        house.post(&format!("/v1/approvals/{}/resolve", approval["id"].as_str().unwrap()), body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn first_run(house: &House) -> Vec<(String, Value)> {
    let run = runs(house).await.remove(0);
    events(house, &run).await
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
        let house = House::memory().await;
        before(&house).await;
        let wire = asks(&house, ASK);
        let approval = pending(&house).await;
        assert_eq!(
            (&approval["tool_call_id"], &approval["summary"]),
            (&json!("toolu_01"), &json!("Bash: rm -r build"))
        );
        // The same request again waits for the same answer.
        let again = asks(&house, ASK);
        resolves(&house, &approval, body).await;
        let expected =
            json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
        assert_eq!(answer(wire).await, expected);
        assert_eq!(answer(again).await, expected);
        let denied = decision["behavior"] == "deny";
        if !denied {
            tell(
                &house,
                "claude",
                &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))],
            )
            .await;
        }
        tell(&house, "claude", &[claude("Stop", Some("p-1"), json!({}))]).await;
        let all = first_run(&house).await;
        assert_eq!(the(&all, "approval.requested")["preview"], "rm -r build");
        assert_eq!(types(&all).contains(&"tool.refused"), denied, "{:?}", types(&all));
        assert_eq!(types(&all).contains(&"tool.completed"), !denied);
        the(&all, "run.finished");
    }
}

#[tokio::test]
async fn what_the_agents_own_dialog_decides_withdraws_the_approval() {
    let house = House::memory().await;
    before(&house).await;
    let wire = asks(&house, ASK);
    let approval = pending(&house).await;
    tell(&house, "claude", &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))])
        .await;
    assert_eq!(answer(wire).await, json!({}));
    let all = first_run(&house).await;
    let resolved = the(&all, "approval.resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["decided_elsewhere"], &resolved["by"]),
        (&json!("cancelled"), &json!("approved"), &json!("claude"))
    );
    the(&all, "tool.completed");
    let late = house
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
    let house = House::memory().await;
    before(&house).await;
    let wire = asks(&house, ASK);
    pending(&house).await;
    tell(&house, "claude", &[claude("SessionEnd", None, json!({"reason": "other"}))]).await;
    assert_eq!(answer(wire).await, json!({}));
    assert_eq!(the(&first_run(&house).await, "approval.resolved")["decided_elsewhere"], "undecided");
    // It leaves; and nobody answers in time. Its dialog then says yes.
    for (query, leaves) in [(ASK, true), ("?ask=1&wait_seconds=1", false)] {
        let house = House::memory().await;
        before(&house).await;
        let wire = asks(&house, query);
        pending(&house).await;
        if leaves {
            wire.abort();
        } else {
            assert_eq!(answer(wire).await, json!({}));
        }
        let resolved = until("the approval is withdrawn", async || {
            let all = first_run(&house).await;
            types(&all).contains(&"approval.resolved").then(|| the(&all, "approval.resolved").clone())
        })
        .await;
        assert_eq!(resolved["decided_elsewhere"], "undecided");
        tell(&house, "claude", &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))])
            .await;
        the(&first_run(&house).await, "tool.completed");
    }
}

#[tokio::test]
async fn a_recording_without_asking_answers_at_once_and_an_operator_may_cancel_the_run() {
    let house = House::memory().await;
    before(&house).await;
    let asked = post(&house, "claude", "", &claude("PermissionRequest", Some("p-1"), call())).await;
    assert_eq!(asked.text(), "{}");
    let run = runs(&house).await.remove(0);
    let cancel = house.post(&format!("/v1/runs/{}/cancel", run["id"].as_str().unwrap()), "{}").await;
    assert_eq!(cancel.status, 200, "{}", cancel.text());
    // The agent goes on all the same, and that is recorded in a run of its own.
    tell(&house, "claude", &[claude("PostToolUse", Some("p-1"), named(json!({"tool_response": "ok"})))])
        .await;
    let runs = runs(&house).await;
    assert_eq!((runs.len(), &runs[0]["status"]), (2, &json!("cancelled")));
    the(&events(&house, &runs[1]).await, "tool.completed");
}
