//! `recount acp --agent`: an editor drives an agent of a real server over standard input and output.

mod editor;
mod prompts;
mod refused;
mod restarts;

use serde_json::json;

use self::editor::{Editor, text, updates};
use crate::process::scene::Scene;

#[test]
fn a_session_is_made_prompted_listed_and_loaded_again() {
    let scene = Scene::new();
    let server = scene.server();
    let mut editor = Editor::start(&server, &[]);
    let about = editor.initialize(json!({}));
    let version = (&about["protocolVersion"], &about["agentInfo"]["name"]);
    assert_eq!(version, (&json!(1), &json!("recount/assistant")));
    let capabilities = &about["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(
        capabilities["promptCapabilities"],
        json!({"image": true, "audio": false, "embeddedContext": true})
    );
    assert_eq!(
        capabilities["sessionCapabilities"],
        json!({"list": {}, "resume": {}, "close": {}, "delete": {}})
    );

    let work = scene.work();
    let session = editor.session(&work);
    let (messages, answer) = editor.prompt(&session, "say hello");
    assert_eq!(text(&messages, "agent_message_chunk"), "Hello there, dear old friend.");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(
        answer["result"]["usage"],
        json!({"totalTokens": 1010, "inputTokens": 1000, "outputTokens": 10})
    );
    assert_eq!(answer["result"]["_meta"]["recount"]["costMicrosUsd"], 1020);
    assert_eq!(text(&messages, "user_message_chunk"), "", "the editor has its own message");

    let listed = editor.call("session/list", json!({"cwd": work}));
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{listed}");
    assert_eq!((&sessions[0]["sessionId"], &sessions[0]["title"]), (&json!(session), &json!("say hello")));
    assert_eq!(editor.call("session/list", json!({"cwd": "/elsewhere"}))["sessions"], json!([]));
    drop(editor);

    // Another program has the whole conversation from the log.
    let mut editor = Editor::start(&server, &[]);
    editor.initialize(json!({}));
    let id = editor.send("session/load", json!({"sessionId": session, "cwd": work, "mcpServers": []}));
    let (messages, answer) = editor.until(&id);
    assert_eq!(answer["result"]["modes"]["currentModeId"], "policy", "{answer}");
    assert_eq!(text(&messages, "user_message_chunk"), "say hello");
    assert_eq!(text(&messages, "agent_message_chunk"), "Hello there, dear old friend.");
    let (messages, _) = editor.prompt(&session, "say hello");
    assert_eq!(text(&messages, "agent_message_chunk"), "Hello there, dear old friend.");

    editor.call("session/close", json!({"sessionId": session}));
    let id = editor.send("session/resume", json!({"sessionId": session, "cwd": work}));
    let (messages, answer) = editor.until(&id);
    assert!(messages.is_empty() && answer["result"]["modes"].is_object(), "{messages:?} {answer}");
    editor.call("session/delete", json!({"sessionId": session}));
    assert_eq!(editor.call("session/list", json!({}))["sessions"], json!([]));
    let missing =
        editor.refused("session/load", json!({"sessionId": session, "cwd": work, "mcpServers": []}));
    assert_eq!(missing["code"], -32002, "{missing}");
}

#[test]
fn edits_are_diffs_and_the_todo_list_is_the_plan() {
    let scene = Scene::new();
    let server = scene.server();
    let mut editor = Editor::start(&server, &[]);
    editor.initialize(json!({}));
    let work = scene.work().canonicalize().unwrap();
    let session = editor.session(&work);
    let (messages, answer) = editor.prompt(&session, "edit it");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let plan = updates(&messages, "plan");
    assert_eq!(
        plan[0]["entries"],
        json!([{"content": "Edit it", "priority": "medium", "status": "in_progress"}])
    );
    let path = work.join("a.txt");
    let calls = updates(&messages, "tool_call");
    let edit = calls.iter().find(|call| call["kind"] == "edit").expect("a call edits");
    assert_eq!((&edit["status"], &edit["title"]), (&json!("pending"), &json!("edit_file: a.txt")));
    assert_eq!(edit["locations"], json!([{"path": path}]));
    let of_edit = updates(&messages, "tool_call_update");
    let of_edit: Vec<_> =
        of_edit.iter().filter(|update| update["toolCallId"] == edit["toolCallId"]).collect();
    let last = of_edit.last().unwrap();
    assert_eq!(last["status"], "completed");
    let diff = json!({"type": "diff", "path": path, "oldText": "one\n", "newText": "two\n"});
    assert_eq!(last["content"][0], diff, "{last}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "two\n", "the editor's folder itself is changed");
}

#[test]
fn a_mode_decides_whether_every_call_needs_permission() {
    let scene = Scene::new();
    let server = scene.server();
    let mut editor = Editor::start(&server, &[]);
    editor.initialize(json!({}));
    let session = editor.session(&scene.work());
    assert_eq!(editor.call("session/set_mode", json!({"sessionId": session, "modeId": "ask"})), json!({}));
    let why = editor.refused("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}));
    assert!(why["message"].as_str().unwrap().contains("send policy or ask"), "{why}");
    let why = editor
        .refused("session/set_config_option", json!({"sessionId": session, "configId": "m", "value": "x"}));
    assert!(why["message"].as_str().unwrap().contains("unknown option"), "{why}");
    let id = editor.send_prompt(&session, "edit it");
    for _ in 0..2 {
        let request = editor.next_request("session/request_permission");
        editor.choose(&request, "allow");
    }
    let (_, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    // The server keeps the mode with the session.
    let mut another = Editor::start(&server, &[]);
    another.initialize(json!({}));
    let answer = another.call("session/resume", json!({"sessionId": session, "cwd": scene.work()}));
    assert_eq!(answer["modes"]["currentModeId"], "ask");
}
