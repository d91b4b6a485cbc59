//! The masked input of a client tool call: the application that owns the session gets the original while the call is
//! open, and no other reader ever does.

use http::Method;
use recount_engine::{Caller, Narrowing, Scope};
use recount_event::ForeignId;
use serde_json::{Value, json};

use crate::http::stage::{Stage, TurnStream, stored, user_message};

const CARD: &str = "4111111111111111";
const MASKED: &str = "****************";

/// A call of the application's own tool and one of the server's that waits for permission, both with a card number.
const PAYMENT: &str = r#"
[[turn]]
text = "I pay."
call = [
  { name = "pay", input = { card = "4111111111111111", to = "Ann" } },
  { name = "lookup", input = { key = "4111111111111111" } },
]
[[turn]]
text = "Paid."
"#;

async fn session(stage: &Stage) -> String {
    stage
        .session(json!({
            "agent": { "name": "clerk", "tools": [{ "name": "lookup" }] },
            "tools": [{ "name": "pay", "description": "", "parameters": { "type": "object" } }],
        }))
        .await
}

/// What a caller reads of the turn and the history of a session, as one text.
async fn read(stage: &Stage, caller: &Caller, session: &str, turn: &str) -> Vec<String> {
    let mut all = Vec::new();
    for path in [
        format!("/sessions/{session}/turns/{turn}/events"),
        format!("/sessions/{session}/turns/{turn}/events?stream=message"),
        format!("/sessions/{session}/turns/{turn}"),
        format!("/sessions/{session}/history?type=full"),
        format!("/sessions/{session}/history?type=compacted"),
    ] {
        let reply = stage.ask_as(caller.clone(), Method::GET, &path, &[], "").await;
        assert_eq!(reply.status, 200, "{path}");
        all.push(reply.text().await);
    }
    all
}

fn answers(output: &TurnStream) -> Value {
    let one = |name: &str| output.calls(name).pop().unwrap();
    json!({ "stream": "delta", "messages": [
        { "role": "tool", "toolCallId": one("pay"), "content": "done" },
        { "role": "tool_permission", "toolCallId": one("lookup"), "granted": true },
    ]})
}

#[tokio::test]
async fn only_the_application_gets_the_original_and_only_while_the_call_is_open() {
    for stream in ["delta", "message"] {
        let stage = Stage::with(PAYMENT).await;
        let session = session(&stage).await;
        let first = stage.stream_turn(&session, &user_message("pay", stream)).await;
        let input = |name: &str| {
            let frame =
                first.frames.iter().find(|frame| frame.name == "tool_call" && frame.data["name"] == name);
            frame.unwrap().data["input"].clone()
        };
        assert_eq!(input("pay"), json!({ "card": CARD, "to": "Ann" }));
        // The server carries this one out itself, so the application needs no original.
        assert_eq!(input("lookup"), json!({ "key": MASKED }));
        assert!(!stored(&stage, &session).await.contains(CARD));

        let (owner, _revoke) = stage.caller(&[Scope::Run, Scope::Read], Narrowing::default());
        for text in read(&stage, &owner, &session, &first.turn).await {
            assert_eq!((text.matches(CARD).count(), text.matches(MASKED).count()), (1, 1), "{text}");
        }
        let (reader, _revoke) = stage.caller(&[Scope::Read, Scope::Approve], Narrowing::default());
        for text in read(&stage, &reader, &session, &first.turn).await {
            assert!(!text.contains(CARD) && text.matches(MASKED).count() == 2, "{text}");
        }

        let second = stage.stream_turn(&session, &answers(&first)).await;
        assert_eq!(second.reason(), "end_turn");
        for caller in [&owner, &reader] {
            for text in read(&stage, caller, &session, &first.turn).await {
                assert!(!text.contains(CARD), "{text}");
            }
        }
        assert!(!stored(&stage, &session).await.contains(CARD));
        let run = stage.runs(&session).await[0];
        let pay = ForeignId::parse(&first.calls("pay").pop().unwrap()).unwrap();
        assert_eq!(stage.engine.write().unseal(run, &pay).await.unwrap(), None);
    }
}

