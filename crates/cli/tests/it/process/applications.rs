//! What a browser application and other clients send, to the real binary: keys, preflights, base paths, secrets, and
//! servers that are killed or stopped while something is open.

mod crowd;
mod originals;
mod wire;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use self::wire::{Application, Frame, Opened};
use crate::process::scene::{ALLOW_ALL, HELLO, MODEL, NO_SANDBOX, SLOW, Scene};
use crate::server::{Server, recount};

const PAGE: &str = "http://localhost:3000";

const ACCESS: &str = r#"
[access]
allowed_origins = ["http://localhost:3000"]
[aap]
base_paths = ["/acme/agents"]
[agents.clerk]
title = "The clerk"
tools = ["glob", "read_file"]
hidden_tools = ["todo_write"]
system = "Speak {language}."
[[agents.clerk.options]]
name = "language"
type = "select"
values = ["English", "Dutch"]
[[agents.clerk.options]]
name = "key"
type = "secret"
sets = "api_key"
[[agents.clerk.options]]
name = "token"
type = "secret"
default = "operators-own-default-canary"
"#;

const SCENES: &str = r#"
[[scene]]
when = "look around"
[[scene.turn]]
text = "I look."
call = [
    { name = "get_weather", input = { city = "Oslo" } },
    { name = "glob", input = { pattern = "*" } },
]
[[scene.turn]]
text = "That is all."

[[scene]]
when = "pay Ann"
[[scene.turn]]
call = [{ name = "pay", input = { card = "4111111111111111", to = "Ann" } }]
[[scene.turn]]
text = "Paid."
"#;

fn scene() -> Scene {
    Scene::of(&[MODEL, NO_SANDBOX, ACCESS].concat(), ALLOW_ALL, &[HELLO, SLOW, SCENES].concat())
}

fn command(scene: &Scene, more: &[&str]) -> Command {
    scene.command("127.0.0.1:0", more)
}

fn serve(scene: &Scene) -> Server {
    Server::of(&mut command(scene, &[])).listening()
}

fn user(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}], "stream": "delta"})
}

fn weather() -> Value {
    json!([{"name": "get_weather", "description": "What the weather is.", "parameters": {"type": "object"}}])
}

/// The names of frames with runs of the same one as one.
fn shape(frames: &[Frame]) -> Vec<&str> {
    let mut names: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    names.dedup();
    names
}

/// The calls of a turn, by the names of their tools.
fn call(frames: &[Frame], name: &str) -> String {
    let found = frames.iter().find(|frame| frame.event == "tool_call" && frame.data["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no call of {name}: {frames:?}"));
    found.data["toolCallId"].as_str().unwrap().to_owned()
}

fn stop(frames: &[Frame]) -> &Value {
    let last = frames.last().expect("there are frames");
    assert_eq!(last.event, "turn_stop", "{frames:?}");
    &last.data
}

fn open_calls(application: &Application, agent: &str) -> (String, Vec<Frame>) {
    let session = application.session(&json!({
        "agent": {"name": agent, "tools": [{"name": "glob"}], "options": {"language": "Dutch"}},
        "tools": weather(),
    }));
    let frames = application.turn(&session, &user("look around")).frames();
    assert_eq!(stop(&frames)["stopReason"], "tool_use");
    (session, frames)
}

