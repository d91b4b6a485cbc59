//! `recount demo`: a whole run, printed from real events.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::server::{CommandOutput, recount};

#[test]
fn the_demo_shows_everything_and_keeps_a_true_account() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut command = recount();
    command.args(["demo", "--json", "--data"]).arg(&data).env("TMPDIR", folder.path());
    let output = CommandOutput::of(&mut command);
    assert_eq!(output.status, 0, "{output:?}");
    let events: Vec<Value> = output.data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut left = events.iter().map(|event| event["type"].as_str().unwrap());
    for wanted in [
        "run.queued",
        "run.started",
        "workspace.provisioned",
        "assistant.text_delta",
        "assistant.text_complete",
        "assistant.tool_call_proposed",
        "cost.tick",
        "tool.todo_write.updated",
        "tool.edit.proposed",
        "tool.edit.applied",
        "tool.shell.exited",
        "approval.requested",
        "approval.resolved",
        "tool.invoked",
        "clarification.requested",
        "clarification.answered",
        "tool.file_write.applied",
        "run.finished",
    ] {
        assert!(left.any(|found| found == wanted), "{wanted} does not follow in\n{}", output.data);
    }
    let cost = events.iter().rev().find(|event| event["type"] == "cost.tick").unwrap();
    assert!(cost["data"]["cumulative_cost_micros_usd"].as_u64().unwrap() > 0, "{cost}");
    for words in
        ["the demo answers for you", "recount verify --data", "recount serve --data", "recount tail run_"]
    {
        assert!(output.words.contains(words), "{words:?} is not in {}", output.words);
    }
    is_as_recorded(&output.data, folder.path());
    let run = events[0]["run_id"].as_str().unwrap();
    let checked = CommandOutput::of(recount().args(["verify", "--data"]).arg(&data)).good();
    assert!(checked.starts_with(&format!("{run} ok, {} events", events.len())), "{checked}");
}

/// Only a denial of the call selects the turn for it. The same word in the response to the question does not.
#[test]
fn the_list_of_the_demo_leaves_open_what_was_denied() {
    for (decision, response, refused, status) in
        [("n", "2", 1, "in_progress"), ("y", "no, it was denied", 0, "completed")]
    {
        let events = demo_with_answers(decision, response);
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        assert_eq!(of("tool.refused").len(), refused, "{events:?}");
        assert_eq!(of("clarification.requested").len(), 1, "{events:?}");
        let last = &of("tool.todo_write.updated").last().unwrap()["data"]["todos"][2];
        assert_eq!((&last["content"], &last["status"]), (&"Clear up".into(), &status.into()), "{last}");
        assert_eq!(of("run.finished").len(), 1, "{events:?}");
    }
}

/// The events of a demo with a person, who answers each of the two prompts once.
fn demo_with_answers(decision: &str, response: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = recount();
    command.args(["demo", "--json", "--answers-from-stdin", "--data"]).arg(folder.path().join("data"));
    command.env("TMPDIR", folder.path()).stderr(Stdio::null());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers =
        BTreeMap::from([("approval.requested", decision), ("clarification.requested", response)]);
    let mut events = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(answer) = answers.remove(event["type"].as_str().unwrap()) {
            writeln!(stdin, "{answer}").unwrap();
        }
        events.push(event);
    }
    assert!(child.wait().unwrap().success(), "{events:?}");
    events
}

#[test]
fn without_a_sandbox_the_demo_states_why_it_cannot_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = recount();
    command.arg("demo").env("TMPDIR", folder.path()).env("PATH", folder.path());
    let output = CommandOutput::of(command.env("RECOUNT_SANDBOX__MODE", "bubblewrap"));
    assert_eq!((output.status, &*output.data), (5, ""), "{output:?}");
    for words in [
        "cannot play the demo: no sandbox works",
        "bwrap is not on the PATH",
        "for the demo: RECOUNT_SANDBOX__MODE=off",
    ] {
        assert!(output.words.contains(words), "{words:?} is not in {}", output.words);
    }
}

/// The types and texts of a run's events, without pieces of texts, ids, times and paths.
fn course(events: &str) -> Vec<String> {
    let shown = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let (kind, data) = (event["type"].as_str().unwrap(), &event["data"]);
        let texts = ["text", "question", "action", "summary", "todos", "decision", "response", "tool_name"];
        let texts: Vec<String> = texts
            .iter()
            .map(|name| &data[*name])
            .filter(|value| !value.is_null())
            .map(Value::to_string)
            .collect();
        format!("{kind} {}", texts.join(" "))
    };
    let of_texts = |line: &&str| !line.contains(r#""type":"assistant.text_delta""#);
    events.lines().filter(of_texts).map(shown).collect()
}

/// `docs/aaep/listening.md` is made of a recorded demo, which has to be the demo of today. `RECOUNT_BLESS=1` records it anew.
fn is_as_recorded(events: &str, folder: &Path) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/listening/demo.jsonl");
    if std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1") {
        assert!(std::env::var_os("CI").is_none(), "CI compares; it does not bless");
        std::fs::write(&file, events.replace(&*folder.to_string_lossy(), "/tmp/recount-demo")).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        course(events),
        course(&recorded),
        "record it anew with RECOUNT_BLESS=1, and see docs/aaep/listening.md"
    );
}
