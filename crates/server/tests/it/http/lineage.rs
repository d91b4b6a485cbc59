//! Successors of ended runs: where each starts, idempotency, refusals, and the links between runs.
//!
//! Each run of [`Worker`](crate::http::orders) that has ended has ten events: its only turn starts at 3, its checkpoint
//! is at 8, its ending at 9.

use recount_event::Code;
use serde_json::{Value, json};

use crate::http::orders::{WAITS, context_with_worker, create, ended, until_end};
use crate::test_context::{TestContext, check_problem, text};

const REQUEST: &str = r#"{"kind":"agent_loop","request_text":"do","model":"a"}"#;

/// The verbs, each with a valid body.
const VERBS: [(&str, &str); 4] = [
    ("retry", "{}"),
    ("resume", "{}"),
    ("continue", r#"{"prompt":"more"}"#),
    ("retry-from-turn", r#"{"turn_index":0}"#),
];

async fn events_of(context: &TestContext, run: &str) -> Vec<String> {
    context.envelopes(&format!("/v1/runs/{run}/events")).await
}

#[tokio::test]
async fn successors_start_at_their_checkpoint_and_leave_the_original_unchanged() {
    let context = context_with_worker().await;
    let first = ended(&context, REQUEST).await;
    let before = events_of(&context, &first).await;
    for (verb, body, from, request_text) in [
        ("resume", "", 8, Value::Null),
        ("resume", "{}", 8, Value::Null),
        ("resume", r#"{"checkpoint_id":"ckpt:1"}"#, 8, Value::Null),
        ("resume", r#"{"checkpoint_id":"ckpt:1","request_text":"else"}"#, 8, json!("else")),
        ("resume", r#"{"from_sequence":2}"#, 2, Value::Null),
        ("resume", r#"{"request_text":"more"}"#, 9, json!("more")),
        ("continue", r#"{"prompt":"more"}"#, 9, json!("more")),
        ("retry-from-turn", r#"{"turn_index":0}"#, 2, Value::Null),
    ] {
        let about = format!("{verb} {body}");
        let next = create(&context, &format!("/v1/runs/{first}/{verb}"), body).await;
        assert_eq!(next["prior_run_id"], json!(first), "{about}");
        let events = until_end(&context, next["id"].as_str().unwrap()).await;
        assert_eq!(events[0]["type"], "run.resumed_from_event", "{about}");
        let place = json!({"from_run_id": first, "from_sequence": from, "prior_cost_micros_usd": 0});
        assert_eq!(events[0]["data"], place, "{about}");
        assert_eq!(
            (&events[1]["type"], &events[1]["data"]["request_text"]),
            (&json!("run.queued"), &request_text)
        );
        assert_eq!(events[1]["data"]["workspace_path"], "/w", "{about}");
    }
    let again = create(&context, &format!("/v1/runs/{first}/retry"), "{}").await;
    let events = until_end(&context, again["id"].as_str().unwrap()).await;
    assert_eq!(
        (&events[0]["type"], &events[0]["data"]["request_text"]),
        (&json!("run.queued"), &json!("do"))
    );
    assert_eq!(events_of(&context, &first).await, before, "not a byte of the original changed");
}

#[tokio::test]
async fn runs_name_their_predecessors_and_successors() {
    let context = context_with_worker().await;
    let first = ended(&context, REQUEST).await;
    let shown = |run: &str| {
        let target = format!("/v1/runs/{run}");
        let context = &context;
        async move { context.get(&target).await.data() }
    };
    assert!(shown(&first).await.get("successor_run_ids").is_none());
    let mut after = Vec::new();
    for (verb, body) in VERBS {
        let next = create(&context, &format!("/v1/runs/{first}/{verb}"), body).await;
        let next = text(&next["id"]);
        until_end(&context, &next).await;
        after.insert(0, next);
    }
    assert_eq!(shown(&first).await["successor_run_ids"], json!(after), "newest first");
    let last = create(&context, &format!("/v1/runs/{}/resume", after[0]), "{}").await;
    assert_eq!(last["prior_run_id"], json!(after[0]));
    assert_eq!(shown(&after[0]).await["successor_run_ids"], json!([last["id"]]));
    let listed = context.get("/v1/runs").await.json();
    assert!(listed["data"].as_array().unwrap().iter().all(|run| run.get("successor_run_ids").is_none()));
}

#[tokio::test]
async fn a_repeated_request_creates_one_run() {
    let context = context_with_worker().await;
    let first = ended(&context, REQUEST).await;
    for (verb, body) in VERBS {
        let target = format!("/v1/runs/{first}/{verb}");
        let headers = [("idempotency-key", verb)];
        let one = context.request("POST", &target, &headers, Some(body.as_bytes())).await;
        let two = context.request("POST", &target, &headers, Some(body.as_bytes())).await;
        assert_eq!((one.status, two.status, &one.body), (201, 201, &two.body), "{verb}");
        assert_eq!(two.header("idempotency-replayed"), Some("true"), "{verb}");
        let other = context.request("POST", &target, &headers, Some(br#"{"model":"other"}"#)).await;
        check_problem(&other, Code::IdempotencyKeyReused, verb);
    }
    let listed = context.get(&format!("/v1/runs/{first}")).await.data();
    assert_eq!(listed["successor_run_ids"].as_array().unwrap().len(), VERBS.len());
}

#[tokio::test]
async fn invalid_successors_are_refused_by_name() {
    let context = context_with_worker().await;
    let first = ended(&context, REQUEST).await;
    let unknown = "run_01JXMZ00000000000000000000";
    let external = context.run_with_story().await;
    let waiting = json!({"kind": "agent_loop", "request_text": WAITS});
    let active = text(&create(&context, "/v1/runs", &waiting.to_string()).await["id"]);
    let never_started = text(&create(&context, "/v1/runs", &waiting.to_string()).await["id"]);
    assert_eq!(context.post(&format!("/v1/runs/{never_started}/cancel"), "{}").await.status, 200);
    until_end(&context, &never_started).await;
    let pruned = ended(&context, REQUEST).await;
    assert_eq!(context.post(&format!("/v1/runs/{pruned}/prune"), "{}").await.status, 200);
    let task = text(&create(&context, "/v1/tasks", "{}").await["id"]);
    let of_task = json!({"kind": "agent_loop", "request_text": "do", "task_id": task}).to_string();
    let erased = ended(&context, &of_task).await;
    assert_eq!(context.request("DELETE", &format!("/v1/tasks/{task}"), &[], None).await.status, 200);
    for (verb, body) in VERBS {
        for (run, code) in [
            (unknown, Code::RunNotFound),
            (&external, Code::RunExternal),
            (&active, Code::RunActive),
            (&pruned, Code::RunPruned),
            (&erased, Code::RunErased),
        ] {
            let reply = context.post(&format!("/v1/runs/{run}/{verb}"), body).await;
            let problem = check_problem(&reply, code, verb);
            assert!(problem["detail"].as_str().unwrap().contains(run), "{verb}: {problem}");
        }
    }
    let shell = ended(&context, r#"{"kind":"shell","command":"ls"}"#).await;
    let long = "x".repeat((16 << 10) + 1);
    for (run, verb, body, code, words) in [
        (&never_started, "resume", "{}".to_owned(), Code::CheckpointMissing, "retry it"),
        (
            &never_started,
            "retry-from-turn",
            r#"{"turn_index":0}"#.into(),
            Code::TurnNotFound,
            "it has no turn",
        ),
        (
            &never_started,
            "resume",
            r#"{"checkpoint_id":"c"}"#.into(),
            Code::CheckpointNotFound,
            "it has no checkpoints",
        ),
        (&first, "resume", r#"{"checkpoint_id":"ckpt:2"}"#.into(), Code::CheckpointNotFound, "ckpt:1"),
        (&first, "resume", r#"{"checkpoint_id":" "}"#.into(), Code::CheckpointNotFound, "not an id"),
        (
            &first,
            "resume",
            r#"{"checkpoint_id":"ckpt:1","from_sequence":8}"#.into(),
            Code::OrderRefused,
            "send one of them",
        ),
        (&first, "resume", r#"{"from_sequence":10}"#.into(), Code::OrderRefused, "from_sequence"),
        (&first, "retry-from-turn", r#"{"turn_index":1}"#.into(), Code::TurnNotFound, "0 to 0"),
        (&first, "retry-from-turn", "{}".into(), Code::BodyMalformed, "turn_index"),
        (&first, "continue", "{}".into(), Code::BodyMalformed, "prompt"),
        (&first, "continue", r#"{"prompt":" "}"#.into(), Code::OrderRefused, "prompt"),
        (&first, "continue", json!({"prompt": long}).to_string(), Code::LimitReached, "prompt"),
        (&shell, "resume", "{}".into(), Code::OrderRefused, "retry it"),
        (&shell, "continue", r#"{"prompt":"x"}"#.into(), Code::OrderRefused, "retry it"),
        (&shell, "retry-from-turn", r#"{"turn_index":0}"#.into(), Code::OrderRefused, "retry it"),
    ] {
        let reply = context.post(&format!("/v1/runs/{run}/{verb}"), &body).await;
        let problem = check_problem(&reply, code, &format!("{verb} {words}"));
        assert!(problem["detail"].as_str().unwrap().contains(words), "{verb}: {problem}");
    }
    // A successor of a pruned run cannot be resumed either, but it can be retried.
    let second = text(&create(&context, &format!("/v1/runs/{first}/resume"), "{}").await["id"]);
    until_end(&context, &second).await;
    assert_eq!(context.post(&format!("/v1/runs/{first}/prune"), "{}").await.status, 200);
    let reply = context.post(&format!("/v1/runs/{second}/resume"), "{}").await;
    let problem = check_problem(&reply, Code::RunPruned, "an earlier run was pruned");
    assert!(problem["detail"].as_str().unwrap().contains(&first), "{problem}");
    create(&context, &format!("/v1/runs/{second}/retry"), "{}").await;
}
