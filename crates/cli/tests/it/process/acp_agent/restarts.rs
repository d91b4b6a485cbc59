//! Failures: the editor exits while a run waits, the server is killed in the middle of a response.

use serde_json::{Value, json};

use super::editor::{Editor, text, updates};
use crate::process::scene::{Scene, client};
use crate::server::{Server, recount};

#[test]
fn an_open_prompt_is_sent_again_after_the_editor_reconnects() {
    let scene = Scene::new();
    let server = scene.server();
    let mut editor = Editor::start(&server, &[]);
    editor.initialize(json!({}));
    let session = editor.session(&scene.work());
    editor.send_prompt(&session, "clear up");
    editor.next_request("session/request_permission");
    assert_eq!(editor.end(), 0, "the run stays when the editor goes");

    for method in ["session/load", "session/resume"] {
        let mut editor = Editor::start(&server, &[]);
        editor.initialize(json!({}));
        let id = editor.send(method, json!({"sessionId": session, "cwd": scene.work(), "mcpServers": []}));
        let (messages, answer) = editor.until(&id);
        assert!(answer.get("error").is_none(), "{answer}");
        let replayed = if method == "session/load" { "clear up" } else { "" };
        assert_eq!(text(&messages, "user_message_chunk"), replayed);
        assert!(
            messages.iter().all(|message| message["method"] == "session/update"),
            "asked before the answer: {messages:?}"
        );
        let request = editor.next_request("session/request_permission");
        assert_eq!(request["params"]["toolCall"]["title"], "shell_exec: rm -r old");
        if method == "session/resume" {
            editor.choose(&request, "allow");
            let is_last = |message: &Value| message["params"]["update"]["content"]["text"] == "That";
            let (_, first) = editor.find(|message| {
                is_last(message) || message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
            });
            assert!(
                first["params"]["update"]["content"]["text"].as_str().unwrap().starts_with("That"),
                "{first}"
            );
            let (messages, answer) = loop {
                // The run may need a moment to end after its last word.
                let (messages, answer) = editor.prompt(&session, "say hello");
                if answer["error"]["data"]["code"] != "session_busy" {
                    break (messages, answer);
                }
            };
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
            assert!(text(&messages, "agent_message_chunk").ends_with("Hello there, dear old friend."));
        }
    }
    assert!(!scene.work().join("old").exists());
}

const SLOW: &str = r#"
[pace]
words = 1
tokens_per_second = 20
[[turn]]
text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty."
"#;

fn serve(scene: &Scene, bind: &str) -> Server {
    let mut command = recount();
    command.envs(scene.alone()).args(["serve", "--bind", bind, "--log", "warn", "--allow-workspace"]);
    Server::of(command.arg(scene.work())).listening()
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_loses_and_doubles_nothing() {
    let scene = Scene::playing(SLOW);
    let mut server = serve(&scene, "127.0.0.1:0");
    let mut editor = Editor::start(&server, &[]);
    editor.initialize(json!({}));
    let session = editor.session(&scene.work());
    let id = editor.send_prompt(&session, "count");
    let mut messages = Vec::new();
    while updates(&messages, "agent_message_chunk").len() < 3 {
        messages.push(editor.next());
    }
    let address = server.address.clone();
    server.kill();
    let server = serve(&scene, &address);
    let (rest, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    messages.extend(rest);
    let is_note = |update: &Value| update["messageId"].as_str().unwrap().ends_with(".note");
    let chunks = updates(&messages, "agent_message_chunk");
    let notes: Vec<&Value> = chunks.iter().filter(|chunk| is_note(chunk)).collect();
    assert_eq!(notes.len(), 1, "{chunks:?}");
    let shown: Vec<&str> = chunks
        .iter()
        .filter(|chunk| !is_note(chunk))
        .map(|chunk| chunk["content"]["text"].as_str().unwrap())
        .collect();
    // Each piece in the log was sent once, in order.
    let run = answer["result"]["_meta"]["recount"]["runId"].as_str().unwrap();
    let log = client(&server).read_run_events(run, None, Some(1000)).await.unwrap().data;
    let log: Vec<Value> = log.iter().map(|event| serde_json::from_str(event.get()).unwrap()).collect();
    let pieces: Vec<&str> = log
        .iter()
        .filter(|event| event["type"] == "assistant.text_delta")
        .map(|event| event["data"]["delta"].as_str().unwrap())
        .collect();
    assert_eq!(shown, pieces);
    assert!(shown.concat().ends_with("nineteen twenty."), "{shown:?}");
}
