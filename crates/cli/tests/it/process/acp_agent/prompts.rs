//! What a run asks: permissions and questions, answered in the editor, elsewhere, or not at all.

use recount_client::{Listing, reply};
use serde_json::json;

use super::editor::{Editor, text, updates};
use crate::process::scene::{ASK_ALL, Scene, client};
use crate::server::Server;

fn opened<'s>(
    scene: &Scene,
    server: &'s Server,
    capabilities: serde_json::Value,
) -> (Editor, String, &'s Server) {
    let mut editor = Editor::start(server, &[]);
    editor.initialize(capabilities);
    let session = editor.session(&scene.work());
    (editor, session, server)
}

/// The id of the only open approval.
async fn pending(server: &Server) -> String {
    let open = Listing { status: Some("pending".to_owned()), ..Listing::default() };
    let mut listed = client(server).list_prompts::<reply::Approval>(&open).await.unwrap().data;
    assert_eq!(listed.len(), 1, "{listed:?}");
    listed.remove(0).id
}

#[test]
fn a_permission_is_given_and_refused_in_the_editor() {
    let scene = Scene::new();
    let server = scene.server();
    let (mut editor, session, _) = opened(&scene, &server, json!({}));
    let id = editor.send_prompt(&session, "clear up");
    let request = editor.next_request("session/request_permission");
    let call = &request["params"]["toolCall"];
    assert_eq!((&call["kind"], &call["title"]), (&json!("execute"), &json!("shell_exec: rm -r old")));
    let options = request["params"]["options"].as_array().unwrap();
    let kinds: Vec<&str> = options.iter().map(|option| option["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"], "a grave call is allowed once at most");
    editor.choose(&request, "reject");
    let (messages, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(updates(&messages, "tool_call_update").last().unwrap()["status"], "failed");
    assert!(scene.work().join("old").exists());

    let id = editor.send_prompt(&session, "clear up");
    let request = editor.next_request("session/request_permission");
    editor.choose(&request, "allow");
    let (messages, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let statuses: Vec<_> =
        updates(&messages, "tool_call_update").iter().map(|u| u["status"].clone()).collect();
    assert_eq!(statuses, ["in_progress", "completed"], "{messages:?}");
    assert!(!scene.work().join("old").exists());
}

#[test]
fn a_call_can_be_allowed_for_the_session() {
    let scene = Scene::under(ASK_ALL);
    let server = scene.server();
    let (mut editor, session, _) = opened(&scene, &server, json!({}));
    let id = editor.send_prompt(&session, "edit it");
    for _ in 0..2 {
        let request = editor.next_request("session/request_permission");
        let call = &request["params"]["toolCall"];
        if call["kind"] == "edit" {
            let path = scene.work().join("a.txt");
            let diff = json!({"type": "diff", "path": path, "oldText": "one\n", "newText": "two\n"});
            let content = call["content"].as_array().unwrap();
            assert!(content.contains(&diff), "{call}");
        }
        editor.choose(&request, "allow_session");
    }
    let (_, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let allowed = server.ask(&["policy", "ls"]).good();
    assert_eq!(allowed.lines().count(), 2, "{allowed}");
    assert!(allowed.lines().all(|line| line.contains("always in chat_")), "{allowed}");
}

#[tokio::test]
async fn a_permission_that_is_given_elsewhere_is_withdrawn() {
    let scene = Scene::new();
    let server = scene.server();
    let (mut editor, session, _) = opened(&scene, &server, json!({}));
    let id = editor.send_prompt(&session, "clear up");
    let request = editor.next_request("session/request_permission");
    server.ask(&["approve", &pending(&server).await, "--yes"]).good();
    let (_, withdrawn) = editor.find(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    // An answer that comes too late changes nothing.
    editor.choose(&request, "reject");
    let (messages, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text(&messages, "agent_message_chunk"), "That was it.");
    assert!(!scene.work().join("old").exists());
}

#[tokio::test]
async fn a_prompt_is_cancelled_while_it_speaks_and_while_it_waits() {
    let scene = Scene::new();
    let server = scene.server();
    let (mut editor, session, _) = opened(&scene, &server, json!({}));
    let id = editor.send_prompt(&session, "slow");
    editor.find(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    editor.notify("session/cancel", json!({"sessionId": session}));
    let (_, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");

    let session = editor.session(&scene.work());
    let id = editor.send_prompt(&session, "clear up");
    let request = editor.next_request("session/request_permission");
    editor.notify("$/cancel_request", json!({"requestId": id}));
    editor.answer(&request, json!({"outcome": {"outcome": "cancelled"}}));
    let (_, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert!(scene.work().join("old").exists());
    let runs = client(&server).list_runs(&Listing::default()).await.unwrap().data;
    assert!(runs.len() == 2 && runs.iter().all(|run| run.status == "cancelled"), "{runs:?}");
}

#[test]
fn a_question_is_a_form_or_the_next_message() {
    let scene = Scene::new();
    let server = scene.server();
    let (mut editor, session, _) = opened(&scene, &server, json!({}));
    let (messages, answer) = editor.prompt(&session, "which one");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let question = text(&messages, "agent_message_chunk");
    assert!(question.contains("Which colour?\n- red\n- green"), "{question}");
    let (messages, answer) = editor.prompt(&session, "green");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(text(&messages, "agent_message_chunk"), "Green it is.");

    let (mut editor, session, _) = opened(&scene, &server, json!({"elicitation": {"form": {}}}));
    let id = editor.send_prompt(&session, "which one");
    let form = editor.next_request("elicitation/create");
    assert_eq!(form["params"]["message"], "Which colour?");
    let choices = &form["params"]["requestedSchema"]["properties"]["choice"]["oneOf"];
    assert_eq!(choices[1], json!({"const": "1", "title": "green"}));
    editor.answer(&form, json!({"action": "accept", "content": {"choice": "1"}}));
    let (messages, answer) = editor.until(&id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(text(&messages, "agent_message_chunk"), "Green it is.");
}
