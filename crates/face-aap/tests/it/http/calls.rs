//! Tests of calls: client tools, permissions, refusals and late answers.

use http::Method;
use recount_engine::{Caller, Narrowing, Scope};
use recount_event::{ForeignId, Payload, RunId};
use recount_run::{CancelledBy, Command};
use serde_json::{Value, json};

use crate::http::stage::{Stage, TurnStream, user_message};

/// A call of each kind, then words.
const MIXED: &str = r#"
[[scene]]
when = "never mind"
[[scene.turn]]
text = "As you like."
[[turn]]
text = "Checking."
call = [
  { name = "weather", input = { city = "Oslo" }, id = "same" },
  { name = "lookup", input = { key = "a" }, id = "same" },
  { name = "gate" },
]
[[turn]]
text = "Done."
"#;

/// A session whose `lookup` is trusted, whose `gate` is not, and that brings `weather`.
async fn mixed(stage: &Stage) -> String {
    stage.toys.open_gate();
    stage
        .session(json!({
            "agent": { "name": "clerk", "tools": [
                { "name": "lookup", "trust": true }, { "name": "gate" },
                // P-057: a client that executes it need not trust it.
                { "name": "weather", "trust": true },
            ]},
            "tools": [{ "name": "weather", "description": "", "parameters": { "type": "object" } }],
        }))
        .await
}

fn result(id: &str, content: impl Into<Value>) -> Value {
    json!({ "role": "tool", "toolCallId": id, "content": content.into() })
}

fn permission(id: &str, granted: bool) -> Value {
    json!({ "role": "tool_permission", "toolCallId": id, "granted": granted, "reason": "because" })
}

fn answers(messages: &[Value]) -> Value {
    json!({ "stream": "message", "messages": messages })
}

async fn history(stage: &Stage, session: &str) -> Vec<Value> {
    let (status, body) = stage.get(&format!("/sessions/{session}/history?type=full")).await.json().await;
    assert_eq!(status, 200, "{body}");
    body["history"]["full"].as_array().unwrap().clone()
}

/// The request of a call and its result in the history.
fn results_of(history: &[Value], id: &str) -> Vec<String> {
    let of = history.iter().filter(|message| message["toolCallId"] == id);
    of.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn ids(output: &TurnStream) -> (String, String, String) {
    let one = |name: &str| output.calls(name).pop().unwrap();
    (one("weather"), one("lookup"), one("gate"))
}

// P-037, P-038, P-039, P-040, P-041, P-042, P-044, P-045, P-046, P-047, P-049, P-057
#[tokio::test]
async fn calls_of_each_kind_are_answered_in_one_turn() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let first = stage.stream_turn(&session, &user_message("go", "message")).await;
    assert_eq!(
        first.names(),
        ["turn_start", "text", "tool_call", "tool_call", "tool_call", "tool_result", "turn_stop"]
    );
    assert_eq!(first.reason(), "tool_use");
    let (weather, lookup, gate) = ids(&first);
    assert!(weather != lookup && lookup != gate);
    let inputs: Vec<&Value> = first
        .frames
        .iter()
        .filter(|frame| frame.name == "tool_call")
        .map(|frame| &frame.data["input"])
        .collect();
    assert_eq!(inputs, [&json!({ "city": "Oslo" }), &json!({ "key": "a" }), &json!({})]);
    let results: Vec<&Value> =
        first.frames.iter().filter(|frame| frame.name == "tool_result").map(|frame| &frame.data).collect();
    assert_eq!(results, [&json!({ "toolCallId": lookup, "content": "value of a" })]);
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["status"], "waiting");

    let second =
        stage.stream_turn(&session, &answers(&[result(&weather, "rain"), permission(&gate, true)])).await;
    assert_eq!(second.names(), ["turn_start", "tool_result", "text", "turn_stop"]);
    assert_eq!(second.frames[1].data, json!({ "toolCallId": gate, "content": "went through" }));
    assert_eq!((second.text().as_str(), second.reason()), ("Done.", "end_turn"));
    assert_ne!(second.turn, first.turn);
    assert_eq!(*stage.toys.at_gate.borrow(), 1);

    let history = history(&stage, &session).await;
    let roles: Vec<&str> = history.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "tool", "assistant"]);
    for (id, content) in [(&weather, "rain"), (&lookup, "value of a"), (&gate, "went through")] {
        assert_eq!(results_of(&history, id), [content]);
    }
}

