//! Runs that are one call: of the shell, of git, of a file tool.

use std::path::Path;

use recount_engine::{FileOrder, Order};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Json, Payload};
use serde_json::{Value, json};

use crate::runs::scene::{Scene, Setup, asked_for, course, first, types};
use crate::runs::tools::git;

fn shell(command: &str) -> Order {
    Order { command: Some(command.into()), ..Order::default() }
}

fn file(tool: &str, input: Value) -> Order {
    let input = Json::parse(&input.to_string()).unwrap();
    Order { file: Some(FileOrder { tool: tool.into(), input }), ..Order::default() }
}

#[tokio::test]
async fn a_command_is_a_run() {
    let scene = Scene::with("").await;
    let run = scene.call(RunKind::Shell, shell("echo hello")).await;
    let events = scene.ended(run).await;
    assert_eq!(
        types(&events),
        [
            "run.queued",
            "run.started",
            "workspace.provisioned",
            "tool.invoked",
            "tool.started",
            "tool.shell.command",
            "tool.shell.output_chunk",
            "tool.shell.exited",
            "tool.completed",
            "run.finished",
        ]
    );
    let invoked = first!(events, ToolInvoked);
    assert!(invoked.tool_call_id.starts_with("call_") && invoked.turn_index.is_none());
    assert_eq!(first!(events, ToolShellOutputChunk).data, "hello\n");
    assert_eq!(first!(events, RunFinished).final_status, "completed");
}

#[tokio::test]
async fn how_a_call_ends_is_how_its_run_ends() {
    let scene = Scene::with("").await;
    scene.put("a.txt", "one\n");
    git(&scene, &["init", "--quiet"]);
    let args = |words: &[&str]| Order {
        args: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        ..Order::default()
    };
    let brief = |command: &str| Order { timeout_seconds: Some(1), ..shell(command) };
    let narrow = |command: &str| Order { output_bytes_max: Some(1_000), ..shell(command) };
    let edit = json!({ "path": "a.txt", "old_text": "one", "new_text": "1" });
    let cases = [
        (RunKind::Shell, shell("true"), None),
        (RunKind::Shell, shell("exit 7"), Some(("exit_status", false))),
        (RunKind::Shell, brief("while true; do :; done"), Some(("wall_clock", true))),
        (RunKind::Shell, narrow("yes"), Some(("output_cap", false))),
        (RunKind::Shell, shell("kill -9 $$"), Some(("signal", false))),
        (RunKind::Git, args(&["status"]), None),
        (RunKind::Git, args(&["no-such-verb"]), Some(("exit_status", false))),
        (RunKind::File, file("read_file", json!({ "path": "a.txt" })), None),
        (RunKind::File, file("edit_file", edit), None),
        (RunKind::File, file("read_file", json!({ "path": "none" })), Some(("not_found", true))),
        (RunKind::File, file("panics", json!({ "times": 1 })), Some(("interrupted", true))),
        (RunKind::File, file("grep", json!({ "pattern": "(" })), Some(("invalid_pattern", true))),
    ];
    for (kind, order, ending) in cases {
        let asked = format!("{order:?}");
        let run = scene.call(kind, order).await;
        let events = scene.ended(run).await;
        match (events.last().unwrap().payload(), ending) {
            (Payload::RunFinished(end), None) => assert_eq!(end.final_status, "completed"),
            (Payload::RunFailed(end), Some((code, retriable))) => {
                assert_eq!((end.code.as_str(), end.retriable), (code, retriable), "{asked}: {}", end.message);
                assert_eq!(end.by.as_deref(), Some("system"));
            }
            (end, wanted) => panic!("{asked}: {end:?} and not {wanted:?}"),
        }
        assert!(types(&events).iter().all(|name| !name.starts_with("turn.")));
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_before_there_is_a_run() {
    let scene = Scene::with("").await;
    let refused = async |kind: RunKind, order: Order, queued: Option<Queued>| {
        let queued = queued.unwrap_or_else(|| Queued::new(kind));
        scene.try_queue(queued, order, None, None).await.unwrap_err().to_string()
    };
    let why = refused(RunKind::File, file("shell_exec", json!({ "command": "ls" })), None).await;
    assert!(why.contains("not a tool for files"), "{why}");
    let why = refused(RunKind::File, file("read_file", json!({ "file": "a" })), None).await;
    assert!(why.contains("does not fit read_file"), "{why}");
    let tools = Order { tools: Some(vec!["fly".into()]), ..Order::default() };
    let why = refused(RunKind::AgentLoop, tools, None).await;
    assert!(why.contains("no tool `fly`"), "{why}");
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.provider = Some("nobody".into());
    queued.model = Some("x".into());
    let why = refused(RunKind::AgentLoop, Order::default(), Some(queued)).await;
    assert!(why.contains("nobody") && why.contains("play"), "{why}");
}

#[tokio::test]
async fn a_command_waits_for_leave_and_its_run_with_it() {
    let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";
    for approve in [true, false] {
        let scene = Scene::under("", policy, 8).await;
        let run = scene.call(RunKind::Shell, shell("echo hello > made")).await;
        let events = scene.until(run, "run.waiting").await;
        let path = first!(events, RunQueued).workspace_path.unwrap();
        assert!(!Path::new(&path).join("made").exists());
        scene.resolve(run, &asked_for(&events)[0], approve).await.unwrap();
        let events = scene.ended(run).await;
        assert_eq!(Path::new(&path).join("made").exists(), approve);
        if approve {
            assert_eq!(first!(events, RunFinished).final_status, "completed");
        } else {
            let cancelled = first!(events, RunCancelled);
            assert_eq!(cancelled.by, "operator");
            assert!(cancelled.reason.contains("not today"), "{}", cancelled.reason);
        }
    }
}

#[tokio::test]
async fn a_command_that_a_rule_blocks_fails() {
    let policy =
        "[[rules]]\nid = \"none\"\ntool = \"shell_exec\"\naction = \"block\"\nreason = \"no shells here\"\n";
    let scene = Scene::of(Setup { policy: policy.into(), ..Setup::default() }).await;
    let run = scene.call(RunKind::Shell, shell("echo hello")).await;
    let events = scene.ended(run).await;
    assert_eq!(course(&events), ["policy.tool_blocked", "run.failed"]);
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "blocked");
    assert!(failed.message.contains("no shells here"), "{}", failed.message);
}

#[tokio::test]
async fn a_command_that_is_cancelled_leaves_nothing_behind() {
    let scene = Scene::with("").await;
    let run = scene.call(RunKind::Shell, shell("echo $$; while true; do :; done")).await;
    let events = scene.until(run, "tool.shell.output_chunk").await;
    let pid: i32 = first!(events, ToolShellOutputChunk).data.trim().parse().unwrap();
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunCancelled).by, "operator");
    let gone = async {
        while Path::new(&format!("/proc/{pid}")).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.unwrap();
}