/// P-007, P-008, P-009, P-053, P-063, P-065, P-080: one after the other what a chat in a browser sends, with its key
/// left empty.
#[test]
fn a_browser_application_from_its_preflight_to_its_goodbye() {
    let scene = scene();
    let server = serve(&scene);
    let browser = Application::of(&server).with("origin", PAGE).with("authorization", "Bearer");

    // Before anything else, and without a key.
    let response = Application::of(&server)
        .with("origin", PAGE)
        .with("access-control-request-method", "DELETE")
        .with("access-control-request-headers", "authorization,content-type")
        .with("access-control-request-private-network", "true");
    let preflight = response.ask("OPTIONS", "/sessions", None);
    assert_eq!((preflight.status, preflight.body.as_str()), (204, ""));
    assert_eq!(preflight.header("access-control-allow-origin"), Some(PAGE));
    assert_eq!(preflight.header("access-control-allow-private-network"), Some("true"));
    let methods = preflight.header("access-control-allow-methods").unwrap();
    assert!(["GET", "POST", "DELETE", "PATCH"].iter().all(|method| methods.contains(method)), "{methods}");
    let headers = preflight.header("access-control-allow-headers").unwrap();
    assert!(
        ["authorization", "content-type", "idempotency-key", "last-event-id"]
            .iter()
            .all(|header| headers.contains(header))
    );
    assert!(preflight.header("access-control-max-age").is_some());

    let meta = browser.get("/meta");
    assert_eq!((meta.status, meta.header("access-control-allow-origin")), (200, Some(PAGE)));
    assert_eq!(meta.json()["version"], 3);
    assert_eq!(meta.json()["agents"][0]["name"], "clerk");
    assert!(!meta.body.contains("canary") && !meta.body.contains("todo_write"), "{}", meta.body);

    // Every option is sent, secret ones with what the form was filled with: empty, or what was read before.
    let agent = json!({
        "name": "clerk",
        "tools": [{"name": "glob", "trust": false}, {"name": "read_file", "trust": true}],
        "options": {"language": "English", "key": "", "token": "***"},
    });
    let session = browser.session(&json!({"agent": agent, "tools": []}));
    let shown = browser.get(&format!("/sessions/{session}"));
    assert_eq!(shown.json()["agent"]["options"]["key"], "***", "{}", shown.body);
    assert_eq!(shown.json()["agent"]["options"]["language"], "English");

    let turn = browser.turn(&session, &user("look around"));
    assert_eq!(turn.header("content-type"), Some("text/event-stream"));
    assert_eq!(turn.header("access-control-allow-origin"), Some(PAGE));
    assert!(turn.header("access-control-expose-headers").unwrap().contains("aap-turn-id"));
    assert!(turn.header("aap-turn-id").is_some() && turn.header("content-encoding").is_none());
    let frames = turn.frames();
    // No application offered the weather, so the call is rejected at once and reported as such.
    assert_eq!(stop(&frames)["stopReason"], "tool_use", "{frames:?}");
    let glob = call(&frames, "glob");

    // A tool that the page does not know it answers by itself.
    let answer = json!({
        "messages": [{"role": "tool", "toolCallId": glob, "content": "Unknown tool: glob"}],
        "stream": "delta",
        "agent": {"options": {"token": "***"}},
    });
    let frames = browser.turn(&session, &answer).frames();
    assert_eq!(stop(&frames)["stopReason"], "end_turn", "{frames:?}");
    assert_eq!(shape(&frames).first(), Some(&"turn_start"));

    let listed = browser.get("/sessions").json();
    assert_eq!(listed["sessions"][0]["sessionId"].as_str(), Some(session.as_str()));
    let deleted = browser.ask("DELETE", &format!("/sessions/{session}"), None);
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    let again = browser.ask("DELETE", &format!("/sessions/{session}"), None);
    assert_eq!((again.status, again.header("access-control-allow-origin")), (404, Some(PAGE)));

    // Another page gets nowhere, whatever it asks.
    let stranger = Application::of(&server).with("origin", "https://evil.example");
    stranger.get("/meta").refused(403, "origin_refused");
    let bad = browser.post("/sessions", &json!({"agent": {"name": "nobody"}}));
    bad.refused(400, "agent_not_found");
    assert_eq!(bad.header("access-control-allow-origin"), Some(PAGE));
}