// P-048
#[tokio::test]
async fn a_denied_call_is_not_executed_and_the_model_gets_the_refusal() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let output =
        stage.stream_turn(&session, &answers(&[result(&weather, "rain"), permission(&gate, false)])).await;
    assert_eq!(output.names(), ["turn_start", "tool_result", "text", "turn_stop"]);
    let words = output.frames[1].data["content"].as_str().unwrap();
    assert!(words.contains("denied") && words.contains("because"), "{words}");
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
    assert_eq!(results_of(&history(&stage, &session).await, &gate), [words]);
}

// P-037, P-029
#[tokio::test]
async fn the_same_in_one_reply() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (_, first) = stage.turn(&session, &user_message("go", "none")).await.json().await;
    assert_eq!(first["stopReason"], "tool_use");
    let calls = first["messages"][0]["content"].as_array().unwrap();
    let id = |name: &str| {
        let call = calls.iter().find(|block| block["name"] == name).unwrap();
        call["toolCallId"].as_str().unwrap().to_owned()
    };
    let body = json!({ "messages": [result(&id("weather"), "rain"), permission(&id("gate"), true)] });
    let (_, second) = stage.turn(&session, &body).await.json().await;
    assert_eq!(second["stopReason"], "end_turn");
    assert_eq!(
        second["messages"],
        json!([
            { "role": "tool", "toolCallId": id("gate"), "content": "went through" },
            { "role": "assistant", "content": [{ "type": "text", "text": "Done." }] },
        ])
    );
}

// P-050
#[tokio::test]
async fn answers_to_some_calls_are_stored_and_the_turn_waits_for_the_rest() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let some = stage.stream_turn(&session, &answers(&[result(&weather, "rain")])).await;
    assert_eq!((some.names(), some.reason()), (vec!["turn_start", "turn_stop"], "tool_use"));
    let rest = stage.stream_turn(&session, &answers(&[permission(&gate, true)])).await;
    assert_eq!((rest.text().as_str(), rest.reason()), ("Done.", "end_turn"));
    let runs = stage.runs(&session).await;
    let events = stage.events(runs[0]).await;
    assert_eq!(events.iter().filter(|event| event.type_name() == "turn.started").count(), 2);
}

// P-051
#[tokio::test]
async fn answers_to_unknown_or_settled_calls_are_refused_before_the_stream() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let turn = |messages: Vec<Value>| {
        let (stage, session) = (&stage, &session);
        async move { stage.turn(session, &answers(&messages)).await.refused().await }
    };
    assert_eq!(turn(vec![result("call_1", "x")]).await, (400, "call_not_found".into()));
    let (weather, lookup, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    for messages in [
        vec![result("call_1", "x")],
        vec![permission("no such call", true)],
        vec![result(&weather, "rain"), permission("call_1", true)],
        // It ran by itself and never waited.
        vec![permission(&lookup, true)],
    ] {
        assert_eq!(turn(messages.clone()).await, (400, "call_not_found".into()), "{messages:?}");
    }
    assert_eq!(turn(vec![permission(&weather, true)]).await, (400, "body_malformed".into()));
    stage.stream_turn(&session, &answers(&[result(&weather, "rain")])).await;
    assert_eq!(turn(vec![result(&weather, "sun")]).await, (409, "call_not_pending".into()));
    assert_eq!(
        turn(vec![result(&weather, "sun"), permission(&gate, true)]).await,
        (409, "call_not_pending".into())
    );
    stage.stream_turn(&session, &answers(&[permission(&gate, true)])).await;
    assert_eq!(turn(vec![permission(&gate, true)]).await, (409, "call_not_pending".into()));
    assert_eq!(*stage.toys.at_gate.borrow(), 1);
    assert_eq!(results_of(&history(&stage, &session).await, &weather), ["rain"]);
}

