//! The other side: their programs as processes, and what the tests compare.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::replay::{Pace, Replay, ReplayOptions, ReplayScript};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::exchange::python;

/// How long anything in these tests may take; reached only when it will never come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Recordings of the corpus that are exchanged: every kind of event, prompts with replies, handshakes, text beyond
/// ASCII, an extension.
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

/// What the producer said in a recording.
pub(crate) fn recorded_events(text: &str) -> Vec<Value> {
    values(text).into_iter().filter(|value| value.get("event_id").is_some()).collect()
}

/// One of their programs, ended when the test is.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(python::program(name));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Runs one to its end; what it said on stderr.
pub(crate) async fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Their replay of a file, once it listens; it begins at once, so this is for files that take a while.
pub(crate) struct TheirReplay {
    _child: Child,
    pub(crate) url: String,
}

impl TheirReplay {
    pub(crate) async fn of(file: &Path, more: &[&str]) -> TheirReplay {
        // It takes no port 0, so it is given one that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = program("aaep-replay");
        command.arg("--file").arg(file).args(["--port", &port.to_string()]).args(more);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut heard = Vec::new();
        let url = format!("http://127.0.0.1:{port}");
        loop {
            let line =
                tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it says something").unwrap();
            let Some(line) = line else { panic!("their replay ended; it said {heard:?}") };
            heard.push(line);
            // It says where before it listens there.
            if heard.iter().any(|line| line.contains("Serving replay")) && is_heard(&url).await {
                return TheirReplay { _child: child, url };
            }
        }
    }
}

async fn is_heard(url: &str) -> bool {
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
