//! Tests of `aaep capture` as a process: its files, its output, how it ends and its exit status.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::aaep;
use crate::program::{CommandOutput, RunningCommand};

const CONFIRMED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/aaep/sessions/good.confirmed.jsonl");

/// Starts a replay that stays open; returns it with its URL.
fn producer() -> (RunningCommand, String) {
    let mut command = aaep();
    command.args(["--json", "replay", CONFIRMED, "--port", "0", "--no-delay", "--stay"]);
    let replay = RunningCommand::of(&mut command);
    let value: Value = serde_json::from_str(&replay.line()).unwrap();
    let url = value["url"].as_str().unwrap().to_owned();
    (replay, url)
}

fn capture(arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(aaep().args(["capture"]).args(arguments))
}

/// The unchanged events of the recording.
fn recorded_events() -> Vec<String> {
    let file = std::fs::read_to_string(CONFIRMED).unwrap();
    file.lines().filter(|line| line.contains("\"event_id\"")).map(str::to_owned).collect()
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

fn place() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.jsonl");
    let name = file.to_str().unwrap().to_owned();
    (folder, file, name)
}

#[test]
fn a_captured_session_is_exact_and_can_be_checked_and_replayed() {
    let ((_replay, url), (_folder, file, name)) = (producer(), place());
    let count = recorded_events().len();
    let output = capture(&[&url, "-o", &name, "--max-events", &count.to_string()]);
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.data.starts_with(&format!("{count} events in ")), "{output:?}");
    assert!(
        output.data.contains(&format!("written to {name}; the limit of events was reached")),
        "{output:?}"
    );
    assert!(output.words.contains("connected; Ctrl-C ends the capture"), "{output:?}");
    assert_eq!(lines(&file), recorded_events(), "byte for byte");
    let times: Vec<Value> =
        lines(&folder_times(&file)).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(times.len(), count);
    for (time, number) in times.iter().zip(1..) {
        assert_eq!((time["line"].as_u64(), time["direction"].as_str()), (Some(number), Some("in")), "{time}");
        assert_eq!(time["connection"], 1);
    }
    let checked = CommandOutput::of(aaep().args(["validate", &name]));
    assert!(checked.data.contains(&format!("{count} events in 1 file")), "{checked:?}");
    let mut again = aaep();
    let again = RunningCommand::of(again.args(["--json", "replay", &name, "--port", "0"]));
    let value: Value = serde_json::from_str(&again.line()).unwrap();
    assert_eq!(value["lines"].as_u64(), Some(count as u64));
}

fn folder_times(file: &Path) -> PathBuf {
    file.with_extension("jsonl.times")
}

#[test]
fn standard_output_takes_the_lines_and_nothing_else() {
    let (_replay, url) = producer();
    let output = capture(&[&url, "-o", "-", "--max-events", "3", "--quiet"]);
    assert_eq!(output.data.lines().collect::<Vec<_>>(), recorded_events()[..3]);
    assert!(output.words.starts_with("3 events in ") && output.words.lines().count() == 1, "{output:?}");
}

#[test]
fn matching_events_are_kept_and_the_rest_is_counted() {
    let ((_replay, url), (_folder, file, name)) = (producer(), place());
    let output =
        CommandOutput::of(aaep().args(["--json", "capture", &url, "-o", &name, "--timeout", "2"]).args([
            "--type",
            "session.*,awaiting.*",
            "--urgency",
            "critical",
        ]));
    let value: Value = serde_json::from_str(&output.data).unwrap();
    assert_eq!((value["events"].as_u64(), value["ended"].as_str()), (Some(1), Some("timeout")), "{value}");
    assert_eq!(value["filtered"].as_u64(), Some(recorded_events().len() as u64 - 1), "{value}");
    let kept = lines(&file);
    assert!(kept.len() == 1 && kept[0].contains("aaep:agent.awaiting.confirmation"), "{kept:?}");
}

#[test]
fn the_exit_status_separates_no_events_from_no_connection_and_keeps_old_files() {
    let (_folder, file, name) = place();
    // Accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    std::fs::write(&file, "an earlier one\n").unwrap();
    let output = capture(&[&url, "-o", &name, "--timeout", "0.3"]);
    assert_eq!(output.status, 1, "{output:?}");
    assert!(
        output.data.contains("0 events") && output.data.contains("the timeout was reached"),
        "{output:?}"
    );
    drop(silent);
    let output = capture(&[&url, "-o", &name]);
    assert_eq!((output.status, output.data.as_str()), (3, ""), "{output:?}");
    assert!(output.words.contains("is a producer running there?"), "{output:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "an earlier one\n");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(capture(&[&url, "-o", &name]).status, 3);
    assert!(!file.exists(), "a failed attempt leaves no file");

    capture(&["localhost:8080", "-o", &name]).bad(2, "use a URL such as http://127.0.0.1:8080");
    capture(&[&url, "-o", "/no/such/folder/file"]).bad(2, "cannot write");
    capture(&[&url]).bad(2, "--output");
    capture(&["-o", &name]).bad(2, "<URL>");
    capture(&[&url, "-o", &name, "--timeout", "0"]).bad(2, "greater than 0");
    capture(&["-o", &name, "--command", "cat 'x"]).bad(2, "unclosed quote");
    capture(&["-o", &name, "--command", "/no/such/program"]).bad(3, "/no/such/program");
}

/// A producer that sends `events` and holds the connection. Also returns the request that it gets.
fn start_holding_producer(events: String) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (requested, requests) = channel();
    recount_world::thread("producer", move || {
        let (mut stream, _) = listener.accept().unwrap();
        requested.send(head(&stream)).unwrap();
        let output = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}");
        stream.write_all(output.as_bytes()).unwrap();
        // Until the client disconnects.
        stream.read_to_end(&mut Vec::new()).ok();
    });
    (url, requests)
}