/// A turn that answers one call may bring other tools, and the other call stays with the application.
#[tokio::test]
async fn an_open_call_keeps_its_original_when_its_tool_was_replaced() {
    const TWO: &str = r#"
[[turn]]
text = "I pay."
call = [
  { name = "pay", input = { card = "4111111111111111", to = "Ann" } },
  { name = "weather", input = {} },
]
[[turn]]
text = "Paid."
"#;
    let tool = |name: &str| json!({ "name": name, "description": "", "parameters": { "type": "object" } });
    for stream in ["delta", "message"] {
        let stage = Stage::with(TWO).await;
        let session = stage
            .session(json!({ "agent": { "name": "clerk" }, "tools": [tool("pay"), tool("weather")] }))
            .await;
        let first = stage.stream_turn(&session, &user_message("pay", stream)).await;
        let [pay, weather] = ["pay", "weather"].map(|name| first.calls(name).pop().unwrap());
        let body = json!({
            "stream": stream,
            "tools": [tool("weather")],
            "messages": [{ "role": "tool", "toolCallId": weather, "content": "rain" }],
        });
        assert_eq!(stage.stream_turn(&session, &body).await.reason(), "tool_use");

        let (owner, _revoke) = stage.caller(&[Scope::Run, Scope::Read], Narrowing::default());
        for text in read(&stage, &owner, &session, &first.turn).await {
            assert_eq!((text.matches(CARD).count(), text.matches(MASKED).count()), (1, 0), "{text}");
        }
        let (reader, _revoke) = stage.caller(&[Scope::Read], Narrowing::default());
        for text in read(&stage, &reader, &session, &first.turn).await {
            assert_eq!((text.matches(CARD).count(), text.matches(MASKED).count()), (0, 1), "{text}");
        }

        let body = json!({
            "stream": stream,
            "messages": [{ "role": "tool", "toolCallId": pay, "content": "done" }],
        });
        assert_eq!(stage.stream_turn(&session, &body).await.reason(), "end_turn");
        for text in read(&stage, &owner, &session, &first.turn).await {
            assert!(!text.contains(CARD), "{text}");
        }
    }
}

#[tokio::test]
async fn a_reply_in_one_piece_and_one_sent_again_bring_the_original_too() {
    let stage = Stage::with(PAYMENT).await;
    let session = session(&stage).await;
    let path = format!("/sessions/{session}/turns");
    for _ in 0..2 {
        let headers = [("idempotency-key", "one")];
        let body = user_message("pay", "none").to_string();
        let reply = stage.ask_as(Caller::operator(), Method::POST, &path, &headers, body).await;
        let (_, reply) = reply.json().await;
        assert_eq!(
            reply["messages"][0]["content"][1]["input"],
            json!({ "card": CARD, "to": "Ann" }),
            "{reply}"
        );
    }
}

/// A fork begins with the messages as stored, which are masked.
#[tokio::test]
async fn a_fork_while_the_call_is_open_takes_no_original_along() {
    let stage = Stage::with(PAYMENT).await;
    let session = session(&stage).await;
    stage.stream_turn(&session, &user_message("pay", "delta")).await;
    let (_, fork) = stage.post(&format!("/sessions/{session}/fork"), &json!({})).await.json().await;
    let fork = fork["sessionId"].as_str().unwrap();
    let history = stage.get(&format!("/sessions/{fork}/history?type=full")).await.text().await;
    assert!(history.contains(MASKED) && !history.contains(CARD), "{history}");
}

#[tokio::test]
async fn an_abandoned_call_leaves_no_original() {
    let stage = Stage::with(PAYMENT).await;
    let session = session(&stage).await;
    let output = stage.stream_turn(&session, &user_message("pay", "delta")).await;
    let path = format!("/sessions/{session}/turns/{}/cancel", output.turn);
    assert_eq!(stage.post(&path, &json!({})).await.status, 200);
    for text in read(&stage, &Caller::operator(), &session, &output.turn).await {
        assert!(!text.contains(CARD), "{text}");
    }
    let run = stage.runs(&session).await[0];
    for name in ["pay", "lookup"] {
        let call = ForeignId::parse(&output.calls(name).pop().unwrap()).unwrap();
        assert_eq!(stage.engine.write().unseal(run, &call).await.unwrap(), None, "{name}");
    }
}
