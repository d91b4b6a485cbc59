//! MCP Events: event types, polls, cursors, and what a limited client gets.

use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use recount_engine::{Caller, Narrowing, Scope};
use recount_transport::sse::Decoder;
use serde_json::{Value, json};

use crate::test_context::{STREAMS_MAX, TestContext, stateless_of};

const FINISHED: (&str, Value) = ("run.finished", Value::Null);

async fn rpc(context: &TestContext, caller: Caller, method: &str, params: Value) -> Value {
    stateless_of(context, caller, method, params).await.json()
}

/// The result of a poll by the operator.
async fn poll(context: &TestContext, params: Value) -> Value {
    let reply = rpc(context, Caller::operator(), "events/poll", params).await;
    assert!(reply.get("error").is_none(), "{reply}");
    reply["result"].clone()
}

async fn code(context: &TestContext, caller: Caller, params: Value) -> (Value, Value) {
    let error = rpc(context, caller, "events/poll", params).await["error"].clone();
    (error["code"].clone(), error["data"].clone())
}

/// A run that has ended with this event.
async fn ended(context: &TestContext, title: &str, ending: (&str, Value)) -> String {
    let data = match ending.1 {
        Value::Null => json!({ "final_status": "done" }),
        data => data,
    };
    context.run(title, &[("run.started", json!({})), (ending.0, data)]).await
}

fn approval(id: &str) -> Vec<(&'static str, Value)> {
    let call =
        json!({ "turn_index": 0, "tool_call_id": "c1", "tool_name": "shell", "input": { "cmd": "ls" } });
    let request =
        json!({ "approval_id": id, "tool_call_id": "c1", "kind": "shell", "summary": "s".repeat(900) });
    vec![
        ("run.started", json!({})),
        ("turn.started", json!({ "turn_index": 0, "model": "m" })),
        ("assistant.tool_call_proposed", call),
        ("approval.requested", request),
    ]
}