/// An agent as a template, and a session of an application continued from the native side.
#[test]
fn an_agent_is_asked_from_the_command_line_and_from_the_native_side() {
    let scene = scene();
    let server = serve(&scene);
    let result =
        server.ask(&["run", "--agent", "clerk", "--option", "language=Dutch", "--json", "say hello"]);
    let printed = result.good();
    assert!(printed.contains("Speak Dutch.") && printed.contains("Hello there"), "{printed}");
    server.ask(&["run", "--agent", "nobody", "say hello"]).bad(1, "clerk");
    server.ask(&["run", "--agent", "clerk", "--option", "key=k", "say hello"]).bad(1, "session");
    server.ask(&["run", "--agent", "clerk", "--option", "language", "say hello"]).bad(2, "NAME=VALUE");

    let application = Application::of(&server);
    let session = application.session(&json!({
        "agent": {"name": "clerk", "options": {"language": "Dutch"}}
    }));
    drop(application.turn(&session, &user("say hello")).frames());
    let native = application.clone().at("/v1");
    let run = native.post(&format!("/sessions/{session}/messages"), &json!({"text": "say hello again"}));
    assert_eq!(run.status, 201, "{}", run.body);
    let run = run.json()["data"]["id"].as_str().unwrap().to_owned();
    server.ask(&["tail", "-f", &run]).good();
    let queued = native.get(&format!("/runs/{run}/events?limit=1")).json();
    assert_eq!(queued["data"][0]["data"]["config"]["system"], "Speak Dutch.", "{queued}");
    // The application hears of it.
    let history = serde_json::to_string(&application.history(&session)).unwrap();
    assert!(history.contains("say hello again"), "{history}");
}

/// P-007: where nobody needs a key, whatever is shown is nobody's; but for a token of ours, which must be good.
#[test]
fn any_key_will_do_where_none_is_needed() {
    let scene = scene();
    let server = serve(&scene);
    let application = Application::of(&server);
    assert_eq!(application.get("/meta").status, 200);
    for shown in ["Bearer", "bearer", "Bearer sk-of-another-server", "Basic dXNlcjpwYXNz", "nonsense"] {
        let listed = application.clone().with("authorization", shown).get("/sessions");
        assert_eq!(listed.status, 200, "{shown}: {}", listed.body);
    }
    let taken_back = format!("Bearer rct_01JZZZZZZZZZZZZZZZZZZZZZZZ_{}", "0".repeat(64));
    application.clone().with("authorization", &taken_back).get("/sessions").refused(401, "token_invalid");
    // The native face hears of a key that is none, but not of an empty one.
    let native = application.at("/v1");
    assert_eq!(native.clone().with("authorization", "Bearer").get("/runs").status, 200);
    assert_eq!(native.with("authorization", "Bearer nonsense").get("/runs").status, 401);
}

/// P-005, P-006: keys where they are needed, and what everybody may see where that is said.
#[test]
fn who_needs_a_key_and_for_what() {
    let scene = scene();
    let made = recount()
        .args(["token", "add", "app", "--scope", "read", "--scope", "run", "--scope", "approve", "--data"])
        .arg(scene.data())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = String::from_utf8(made.stdout).unwrap();
    let token = made.split_whitespace().find(|word| word.starts_with("rct_")).expect("a token is shown");
    for public in [false, true] {
        let mut command = command(&scene, &["--require-token"]);
        let server = Server::of(command.env("RECOUNT_AAP__PUBLIC_META", public.to_string())).listening();
        let application = Application::of(&server);
        for (shown, code) in [
            (None, "token_missing"),
            (Some("Bearer"), "token_invalid"),
            (Some("Bearer wrong"), "token_invalid"),
            (Some("Basic dXNlcjpwYXNz"), "token_invalid"),
        ] {
            let response = match shown {
                Some(shown) => application.clone().with("authorization", shown),
                None => application.clone(),
            };
            let refused = response.get("/sessions");
            refused.refused(401, code);
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
            response.post("/sessions", &json!({"agent": {"name": "clerk"}})).refused(401, code);
            // An empty key is none; a wrong one is wrong everywhere.
            let is_none = shown.is_none_or(|shown| shown == "Bearer");
            match public && is_none {
                true => assert_eq!(response.get("/meta").status, 200),
                false => response.get("/meta").refused(401, code),
            }
        }
        let good = application.with("authorization", &format!("Bearer {token}"));
        assert_eq!(good.get("/meta").status, 200);
        let session = good.session(&json!({"agent": {"name": "clerk"}}));
        assert_eq!(good.get(&format!("/sessions/{session}")).status, 200);
    }
}

