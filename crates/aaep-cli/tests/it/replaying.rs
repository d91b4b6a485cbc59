//! Tests of `aaep replay` as a process: its output, how it ends and its exit status.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::aaep;
use crate::program::{CommandOutput, RunningCommand};

const CONFIRMED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/aaep/sessions/good.confirmed.jsonl");

/// Starts a replay on a free port; returns it with its URL.
fn replay(more: &[&str]) -> (RunningCommand, String) {
    let mut command = aaep();
    command.args(["--json", "replay", CONFIRMED, "--port", "0", "--no-delay"]).args(more);
    let replay = RunningCommand::of(&mut command);
    let value: Value = serde_json::from_str(&replay.line()).unwrap();
    assert_eq!((value["told"].as_str(), value["lines"].as_u64()), (Some("listening"), Some(9)));
    let url = value["url"].as_str().unwrap().to_owned();
    replay.words(&format!("listening on {url}"));
    (replay, url)
}

fn curl(arguments: &[&str]) -> Child {
    let mut command = Command::new("curl");
    command.args(["-sN", "--max-time", "60"]).args(arguments);
    command.stdout(Stdio::piped()).spawn().expect("curl is installed")
}

/// All events of a stream.
fn events(child: Child) -> Vec<String> {
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

fn recorded_events() -> Vec<String> {
    let file = std::fs::read_to_string(CONFIRMED).unwrap();
    file.lines().filter(|line| line.contains("\"event_id\"")).map(str::to_owned).collect()
}

#[test]
fn a_recording_is_sent_to_listeners_and_the_replay_ends() {
    let (replay, url) = replay(&[]);
    assert_eq!(events(curl(&[&format!("{url}/events")])), recorded_events());
    let (value, status) = replay.end();
    assert_eq!(status, 0);
    let value: Vec<Value> = value.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(value.last().unwrap()["told"], "left");
}

#[test]
fn control_c_ends_it_and_its_streams_cleanly() {
    let (replay, url) = replay(&["--stay"]);
    let listener = curl(&[&format!("{url}/events")]);
    for value in ["comes", "begins"] {
        assert!(replay.line().contains(value), "{value}");
    }
    replay.interrupt();
    replay.words("interrupted");
    assert_eq!(events(listener), recorded_events(), "the events are sent before the end");
    assert_eq!(replay.end().1, 0);
}

#[test]
fn replies_are_reported_and_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("replies.jsonl");
    let (replay, url) = replay(&["--wait-for-replies", "--replies", file.to_str().unwrap()]);
    let listener = curl(&[&format!("{url}/events")]);
    while !replay.line().contains("\"waits\"") {}
    let reply = "{\"type\":\"confirmation.reply\",\n\"reply_token\":\"rpl_1\",\"decision\":\"reject\"}";
    let sent = curl(&["--data", reply, &format!("{url}/messages")]).wait().unwrap();
    assert!(sent.success());
    let value: Value = serde_json::from_str(&replay.line()).unwrap();
    assert_eq!((value["outcome"].as_str(), value["line"].as_u64()), (Some("taken"), Some(4)));
    assert_eq!(events(listener), recorded_events());
    assert_eq!(replay.end().1, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), reply.replace('\n', " ") + "\n");
}

#[test]
fn invalid_recordings_and_options_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&empty, "\n").unwrap();
    let ask = |arguments: &[&str]| CommandOutput::of(aaep().args(["replay"]).args(arguments));
    ask(&["/nonexistent.jsonl"]).bad(2, "/nonexistent.jsonl: No such file");
    ask(&[empty.to_str().unwrap()]).bad(2, "the file has no producer events");
    ask(&[CONFIRMED, "--speed", "0"]).bad(2, "more than 0");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    ask(&[CONFIRMED, "--port", &port]).bad(5, "--port 0 picks a free port");
}
