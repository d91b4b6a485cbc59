//! Tests that `aaep validate` accepts what `aaep capture --handshake` records of a correct producer with prompts,
//! whether the capture or another subscription replies to them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use recount_aaep_kit::World;
use recount_aaep_kit::scripted::{Behaviour, Scripted};

use crate::aaep;
use crate::program::{CommandOutput, PATIENCE, RunningCommand};

/// A running capture with a handshake.
struct Capture {
    process: RunningCommand,
    file: PathBuf,
}

impl Capture {
    /// Starts a capture and waits until its subscription is accepted.
    fn begin(base: &str, file: PathBuf, more: &[&str]) -> Self {
        let url = format!("{base}/aaep/v1");
        let mut command = aaep();
        command.args(["capture", &url, "--handshake", "--quiet", "-o"]).arg(&file).args(more);
        let capture = Capture { process: RunningCommand::of(&mut command), file };
        capture.wait_for("subscription.accepted");
        capture
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap_or_default()
    }

    fn wait_for(&self, word: &str) {
        let until = recount_world::moment() + PATIENCE;
        while !self.text().contains(word) {
            assert!(recount_world::moment() < until, "`{word}` does not arrive:\n{}", self.text());
            crate::program::wait_to_look();
        }
    }

    /// Stops the capture after the end of the session.
    fn end(self) -> PathBuf {
        self.wait_for("agent.session.completed");
        self.process.interrupt();
        let (_, status) = self.process.end();
        assert_eq!(status, 0);
        self.file
    }
}

/// Requests a scenario from the producer, as its user.
fn request_scenario(base: &str, text: &str) {
    let place = base.trim_start_matches("http://");
    let body = serde_json::json!({"kind": "user_input", "text": text}).to_string();
    let mut stream = TcpStream::connect(place).unwrap();
    let head = format!(
        "POST /messages HTTP/1.1\r\nHost: {place}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut output = String::new();
    stream.read_to_string(&mut output).unwrap();
    assert!(output.starts_with("HTTP/1.1 2"), "{output}");
}

fn validate(file: &Path) -> CommandOutput {
    CommandOutput::of(aaep().args(["validate"]).arg(file))
}

#[test]
fn captures_of_a_correct_producer_have_no_findings() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // Long enough for replies on a busy machine.
    let behaviour = Behaviour { timeout_seconds: 30, ..Behaviour::default() };
    let producer = runtime.block_on(Scripted::start(&World::real(), behaviour)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for scenario in ["irreversible", "confirm"] {
        // The capture replies itself: its recording has the prompts and the replies.
        for decision in ["accept", "reject"] {
            let name = format!("{scenario}.{decision}.jsonl");
            let own = Capture::begin(producer.base(), place(&name), &["--auto", decision]);
            request_scenario(producer.base(), scenario);
            let file = own.end();
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.contains("awaiting.confirmation") && text.contains("confirmation.reply"), "{text}");
            assert_eq!(text.contains("tool.invoked"), decision == "accept", "{text}");
            let verdict = validate(&file).good();
            assert!(verdict.contains("no errors, no warnings"), "{name}: {verdict}\n{text}");
        }
        // Another subscription replies, and this one declared that it cannot.
        let other =
            Capture::begin(producer.base(), place(&format!("{scenario}.other.jsonl")), &["--auto", "accept"]);
        let silent = Capture::begin(producer.base(), place(&format!("{scenario}.silent.jsonl")), &[]);
        request_scenario(producer.base(), scenario);
        let (silent, other) = (silent.end(), other.end());
        let text = std::fs::read_to_string(&silent).unwrap();
        assert!(text.contains("tool.invoked") && !text.contains("confirmation.reply"), "{text}");
        let verdict = validate(&silent).good();
        assert!(verdict.contains(": no errors"), "{scenario}: {verdict}\n{text}");
        assert!(validate(&other).good().contains("no errors, no warnings"));
        // No subscription can reply, so the action is not done.
        let alone = Capture::begin(producer.base(), place(&format!("{scenario}.alone.jsonl")), &[]);
        request_scenario(producer.base(), scenario);
        let alone = alone.end();
        assert!(!std::fs::read_to_string(&alone).unwrap().contains("tool.invoked"));
        assert!(validate(&alone).good().contains("no errors, no warnings"));
    }
    runtime.block_on(producer.stop());
}