/// P-010, P-015: below every base path, with and without a slash at the end; and what is missing is reported in the
/// protocol's words.
#[test]
fn every_base_path_leads_to_the_same_sessions() {
    let scene = scene();
    let server = serve(&scene);
    let (usual, other) = (Application::of(&server), Application::of(&server).at("/acme/agents"));
    let session = usual.session(&json!({"agent": {"name": "clerk"}}));
    for application in [&usual, &other] {
        for path in ["/meta", "/meta/", "/sessions", "/sessions/"] {
            assert_eq!(application.get(path).status, 200, "{path}");
        }
        for path in [format!("/sessions/{session}"), format!("/sessions/{session}/")] {
            assert_eq!(application.get(&path).json()["sessionId"].as_str(), Some(session.as_str()), "{path}");
        }
        application.get("/nothing").refused(404, "route_not_found");
        application.ask("PUT", "/meta", None).refused(405, "method_not_allowed");
        application.get("/sessions/chat_none").refused(404, "session_not_found");
    }
    // Requests are counted by route, never by the requested path.
    let metrics = usual.at("").get("/metrics").body;
    assert!(metrics.contains("route=\"/acme/agents/sessions/{session}\""), "{metrics}");
    assert!(!metrics.contains(&session), "{metrics}");
}

/// P-073: killed between a stop and its answer. Messages, options and open calls are kept, and the answer continues.
#[test]
fn a_server_that_is_killed_while_calls_are_open_goes_on_with_their_answers() {
    let scene = scene();
    let mut server = serve(&scene);
    let application = Application::of(&server);
    let (session, frames) = open_calls(&application, "clerk");
    let changed = json!({"messages": [{"role": "tool", "toolCallId": call(&frames, "get_weather"), "content": "rain"}],
        "stream": "delta", "agent": {"options": {"language": "English"}}});
    // A part of the answers, with something chosen anew: kept, and the rest stays open.
    let part = application.turn(&session, &changed).frames();
    assert_eq!(stop(&part)["stopReason"], "tool_use", "{part:?}");
    let before = application.history(&session);
    server.kill();

    let server = serve(&scene);
    let application = Application::of(&server);
    assert_eq!(application.history(&session), before);
    let shown = application.get(&format!("/sessions/{session}")).json();
    assert_eq!(shown["agent"]["options"]["language"], "English", "{shown}");
    assert_eq!(shown["tools"], weather());
    let glob = call(&frames, "glob");
    let grant = json!({"messages": [{"role": "tool_permission", "toolCallId": glob, "granted": true}], "stream": "delta"});
    let frames = application.turn(&session, &grant).frames();
    assert_eq!(shape(&frames), ["turn_start", "tool_result", "text_delta", "turn_stop"], "{frames:?}");
    assert_eq!(stop(&frames)["stopReason"], "end_turn");
    let after = application.history(&session);
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after.last().unwrap()["role"], "assistant", "{after:?}");
}

