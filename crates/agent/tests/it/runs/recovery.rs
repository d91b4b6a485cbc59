//! Recovery of runs after the process ended in the middle of them.

use std::sync::atomic::Ordering;

use recount_engine::RunConfig;

use crate::runs::scene::{Scene, count, first, model_run, refusals, results, types};

#[tokio::test]
async fn an_interrupted_turn_starts_again() {
    let script =
        "[[turn]]\npace = { tokens_per_second = 40 }\ntext = 'a b c d e f g h i j k l m n o p q r s t'";
    let mut scene = Scene::with(script).await;
    let run = scene.start("go").await;
    scene.until(run, "assistant.text_delta").await;
    scene.restart().await;
    let events = scene.ended(run).await;
    let lost = first!(events, GapRunDisconnected);
    assert_eq!(lost.reason, "server_restarted");
    let failed = first!(events, TurnFailed);
    assert_eq!((failed.code.as_str(), failed.will_retry), ("interrupted", true));
    assert_eq!(events.last().unwrap().type_name(), "run.finished", "{:?}", types(&events));
    assert_eq!(types(&events).iter().filter(|name| **name == "run.started").count(), 2);
    let answer = first!(events, AssistantFinalAnswer).summary;
    assert_eq!(answer, "a b c d e f g h i j k l m n o p q r s t");
}

#[tokio::test]
async fn a_queued_run_is_started_by_the_next_process() {
    let script =
        "[[turn]]\npace = { tokens_per_second = 10 }\ntext = 'a b c d e f g h i j k l m n o p q r s t'";
    let mut scene = Scene::with_policy(script, "", 1).await;
    let first = scene.start("go").await;
    scene.until(first, "assistant.text_delta").await;
    let second = scene.start("go").await;
    scene.until(second, "run.throttled").await;
    scene.cancel(first).await;
    scene.restart().await;
    scene.until(second, "assistant.text_delta").await;
    scene.cancel(second).await;
    assert_eq!(scene.ended(second).await.last().unwrap().type_name(), "run.cancelled");
}

#[tokio::test]
async fn an_interrupted_call_is_not_repeated_and_reported_to_the_model() {
    let script = "[[turn]]\ncall = [{ name = 'hangs', input = {} }]\n[[turn]]\ntext = 'I see.'";
    let mut scene = Scene::with(script).await;
    let run = scene.start("go").await;
    scene.until(run, "tool.started").await;
    scene.restart().await;
    let events = scene.ended(run).await;
    assert!(scene.toys.hangs.load(Ordering::SeqCst) <= 1);
    assert_eq!(refusals(&events)[0].0, "interrupted");
    assert!(results(&events)[0].1);
    assert_eq!(count(&events, "tool.invoked"), 1);
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn a_running_command_is_recorded_as_interrupted() {
    let script = r#"
[[turn]]
call = [{ name = "shell_exec", input = { command = "echo once >> log; while true; do :; done" } }]
[[turn]]
text = "I see."
"#;
    let mut scene = Scene::with(script).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "tool.shell.command").await;
    let log = std::path::PathBuf::from(first!(events, RunQueued).workspace_path.unwrap()).join("log");
    let written = async {
        // The file exists before it is written.
        while std::fs::read_to_string(&log).unwrap_or_default() != "once\n" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), written).await.unwrap();
    scene.restart().await;
    let events = scene.ended(run).await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "once\n");
    assert_eq!(refusals(&events)[0].0, "interrupted");
    assert_eq!(first!(events, GapRunDisconnected).reason, "server_restarted");
}

#[tokio::test]
async fn a_panic_in_a_tool_costs_one_worker() {
    let script = "[[turn]]\ncall = [{ name = 'panics', input = { times = 1 } }]\n[[turn]]\ntext = 'I see.'";
    let scene = Scene::with(script).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, GapRunDisconnected).reason, "worker_lost");
    assert_eq!(refusals(&events)[0].0, "interrupted");
    assert_eq!(scene.toys.panics.load(Ordering::SeqCst), 1);
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn a_run_that_kills_every_worker_fails() {
    let scene = Scene::with("").await;
    let mut queued = model_run("go");
    (queued.provider, queued.model) = (Some("broken".into()), Some("x".into()));
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("worker_lost", true));
    assert_eq!(count(&events, "gap.run_disconnected"), 3);
}