fn runs(result: &Value) -> Vec<&str> {
    let events = result["events"].as_array().unwrap();
    events.iter().map(|event| event["data"]["run"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_polls_for_ended_runs() {
    let context = TestContext::new().await;
    ended(&context, "before", FINISHED).await;
    let first = poll(&context, json!({ "name": "run.finished", "cursor": null })).await;
    assert_eq!(
        (&first["events"], &first["truncated"], &first["hasMore"]),
        (&json!([]), &json!(false), &json!(false))
    );
    assert!(first["nextPollMs"].as_u64().unwrap() > 0);

    let fault = json!({ "code": "model_error", "message": "no", "retriable": false });
    let failed = ended(&context, &"t".repeat(2000), ("run.failed", fault)).await;
    let done = ended(&context, "b", FINISHED).await;
    let all = json!({ "name": "run.finished", "cursor": first["cursor"] });
    let second = poll(&context, all.clone()).await;
    assert_eq!(runs(&second), [&failed, &done]);
    let event = &second["events"][0];
    assert_eq!((&event["name"], &event["data"]["status"]), (&json!("run.finished"), &json!("failed")));
    assert_eq!(
        (&event["data"]["ending"], &event["data"]["agent"]),
        (&json!("model_error"), &json!("claude-code"))
    );
    assert!(event["data"]["untrusted"].as_str().unwrap().contains("untrusted"));
    assert!(event["data"]["title"].as_str().unwrap().len() < 500, "{event}");

    // The same cursor has the same events, with the same ids; the new one has none.
    assert_eq!(poll(&context, all).await, second);
    let last = poll(&context, json!({ "name": "run.finished", "cursor": second["cursor"] })).await;
    assert_eq!(last["events"], json!([]));

    for (arguments, expected) in [
        (json!({ "status": "finished" }), vec![&done]),
        (json!({ "status": "cancelled" }), vec![]),
        (json!({ "run": failed }), vec![&failed]),
        (json!({ "agent": "Claude" }), vec![&failed, &done]),
        (json!({ "agent": "codex" }), vec![]),
    ] {
        let params = json!({ "name": "run.finished", "arguments": arguments, "cursor": first["cursor"] });
        let found = poll(&context, params).await;
        assert_eq!(runs(&found), expected, "{arguments}");
        assert_eq!(found["truncated"], false);
        // It has passed what did not match.
        assert_eq!(found["cursor"], second["cursor"], "{arguments}");
    }
}

#[tokio::test]
async fn a_long_backlog_comes_in_parts_and_can_be_skipped_by_age() {
    let context = TestContext::new().await;
    let mut expected = Vec::new();
    for title in ["a", "b", "c"] {
        expected.push(ended(&context, title, FINISHED).await);
    }
    let (mut found, mut cursor) = (Vec::new(), json!("0"));
    for _ in 0..3 {
        let part = poll(&context, json!({ "name": "run.finished", "cursor": cursor, "maxEvents": 1 })).await;
        assert_eq!(part["events"].as_array().unwrap().len(), 1);
        found.extend(runs(&part).into_iter().map(str::to_owned));
        assert_eq!(part["hasMore"], found.len() < 3, "{part}");
        cursor = part["cursor"].clone();
    }
    assert_eq!(found, expected);

    let recent = json!({ "name": "run.finished", "cursor": "0", "maxAgeMs": 1 });
    // Until all are older than that.
    let old = loop {
        let old = poll(&context, recent.clone()).await;
        if old["events"] == json!([]) {
            break old;
        }
    };
    assert_eq!(old["truncated"], true);
    let young = json!({ "name": "run.finished", "cursor": "0", "maxAgeMs": 3_600_000 });
    let young = poll(&context, young).await;
    assert_eq!((runs(&young).len(), &young["truncated"]), (3, &json!(false)));
}

#[tokio::test]
async fn an_approval_can_be_answered_from_its_event() {
    let context = TestContext::new().await;
    let run = context.run("asks", &approval("ap_1")).await;
    let found = poll(&context, json!({ "name": "approval.requested", "cursor": "0" })).await;
    let data = &found["events"][0]["data"];
    assert_eq!(runs(&found), [&run]);
    for (key, value) in [("kind", "approval"), ("id", "ap_1"), ("status", "pending"), ("tool", "shell")] {
        assert_eq!(data[key], value, "{data}");
    }
    assert!(data["summary"].as_str().unwrap().len() < 500, "{data}");
    let caller = context.caller("bot", &[Scope::Read, Scope::Approve], Narrowing::default());
    let answer = json!({
        "kind": data["kind"], "id": data["id"], "shown_digest": data["shown_digest"], "decision": "reject",
    });
    let answered = context.outcome(caller, "answer_prompt", answer).await;
    assert_eq!(answered["isError"], false, "{answered}");
    let later = poll(&context, json!({ "name": "approval.requested", "cursor": "0" })).await;
    assert_eq!(later["events"][0]["data"]["status"], "rejected");
    assert_eq!(later["events"][0]["eventId"], found["events"][0]["eventId"]);
}

#[tokio::test]
async fn payloads_and_arguments_match_the_schemas_of_the_list() {
    let context = TestContext::new().await;
    ended(&context, "a", FINISHED).await;
    context.run("asks", &approval("ap_1")).await;
    let list = rpc(&context, Caller::operator(), "events/list", json!({})).await["result"].clone();
    assert_eq!(list["events"].as_array().unwrap().len(), 2, "{list}");
    for event in list["events"].as_array().unwrap() {
        let validator = jsonschema::validator_for(&event["payloadSchema"]).unwrap();
        let found = poll(&context, json!({ "name": event["name"], "cursor": "0" })).await;
        let data = &found["events"][0]["data"];
        assert!(validator.is_valid(data), "{data}");
        let known = event["payloadSchema"]["properties"].as_object().unwrap();
        assert!(data.as_object().unwrap().keys().all(|key| known.contains_key(key)), "{data}");
    }
    let paged = rpc(&context, Caller::operator(), "events/list", json!({ "cursor": "x" })).await;
    assert_eq!(paged["error"]["code"], -32602);
}

#[tokio::test]
async fn unknown_cursors_names_and_arguments_have_the_codes_of_the_extension() {
    let context = TestContext::new().await;
    for (params, expected) in [
        (json!({ "name": "run.finished", "cursor": "999" }), -32602),
        (json!({ "name": "run.finished", "cursor": "9".repeat(20) }), -32602),
        (json!({ "name": "run.finished", "cursor": "x" }), -32602),
        (json!({ "name": "run.finished", "arguments": { "run": "../x" } }), -32602),
        (json!({ "name": "run.finished", "arguments": { "channel": "x" } }), -32602),
        (json!({ "name": "nothing" }), -32023),
    ] {
        let (found, data) = code(&context, Caller::operator(), params.clone()).await;
        assert_eq!(found, expected, "{params}");
        assert_eq!(data["kind"] == "event", expected == -32023, "{params}: {data}");
    }
    let writer = context.caller("w", &[Scope::Ingest], Narrowing::default());
    assert_eq!(code(&context, writer.clone(), json!({ "name": "run.finished" })).await.0, -32024);
    let list = rpc(&context, writer, "events/list", json!({})).await;
    assert_eq!(list["result"]["events"], json!([]));
}

#[tokio::test]
async fn a_limited_token_gets_only_the_events_of_its_tasks() {
    let context = TestContext::new().await;
    ended(&context, "of no task", FINISHED).await;
    let task = context.native("POST", "/v1/tasks", &json!({ "kind": "external" })).await;
    let (ours, run) = (task["id"].as_str().unwrap(), task["latest_run_id"].as_str().unwrap());
    let story = [("run.started", json!({})), ("run.finished", json!({ "final_status": "done" }))];
    context.append(run, 0, &story).await;
    for (tasks, expected) in [([ours], 1), (["task_01JYYYYYYYYYYYYYYYYYYYYYYY"], 0)] {
        let narrowing = Narrowing {
            tasks: tasks.iter().map(|task| task.parse().unwrap()).collect(),
            ..Narrowing::default()
        };
        let caller = context.caller("n", &[Scope::Read], narrowing);
        let reply =
            rpc(&context, caller, "events/poll", json!({ "name": "run.finished", "cursor": "0" })).await;
        assert_eq!(reply["result"]["events"].as_array().unwrap().len(), expected, "{reply}");
        assert_ne!(reply["result"]["cursor"], "0", "{reply}");
    }
}

/// The messages of a stream, one after the other.
struct Messages {
    body: axum::body::BodyDataStream,
    decoder: Decoder,
}

impl Messages {
    async fn open(context: &TestContext, caller: Caller, params: Value) -> Messages {
        let response = context.open_stateless(caller, "events/stream", params).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Messages { body: response.into_body().into_data_stream(), decoder: Decoder::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Some(serde_json::from_str(&frame.data).unwrap());
            }
            let chunk = self.body.next().await?;
            self.decoder.feed(&chunk.unwrap()).unwrap();
        }
    }

    /// The parameters of the next notification, which has this name.
    async fn notified(&mut self, name: &str) -> Value {
        let message = self.next().await.unwrap();
        assert_eq!(message["method"], format!("notifications/events/{name}"), "{message}");
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "a-1");
        message["params"].clone()
    }
}

#[tokio::test]
async fn a_stream_delivers_events_as_they_occur_and_continues_from_its_cursors() {
    let context = TestContext::new().await;
    ended(&context, "before", FINISHED).await;
    let params = json!({ "name": "run.finished", "cursor": null });
    let mut live = Messages::open(&context, Caller::operator(), params).await;
    let active = live.notified("active").await;
    assert_eq!(active["truncated"], false);
    let first = ended(&context, "a", FINISHED).await;
    let event = live.notified("event").await;
    assert_eq!((&event["data"]["run"], &event["data"]["title"]), (&json!(first), &json!("a")));
    drop(live);

    let second = ended(&context, "b", FINISHED).await;
    let params = json!({ "name": "run.finished", "cursor": event["cursor"] });
    let mut later = Messages::open(&context, Caller::operator(), params.clone()).await;
    later.notified("active").await;
    let next = later.notified("event").await;
    assert_eq!(next["data"]["run"], second);
    // A poll from the same cursor finds the same event.
    let polled = poll(&context, params).await;
    assert_eq!((&polled["events"][0]["eventId"], &polled["cursor"]), (&next["eventId"], &next["cursor"]));
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let context = TestContext::new().await;
    let caller = context.caller("reader", &[Scope::Read], Narrowing::default());
    let mut messages = Messages::open(&context, caller, json!({ "name": "run.finished" })).await;
    messages.notified("active").await;
    context.revoke_tokens();
    assert_eq!(messages.notified("terminated").await["error"]["code"], -32024);
    let last = messages.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("a-1"), &json!("complete")));
    assert_eq!(last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "a-1");
    assert!(messages.next().await.is_none());
}

