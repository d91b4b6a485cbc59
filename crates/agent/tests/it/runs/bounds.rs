//! Concurrency limits: built-in tools that run at once, and runs with MCP server processes. Runs that wait for their
//! model need no place.

use recount_engine::RunConfig;
use recount_event::family::run::RunKind;

use crate::runs::scene::{Scene, Setup, count, first, refusals, types};

/// A command that reports its start and then runs until it is cancelled.
const LONG: &str = "echo here; sleep 600";

fn shell() -> RunConfig {
    RunConfig { command: Some(LONG.into()), ..RunConfig::default() }
}

#[tokio::test]
async fn a_tool_beyond_the_limit_waits_in_the_queue_and_reports_it() {
    let script = "[[turn]]\ntext = \"Hello.\"\n".to_owned();
    let scene = Scene::with_setup(Setup { script, tools_at_once: 1, ..Setup::default() }).await;
    let running = scene.call(RunKind::Shell, shell()).await;
    scene.until(running, "tool.shell.output_chunk").await;
    let waiting = scene.call(RunKind::Shell, shell()).await;
    let events = scene.until(waiting, "run.throttled").await;
    let throttled = first!(events, RunThrottled);
    assert_eq!((throttled.reason.as_str(), throttled.place), ("tools_at_once", 1));
    assert_eq!(count(&events, "tool.shell.command"), 0);

    // A run without a tool is not delayed.
    let talks = scene.start("hello").await;
    assert_eq!(types(&scene.ended(talks).await).last(), Some(&"run.finished"));

    // A cancelled run leaves the queue, and the next one takes its position.
    let given_up = scene.call(RunKind::Shell, shell()).await;
    let events = scene.until(given_up, "run.throttled").await;
    assert_eq!(first!(events, RunThrottled).place, 2);
    scene.cancel(given_up).await;
    let events = scene.ended(given_up).await;
    assert_eq!(count(&events, "tool.shell.command"), 0, "{:?}", types(&events));
    let error = first!(events, ToolCancelled).error.unwrap();
    assert_eq!(error, "cancelled (enough): the call had not started, so it had no effect");

    scene.cancel(running).await;
    scene.until(waiting, "tool.shell.output_chunk").await;
    scene.cancel(waiting).await;
    for run in [running, waiting] {
        assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.cancelled"));
    }
}

/// Only one run at a time can use the server.
fn one_with_server(script: &str) -> Setup {
    let server = env!("CARGO_BIN_EXE_recount-toy-mcp");
    let mcp = format!("[servers.toy]\ncommand = ['{server}', 'old']\napproval = 'auto'\n");
    Setup { script: script.to_owned(), mcp, mcp_at_once: 1, at_once: 2, ..Setup::default() }
}

#[tokio::test]
async fn a_server_beyond_the_limit_waits_in_the_queue_and_reports_it() {
    let scene = Scene::with_setup(one_with_server(
        "[[scene]]\nwhen = \"hang\"\n[[scene.turn]]\ncall = [{ name = \"mcp__toy__hang\", input = {} }]\n\
         [[scene]]\nwhen = \"hello\"\n[[scene.turn]]\ntext = \"Hello.\"\n",
    ))
    .await;
    let running = scene.start("hang").await;
    scene.until(running, "tool.started").await;
    let waiting = scene.start("hello").await;
    let events = scene.until(waiting, "run.throttled").await;
    let throttled = first!(events, RunThrottled);
    assert_eq!((throttled.reason.as_str(), throttled.place), ("mcp_at_once", 1));
    assert_eq!((count(&events, "workspace.provisioned"), count(&events, "turn.started")), (0, 0));

    // A run that may use no server is not delayed, however few runs may be active.
    let talks = scene
        .start_with("hello", RunConfig { tools: Some(Vec::new()), ..RunConfig::default() }, None, None)
        .await;
    assert_eq!(count(&scene.ended(talks).await, "run.throttled"), 0);

    // A cancelled run leaves the queue.
    let given_up = scene.start("hello").await;
    assert_eq!(first!(scene.until(given_up, "run.throttled").await, RunThrottled).place, 2);
    scene.cancel(given_up).await;
    assert_eq!(count(&scene.ended(given_up).await, "turn.started"), 0);
    let next = scene.start("hello").await;
    assert_eq!(first!(scene.until(next, "run.throttled").await, RunThrottled).place, 2);

    scene.cancel(running).await;
    for run in [waiting, next] {
        let events = scene.ended(run).await;
        assert_eq!(types(&events).last(), Some(&"run.finished"));
        assert_eq!((count(&events, "workspace.provisioned"), count(&events, "run.throttled")), (1, 1));
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_frees_its_place() {
    let scene = Scene::with_setup(one_with_server(
        "[[scene]]\nwhen = \"ask\"\n[[scene.turn]]\ncall = [{ name = \"ask_user\", input = { question = \"Which?\" } }]\n\
         [[scene.turn]]\ncall = [{ name = \"mcp__toy__echo\", input = { text = \"after all\" } }]\n\
         [[scene.turn]]\ntext = \"Done.\"\n\
         [[scene]]\nwhen = \"hello\"\n[[scene.turn]]\ntext = \"Hello.\"\n",
    ))
    .await;
    let asks = scene.start("ask").await;
    let prompt_events = scene.until(asks, "run.waiting").await;
    let other = scene.start("hello").await;
    assert_eq!(types(&scene.ended(other).await).last(), Some(&"run.finished"));
    scene.answer(asks, first!(prompt_events, ClarificationRequested).clarification_id, "\"blue\"").await;
    let events = scene.ended(asks).await;
    assert_eq!((count(&events, "tool.completed"), types(&events).last()), (2, Some(&"run.finished")));
}

#[tokio::test]
async fn a_run_that_waits_for_its_child_frees_its_place() {
    let setup = one_with_server(
        "[[scene]]\nwhen = \"the whole\"\n\
         [[scene.turn]]\ncall = [{ name = \"mcp__toy__echo\", input = { text = \"before\" } }]\n\
         [[scene.turn]]\ncall = [{ name = \"spawn_run\", input = { prompt = \"the part\" } }, \
         { name = \"spawn_run\", input = { prompt = \"the part\", tools = [\"mcp__toy__echo\"] } }]\n\
         [[scene.turn]]\ncall = [{ name = \"mcp__toy__echo\", input = { text = \"after\" } }]\n\
         [[scene.turn]]\ntext = \"All is fine.\"\n\
         [[scene]]\nwhen = \"the part\"\n\
         [[scene.turn]]\ncall = [{ name = \"mcp__toy__echo\", input = { text = \"within\" } }]\n\
         [[scene.turn]]\ntext = \"Seen.\"\n",
    );
    let scene = Scene::with_setup(Setup { child_runs: true, ..setup }).await;
    let run = scene.start("the whole").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "All is fine.", "{:?}", types(&events));
    let child = first!(events, ChildRunStarted).child_run_id.parse().unwrap();
    assert_eq!(count(&events, "tool.completed"), 4, "{:?}", refusals(&events));
    let child_events = scene.all(child).await;
    assert_eq!((count(&child_events, "tool.completed"), count(&child_events, "run.throttled")), (1, 0));
}
