//! The process dies with every single append of a run, once with the append made and once without, and what comes of
//! it is the same each time: the run goes on to a truthful end, and nothing is done twice.

use recount_event::{Event, Payload, RunId};
use recount_faulty_store::{Crash, CrashAt};

use crate::runs::scene::{Scene, Setup, count, first, types};

/// Each kind of thing that a run does, with a mark in the workspace for each command.
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
    let scene = Scene::of(setup).await;
    if let Some(crash) = crash {
        scene.disk.crash_at(crash);
    }
    scene
}

/// Every call has one ending, and what each command left behind is no more than it was carried out.
fn check(events: &[Event], said: &str) {
    let finished = first!(*events, RunFinished);
    assert_eq!(finished.final_status, "completed", "{said}");
    let path = first!(*events, RunQueued).workspace_path.unwrap();
    let log = std::fs::read_to_string(std::path::Path::new(&path).join("log")).unwrap_or_default();
    let mut invoked = Vec::new();
    for event in events {
        match event.payload() {
            Payload::ToolInvoked(call) => {
                assert!(!invoked.contains(&call.tool_call_id), "{said}: invoked twice");
                invoked.push(call.tool_call_id.clone());
            }
            Payload::ToolFailed(end) if end.tool_name == "edit_file" => {
                // What it was to change may never have been written.
                let code = end.code.as_deref().unwrap_or_default();
                assert!(["interrupted", "not_found", "text_not_found"].contains(&code), "{said}: {code}");
            }
            Payload::ToolFailed(end) => assert_eq!(end.code.as_deref(), Some("interrupted"), "{said}"),
            _ => {}
        }
    }
    for (word, other) in [("one", "uno"), ("two", "two")] {
        let times = log.lines().filter(|line| *line == word || *line == other).count();
        assert!(times <= 1, "{said}: {log:?}");
    }
    let proposed = count(events, "assistant.tool_call_proposed");
    let settled: usize =
        ["tool.refused", "tool.completed", "tool.failed"].iter().map(|name| count(events, name)).sum();
    assert_eq!(proposed, settled, "{said}: {:?}", types(events));
}

/// How many appends it takes when nothing happens.
#[tokio::test]
async fn a_run_without_a_crash() {
    let scene = scene(None).await;
    let run = scene.ask("go").await;
    let events = scene.nod(run).await;
    check(&events, "no crash");
    assert_eq!(count(&events, "tool.completed"), 5);
    assert_eq!(count(&events, "gap.run_disconnected"), 0);
}

async fn crash(at: usize, kept: bool) -> bool {
    // The first append is that of the run itself, whose caller hears of it.
    let mut scene = scene(Some(Crash { at: CrashAt::Append(at), kept })).await;
    let run: RunId = scene.ask("go").await;
    let fallen = tokio::select! {
        biased;
        () = scene.disk.crashed() => true,
        events = scene.nod(run) => {
            assert_eq!(types(&events).last(), Some(&"run.finished"));
            false
        }
    };
    if fallen {
        scene.restart().await;
        let events = scene.nod(run).await;
        check(&events, &format!("append {at}, kept: {kept}: {:#?}", scene.told(run).await));
    }
    fallen
}

#[tokio::test]
async fn a_crash_with_any_append_that_was_made() {
    let mut at = 2;
    while crash(at, true).await {
        at += 1;
    }
    assert!(at > 20, "only {at} appends");
}

#[tokio::test]
async fn a_crash_with_any_append_that_was_not_made() {
    let mut at = 2;
    while crash(at, false).await {
        at += 1;
    }
    assert!(at > 20, "only {at} appends");
}

/// Twice in a row, at each place that a restart itself passes.
#[tokio::test]
async fn a_crash_while_another_is_being_dealt_with() {
    for name in ["gap.run_disconnected", "run.started", "turn.failed", "tool.failed"] {
        for first_at in ["turn.started", "tool.invoked", "assistant.text_delta"] {
            let mut scene = scene(Some(Crash { at: CrashAt::Type(first_at), kept: true })).await;
            let run = scene.ask("go").await;
            scene.disk.crashed().await;
            scene.disk.crash_at(Crash { at: CrashAt::Type(name), kept: true });
            scene.restart().await;
            let fallen = tokio::select! {
                biased;
                () = scene.disk.crashed() => true,
                events = scene.nod(run) => { check(&events, name); false }
            };
            if fallen {
                scene.restart().await;
                let events = scene.nod(run).await;
                check(&events, &format!("{first_at}, then {name}"));
            }
        }
    }
}
