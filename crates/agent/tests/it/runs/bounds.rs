//! What is bounded is what costs: tools that run at once, and runs with processes of MCP servers. Runs that wait for
//! their model take no place.

use recount_engine::Order;
use recount_event::family::run::RunKind;

use crate::runs::scene::{Scene, Setup, count, first, refusals, types};

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

/// One run of these has the server at a time.
fn one_with_server(script: &str) -> Setup {
    let server = env!("CARGO_BIN_EXE_recount-toy-mcp");
    let mcp = format!("[servers.toy]\ncommand = ['{server}', 'old']\napproval = 'auto'\n");
    Setup { script: script.to_owned(), mcp, mcp_at_once: 1, at_once: 2, ..Setup::default() }
}

#[tokio::test]
async fn a_run_with_a_server_beyond_the_bound_waits_says_so_and_goes_on_in_its_turn() {
    let scene = Scene::of(one_with_server(
        "[[scene]]\nwhen = \"hang\"\n[[scene.turn]]\ncall = [{ name = \"mcp__toy__hang\", input = {} }]\n\
         [[scene]]\nwhen = \"hello\"\n[[scene.turn]]\ntext = \"Hello.\"\n",
    ))
    .await;
    let running = scene.ask("hang").await;
    scene.until(running, "tool.started").await;
    let waiting = scene.ask("hello").await;
    let events = scene.until(waiting, "run.throttled").await;
    let throttled = first!(events, RunThrottled);
    assert_eq!((throttled.reason.as_str(), throttled.place), ("mcp_at_once", 1));
    assert_eq!((count(&events, "workspace.provisioned"), count(&events, "turn.started")), (0, 0));

    // A run that may use no server is not held up by them, however few runs may be at work.
    let talks =
        scene.ask_for("hello", Order { tools: Some(Vec::new()), ..Order::default() }, None, None).await;
    assert_eq!(count(&scene.ended(talks).await, "run.throttled"), 0);

    // One that is given up leaves the queue.
    let given_up = scene.ask("hello").await;
    assert_eq!(first!(scene.until(given_up, "run.throttled").await, RunThrottled).place, 2);
    scene.cancel(given_up).await;
    assert_eq!(count(&scene.ended(given_up).await, "turn.started"), 0);
    let next = scene.ask("hello").await;
    assert_eq!(first!(scene.until(next, "run.throttled").await, RunThrottled).place, 2);

    scene.cancel(running).await;
    for run in [waiting, next] {
        let events = scene.ended(run).await;
        assert_eq!(types(&events).last(), Some(&"run.finished"));
        assert_eq!((count(&events, "workspace.provisioned"), count(&events, "run.throttled")), (1, 1));
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_leaves_its_place_to_others() {
    let scene = Scene::of(one_with_server(
        "[[scene]]\nwhen = \"ask\"\n[[scene.turn]]\ncall = [{ name = \"ask_user\", input = { question = \"Which?\" } }]\n\
         [[scene.turn]]\ncall = [{ name = \"mcp__toy__echo\", input = { text = \"after all\" } }]\n\
         [[scene.turn]]\ntext = \"Done.\"\n\
         [[scene]]\nwhen = \"hello\"\n[[scene.turn]]\ntext = \"Hello.\"\n",
    ))
    .await;
    let asks = scene.ask("ask").await;
    let asked = scene.until(asks, "run.waiting").await;
    let other = scene.ask("hello").await;
    assert_eq!(types(&scene.ended(other).await).last(), Some(&"run.finished"));
    scene.answer(asks, first!(asked, ClarificationRequested).clarification_id, "\"blue\"").await;
    let events = scene.ended(asks).await;
    assert_eq!((count(&events, "tool.completed"), types(&events).last()), (2, Some(&"run.finished")));
}

#[tokio::test]
async fn a_run_that_waits_for_the_one_it_started_leaves_its_place_to_it() {
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
    let scene = Scene::of(Setup { child_runs: true, ..setup }).await;
    let run = scene.ask("the whole").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "All is fine.", "{:?}", types(&events));
    let child = first!(events, ChildRunStarted).child_run_id.parse().unwrap();
    assert_eq!(count(&events, "tool.completed"), 4, "{:?}", refusals(&events));
    let told = scene.all(child).await;
    assert_eq!((count(&told, "tool.completed"), count(&told, "run.throttled")), (1, 0));
}
