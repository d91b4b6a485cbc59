//! Their programs as processes, and the recordings that the tests compare.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::replay::{Pace, Replay, ReplayOptions, ReplayScript};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::exchange::python;

/// The timeout of these tests; reached only on failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Exchanged recordings of the corpus: every kind of event, prompts with replies, handshakes, text beyond ASCII, an
/// extension.
pub(crate) const RECORDINGS: &[&str] = &[
    "good.confirmed",
    "good.clarified",
    "good.chapter46",
    "good.two_sessions",
    "good.extension",
    "good.handshake",
    "good.output",
    "good.handoff",
    "bad.appendix8.1",
];

pub(crate) fn recording(name: &str) -> String {
    let path = format!("{}/../../testdata/aaep/sessions/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The producer's lines of a recording.
pub(crate) fn recorded_events(text: &str) -> Vec<Value> {
    values(text).into_iter().filter(|value| value.get("event_id").is_some()).collect()
}

/// A command for one of their programs, killed when the test ends.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(python::program(name));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Runs a command to its end; returns its exit code and stderr.
pub(crate) async fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Their running replay of a file. It starts immediately, so the file must be long enough.
pub(crate) struct TheirReplay {
    _child: Child,
    pub(crate) url: String,
}

impl TheirReplay {
    pub(crate) async fn of(file: &Path, more: &[&str]) -> TheirReplay {
        // It does not accept port 0, so it gets one that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = program("aaep-replay");
        command.arg("--file").arg(file).args(["--port", &port.to_string()]).args(more);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut received = Vec::new();
        let url = format!("http://127.0.0.1:{port}");
        loop {
            let line =
                tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it writes a line").unwrap();
            let Some(line) = line else { panic!("their replay ended; its output: {received:?}") };
            received.push(line);
            // It prints the address before it listens there.
            if received.iter().any(|line| line.contains("Serving replay")) && is_listening(&url).await {
                return TheirReplay { _child: child, url };
            }
        }
    }
}

async fn is_listening(url: &str) -> bool {
    let place = url.trim_start_matches("http://");
    let reached = async {
        while tokio::net::TcpStream::connect(place).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.is_ok()
}

/// Our replay of a recording, without pauses.
pub(crate) async fn our_replay(recording: &str) -> Replay {
    let script = ReplayScript::read(recording.as_bytes(), None).unwrap();
    let options = ReplayOptions { pace: Pace::AtOnce, ..ReplayOptions::default() };
    Replay::start(&World::real(), script, options, std::sync::Arc::new(|_| {})).await.unwrap()
}
