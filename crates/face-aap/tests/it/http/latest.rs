//! A turn whose name was lost: the session names it, and it can be read, resumed and stopped as `latest`.

use http::Method;
use recount_engine::{Narrowing, Scope};
use serde_json::json;

use crate::http::stage::{Stage, frames, user_message};

const GATED: &str = r#"
[[turn]]
text = "Through the gate."
call = [{ name = "gate" }]
[[turn]]
text = "Done."
"#;

const ASKING: &str = r#"
[[turn]]
call = [{ name = "weather" }]
[[turn]]
text = "Through the gate."
call = [{ name = "gate" }]
[[turn]]
text = "Done."
"#;

async fn session(stage: &Stage) -> String {
    stage
        .session(json!({
            "agent": { "name": "clerk", "tools": [{ "name": "gate", "trust": true }] },
            "tools": [{ "name": "weather", "description": "", "parameters": { "type": "object" } }],
        }))
        .await
}

#[tokio::test]
async fn a_running_turn_is_named_by_the_session_the_list_and_the_refusal() {
    let stage = Stage::with(GATED).await;
    let session = session(&stage).await;
    let (_, idle) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!((&idle["status"], idle.get("runningTurnId")), (&json!("idle"), None));
    let running = stage.turn(&session, &user_message("go", "delta")).await;
    let turn = running.header("aap-turn-id").to_owned();
    stage.toys.at_gate(1).await;

    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!((&shown["status"], &shown["runningTurnId"]), (&json!("running"), &json!(turn)));
    let (_, listed) = stage.get("/sessions").await.json().await;
    assert_eq!(listed["sessions"][0]["runningTurnId"], json!(turn));
    let busy = stage.turn(&session, &user_message("more", "delta")).await;
    assert_eq!(busy.header("aap-turn-id"), turn);
    let (status, busy) = busy.json().await;
    assert_eq!((status, &busy["code"], &busy["turnId"]), (409, &json!("session_busy"), &json!(turn)));

    let resumed = stage.get(&format!("/sessions/{session}/turns/latest/events?stream=delta")).await;
    assert_eq!(resumed.header("aap-turn-id"), turn);
    let (_, shown) = stage.get(&format!("/sessions/{session}/turns/latest")).await.json().await;
    assert_eq!((&shown["turnId"], &shown["status"]), (&json!(turn), &json!("running")));
    stage.toys.open_gate();
    let (resumed, running) = (resumed.into_turn_stream().await, running.into_turn_stream().await);
    assert_eq!((&resumed.turn, &resumed.frames), (&running.turn, &running.frames));

    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!((&shown["status"], shown.get("runningTurnId")), (&json!("idle"), None));
    // One that stopped meanwhile is still there to be read.
    let after = stage.get(&format!("/sessions/{session}/turns/latest/events")).await.into_turn_stream().await;
    assert_eq!((&after.turn, &after.frames), (&running.turn, &running.frames));
}

/// The turn that runs is not the one that the run began with.
#[tokio::test]
async fn a_turn_that_an_answer_opened_is_named() {
    let stage = Stage::with(ASKING).await;
    let session = session(&stage).await;
    let first = stage.stream_turn(&session, &user_message("go", "delta")).await;
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!((&shown["status"], shown.get("runningTurnId")), (&json!("waiting"), None));
    let latest = stage.get(&format!("/sessions/{session}/turns/latest")).await.json().await.1;
    assert_eq!((&latest["turnId"], &latest["stopReason"]), (&json!(first.turn), &json!("tool_use")));

    let weather = first.calls("weather").pop().unwrap();
    let answer = json!({ "stream": "delta", "messages": [{ "role": "tool", "toolCallId": weather, "content": "rain" }] });
    let running = stage.turn(&session, &answer).await;
    let turn = running.header("aap-turn-id").to_owned();
    stage.toys.at_gate(1).await;
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["runningTurnId"], json!(turn));
    assert_ne!(turn, first.turn);

    // The newest turn can be stopped without its name, too.
    let (status, stopped) =
        stage.post(&format!("/sessions/{session}/turns/latest/cancel"), &json!({})).await.json().await;
    assert_eq!((status, &stopped["turnId"]), (200, &json!(turn)));
    let output = frames(&running.text().await);
    assert_eq!(output.last().unwrap().data["error"]["code"], "cancelled");
}

#[tokio::test]
async fn a_session_without_a_turn_has_no_latest_one_and_a_reader_may_not_stop_one() {
    let stage = Stage::with(GATED).await;
    let session = session(&stage).await;
    for path in ["latest", "latest/events"] {
        let reply = stage.get(&format!("/sessions/{session}/turns/{path}")).await;
        assert_eq!(reply.refused().await, (404, "turn_not_found".into()));
    }
    let (reader, _revoke) = stage.caller(&[Scope::Read], Narrowing::default());
    let path = format!("/sessions/{session}/turns/latest/cancel");
    let reply = stage.ask_as(reader, Method::POST, &path, &[], "").await;
    assert_eq!(reply.refused().await, (403, "scope_missing".into()));
    let other = Narrowing {
        sessions: [stage.session(json!({ "agent": { "name": "clerk" } })).await.parse().unwrap()].into(),
        ..Narrowing::default()
    };
    let (other, _revoke) = stage.caller(&[Scope::Read, Scope::Run], other);
    let path = format!("/sessions/{session}/turns/latest");
    let reply = stage.ask_as(other, Method::GET, &path, &[], "").await;
    assert_eq!(reply.refused().await, (404, "session_not_found".into()));
}
