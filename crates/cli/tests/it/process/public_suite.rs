//! The conformance suite of the protocol's authors, unmodified, against a server with the conformance agent, and their
//! recorder and player with it.

use std::path::Path;

use serde_json::Value;

use crate::server::{CommandOutput, Server, aaep, recount};

#[path = "../../../../aaep-kit/tests/it/exchange/python.rs"]
mod python;
#[path = "../../../../aaep-kit/tests/it/exchange/public_suite.rs"]
mod suite;

use suite::SuiteRun;

/// A server whose room `conformance` has an agent.
fn producer(data: &Path, compat: bool) -> Server {
    let mut command = recount();
    command
        .args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--conformance-agent", "--data"])
        .arg(data);
    if compat {
        command.arg("--suite-compat");
    }
    Server::of(&mut command).listening()
}

fn room(server: &Server) -> String {
    format!("{}/aaep/legacy/conformance", server.url())
}

fn suite(endpoint: &str, level: u8) -> SuiteRun {
    suite::run(&python::program("aaep-conformance"), endpoint, level)
}

/// All checks pass but the one that counts the replies of the suite itself.
#[track_caller]
fn passes(run: &SuiteRun, level: u8) {
    assert_eq!((run.status, run.failed("error").len()), (Some(0), 0), "{}", run.output);
    let expected: &[&str] = if level == 1 { &[] } else { &["L2-CONF-002"] };
    assert_eq!(run.failed("warning"), expected, "{}", run.output);
    let (passed, all) = run.passed();
    assert_eq!(passed, all - expected.len() as u64, "{}", run.output);
}

#[test]
#[ignore = "full: needs the public AAEP suite"]
fn the_public_suite_passes_over_http_at_each_level() {
    let data = tempfile::tempdir().unwrap();
    let server = producer(data.path(), true);
    for level in [1, 2, 3] {
        passes(&suite(&room(&server), level), level);
    }
}

#[test]
#[ignore = "full: needs the public AAEP suite"]
fn the_public_suite_passes_over_websocket_at_each_level() {
    let data = tempfile::tempdir().unwrap();
    let server = producer(data.path(), true);
    let url = format!("{}/ws", room(&server).replace("http://", "ws://"));
    for level in [1, 2, 3] {
        passes(&suite(&url, level), level);
    }
}

#[test]
#[ignore = "full: needs the public AAEP suite"]
fn without_the_id_before_the_session_the_public_suite_misses_its_start_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let server = producer(data.path(), false);
    let run = suite(&room(&server), 3);
    assert_eq!((run.status, run.failed("error")), (Some(1), vec!["L1-LIFE-004"]), "{}", run.output);
    assert_eq!(run.failed("warning"), ["L2-CONF-002"], "{}", run.output);
}

/// A server with a room at the root of a further address, and that address.
fn with_a_port_of_its_own(data: &Path) -> (Server, String) {
    let mut command = recount();
    command.args([
        "serve",
        "--bind",
        "127.0.0.1:0",
        "--log",
        "warn",
        "--conformance-agent",
        "--suite-compat",
    ]);
    command.env("RECOUNT_AAEP__ROOM_BIND", "127.0.0.1:0").arg("--data").arg(data);
    let server = Server::of(&mut command).listening();
    let page_line = server.words.iter().find_map(|line| line.strip_prefix("a room is at the root of "));
    let root = page_line.expect("the server says where the room is").to_owned();
    (server, root)
}

#[test]
#[ignore = "full: needs the public AAEP suite"]
fn the_public_suite_passes_at_the_root_of_a_port_of_its_own() {
    let data = tempfile::tempdir().unwrap();
    let (server, root) = with_a_port_of_its_own(data.path());
    passes(&suite(&root, 1), 1);
    passes(&suite(&format!("{}/ws", root.replace("http://", "ws://")), 2), 2);
    assert_eq!(curl(&[&format!("{root}/healthz")]), r#"{"status":"ok"}"#);
    // The rest of the server is elsewhere, and rooms are not at the root of the server.
    let status = |url: String| {
        let response = std::process::Command::new("curl")
            .args(["--silent", "--path-as-is", "--output", "/dev/null", "--write-out", "%{http_code}", &url])
            .output()
            .unwrap();
        String::from_utf8(response.stdout).unwrap()
    };
    assert_eq!(status(format!("{}/v1/runs", server.url())), "200");
    for url in [
        format!("{root}/v1/runs"),
        format!("{root}/../../../v1/runs"),
        format!("{root}/aaep/v1/events"),
        format!("{}/messages", server.url()),
    ] {
        assert_eq!(status(url.clone()), "404", "{url}");
    }
}

#[test]
fn a_port_for_a_room_that_more_than_this_machine_could_reach_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let refused = |bind: &str, rooms: &str, words: &str| {
        let mut serve = recount();
        serve.args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(data.path());
        serve.env("RECOUNT_AAEP__ROOM_BIND", bind).env("RECOUNT_AAEP__ROOMS", rooms);
        CommandOutput::of(&mut serve).bad(2, words);
    };
    refused(
        "0.0.0.0:0",
        "loopback",
        "aaep.room_bind is 0.0.0.0:0, which is not a loopback address; use a loopback",
    );
    refused("0.0.0.0:0", "everywhere", "no token is required; set access.require_token to true");
    refused("127.0.0.1:0", "off", "set aaep.rooms to loopback");
    refused(
        "here",
        "loopback",
        "invalid value \"here\" for aaep.room_bind; use off, or an address with a port",
    );
}