/// P-079: a server that stops while a turn streams. The stream ends with a frame that reports it, and nothing is lost.
#[test]
fn a_server_that_stops_informs_its_connected_clients() {
    let scene = scene();
    let server = serve(&scene);
    let application = Application::of(&server);
    let session = application.session(&json!({"agent": {"name": "clerk"}}));
    let mut turn = application.turn(&session, &user("slow"));
    let id = turn.header("aap-turn-id").unwrap().to_owned();
    assert_eq!(turn.frame().map(|frame| frame.event).as_deref(), Some("turn_start"));
    let mut received = String::new();
    let mut cursor = None;
    while received.is_empty() {
        let frame = turn.frame().expect("something is said");
        received.push_str(frame.data["delta"].as_str().unwrap());
        cursor = frame.id;
    }
    server.interrupt();
    let mut rest = Opened::frames(turn);
    let last = rest.pop().expect("a last frame comes");
    assert_eq!((last.event.as_str(), last.id), ("turn_stop", None), "{:?}", last.data);
    assert_eq!(last.data["stopReason"], "error");
    assert_eq!(last.data["error"]["retryable"], true, "{}", last.data);
    drop(server);

    // It goes on where it was, and a client that comes again hears the rest.
    let server = serve(&scene);
    let application = Application::of(&server);
    let again = application.clone().with("last-event-id", &cursor.unwrap());
    let rest = again.open("GET", &format!("/sessions/{session}/turns/{id}/events"), None);
    assert_eq!(rest.status, 200);
    let rest = rest.frames();
    assert!(stop(&rest)["stopReason"] != Value::Null, "{rest:?}");
    let read_history = application.history(&session);
    let read_history = serde_json::to_string(&read_history).unwrap();
    assert!(read_history.contains(received.trim()), "{read_history}");
}

/// P-064: a secret that an application sent is nowhere in the clear: not in the data folder, the server's log, events,
/// history, or answers.
#[test]
fn what_an_application_sent_as_a_secret_is_nowhere_to_be_found() {
    // No shape gives these away, and none of them is known to the masking.
    let (first, second) = ("plain words as a canary one", "plain words as a canary two");
    let scene = scene();
    let mut child = command(&scene, &["--log", "trace"]);
    let log = scene.path("log.txt");
    let server = Server::logged(&mut child, &log);
    let application = Application::of(&server);
    let session = application.session(&json!({
        "agent": {"name": "clerk", "tools": [{"name": "glob"}], "options": {"key": first, "language": "Dutch"}},
        "tools": weather(),
    }));
    // A client repeats both to the agent, one of them before the agent has it.
    let content = format!("say hello control-word {first} {second}");
    let body = json!({"messages": [{"role": "user", "content": content}], "stream": "message",
        "agent": {"options": {"token": second}}});
    let mut received = format!("{:?}", application.turn(&session, &body).frames());
    for path in [format!("/sessions/{session}"), "/sessions".into(), "/meta".into()] {
        received.push_str(&application.get(&path).body);
    }
    received.push_str(&serde_json::to_string(&application.history(&session)).unwrap());
    // What is refused repeats what was sent, as far as that is none.
    let bad = json!({"agent": {"name": "clerk", "options": {"key": first, "language": "Klingon"}}});
    received.push_str(&application.post("/sessions", &bad).body);
    let native = application.clone().at("/v1");
    received.push_str(&native.get("/events?limit=1000").body);
    received.push_str(&native.get("/agents").body);
    let fork = application.post(&format!("/sessions/{session}/fork"), &json!({}));
    received.push_str(&fork.body);
    server.interrupt();
    drop(server);
    let log = std::fs::read(&log).unwrap();
    assert!(received.contains("control-word"));
    let mut control = false;
    for canary in [first, second, "operators-own-default-canary"] {
        assert!(!received.contains(canary), "{canary:?} was told: {received}");
        assert!(!holds(&log, canary), "{canary:?} is in the log");
        each_file(&scene.data(), &mut |path, bytes| {
            assert!(!holds(bytes, canary), "{canary:?} is in {}", path.display());
            control |= holds(bytes, "control-word");
        });
    }
    assert!(control, "the search finds what is there");
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn each_file(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, look);
        } else if let Ok(bytes) = std::fs::read(&path) {
            look(&path, &bytes);
        }
    }
}