#[tokio::test]
async fn events_that_wait_are_not_sent_after_the_token_was_revoked() {
    let context = TestContext::new().await;
    ended(&context, "a", FINISHED).await;
    ended(&context, "b", FINISHED).await;
    let caller = context.caller("reader", &[Scope::Read], Narrowing::default());
    let params = json!({ "name": "run.finished", "cursor": "0" });
    let mut messages = Messages::open(&context, caller, params).await;
    messages.notified("active").await;
    messages.notified("event").await;
    context.revoke_tokens();
    messages.notified("terminated").await;
}

#[tokio::test]
async fn a_cursor_before_pruned_events_continues_after_them() {
    let context = TestContext::new().await;
    let run = ended(&context, "a", FINISHED).await;
    let target = format!("/v1/runs/{run}/prune");
    context.native("POST", &target, &Value::Null).await;
    for cursor in ["0", "1"] {
        let params = json!({ "name": "run.finished", "cursor": cursor });
        let found = poll(&context, params.clone()).await;
        assert_eq!((runs(&found), &found["truncated"]), (vec![&*run], &json!(true)), "{cursor}");
        let mut live = Messages::open(&context, Caller::operator(), params).await;
        let active = live.notified("active").await;
        assert_eq!(active["truncated"], true, "{cursor}");
        assert_eq!(live.notified("event").await["data"]["run"], run);
        // It is a cursor after the pruned events.
        let params = json!({ "name": "run.finished", "cursor": active["cursor"] });
        let found = poll(&context, params).await;
        assert_eq!((runs(&found), &found["truncated"]), (vec![&*run], &json!(false)), "{cursor}");
    }
}