fn curl(arguments: &[&str]) -> String {
    let response = std::process::Command::new("curl")
        .args(["--silent", "--show-error", "--fail"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(response.status.success(), "{}", String::from_utf8_lossy(&response.stderr));
    String::from_utf8(response.stdout).unwrap()
}

/// Sends an input to the room's agent.
fn ask(server: &Server, text: &str) {
    let body = serde_json::json!({ "kind": "user_input", "text": text }).to_string();
    curl(&[
        "--header",
        "content-type: application/json",
        "--data",
        &body,
        &format!("{}/messages", room(server)),
    ]);
}

/// Waits until the room has had a stream.
fn is_read(server: &Server) {
    let until = recount_world::moment() + crate::server::PATIENCE;
    let metrics = format!("{}/metrics", server.url());
    while !curl(&[&metrics]).contains("/aaep/legacy/{room}/events") {
        assert!(recount_world::moment() < until, "no subscriber reads the shared stream");
        crate::server::wait_to_look();
    }
}

/// Takes a fifth of a second, of which players make more.
const SLOW: &str = "Please use a tool that takes too long and is given up.";

#[test]
#[ignore = "full: needs the public AAEP tools"]
fn the_public_recorder_records_a_room_and_the_public_player_plays_it_to_our_recorder() {
    let data = tempfile::tempdir().unwrap();
    let server = producer(data.path(), false);
    let file = data.path().join("theirs.jsonl");
    let mut recorder = std::process::Command::new(python::program("aaep-capture"))
        .args(["--endpoint", &room(&server), "--max-events", "8", "--output"])
        .arg(&file)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    is_read(&server);
    ask(&server, SLOW);
    assert!(recorder.wait().unwrap().success());
    let recorded = std::fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 8, "{recorded}");
    assert_eq!(events[0]["type"], "aaep:agent.session.started");
    assert_eq!(events[7]["type"], "aaep:agent.session.completed");
    let name = file.to_str().unwrap();
    CommandOutput::of(aaep().args(["validate", "--profile", "compat", name])).good();

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut player = std::process::Command::new(python::program("aaep-replay"))
        .args(["--file", name, "--port", &port.to_string(), "--speed", "0.02"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let until = recount_world::moment() + crate::server::PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(recount_world::moment() < until, "their player does not listen");
        crate::server::wait_to_look();
    }
    let url = format!("http://127.0.0.1:{port}");
    let captured =
        CommandOutput::of(aaep().args(["capture", &url, "-o", "-", "--max-events", "4", "--quiet"]));
    player.kill().unwrap();
    player.wait().unwrap();
    let captured: Vec<Value> =
        captured.good().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(captured.len(), 4);
    assert!(captured.iter().all(|event| events.contains(event)), "{captured:?}");
}

#[test]
#[ignore = "full: needs the public AAEP tools"]
fn what_our_recorder_records_of_the_server_the_public_recorder_hears_from_our_player() {
    let data = tempfile::tempdir().unwrap();
    let server = producer(data.path(), false);
    let file = data.path().join("ours.jsonl");
    let name = file.to_str().unwrap();
    let mut recorder = aaep();
    let recorder = crate::server::RunningCommand::of(
        recorder.args(["capture", &room(&server), "-o", name]).args(["--max-events", "8"]),
    );
    is_read(&server);
    ask(&server, SLOW);
    assert_eq!(recorder.end().1, 0);
    let recorded = std::fs::read_to_string(&file).unwrap();
    let mut player = aaep();
    let player = crate::server::RunningCommand::of(player.args([
        "--json",
        "replay",
        name,
        "--port",
        "0",
        "--no-delay",
        "--stay",
    ]));
    let url: Value = serde_json::from_str(&player.line()).unwrap();
    let again = data.path().join("theirs.jsonl");
    let recorder = std::process::Command::new(python::program("aaep-capture"))
        .args(["--endpoint", url["url"].as_str().unwrap(), "--max-events", "8", "--output"])
        .arg(&again)
        .output()
        .unwrap();
    assert!(recorder.status.success(), "{recorder:?}");
    let values =
        |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    assert_eq!(values(&std::fs::read_to_string(&again).unwrap()), values(&recorded));
}
