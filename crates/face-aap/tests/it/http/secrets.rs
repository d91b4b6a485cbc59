//! The values of a session's secret options: wherever they are repeated in the session, the log holds them masked.

use http::Method;
use serde_json::json;

use crate::http::stage::{Stage, stored, user_message};

/// No shape gives them away, and the server's own masking does not know them.
const FIRST: &str = "plain words as a canary one";
const SECOND: &str = "plain words as a canary two";

/// The model repeats both, in words, in an input of the application's tool and in one of the server's.
const REPEATING: &str = r#"
[pace]
bytes = 5
[[turn]]
text = "You said plain words as a canary one and plain words as a canary two, did you?"
call = [
  { name = "weather", input = { key = "plain words as a canary one" } },
  { name = "lookup", input = { key = "plain words as a canary two" } },
]
[[turn]]
text = "Again: plain words as a canary two."
"#;

fn assert_masked(text: &str) {
    assert!(!text.contains(FIRST) && !text.contains(SECOND), "{text}");
}

#[tokio::test]
async fn secrets_of_a_session_are_masked_in_all_its_runs() {
    let stage = Stage::with(REPEATING).await;
    let session = stage
        .session(json!({
            "agent": {
                "name": "clerk",
                "options": { "key": FIRST },
                "tools": [{ "name": "lookup", "trust": true }],
            },
            "tools": [{ "name": "weather", "description": "", "parameters": { "type": "object" } }],
            "title": format!("About {FIRST}"),
            "messages": [{ "role": "user", "content": format!("before: {FIRST}") }],
        }))
        .await;
    // The second one comes with the message that repeats it.
    let mut turn = user_message(&format!("control-word, {FIRST}, {SECOND}"), "message");
    turn["agent"] = json!({ "options": { "key": SECOND } });
    let output = stage.stream_turn(&session, &turn).await;
    assert_eq!(output.reason(), "tool_use");
    assert_masked(&stored(&stage, &session).await);
    // Both tools are called with what the model wrote.
    let weather = output.frames.iter().find(|frame| frame.data["name"] == "weather").unwrap();
    assert_eq!(weather.data["input"], json!({ "key": FIRST }));
    let result = output.frames.iter().find(|frame| frame.name == "tool_result").unwrap();
    assert!(result.data["content"].as_str().unwrap().starts_with("value of ****"), "{}", result.data);

    let weather = output.calls("weather").pop().unwrap();
    let answer = json!({
        "messages": [{ "role": "tool", "toolCallId": weather, "content": format!("rain, {SECOND}") }],
    });
    let (_, reply) = stage.turn(&session, &answer).await.json().await;
    assert_eq!(reply["stopReason"], "end_turn");
    stage.ask(Method::PATCH, &format!("/sessions/{session}"), json!({ "title": SECOND }).to_string()).await;
    let (_, fork) =
        stage.post(&format!("/sessions/{session}/fork"), &json!({ "title": SECOND })).await.json().await;
    let fork = fork["sessionId"].as_str().unwrap();
    let text = stored(&stage, &session).await;
    assert!(text.contains("control-word") && text.contains("redacted_paths"), "{text}");
    assert_masked(&text);
    for session in [&session, fork] {
        assert_masked(&stage.get(&format!("/sessions/{session}")).await.text().await);
        let history = stage.get(&format!("/sessions/{session}/history?type=full")).await.text().await;
        assert!(history.contains("control-word") && history.contains("before: ****"), "{history}");
        assert_masked(&history);
    }
}

/// A secret in an answer applies to the continued run.
#[tokio::test]
async fn a_secret_that_comes_with_an_answer_is_masked_from_then_on() {
    let stage = Stage::with(REPEATING).await;
    let session = stage
        .session(json!({
            "agent": { "name": "clerk", "options": { "key": FIRST } },
            "tools": [{ "name": "weather", "description": "", "parameters": { "type": "object" } }],
        }))
        .await;
    let output = stage.send_message(&session, "go").await;
    let weather = output.calls("weather").pop().unwrap();
    let answer = json!({
        "messages": [{ "role": "tool", "toolCallId": weather, "content": format!("rain, {SECOND}") }],
        "agent": { "options": { "key": SECOND } },
    });
    let (_, reply) = stage.turn(&session, &answer).await.json().await;
    assert_eq!(reply["stopReason"], "end_turn");
    let text = stored(&stage, &session).await;
    let after = &text[text.find("run.continued").unwrap()..];
    assert!(after.contains("Again: ****"), "{after}");
    assert_masked(after);
    assert!(text.contains("rain, ****"), "{text}");
}
