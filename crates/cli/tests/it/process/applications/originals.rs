//! A server that is killed while a client tool call with masked input is open: the application still gets the original
//! afterwards, and it is nowhere to be found outside of the sealed record.

use serde_json::json;

use super::wire::Application;
use super::{call, command, each_file, holds, scene, stop, user};
use crate::process::scene::Scene;
use crate::server::{Server, recount};

const CARD: &str = "4111111111111111";

fn token(scene: &Scene, name: &str, scopes: &[&str]) -> String {
    let mut command = recount();
    command.args(["token", "add", name, "--data"]).arg(scene.data());
    for scope in scopes {
        command.args(["--scope", scope]);
    }
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = String::from_utf8(made.stdout).unwrap();
    let token = made.split_whitespace().find(|word| word.starts_with("rct_")).expect("a token is shown");
    format!("Bearer {token}")
}

#[test]
fn after_a_crash_only_the_application_gets_the_original_of_its_open_call() {
    let scene = scene();
    let (app, reader) =
        (token(&scene, "app", &["run", "read"]), token(&scene, "reader", &["read", "approve"]));
    let log = scene.path("log.txt");
    let start = || Server::logged(&mut command(&scene, &["--require-token", "--log", "trace"]), &log);
    let mut server = start();
    let owner = Application::of(&server).with("authorization", &app);
    let session = owner.session(&json!({
        "agent": {"name": "clerk"},
        "tools": [{"name": "pay", "description": "Pays.", "parameters": {"type": "object"}}],
    }));
    let turn = owner.turn(&session, &user("pay Ann"));
    let id = turn.header("aap-turn-id").unwrap().to_owned();
    let frames = turn.frames();
    assert_eq!(stop(&frames)["stopReason"], "tool_use");
    let pay = call(&frames, "pay");
    server.kill();

    let server = start();
    let owner = Application::of(&server).with("authorization", &app);
    let reader = Application::of(&server).with("authorization", &reader);
    let input = |application: &Application| {
        let path = format!("/sessions/{session}/turns/{id}/events");
        let frames = application.open("GET", &path, None).frames();
        let found = frames.iter().find(|frame| frame.event == "tool_call").expect("the call is told again");
        found.data["input"]["card"].as_str().unwrap().to_owned()
    };
    assert_eq!(input(&owner), CARD);
    assert!(serde_json::to_string(&owner.history(&session)).unwrap().contains(CARD));
    assert_eq!(input(&reader), "*".repeat(CARD.len()));
    assert!(!serde_json::to_string(&reader.history(&session)).unwrap().contains(CARD));
    // The native face never returns it, not even to the owner.
    let native = owner.clone().at("/v1").get("/events?limit=1000");
    assert!(
        native.status == 200 && native.body.contains(&pay) && !native.body.contains(CARD),
        "{}",
        native.body
    );

    let answer =
        json!({"stream": "delta", "messages": [{"role": "tool", "toolCallId": pay, "content": "done"}]});
    assert_eq!(stop(&owner.turn(&session, &answer).frames())["stopReason"], "end_turn");
    assert_eq!(input(&owner), "*".repeat(CARD.len()));
    assert!(!serde_json::to_string(&owner.history(&session)).unwrap().contains(CARD));
    server.interrupt();
    drop(server);
    assert!(!holds(&std::fs::read(&log).unwrap(), CARD), "it is in the server's log");
    each_file(&scene.data(), &mut |path, bytes| {
        assert!(!holds(bytes, CARD), "it is in {}", path.display());
    });
}
