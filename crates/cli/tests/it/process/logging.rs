//! The server's log in JSON: every line on standard error is one, from the start to the end and where it does not start.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server::{CommandOutput, RunningCommand, recount};

#[track_caller]
fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("not JSON ({why}): {line}"))
}

fn serve(data: &std::path::Path) -> Command {
    let mut command = recount();
    command
        .args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--log-format", "json", "--data"])
        .arg(data);
    command
}

#[test]
fn every_line_is_json_also_where_the_level_is_high() {
    let data = tempfile::tempdir().unwrap();
    let server = RunningCommand::of(&mut serve(data.path()));
    let address = loop {
        let line = json(&server.words(""));
        if line["fields"]["message"]
            .as_str()
            .is_some_and(|message| message.starts_with("listening on http://"))
        {
            break line["fields"]["address"].as_str().unwrap().to_owned();
        }
    };
    assert!(address.starts_with("127.0.0.1:"), "{address}");

    // The same folder a second time: it does not start, and logs the error in the same form.
    let second = CommandOutput::of(&mut serve(data.path()));
    assert_eq!(second.status, 5, "{second:?}");
    let lines: Vec<Value> = second.words.lines().map(json).collect();
    let last = lines.last().expect("it says why");
    assert_eq!(last["level"], "ERROR");
    assert!(last["fields"]["message"].as_str().unwrap().contains("another"), "{last}");

    server.interrupt();
    assert_eq!(server.end().1, 0);
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_in_json_too() {
    let data = tempfile::tempdir().unwrap();
    let mut command = serve(data.path());
    command.args(["--max-age", "soon"]).stderr(Stdio::piped());
    let answer = CommandOutput::of(&mut command);
    assert_eq!(answer.status, 2, "{answer:?}");
    let lines: Vec<Value> = answer.words.lines().map(json).collect();
    assert!(lines.last().unwrap()["fields"]["message"].as_str().unwrap().contains("soon"), "{lines:?}");
}
