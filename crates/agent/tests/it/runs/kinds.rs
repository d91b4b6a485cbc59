//! Runs that are one call: of the shell, of git, or of a file tool.

use std::path::Path;

use recount_engine::{FileCall, RunConfig};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Json, Payload};
use serde_json::{Value, json};

use crate::runs::scene::{Scene, Setup, approval_ids, course, first, model_run, types};
use crate::runs::tools::git;

fn shell(command: &str) -> RunConfig {
    RunConfig { command: Some(command.into()), ..RunConfig::default() }
}

fn file(tool: &str, input: Value) -> RunConfig {
    let input = Json::parse(&input.to_string()).unwrap();
    RunConfig { file: Some(FileCall { tool: tool.into(), input }), ..RunConfig::default() }
}

#[tokio::test]
async fn a_shell_run_executes_its_command() {
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
async fn the_status_of_the_call_is_the_status_of_its_run() {
    let scene = Scene::with("").await;
    scene.put("a.txt", "one\n");
    git(&scene, &["init", "--quiet"]);
    let args = |words: &[&str]| RunConfig {
        args: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        ..RunConfig::default()
    };
    let brief = |command: &str| RunConfig { timeout_seconds: Some(1), ..shell(command) };
    let narrow = |command: &str| RunConfig { output_bytes_max: Some(1_000), ..shell(command) };
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
        let description = format!("{order:?}");
        let run = scene.call(kind, order).await;
        let events = scene.ended(run).await;
        match (events.last().unwrap().payload(), ending) {
            (Payload::RunFinished(end), None) => assert_eq!(end.final_status, "completed"),
            (Payload::RunFailed(end), Some((code, retriable))) => {
                assert_eq!(
                    (end.code.as_str(), end.retriable),
                    (code, retriable),
                    "{description}: {}",
                    end.message
                );
                assert_eq!(end.by.as_deref(), Some("system"));
            }
            (end, expected) => panic!("{description}: {end:?} and not {expected:?}"),
        }
        assert!(types(&events).iter().all(|name| !name.starts_with("turn.")));
    }
}

#[tokio::test]
async fn impossible_requests_are_refused_before_a_run_is_created() {
    let scene = Scene::with("").await;
    let refused = async |kind: RunKind, order: RunConfig, queued: Option<Queued>| {
        let queued = queued.unwrap_or_else(|| Queued::new(kind));
        scene.try_queue(queued, order, None, None).await.unwrap_err().to_string()
    };
    let why = refused(RunKind::File, file("shell_exec", json!({ "command": "ls" })), None).await;
    assert!(why.contains("is not a file tool"), "{why}");
    let why = refused(RunKind::File, file("read_file", json!({ "file": "a" })), None).await;
    assert!(why.contains("is not valid for read_file"), "{why}");
    let tools = RunConfig { tools: Some(vec!["fly".into()]), ..RunConfig::default() };
    let why = refused(RunKind::AgentLoop, tools, None).await;
    assert!(why.contains("unknown tool `fly`"), "{why}");
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.provider = Some("nobody".into());
    queued.model = Some("x".into());
    let why = refused(RunKind::AgentLoop, RunConfig::default(), Some(queued)).await;
    assert!(why.contains("nobody") && why.contains("play"), "{why}");
}

/// The part before the first slash names the provider, so a typing error in it never sends the run to another one.
#[tokio::test]
async fn a_model_of_an_unknown_provider_is_refused_with_the_known_ones() {
    let scene = Scene::with("").await;
    for model in ["nope/x", "nope/play/it", "Play/it", "/it", "nope/"] {
        let queued = Queued { model: Some(model.into()), ..model_run("hello") };
        let why = scene.try_queue(queued, RunConfig::default(), None, None).await.map(|_| model).unwrap_err();
        let why = why.to_string();
        assert!(
            why.contains(&format!("{model:?}"))
                && why.contains("configured providers: ")
                && why.contains("play"),
            "{why}"
        );
    }
    for model in ["play/it", "play/nope/x", "it"] {
        let queued = Queued { model: Some(model.into()), ..model_run("hello") };
        scene.try_queue(queued, RunConfig::default(), None, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_shell_run_waits_for_approval() {
    let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";
    for approve in [true, false] {
        let scene = Scene::with_policy("", policy, 8).await;
        let run = scene.call(RunKind::Shell, shell("echo hello > made")).await;
        let events = scene.until(run, "run.waiting").await;
        let path = first!(events, RunQueued).workspace_path.unwrap();
        assert!(!Path::new(&path).join("made").exists());
        scene.resolve(run, &approval_ids(&events)[0], approve).await.unwrap();
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
async fn a_blocked_command_fails_its_run() {
    let policy =
        "[[rules]]\nid = \"none\"\ntool = \"shell_exec\"\naction = \"block\"\nreason = \"no shells here\"\n";
    let scene = Scene::with_setup(Setup { policy: policy.into(), ..Setup::default() }).await;
    let run = scene.call(RunKind::Shell, shell("echo hello")).await;
    let events = scene.ended(run).await;
    assert_eq!(course(&events), ["policy.tool_blocked", "run.failed"]);
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "blocked");
    assert!(failed.message.contains("no shells here"), "{}", failed.message);
}

#[tokio::test]
async fn a_cancelled_command_leaves_no_processes() {
    let scene = Scene::with("").await;
    let run = scene.call(RunKind::Shell, shell("echo $$; while true; do :; done")).await;
    let events = scene.until(run, "tool.shell.output_chunk").await;
    let pid: i32 = first!(events, ToolShellOutputChunk).data.trim().parse().unwrap();
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunCancelled).by, "operator");
    let exited = async {
        while Path::new(&format!("/proc/{pid}")).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), exited).await.unwrap();
}

#[test]
fn commands_are_refused_without_a_sandbox() {
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
        assert!(no.message.contains("no sandbox works on this machine"), "{no}");
    }
}

#[tokio::test]
async fn a_command_killed_by_a_signal_fails() {
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
async fn a_command_that_exceeds_the_output_limit_fails_without_a_timeout() {
    let scene = Scene::with("").await;
    let order = RunConfig { output_bytes_max: Some(1_000), ..shell("yes") };
    let run = scene.call(RunKind::Shell, order).await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).iter().filter(|name| **name == "tool.timed_out").count(), 0);
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("output_cap"));
    assert_eq!(first!(events, RunFailed).code, "output_cap");
}