fn head(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn signals_end_it_with_the_file_whole() {
    for signal in ["-INT", "-TERM", "-KILL"] {
        let (_folder, file, name) = place();
        let frames: String = recorded_events().iter().map(|event| format!("data: {event}\n\n")).collect();
        let (url, held) = start_holding_producer(frames);
        let mut command = aaep();
        let capture = command.args(["capture", &url, "-o", &name]);
        let mut child = capture.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let until = recount_world::moment() + crate::program::PATIENCE;
        while !folder_times(&file).exists() || lines(&folder_times(&file)).len() < recorded_events().len() {
            assert!(recount_world::moment() < until, "the events do not arrive");
            std::thread::yield_now();
        }
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let status = child.wait().unwrap();
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        if signal != "-KILL" {
            assert_eq!(status.code(), Some(0), "{signal}");
            assert!(output.contains("it was stopped"), "{signal}: {output}");
        }
        assert_eq!(lines(&file), recorded_events(), "{signal}");
        assert!(std::fs::read(&file).unwrap().ends_with(b"\n"));
        assert!(held.recv().unwrap().starts_with("GET /events "));
    }
}

#[test]
fn the_environments_token_goes_to_no_other_server() {
    for (arguments, shown) in [
        (vec![], None),
        (vec!["--token", "typed"], Some("Bearer typed")),
        (vec!["--token-file", "TOKEN"], Some("Bearer kept")),
    ] {
        let (folder, _file, name) = place();
        let token = folder.path().join("token");
        std::fs::write(&token, "kept\n").unwrap();
        let (url, held) = start_holding_producer(format!("data: {}\n\n", recorded_events()[0]));
        let arguments =
            arguments.into_iter().map(|word| if word == "TOKEN" { token.to_str().unwrap() } else { word });
        let mut command = aaep();
        command.env("RECOUNT_TOKEN", "secret").args(["capture", &url, "-o", &name, "--max-events", "1"]);
        let output = CommandOutput::of(command.args(arguments));
        assert_eq!(output.status, 0, "{output:?}");
        let request = held.recv().unwrap().to_lowercase();
        let header = request.lines().find_map(|line| line.strip_prefix("authorization: "));
        assert_eq!(header, shown.map(str::to_lowercase).as_deref(), "{request}");
        assert!(!request.contains("secret"));
    }
}

#[test]
fn a_program_is_captured_and_answered_only_on_request() {
    let (_folder, file, name) = place();
    let prompt = recorded_events().into_iter().find(|line| line.contains("awaiting.confirmation")).unwrap();
    let script = file.with_extension("sh");
    // Prints the prompt, then the reply, if one arrives before the end of its input.
    std::fs::write(&script, format!("echo '{prompt}'\nread -r reply && echo \"$reply\"\n")).unwrap();
    let command = format!("timeout 2 sh '{}'", script.display());
    let arguments = ["-o", &name, "--command", &command, "--framing", "lines"];
    let output = capture(&[&arguments[..], &["--timeout", "1"]].concat());
    assert_eq!((output.status, lines(&file)), (0, vec![prompt.clone()]), "{output:?}");

    let output = capture(&[&arguments[..], &["--auto", "reject"]].concat());
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.words.contains("warning: every confirmation is rejected without a prompt"), "{output:?}");
    let kept = lines(&file);
    assert_eq!(kept[0], prompt);
    assert!(kept[1].contains("\"decision\":\"reject\""), "{kept:?}");
    assert_eq!(kept[1], kept[2], "the sent reply and the received copy");
    let times = lines(&folder_times(&file));
    assert!(
        times[1].contains("\"direction\":\"out\"") && times[2].contains("\"direction\":\"in\""),
        "{times:?}"
    );
}

#[test]
fn a_capture_with_a_handshake_closes_its_subscription() {
    let ((_replay, url), (_folder, file, name)) = (producer(), place());
    let output = capture(&[&url, "-o", &name, "--handshake", "--max-events", "2"]);
    assert_eq!(output.status, 0, "{output:?}");
    let kept = lines(&file);
    assert!(
        kept[0].contains("subscription.request") && kept[0].contains("\"supports_confirmation_reply\":false")
    );
    assert!(kept[1].contains("subscription.accepted"), "{kept:?}");
    assert_eq!(kept[2..4], recorded_events()[..2]);
    assert!(kept[4].contains("subscription.close"), "{kept:?}");
}
