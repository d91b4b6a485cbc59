//! Tests of `aaep visualize` and `replay --visualize` as processes: formats, output files and exit statuses.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::aaep;
use crate::program::{CommandOutput, RunningCommand};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/aaep").join(name)
}

fn visualize(arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(aaep().args(["visualize"]).args(arguments))
}

#[test]
fn a_session_is_shown_as_text_html_and_json() {
    let file = testdata("sessions/bad.confirmed.rejected.jsonl");
    let file = file.to_str().unwrap();
    // The output is complete, and the exit status reports the errors in it.
    let found = |output: CommandOutput| {
        assert_eq!((output.status, output.words.as_str()), (1, ""), "{output:?}");
        output.data
    };
    let good = testdata("sessions/good.confirmed.jsonl");
    assert!(visualize(&[good.to_str().unwrap()]).good().contains("sess_1"));
    let text = found(visualize(&[file]));
    let account = std::fs::read_to_string(testdata("traces/bad.confirmed.rejected.txt")).unwrap();
    let same = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(same(&text), same(&account));
    let html = found(visualize(&[file, "--format", "html"]));
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    for arguments in [&["--format", "json"][..], &["--json"]] {
        let json: Value = serde_json::from_str(&found(visualize(&[&[file], arguments].concat()))).unwrap();
        assert_eq!(json["findings"][0]["rule"], "tool.after_reject");
    }
    let wins = found(visualize(&["--json", file, "--format", "text"]));
    assert_eq!(wins, text, "the option of the verb takes precedence");
    let compat = found(visualize(&[file, "--profile", "compat"]));
    assert!(compat.contains("with the profile compat: 1 error."));
}

#[test]
fn the_output_file_is_written_only_on_success() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let trip = testdata("traces/trip.jsonl");
    let trip = trip.to_str().unwrap();
    let left = || std::fs::read_dir(folder.path()).unwrap().count();
    visualize(&["/dev/null", "-o", page]).bad(2, "is empty");
    visualize(&["no-such-file", "-o", page]).bad(2, "cannot read");
    visualize(&[trip, "--session", "sess_none", "-o", page]).bad(2, "no session `sess_none` in the file");
    assert_eq!(left(), 0);
    // A finding changes the exit status; the page is still complete.
    let output = visualize(&[trip, "--session", "sess_ticket", "--format", "html", "-o", page]);
    assert_eq!((output.status, output.data.as_str()), (1, ""), "{output:?}");
    assert_eq!(left(), 1);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("sess_ticket") && !html.contains("sess_berlin"));
}

#[test]
fn a_replay_prints_the_events_it_sends() {
    let file = testdata("sessions/good.confirmed.jsonl");
    let replay = ["replay", file.to_str().unwrap(), "--port", "0", "--no-delay", "--no-wait", "--visualize"];
    let output = RunningCommand::of(aaep().args(replay)).end();
    assert_eq!(output.1, 0);
    let output = output.0;
    assert_eq!(output[..2], ["Session sess_1", "Line 1, after 0 s: The session starts: “Starting.”"]);
    assert!(output.last().unwrap().starts_with("End of session sess_1: completed after 9 s."), "{output:?}");
    let output = RunningCommand::of(aaep().arg("--json").args(replay)).end().0;
    let accounts: Vec<Value> = output
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|output| output["told"] == "account")
        .collect();
    assert_eq!(accounts.len(), 9);
    assert_eq!(
        (&accounts[0]["line"], &accounts[0]["account"][0]),
        (&Value::from(1), &Value::from("Session sess_1"))
    );
}
