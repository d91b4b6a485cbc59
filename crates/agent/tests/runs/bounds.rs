//! What is bounded is what costs: tools that run at once. Runs that wait for their model take no place.

use recount_engine::Order;
use recount_event::family::run::RunKind;

use crate::scene::{Scene, Setup, count, first, types};

/// A command that says that it runs, and then runs until it is broken off.
const LONG: &str = "echo here; sleep 600";

fn shell() -> Order {
    Order { command: Some(LONG.into()), ..Order::default() }
}

#[tokio::test]
async fn a_tool_beyond_the_bound_waits_says_so_and_runs_in_its_turn() {
    let script = "[[turn]]\ntext = \"Hello.\"\n".to_owned();
    let scene = Scene::of(Setup { script, tools_at_once: 1, ..Setup::default() }).await;
    let running = scene.call(RunKind::Shell, shell()).await;
    scene.until(running, "tool.shell.output_chunk").await;
    let waiting = scene.call(RunKind::Shell, shell()).await;
    let events = scene.until(waiting, "run.throttled").await;
    let throttled = first!(events, RunThrottled);
    assert_eq!((throttled.reason.as_str(), throttled.place), ("tools_at_once", 1));
    assert_eq!(count(&events, "tool.shell.command"), 0);

    // A run without a tool is not held up by them.
    let talks = scene.ask("hello").await;
    assert_eq!(types(&scene.ended(talks).await).last(), Some(&"run.finished"));

    // One that is given up leaves the queue, and the next comes in its place.
    let given_up = scene.call(RunKind::Shell, shell()).await;
    let events = scene.until(given_up, "run.throttled").await;
    assert_eq!(first!(events, RunThrottled).place, 2);
    scene.cancel(given_up).await;
    let events = scene.ended(given_up).await;
    assert_eq!(count(&events, "tool.shell.command"), 0, "{:?}", types(&events));
    let error = first!(events, ToolCancelled).error.unwrap();
    assert_eq!(error, "cancelled (enough): the call was announced and had not started, so it had no effect");

    scene.cancel(running).await;
    scene.until(waiting, "tool.shell.output_chunk").await;
    scene.cancel(waiting).await;
    for run in [running, waiting] {
        assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.cancelled"));
    }
}