// P-027: results that are too large to be read back together.
#[tokio::test]
async fn a_large_result_is_taken_like_any_other() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let (rain, shut) = ("r".repeat(400_000), "\u{2028}".repeat(130_000));
    let output = stage
        .stream_turn(&session, &answers(&[result(&weather, rain.as_str()), result(&gate, shut.as_str())]))
        .await;
    assert_eq!(output.reason(), "end_turn");
    let history = history(&stage, &session).await;
    assert_eq!((results_of(&history, &weather), results_of(&history, &gate)), (vec![rain], vec![shut]));
}

// P-051: MAPPING defines the case that another face answered first.
#[tokio::test]
async fn answers_of_another_face_are_reported_with_their_outcome() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let some = stage.stream_turn(&session, &answers(&[result(&weather, "rain")])).await;
    assert_eq!(some.reason(), "tool_use");
    let run = stage.runs(&session).await[0];
    resolve(&stage, run, false).await;
    let late = stage.stream_turn(&session, &answers(&[permission(&gate, true)])).await;
    assert_eq!(late.names(), ["turn_start", "tool_result", "text", "turn_stop"]);
    assert!(late.frames[1].data["content"].as_str().unwrap().contains("denied"), "{:?}", late.frames);
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
}

/// A client of another face approves or denies what waits for permission.
async fn resolve(stage: &Stage, run: RunId, approve: bool) {
    let approvals = stage.events(run).await.into_iter().filter_map(|event| match event.payload() {
        Payload::ApprovalRequested(request) => Some(request.approval_id.clone()),
        _ => None,
    });
    for approval_id in approvals.collect::<Vec<ForeignId>>() {
        let command = Command::ResolveApproval {
            approval_id,
            approve,
            by: "bob".into(),
            comment: None,
            remember: None,
        };
        stage.engine.write().submit(run, command).await.unwrap();
    }
}

// P-052
#[tokio::test]
async fn a_permission_for_a_call_of_the_seed_runs_nothing() {
    let stage = Stage::with(MIXED).await;
    stage.toys.open_gate();
    let call = json!({ "type": "tool_use", "toolCallId": "seeded", "name": "lookup", "input": {} });
    let session = stage
        .session(json!({
            "agent": { "name": "clerk", "tools": [{ "name": "lookup" }] },
            "messages": [{ "role": "user", "content": "go" }, { "role": "assistant", "content": [call] }],
        }))
        .await;
    let reply = stage.turn(&session, &answers(&[permission("seeded", true)])).await;
    assert_eq!(reply.refused().await, (400, "call_not_found".into()));
    assert_eq!(stage.toys.lookups(), 0);
    assert!(stage.runs(&session).await.is_empty());
}

// P-053
#[tokio::test]
async fn a_result_for_a_server_call_is_used_as_its_result() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let both = [result(&weather, "rain"), result(&gate, "Unknown tool: gate")];
    let output = stage.stream_turn(&session, &answers(&both)).await;
    assert_eq!(output.reason(), "end_turn");
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
    assert_eq!(results_of(&history(&stage, &session).await, &gate), ["Unknown tool: gate"]);
}

// P-054
#[tokio::test]
async fn another_message_comes_instead_of_an_answer() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let output = stage.send_message(&session, "never mind").await;
    assert_eq!(output.reason(), "end_turn", "{:?}", output.frames);
    let history = history(&stage, &session).await;
    for id in [&weather, &gate] {
        let words = results_of(&history, id);
        assert_eq!(words.len(), 1, "{history:?}");
        assert!(words[0].contains("instead of answering"), "{words:?}");
    }
    let roles: Vec<&str> = history.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let user = roles.iter().rposition(|role| *role == "user").unwrap();
    assert!(history[..user].iter().filter(|message| message["role"] == "tool").count() == 3, "{roles:?}");
    let late = stage.turn(&session, &answers(&[permission(&gate, true)])).await;
    assert_eq!(late.refused().await, (409, "call_not_pending".into()));
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
}

// P-055
#[tokio::test]
async fn a_failed_tool_is_reported_and_the_turn_continues() {
    let stage = Stage::with("[[turn]]\ncall = [{ name = \"fails\" }]\n[[turn]]\ntext = \"Pity.\"\n").await;
    let session = stage
        .session(json!({ "agent": { "name": "clerk", "tools": [{ "name": "fails", "trust": true }] } }))
        .await;
    let output = stage.stream_turn(&session, &user_message("go", "message")).await;
    assert_eq!(output.names(), ["turn_start", "tool_call", "tool_result", "text", "turn_stop"]);
    assert!(output.frames[2].data["content"].as_str().unwrap().contains("broken"));
    assert_eq!(output.reason(), "end_turn");
}

