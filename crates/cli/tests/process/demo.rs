//! `recount demo`: a whole run, told as a true account, in under a minute.

use std::time::Duration;

use serde_json::Value;

use crate::server::{Answer, recount};

#[test]
fn the_demo_shows_everything_in_under_a_minute_and_keeps_a_true_account() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let began = recount_world::moment();
    let mut command = recount();
    command.args(["demo", "--json", "--data"]).arg(&data).env("TMPDIR", folder.path());
    let told = Answer::of(&mut command);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(told.status, 0, "{told:?}");
    let events: Vec<Value> = told.data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
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
        assert!(left.any(|found| found == wanted), "{wanted} does not follow in\n{}", told.data);
    }
    let cost = events.iter().rev().find(|event| event["type"] == "cost.tick").unwrap();
    assert!(cost["data"]["cumulative_cost_micros_usd"].as_u64().unwrap() > 0, "{cost}");
    for words in
        ["the demo answers itself", "recount verify --data", "recount serve --data", "recount tail run_"]
    {
        assert!(told.words.contains(words), "{words:?} is not in {}", told.words);
    }
    let run = events[0]["run_id"].as_str().unwrap();
    let checked = Answer::of(recount().args(["verify", "--data"]).arg(&data)).good();
    assert!(checked.starts_with(&format!("{run} ok, {} events", events.len())), "{checked}");
}
