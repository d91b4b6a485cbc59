//! Sessions that are loaded again: from the agent, from the log, or reported as over.

use recount_client::Client;
use serde_json::{Value, json};

use super::editor::{Setting, events, runs};
use super::tool_call;
use crate::server::Server;

fn agent(more: &Value) -> Option<Value> {
    Some(
        json!({"protocolVersion": 1, "agentInfo": {"name": "scripted", "version": "1.0"}, "agentCapabilities": more}),
    )
}

fn texts(messages: &[Value]) -> Vec<String> {
    let text = |message: &Value| message["params"]["update"]["content"]["text"].as_str().map(str::to_owned);
    messages.iter().filter_map(text).collect()
}

#[tokio::test]
async fn what_an_agent_shows_again_is_not_recorded_again() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let setting = Setting { result: agent(&json!({"loadSession": true})), ..Setting::of(&server) };
    let (mut editor, session) = setting.with_session();
    editor.run(&session, &json!([["say", "first"]]));
    editor.end();
    let mut editor = setting.start();
    editor.initialize();
    let load = editor
        .request("session/load", &json!({"sessionId": session, "cwd": "/home/me/project", "mcpServers": []}));
    let (before, _) = editor.answer(load);
    assert_eq!(texts(&before), ["this was said before"]);
    editor.run(&session, &json!([["say", "second"]]));
    editor.end();
    let all = runs(&client).await;
    assert_eq!(all.len(), 2);
    assert!(all[0].session_id.is_some() && all[0].session_id == all[1].session_id, "both are in one session");
    for run in &all {
        let recorded = events(&client, &run.id).await;
        assert!(recorded.iter().all(|(_, data)| !data.to_string().contains("said before")), "{recorded:?}");
    }
}

#[tokio::test]
async fn an_agent_that_only_resumes_is_loaded_from_the_log() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let setting =
        Setting { result: agent(&json!({"sessionCapabilities": {"resume": {}}})), ..Setting::of(&server) };
    let (mut editor, session) = setting.with_session();
    let done = tool_call("t1", &json!({"status": "completed", "rawInput": {"a": 1}, "rawOutput": "ok"}));
    editor.run(&session, &json!([["say", "one"], ["update", done], ["say", "two"]]));
    editor.run(&session, &json!([["say", "three"]]));
    editor.end();

    let mut editor = setting.start();
    editor.initialize();
    let params = json!({"sessionId": session, "cwd": "/home/me/project", "mcpServers": []});
    let load = editor.request("session/load", &params);
    let (shown, answer) = editor.answer(load);
    assert_eq!(answer["result"], json!({"modes": null}), "it is the agent's own answer");
    let kinds: Vec<&str> =
        shown.iter().map(|message| message["params"]["update"]["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "agent_message_chunk",
            "user_message_chunk",
            "agent_message_chunk"
        ]
    );
    assert!(shown.iter().all(|message| message["params"]["sessionId"] == *session));
    let call = &shown[2]["params"]["update"];
    assert_eq!(
        (&call["toolCallId"], &call["status"], &call["rawInput"], &call["rawOutput"], &call["title"]),
        (&json!("t1"), &json!("completed"), &json!({"a": 1}), &json!("ok"), &json!("Edit"))
    );
    editor.run(&session, &json!([["say", "four"]]));
    let load = editor.request("session/load", &json!({"sessionId": "unknown", "cwd": "/", "mcpServers": []}));
    let (_, answer) = editor.answer(load);
    assert!(answer["error"]["message"].as_str().unwrap().contains("has no recording of session"), "{answer}");
    editor.end();
    assert_eq!(runs(&client).await.len(), 3, "what is shown from the log is not recorded again");
}

#[tokio::test]
async fn a_session_that_cannot_continue_is_reported_as_over() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let setting = Setting::of(&server);
    let (mut editor, session) = setting.with_session();
    editor.run(&session, &json!([["say", "one"]]));
    editor.end();
    let mut editor = setting.start();
    editor.initialize();
    let load = editor
        .request("session/load", &json!({"sessionId": session, "cwd": "/home/me/project", "mcpServers": []}));
    let (shown, answer) = editor.answer(load);
    assert!(answer["error"].is_null());
    let shown = texts(&shown);
    assert!(shown[1] == "one" && shown[2].contains("cannot resume it"), "{shown:?}");
    let (_, answer) = editor.run(&session, &json!([["say", "never"]]));
    assert!(answer["error"]["message"].as_str().unwrap().contains("cannot resume"), "{answer}");
    editor.end();
    assert_eq!(runs(&client).await.len(), 1);
}

#[tokio::test]
async fn of_a_version_that_is_not_known_the_messages_are_kept_as_they_are() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let setting = Setting { result: Some(json!({"protocolVersion": 9})), ..Setting::of(&server) };
    let (mut editor, session) = setting.with_session();
    editor.run(&session, &json!([["say", "hello"]]));
    editor.end();
    let all = runs(&client).await;
    let [run] = &all[..] else { panic!("one run for the connection: {all:?}") };
    let recorded = events(&client, &run.id).await;
    let raw: Vec<&str> =
        recorded.iter().map(|(kind, _)| &**kind).filter(|kind| kind.starts_with("ext.acp.from_")).collect();
    assert!(raw.contains(&"ext.acp.from_agent") && raw.contains(&"ext.acp.from_editor"), "{recorded:?}");
    assert!(recorded.iter().all(|(kind, _)| !kind.starts_with("assistant.")), "{recorded:?}");
}