// P-058
#[tokio::test]
async fn tools_are_off_unless_they_are_enabled() {
    let stage = Stage::with("[[turn]]\ncall = [{ name = \"lookup\" }]\n[[turn]]\ntext = \"Well.\"\n").await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let output = stage.stream_turn(&session, &user_message("go", "message")).await;
    assert_eq!(output.reason(), "end_turn");
    assert_eq!(stage.toys.lookups(), 0);
}

// P-059, P-060, P-061, P-065
#[tokio::test]
async fn overrides_of_a_turn_persist() {
    let script = "[[scene]]\nwhen = \"again\"\n[[scene.turn]]\ncall = [{ name = \"lookup\" }]\n[[scene.turn]]\n\
                  text = \"Two.\"\n[[turn]]\ntext = \"One.\"\n";
    let stage = Stage::with(script).await;
    let tool = json!({ "name": "weather", "description": "", "parameters": {} });
    let agent = json!({ "name": "clerk", "options": { "language": "Dutch", "tone": "dry", "key": "hush" } });
    let session = stage.session(json!({ "agent": agent, "tools": [tool] })).await;
    let mut body = user_message("hi", "delta");
    body["agent"] = json!({ "tools": [{ "name": "lookup", "trust": true }], "options": { "language": "Frisian", "key": "***" } });
    body["tools"] = json!([]);
    assert_eq!(stage.stream_turn(&session, &body).await.reason(), "end_turn");
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(
        shown["agent"],
        json!({ "name": "clerk", "tools": [{ "name": "lookup", "trust": true }],
            "options": { "language": "Frisian", "tone": "dry", "key": "***" } })
    );
    assert!(shown.get("tools").is_none());
    assert_eq!(stage.send_message(&session, "again").await.text(), "Two.");
    assert_eq!(stage.toys.lookups(), 1);
    let mut body = user_message("hi", "delta");
    body["agent"] = json!({ "name": "other" });
    assert_eq!(stage.turn(&session, &body).await.refused().await, (400, "body_malformed".into()));
    body["agent"] = json!({ "options": { "tone": "cold" } });
    assert_eq!(stage.turn(&session, &body).await.refused().await, (400, "option_invalid".into()));
}

// P-006 in spirit: who may run things may not allow them.
#[tokio::test]
async fn a_permission_needs_the_scope_to_approve() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let (runner, _revoke) = stage.caller(&[Scope::Read, Scope::Run], Narrowing::default());
    let path = format!("/sessions/{session}/turns");
    let granted = answers(&[result(&weather, "rain"), permission(&gate, true)]).to_string();
    let reply = stage.ask_as(runner.clone(), Method::POST, &path, &[], granted).await;
    assert_eq!(reply.refused().await, (403, "scope_missing".into()));
    let denied = answers(&[result(&weather, "rain"), permission(&gate, false)]).to_string();
    assert_eq!(
        stage.ask_as(runner, Method::POST, &path, &[], denied).await.into_turn_stream().await.reason(),
        "end_turn"
    );
}

#[tokio::test]
async fn an_answer_with_a_key_is_given_once() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let body = answers(&[result(&weather, "rain"), permission(&gate, true)]).to_string();
    let path = format!("/sessions/{session}/turns");
    let mut output = Vec::new();
    for _ in 0..2 {
        let headers = [("idempotency-key", "k")];
        let reply = stage.ask_as(Caller::operator(), Method::POST, &path, &headers, body.clone()).await;
        output.push(reply.into_turn_stream().await);
    }
    assert_eq!((&output[0].turn, &output[0].frames), (&output[1].turn, &output[1].frames));
    assert_eq!(*stage.toys.at_gate.borrow(), 1);
}

