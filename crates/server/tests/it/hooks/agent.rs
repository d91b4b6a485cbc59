//! An agent that posts the bodies of its hooks, and reads back what is recorded.

use std::time::Duration;

use serde_json::{Value, json};

use super::test_context::TestContext;
use super::wire::Reply;

/// A body of Claude Code with the fields that every body has.
pub(crate) fn claude(event: &str, prompt: Option<&str>, fields: Value) -> Value {
    let mut body = json!({
        "session_id": "11111111-2222-3333-4444-555555555555",
        "transcript_path": "/home/ann/.claude/projects/x/11111111.jsonl",
        "cwd": "/home/ann/project",
        "permission_mode": "default",
        "hook_event_name": event,
    });
    let all = body.as_object_mut().unwrap();
    all.extend(prompt.map(|prompt| ("prompt_id".to_owned(), json!(prompt))));
    all.extend(fields.as_object().unwrap().clone());
    body
}

pub(crate) fn event_of(body: &Value) -> &str {
    body["hook_event_name"].as_str().unwrap()
}

/// A whole prompt of Claude Code with one call, with the bodies of its documentation.
pub(crate) fn story() -> Vec<Value> {
    let p = Some("p-1");
    let bash = json!({"command": "ls", "description": "List files"});
    vec![
        claude("SessionStart", None, json!({"source": "startup", "model": "claude-opus-4"})),
        claude("UserPromptSubmit", p, json!({"prompt": "list the files"})),
        claude(
            "MessageDisplay",
            p,
            json!({"turn_id": "t-1", "message_id": "m-1", "index": 0, "final": false, "delta": "I will "}),
        ),
        claude(
            "MessageDisplay",
            p,
            json!({"turn_id": "t-1", "message_id": "m-1", "index": 1, "final": true, "delta": "look."}),
        ),
        claude("PreToolUse", p, json!({"tool_name": "Bash", "tool_input": bash, "tool_use_id": "toolu_01"})),
        claude(
            "PostToolUse",
            p,
            json!({"tool_name": "Bash", "tool_input": bash, "tool_use_id": "toolu_01", "duration_ms": 12,
                   "tool_response": {"stdout": "a b", "stderr": "", "interrupted": false}}),
        ),
        claude("SubagentStart", p, json!({"agent_id": "sub-1", "agent_type": "Explore"})),
        claude(
            "SubagentStop",
            p,
            json!({"agent_id": "sub-1", "agent_type": "Explore", "stop_hook_active": false}),
        ),
        claude("PreCompact", p, json!({"trigger": "auto", "custom_instructions": ""})),
        claude(
            "MessageDisplay",
            p,
            json!({"turn_id": "t-1", "message_id": "m-2", "index": 0, "final": true, "delta": "a and b"}),
        ),
        claude("Stop", p, json!({"stop_hook_active": false, "last_assistant_message": "a and b"})),
    ]
}

pub(crate) async fn post(context: &TestContext, agent: &str, query: &str, body: &Value) -> Reply {
    context.post(&format!("/hooks/{agent}/{}{query}", event_of(body)), &body.to_string()).await
}

/// Posts the bodies and expects empty replies.
pub(crate) async fn post_all(context: &TestContext, agent: &str, bodies: &[Value]) {
    for body in bodies {
        let reply = post(context, agent, "", body).await;
        assert_eq!((reply.status, reply.text()), (200, "{}"), "{body}");
    }
}

/// All runs, oldest first.
pub(crate) async fn runs(context: &TestContext) -> Vec<Value> {
    let mut runs = context.get("/v1/runs?limit=200").await.data().as_array().unwrap().clone();
    runs.reverse();
    runs
}

/// Types and data of a run's events.
pub(crate) async fn events(context: &TestContext, run: &Value) -> Vec<(String, Value)> {
    let target = format!("/v1/runs/{}/events", run["id"].as_str().unwrap());
    let envelopes = context.envelopes(&target).await;
    let read = |text: &String| -> Value { serde_json::from_str(text).unwrap() };
    let typed = |event: Value| (event["type"].as_str().unwrap().to_owned(), event["data"].clone());
    envelopes.iter().map(read).map(typed).collect()
}

pub(crate) fn types(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(kind, _)| kind.as_str()).collect()
}

/// The data of the only event of a type.
pub(crate) fn the<'a>(events: &'a [(String, Value)], kind: &str) -> &'a Value {
    let mut all = events.iter().filter(|(known, _)| known == kind);
    let found = all.next().unwrap_or_else(|| panic!("no {kind} in {:?}", types(events)));
    assert!(all.next().is_none(), "more than one {kind} in {:?}", types(events));
    &found.1
}

/// Polls until a condition holds, for at most a long time.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            // tidy: the condition is a server response; this is the pause between two polls
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// The only pending approval.
pub(crate) async fn pending(context: &TestContext) -> Value {
    until("an approval waits", async || {
        let list = context.get("/v1/approvals?status=pending").await.data();
        list.as_array().unwrap().first().cloned()
    })
    .await
}