#[test]
fn commands_are_refused_where_none_can_run() {
    let folder = tempfile::tempdir().unwrap();
    let settings = recount_agent::Settings::new(
        recount_agent::model::Registry::default(),
        recount_agent::tools::Tools::standard(),
        recount_agent::Workspaces { home: folder.path().into(), allowed: [].into(), forbidden: [].into() },
    );
    let agent = recount_agent::Agent::new(settings, recount_world::World::real());
    for kind in [RunKind::Shell, RunKind::Git] {
        let mut new = recount_engine::NewRun {
            queued: Queued::new(kind),
            task: None,
            session: None,
            resumed_from: None,
        };
        let no = recount_engine::Performer::accept(&agent, &mut new).unwrap_err();
        assert!(no.message.contains("no sandbox works here"), "{no}");
    }
}

#[tokio::test]
async fn a_command_that_dies_by_a_signal_has_failed_and_not_completed() {
    let scene = Scene::with("").await;
    let run = scene.call(RunKind::Shell, shell("echo before; kill -TERM $$")).await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).iter().filter(|name| **name == "tool.completed").count(), 0);
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("signal"));
    assert_eq!(failed.error.as_deref(), Some("ended by SIGTERM (signal 15)"));
    let exited: Value = serde_json::from_str(
        &events.iter().find(|event| event.type_name() == "tool.shell.exited").unwrap().payload().write(),
    )
    .unwrap();
    assert_eq!((&exited["signal"], &exited["signal_number"]), (&json!("SIGTERM"), &json!(15)));
    assert_eq!(first!(events, RunFailed).code, "signal");
}

#[tokio::test]
async fn a_command_that_writes_too_much_has_failed_and_is_not_out_of_time() {
    let scene = Scene::with("").await;
    let order = Order { output_bytes_max: Some(1_000), ..shell("yes") };
    let run = scene.call(RunKind::Shell, order).await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).iter().filter(|name| **name == "tool.timed_out").count(), 0);
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("output_cap"));
    assert_eq!(first!(events, RunFailed).code, "output_cap");
}