// Clarifications are sent as text and answered by the next user message.
#[tokio::test]
async fn a_question_is_text_and_the_next_message_its_answer() {
    let script = "[[turn]]\ncall = [{ name = \"ask_user\", input = { question = \"Which one?\" } }]\n[[turn]]\ntext = \"Good.\"\n";
    let stage = Stage::with(script).await;
    let session = stage
        .session(json!({ "agent": { "name": "clerk", "tools": [{ "name": "ask_user", "trust": true }] } }))
        .await;
    let question = stage.stream_turn(&session, &user_message("go", "message")).await;
    assert_eq!(question.names(), ["turn_start", "text", "turn_stop"], "{:?}", question.frames);
    assert!(question.text().contains("Which one?"));
    assert_eq!(
        (question.reason(), &question.stop()["awaiting"]["kind"]),
        ("end_turn", &json!("clarification"))
    );
    let output = stage.stream_turn(&session, &user_message("the red one", "message")).await;
    assert_eq!((output.text().as_str(), output.reason()), ("Good.", "end_turn"));
    assert_eq!(stage.runs(&session).await.len(), 1);
    let history = history(&stage, &session).await;
    let sent: Vec<&Value> = history.iter().filter(|message| message["role"] == "user").collect();
    assert_eq!(sent.len(), 2, "{history:?}");
    assert_eq!(sent[1]["content"], "the red one");
}

// P-059, P-060: the changes of a turn apply in it, also if it answers a question. A repeated request gets the same
// turn.
#[tokio::test]
async fn changes_with_the_answer_to_a_question_apply_at_once() {
    let script = "[[turn]]\ncall = [{ name = \"ask_user\", input = { question = \"Which one?\" } }]\n\
                  [[turn]]\ncall = [{ name = \"lookup\" }]\n[[turn]]\ntext = \"Good.\"\n";
    let stage = Stage::with(script).await;
    let tools = json!([{ "name": "ask_user", "trust": true }, { "name": "lookup", "trust": true }]);
    let session = stage.session(json!({ "agent": { "name": "clerk", "tools": tools } })).await;
    stage.stream_turn(&session, &user_message("go", "message")).await;
    let mut body = user_message("the red one", "message");
    body["agent"] = json!({ "tools": [{ "name": "ask_user", "trust": true }] });
    let path = format!("/sessions/{session}/turns");
    let mut output = Vec::new();
    for _ in 0..2 {
        let headers = [("idempotency-key", "k")];
        let reply = stage.ask_as(Caller::operator(), Method::POST, &path, &headers, body.to_string()).await;
        output.push(reply.into_turn_stream().await);
    }
    assert_eq!((&output[0].turn, &output[0].frames), (&output[1].turn, &output[1].frames));
    assert_eq!((output[0].text().as_str(), stage.toys.lookups()), ("Good.", 0), "{:?}", output[0].frames);
    assert_eq!(stage.runs(&session).await.len(), 1);
}

// P-051: nothing follows where others have ended the run.
#[tokio::test]
async fn an_answer_to_a_run_that_ended_elsewhere_reports_the_ending() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let run = stage.runs(&session).await[0];
    let command = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
    stage.engine.write().submit(run, command).await.unwrap();
    let both = [result(&weather, "rain"), permission(&gate, true)];
    let output = stage.stream_turn(&session, &answers(&both)).await;
    assert_eq!(output.names(), ["turn_start", "turn_stop"]);
    assert_eq!((output.reason(), &output.stop()["error"]["message"]), ("error", &json!("enough")));
    let (status, body) = stage.turn(&session, &json!({ "messages": both })).await.json().await;
    assert_eq!((status, &body["error"]["code"], &body["messages"]), (200, &json!("cancelled"), &json!([])));
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
}

// P-052, P-060
#[tokio::test]
async fn a_turn_cannot_permit_a_tool_that_it_disables() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let mut body = answers(&[result(&weather, "rain"), permission(&gate, true)]);
    body["agent"] = json!({ "tools": [] });
    let output = stage.stream_turn(&session, &body).await;
    assert!(
        output.frames[1].data["content"].as_str().unwrap().contains("not enabled"),
        "{:?}",
        output.frames
    );
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["agent"]["tools"], json!([]));
}

