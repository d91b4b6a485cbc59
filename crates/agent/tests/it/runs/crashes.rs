//! Crashes at every append of a run, before it and after it. The result is always the same: the run continues to a
//! correct end, and nothing is done twice.

use recount_event::{Event, Payload, RunId};
use recount_faulty_store::{Crash, CrashAt};

use crate::runs::scene::{Scene, Setup, count, first, types};

/// Each kind of work of a run, with a mark in the workspace for each command.
const SCRIPT: &str = r#"
[pace]
words = 2
[[turn]]
text = "I begin with some words and a command."
call = [
  { name = "shell_exec", input = { command = "echo one >> log" } },
  { name = "write_file", input = { path = "a.txt", content = "one\n" } },
]
[[turn]]
call = [
  { name = "edit_file", input = { path = "log", old_text = "one", new_text = "uno" } },
  { name = "shell_exec", input = { command = "echo two >> log" } },
  { name = "ask_user", input = { question = "Go on?" } },
]
[[turn]]
text = "That is all."
"#;

const POLICY: &str = "[[rules]]\nid = \"edits\"\ntool = \"edit_file\"\naction = \"ask\"\n";

async fn scene(crash: Option<Crash>) -> Scene {
    let setup = Setup { script: SCRIPT.into(), policy: POLICY.into(), ..Setup::default() };
    let scene = Scene::with_setup(setup).await;
    if let Some(crash) = crash {
        scene.disk.crash_at(crash);
    }
    scene
}

/// Every call has one outcome, and each command ran at most once.
fn check(events: &[Event], context: &str) {
    let finished = first!(*events, RunFinished);
    assert_eq!(finished.final_status, "completed", "{context}");
    let path = first!(*events, RunQueued).workspace_path.unwrap();
    let log = std::fs::read_to_string(std::path::Path::new(&path).join("log")).unwrap_or_default();
    let mut invoked = Vec::new();
    for event in events {
        match event.payload() {
            Payload::ToolInvoked(call) => {
                assert!(!invoked.contains(&call.tool_call_id), "{context}: invoked twice");
                invoked.push(call.tool_call_id.clone());
            }
            Payload::ToolFailed(end) if end.tool_name == "edit_file" => {
                // The file that it was to change may never have been written.
                let code = end.code.as_deref().unwrap_or_default();
                assert!(["interrupted", "not_found", "text_not_found"].contains(&code), "{context}: {code}");
            }
            Payload::ToolFailed(end) => assert_eq!(end.code.as_deref(), Some("interrupted"), "{context}"),
            _ => {}
        }
    }
    for (word, other) in [("one", "uno"), ("two", "two")] {
        let times = log.lines().filter(|line| *line == word || *line == other).count();
        assert!(times <= 1, "{context}: {log:?}");
    }
    let proposed = count(events, "assistant.tool_call_proposed");
    let settled: usize =
        ["tool.refused", "tool.completed", "tool.failed"].iter().map(|name| count(events, name)).sum();
    assert_eq!(proposed, settled, "{context}: {:?}", types(events));
}

/// The number of appends without a crash.
#[tokio::test]
async fn a_run_without_a_crash_completes() {
    let scene = scene(None).await;
    let run = scene.start("go").await;
    let events = scene.approve_all(run).await;
    check(&events, "no crash");
    assert_eq!(count(&events, "tool.completed"), 5);
    assert_eq!(count(&events, "gap.run_disconnected"), 0);
}

async fn crash(at: usize, kept: bool) -> bool {
    // The first append creates the run; its caller gets the error.
    let mut scene = scene(Some(Crash { at: CrashAt::Append(at), kept })).await;
    let run: RunId = scene.start("go").await;
    let fallen = tokio::select! {
        biased;
        () = scene.disk.crashed() => true,
        events = scene.approve_all(run) => {
            assert_eq!(types(&events).last(), Some(&"run.finished"));
            false
        }
    };
    if fallen {
        scene.restart().await;
        let events = scene.approve_all(run).await;
        check(&events, &format!("append {at}, kept: {kept}: {:#?}", scene.stored_lines(run).await));
    }
    fallen
}

#[tokio::test]
async fn a_crash_after_any_append_is_recovered() {
    let mut at = 2;
    while crash(at, true).await {
        at += 1;
    }
    assert!(at > 20, "only {at} appends");
}

#[tokio::test]
async fn a_crash_before_any_append_is_recovered() {
    let mut at = 2;
    while crash(at, false).await {
        at += 1;
    }
    assert!(at > 20, "only {at} appends");
}

/// A second crash at each append of the recovery.
#[tokio::test]
async fn a_crash_during_recovery_is_recovered() {
    for name in ["gap.run_disconnected", "run.started", "turn.failed", "tool.failed"] {
        for first_at in ["turn.started", "tool.invoked", "assistant.text_delta"] {
            let mut scene = scene(Some(Crash { at: CrashAt::Type(first_at), kept: true })).await;
            let run = scene.start("go").await;
            scene.disk.crashed().await;
            scene.disk.crash_at(Crash { at: CrashAt::Type(name), kept: true });
            scene.restart().await;
            let fallen = tokio::select! {
                biased;
                () = scene.disk.crashed() => true,
                events = scene.approve_all(run) => { check(&events, name); false }
            };
            if fallen {
                scene.restart().await;
                let events = scene.approve_all(run).await;
                check(&events, &format!("{first_at}, then {name}"));
            }
        }
    }
}
