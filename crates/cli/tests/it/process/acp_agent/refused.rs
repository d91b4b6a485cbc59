//! Invalid requests of an editor, and their errors.

use serde_json::{Value, json};

use super::editor::Editor;
use crate::process::scene::Scene;
use crate::server::{CommandOutput, recount};

#[test]
fn bad_messages_are_answered_and_change_nothing() {
    let scene = Scene::new();
    let server = scene.server();
    let mut editor = Editor::start(&server, &[]);
    let work = scene.work();
    let check = |error: Value, code: i64, words: &str| {
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
    };
    let early = editor.refused("session/new", json!({"cwd": work, "mcpServers": []}));
    check(early, -32600, "initialize first");
    check(editor.refused("initialize", json!({})), -32602, "protocolVersion is missing");
    editor.line("{ not json");
    check(editor.next()["error"].clone(), -32700, "not JSON");
    editor.line("[]");
    check(editor.next()["error"].clone(), -32600, "batches");
    editor.line("");
    editor.initialize(json!({}));
    editor.notify("session/cancel", json!({"sessionId": "nobody"}));
    editor.notify("unknown", json!(3));
    editor.line(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}).to_string());

    check(editor.refused("session/fork", json!({})), -32601, "session/fork");
    check(editor.refused("authenticate", json!({"methodId": "x"})), -32600, "no authentication methods");
    let new = |cwd: &str, servers: Value| json!({"cwd": cwd, "mcpServers": servers});
    check(editor.refused("session/new", new("work", json!([]))), -32602, "absolute path");
    let servers = json!([{"name": "files", "command": "x", "args": [], "env": []}]);
    check(
        editor.refused("session/new", new(work.to_str().unwrap(), servers)),
        -32602,
        "mcpServers has \"files\"",
    );
    check(editor.refused("session/new", new("/usr", json!([]))), -32602, "workspaces.allow");
    let load = json!({"sessionId": "chat_01KQQ76CBH8C00W2ZZXCRPF0SK", "cwd": work, "mcpServers": []});
    check(editor.refused("session/load", load), -32002, "not found");
    let prompt =
        |session: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": "say hello"}]});
    check(editor.refused("session/prompt", prompt("nobody")), -32002, "open it with session/new");

    let session = editor.session(&work);
    let other = json!({"sessionId": session, "cwd": "/usr", "mcpServers": []});
    check(editor.refused("session/resume", other), -32602, "but cwd is");
    check(
        editor.refused("session/prompt", json!({"sessionId": session, "prompt": []})),
        -32602,
        "prompt is empty",
    );
    let id = editor.send_prompt(&session, "slow");
    check(editor.refused("session/prompt", prompt(&session)), -32600, "is in progress");
    let again = json!({"sessionId": session, "cwd": work, "mcpServers": []});
    check(editor.refused("session/load", again), -32600, "is in progress");
    editor.notify("session/cancel", json!({"sessionId": session}));
    let (_, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert_eq!(editor.end(), 0);
}

#[test]
fn an_agent_or_a_server_that_is_not_there_is_named() {
    let scene = Scene::new();
    let server = scene.server();
    let why = Editor::at(&server.url(), "clerk", &[]).refused("initialize", json!({"protocolVersion": 1}));
    let words = why["message"].as_str().unwrap();
    assert!(
        words.starts_with("unknown agent \"clerk\"") && words.contains("available agents: assistant"),
        "{words}"
    );
    let why =
        Editor::start(&server, &["--option", "a=b"]).refused("initialize", json!({"protocolVersion": 1}));
    assert!(why["message"].as_str().unwrap().contains("unknown option \"a\""), "{why}");
    let why =
        Editor::at("http://127.0.0.1:1", "clerk", &[]).refused("initialize", json!({"protocolVersion": 1}));
    let words = why["message"].as_str().unwrap();
    assert!(words.contains("http://127.0.0.1:1") && words.contains("recount serve"), "{words}");

    CommandOutput::of(recount().args(["acp"])).bad(2, "COMMAND");
    CommandOutput::of(recount().args(["acp", "--agent", "a", "--", "cat"])).bad(2, "cannot be used with");
    CommandOutput::of(recount().args(["acp", "--agent", "a", "--option", "b"])).bad(2, "NAME=VALUE");
    // The end of the input is the end of the program.
    CommandOutput::of(recount().args(["acp", "--agent", "a"])).good();
}