// P-043
#[tokio::test]
async fn a_turn_stops_as_often_as_it_takes() {
    let script = "[[turn]]\ncall = [{ name = \"weather\" }]\n[[turn]]\ncall = [{ name = \"weather\" }]\n\
                  [[turn]]\ncall = [{ name = \"weather\" }]\n[[turn]]\ntext = \"Done.\"\n";
    let stage = Stage::with(script).await;
    let session = mixed(&stage).await;
    let mut output = stage.stream_turn(&session, &user_message("go", "message")).await;
    for _ in 0..3 {
        let id = output.calls("weather").pop().unwrap();
        assert_eq!(output.reason(), "tool_use");
        output = stage.stream_turn(&session, &answers(&[result(&id, "rain")])).await;
    }
    assert_eq!((output.text().as_str(), output.reason()), ("Done.", "end_turn"));
    assert_eq!(stage.runs(&session).await.len(), 1);
}

// P-039
#[tokio::test]
async fn input_that_the_model_wrote_wrong_is_an_object_all_the_same() {
    let script = "[[turn]]\ncall = [{ name = \"lookup\", raw = \"{broken\" }]\n[[turn]]\ntext = \"Well.\"\n";
    let stage = Stage::with(script).await;
    let session = mixed(&stage).await;
    let output = stage.stream_turn(&session, &user_message("go", "message")).await;
    let call = output.frames.iter().find(|frame| frame.name == "tool_call").unwrap();
    assert!(call.data["input"].is_object(), "{call:?}");
    assert_eq!((output.text().as_str(), output.reason()), ("Well.", "end_turn"));
    assert_eq!(stage.toys.lookups(), 0);
}

// P-066 for results with pictures
#[tokio::test]
async fn a_result_with_a_picture_comes_back_as_it_was() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let content = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "url": "data:image/png;base64,iVBORw0KGgo=" },
    ]);
    stage
        .stream_turn(&session, &answers(&[result(&weather, content.clone()), permission(&gate, true)]))
        .await;
    let history = history(&stage, &session).await;
    let output = history.iter().find(|message| message["toolCallId"] == weather.as_str()).unwrap();
    assert_eq!(output["content"], content);
}

#[tokio::test]
async fn cancelling_a_waiting_turn_abandons_its_calls() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let first = stage.stream_turn(&session, &user_message("go", "message")).await;
    let (weather, _, gate) = ids(&first);
    let second = stage.stream_turn(&session, &answers(&[result(&weather, "rain")])).await;
    let cancel = |turn: &str| {
        let path = format!("/sessions/{session}/turns/{turn}/cancel");
        let stage = &stage;
        async move { stage.ask(Method::POST, &path, "").await.json().await }
    };
    // The one before it is over, and what is waited for now is not its.
    assert_eq!(cancel(&first.turn).await.0, 200);
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["status"], "waiting");
    let (status, body) = cancel(&second.turn).await;
    assert_eq!((status, body), (200, json!({ "turnId": second.turn, "status": "stopped" })));
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["status"], "idle");
    assert_eq!(results_of(&history(&stage, &session).await, &gate).len(), 1);
    assert_eq!(stage.send_message(&session, "never mind").await.text(), "As you like.");
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
}

#[tokio::test]
async fn a_turn_that_was_answered_in_part_can_be_cancelled() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let output = stage.stream_turn(&session, &user_message("go", "message")).await;
    resolve(&stage, stage.runs(&session).await[0], true).await;
    let path = format!("/sessions/{session}/turns/{}/cancel", output.turn);
    assert_eq!(stage.ask(Method::POST, &path, "").await.status, 200);
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["status"], "idle");
    assert_eq!(*stage.toys.at_gate.borrow(), 0);
}

// P-072: a client that knows nothing but the history answers what is open there.
#[tokio::test]
async fn a_new_client_continues_from_the_history() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    stage.stream_turn(&session, &user_message("go", "message")).await;
    let history = history(&stage, &session).await;
    let answered: Vec<&str> = history.iter().filter_map(|message| message["toolCallId"].as_str()).collect();
    let calls = history.iter().filter(|message| message["role"] == "assistant");
    let calls = calls.flat_map(|message| message["content"].as_array().unwrap());
    let open: Vec<Value> = calls
        .filter(|block| {
            block["type"] == "tool_use" && !answered.contains(&block["toolCallId"].as_str().unwrap())
        })
        .map(|block| match block["name"].as_str().unwrap() {
            "weather" => result(block["toolCallId"].as_str().unwrap(), "rain"),
            _ => permission(block["toolCallId"].as_str().unwrap(), true),
        })
        .collect();
    assert_eq!(open.len(), 2, "{history:?}");
    assert_eq!(stage.stream_turn(&session, &answers(&open)).await.text(), "Done.");
}