#[tokio::test]
async fn a_stream_continues_after_a_fault() {
    let context = TestContext::new().await;
    let run = ended(&context, "a", FINISHED).await;
    let params = json!({ "name": "run.finished", "cursor": "0" });
    context.faults.store(1, Ordering::SeqCst);
    let mut messages = Messages::open(&context, Caller::operator(), params).await;
    messages.notified("active").await;
    assert_eq!(messages.notified("error").await["error"]["data"]["code"], "store_busy");
    assert_eq!(messages.notified("event").await["data"]["run"], run);
    let run = ended(&context, "b", FINISHED).await;
    assert_eq!(messages.notified("event").await["data"]["run"], run);

    // A fault that stays ends the stream with its result, so that the client comes again.
    context.faults.store(usize::MAX, Ordering::SeqCst);
    let params = json!({ "name": "run.finished", "cursor": "0" });
    let mut messages = Messages::open(&context, Caller::operator(), params).await;
    messages.notified("active").await;
    let last = loop {
        let message = messages.next().await.unwrap();
        if message["method"] != "notifications/events/error" {
            break message;
        }
    };
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
}

async fn all_are_older_than_now(context: &TestContext) {
    let recent = json!({ "name": "run.finished", "cursor": "0", "maxAgeMs": 0 });
    while poll(context, recent.clone()).await["events"] != json!([]) {}
}

#[tokio::test]
async fn an_age_limits_only_the_replay_of_a_stream() {
    let context = TestContext::new().await;
    ended(&context, "old", FINISHED).await;
    for (cursor, replayed) in [(json!(null), None), (json!("0"), Some(true))] {
        let params = json!({ "name": "run.finished", "cursor": cursor, "maxAgeMs": 0 });
        all_are_older_than_now(&context).await;
        let mut live = Messages::open(&context, Caller::operator(), params).await;
        assert_eq!(live.notified("active").await["truncated"], false);
        if let Some(truncated) = replayed {
            let active = live.notified("active").await;
            assert_eq!(active["truncated"], truncated);
            assert_ne!(active["cursor"], "0");
        }
        for title in ["a", "b"] {
            let run = ended(&context, title, FINISHED).await;
            all_are_older_than_now(&context).await;
            assert_eq!(live.notified("event").await["data"]["run"], json!(run));
        }
    }
}

#[tokio::test]
async fn large_events_do_not_hold_up_a_poll() {
    let context = TestContext::new().await;
    let mut expected = Vec::new();
    for _ in 0..40 {
        let fault = json!({ "code": "model_error", "message": "m".repeat(900_000), "retriable": false });
        expected.push(ended(&context, "large", ("run.failed", fault)).await);
    }
    let (mut found, mut cursor, mut polls) = (Vec::new(), json!("0"), 0);
    loop {
        let part = poll(&context, json!({ "name": "run.finished", "cursor": cursor })).await;
        found.extend(runs(&part).into_iter().map(str::to_owned));
        (cursor, polls) = (part["cursor"].clone(), polls + 1);
        if part["hasMore"] == false {
            break;
        }
    }
    assert_eq!(found, expected);
    assert!(polls > 1, "{polls}");
}

#[tokio::test]
async fn a_stream_that_cannot_open_is_an_error() {
    let context = TestContext::new().await;
    for (params, expected) in [
        (json!({ "name": "nothing" }), -32023),
        (json!({ "name": "run.finished", "cursor": "999" }), -32602),
        (json!({ "name": "run.finished", "arguments": { "task": "x" } }), -32602),
    ] {
        let reply = rpc(&context, Caller::operator(), "events/stream", params.clone()).await;
        assert_eq!(reply["error"]["code"], expected, "{params}: {reply}");
    }
    let mut open = Vec::new();
    while open.len() < STREAMS_MAX {
        let params = json!({ "name": "run.finished" });
        open.push(Messages::open(&context, Caller::operator(), params).await);
    }
    let refused = rpc(&context, Caller::operator(), "events/stream", json!({ "name": "run.finished" })).await;
    assert_eq!(refused["error"]["code"], -32025, "{refused}");
    assert!(refused["error"]["data"]["limit"].is_string(), "{refused}");
}