// Two answers at once: one is the first, and nothing runs twice.
#[tokio::test]
async fn one_of_two_simultaneous_answers_has_an_effect() {
    let stage = Stage::with(MIXED).await;
    let session = mixed(&stage).await;
    let (weather, _, gate) = ids(&stage.stream_turn(&session, &user_message("go", "message")).await);
    let body = answers(&[result(&weather, "rain"), permission(&gate, true)]);
    let (one, two) = tokio::join!(stage.turn(&session, &body), stage.turn(&session, &body));
    let (good, bad) = if one.status == 200 { (one, two) } else { (two, one) };
    assert_eq!(good.into_turn_stream().await.text(), "Done.");
    assert_eq!(bad.refused().await, (409, "call_not_pending".into()));
    assert_eq!(*stage.toys.at_gate.borrow(), 1);
    assert_eq!(results_of(&history(&stage, &session).await, &weather).len(), 1);
}

// P-066: an answer is in the history in the form it came in.
#[tokio::test]
async fn each_of_two_questions_has_its_own_turn() {
    let script = "[[turn]]\ncall = [{ name = \"ask_user\", input = { question = \"Which one?\" } }, \
                  { name = \"ask_user\", input = { question = \"How many?\" } }]\n[[turn]]\ntext = \"Good.\"\n";
    let stage = Stage::with(script).await;
    let session = stage
        .session(json!({ "agent": { "name": "clerk", "tools": [{ "name": "ask_user", "trust": true }] } }))
        .await;
    let first = stage.stream_turn(&session, &user_message("go", "message")).await;
    assert!(first.text().contains("Which one?") && !first.text().contains("How many?"));
    let second = stage.stream_turn(&session, &user_message("the red one", "message")).await;
    assert!(second.text().contains("How many?"), "{:?}", second.frames);
    assert_eq!(second.stop()["awaiting"]["kind"], "clarification");
    let blocks = json!([{ "type": "text", "text": "three" }, { "type": "text", "text": "of them" }]);
    let body = json!({ "messages": [{ "role": "user", "content": blocks }], "stream": "message" });
    let third = stage.stream_turn(&session, &body).await;
    assert_eq!((third.text().as_str(), third.reason()), ("Good.", "end_turn"));
    let history = history(&stage, &session).await;
    let sent = history.iter().filter(|message| message["role"] == "user").map(|message| &message["content"]);
    assert_eq!(sent.collect::<Vec<_>>(), [&json!("go"), &json!("the red one"), &blocks]);
    // Who does not know blocks reads one text.
    let events = stage.events(stage.runs(&session).await[0]).await;
    let responses = events.iter().filter_map(|event| match event.payload() {
        Payload::ClarificationAnswered(answered) => Some(answered.response.text()),
        _ => None,
    });
    assert_eq!(responses.collect::<Vec<_>>(), [r#""the red one""#, r#""three\nof them""#]);
}

// A handoff cannot be answered here: what is sent next takes its place.
#[tokio::test]
async fn a_message_comes_while_a_takeover_is_needed() {
    let script = "[[scene]]\nwhen = \"never mind\"\n[[scene.turn]]\ntext = \"As you like.\"\n[[turn]]\n\
                  call = [{ name = \"hand_off\", input = { reason = \"Too hard.\" } }]\n[[turn]]\ntext = \"Over.\"\n";
    let stage = Stage::with(script).await;
    let session = stage
        .session(json!({ "agent": { "name": "clerk", "tools": [{ "name": "hand_off", "trust": true }] } }))
        .await;
    let output = stage.stream_turn(&session, &user_message("go", "message")).await;
    assert!(output.text().contains("Too hard."), "{:?}", output.frames);
    assert_eq!((output.reason(), &output.stop()["awaiting"]["kind"]), ("end_turn", &json!("handoff")));
    assert_eq!(stage.send_message(&session, "never mind").await.text(), "As you like.");
}
