//! Child runs: their results, budgets and endings, and crashes meanwhile.

use recount_engine::{ListQuery, NewTask, RunConfig, RunRow};
use recount_event::{Event, RunId};
use recount_faulty_store::{Crash, CrashAt};
use recount_run::{CancelledBy, Command};

use crate::runs::scene::{Scene, Setup, approval_ids, count, first, refusals, results, types};

/// A run that delegates a part to a child, and repeats its result.
const GIVING: &str = r#"
[[scene]]
when = "the whole"
[[scene.turn]]
call = [{ name = "spawn_run", input = { prompt = "look at the part", title = "The part" } }]
usage = { input_tokens = 100, output_tokens = 10 }
[[scene.turn]]
when = "the part is fine"
text = "All is fine."
usage = { input_tokens = 200, output_tokens = 20 }
[[scene.turn]]
text = "The part went wrong."

[[scene]]
when = "the part"
[[scene.turn]]
call = [{ name = "write_file", input = { path = "part.txt", content = "seen" } }]
usage = { input_tokens = 40, output_tokens = 4 }
[[scene.turn]]
text = "I saw that the part is fine."
usage = { input_tokens = 50, output_tokens = 5 }
"#;

/// A run whose child asks a person.
const ASKING: &str = r#"
[[scene]]
when = "the whole"
[[scene.turn]]
call = [{ name = "spawn_run", input = { prompt = "ask about the part" } }]
[[scene.turn]]
text = "That is known now."

[[scene]]
when = "the part"
[[scene.turn]]
call = [{ name = "ask_user", input = { question = "Which one?" } }]
[[scene.turn]]
text = "It is blue."
"#;

fn giving() -> Setup {
    Setup { script: GIVING.to_owned(), child_runs: true, ..Setup::default() }
}

fn asking() -> Setup {
    Setup { script: ASKING.to_owned(), ..giving() }
}

/// The child of a run.
fn child_of(events: &[Event]) -> RunId {
    first!(events, ChildRunStarted).child_run_id.parse().unwrap()
}

async fn row(scene: &Scene, run: RunId) -> RunRow {
    scene.engine.catalogue().run(run).await.unwrap().unwrap()
}

async fn runs(scene: &Scene) -> usize {
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    scene.engine.catalogue().list_runs(&query).await.unwrap().items.len()
}

/// Waits until the run exists.
async fn has_started(scene: &Scene, run: RunId) {
    while scene.engine.read().tail(run).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
}

/// Answers the question of the child, unless that was done, and waits for the end of the parent.
async fn see_through(scene: &Scene, run: RunId) {
    let events = scene.until(run, "child_run.started").await;
    if count(&events, "child_run.started") > 0 {
        let child = child_of(&events);
        has_started(scene, child).await;
        let prompt_events = scene.until(child, "run.waiting").await;
        if count(&scene.all(child).await, "clarification.answered") == 0 {
            scene
                .answer(child, first!(prompt_events, ClarificationRequested).clarification_id, "\"blue\"")
                .await;
        }
    }
    scene.until(run, "no such type").await;
}

#[tokio::test]
async fn the_final_message_of_a_child_run_is_the_result_of_the_call() {
    // One place for all runs: a run that only waits does not block others.
    let scene = Scene::with_setup(Setup { at_once: 1, tools_at_once: 1, ..giving() }).await;
    let run = scene.start("the whole").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "All is fine.", "{:?}", types(&events));
    let started = first!(events, ChildRunStarted);
    assert_eq!(started.summary.as_deref(), Some("The part"));
    let invoked = first!(events, ToolInvoked);
    assert_eq!(started.tool_call_id.as_ref(), Some(&invoked.tool_call_id));
    assert_eq!(first!(events, ToolCompleted).kind.as_deref(), Some("run"));
    let child = child_of(&events);
    let child_events = scene.all(child).await;
    let queued = first!(child_events, RunQueued);
    let above = RunConfig::from_json(queued.config.as_ref()).unwrap().spawned_by.unwrap();
    assert_eq!((above.run_id, above.tool_call_id, above.depth), (run, invoked.tool_call_id, 1));
    assert_eq!(queued.workspace_path, first!(events, RunQueued).workspace_path, "they work in one folder");
    assert!(std::path::Path::new(&queued.workspace_path.unwrap()).join("part.txt").exists());
    let (whole, part) = (row(&scene, run).await, row(&scene, child).await);
    assert!(part.task_id.is_some());
    // The usage of the child is part of that of the parent.
    assert_eq!((part.input_tokens, part.output_tokens), (90, 9));
    assert_eq!((whole.input_tokens, whole.output_tokens), (390, 39));
    assert_eq!(whole.cost_micros_usd, 390 + 2 * 39);
}

#[tokio::test]
async fn without_the_setting_the_tool_does_not_exist() {
    let scene = Scene::with_setup(Setup { child_runs: false, ..giving() }).await;
    let run = scene.start("the whole").await;
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events)[0].0, "unknown_tool");
    assert_eq!((count(&events, "child_run.started"), runs(&scene).await), (0, 1));
}

#[tokio::test]
async fn a_rule_can_require_approval_for_a_child_run_or_block_it() {
    let ask = "[[rules]]\nid = \"r\"\ntool = \"spawn_run\"\naction = \"ask\"\n";
    let scene = Scene::with_setup(Setup { policy: ask.to_owned(), ..giving() }).await;
    let run = scene.start("the whole").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(approval_ids(&events).len(), 1);
    assert_eq!(runs(&scene).await, 1, "nothing is started before the yes");
    scene.decide(run, &events, true).await;
    assert_eq!(first!(scene.ended(run).await, AssistantFinalAnswer).summary, "All is fine.");
    let scene = Scene::with_setup(Setup { policy: ask.replace("\"ask\"", "\"block\""), ..giving() }).await;
    let run = scene.start("the whole").await;
    assert_eq!(count(&scene.ended(run).await, "policy.tool_blocked"), 1);
    assert_eq!(runs(&scene).await, 1);
}

#[tokio::test]
async fn a_child_run_spends_from_the_remaining_budget() {
    let scene = Scene::with_setup(giving()).await;
    let budget = NewTask { title: None, budget_micros_usd: Some(175), budget_tokens: None };
    let (task, _) = scene.engine.write().create_task_keyed(budget, None, None).await.unwrap();
    let run = scene.start_with("the whole", RunConfig::default(), Some(task.id), None).await;
    let events = scene.ended(run).await;
    let child_events = scene.all(child_of(&events)).await;
    // 100 tokens in and 10 out are 120 micro-dollars.
    assert_eq!(first!(child_events, RunQueued).task_budget_micros_usd, Some(55));
    // Its second turn exceeds the rest, which is known only at its end.
    assert_eq!(first!(child_events, RunFailed).code, "budget_exceeded");
    assert_eq!(first!(events, ToolFailed).code.as_deref(), Some("child_failed"));
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded", "nothing is left for the whole");
    assert_eq!(count(&events, "turn.started"), 1);
    assert_eq!(count(&events, "cost.budget_warning"), 1);
}

#[tokio::test]
async fn a_child_run_ends_with_its_parent() {
    let scene = Scene::with_setup(asking()).await;
    let run = scene.start("the whole").await;
    let child = child_of(&scene.until(run, "child_run.started").await);
    has_started(&scene, child).await;
    scene.until(child, "run.waiting").await;
    scene.cancel(run).await;
    let child_events = scene.ended(child).await;
    let cancelled = first!(child_events, RunCancelled);
    assert_eq!((&*cancelled.by, &*cancelled.reason), ("system", "the parent run has ended"));
    assert_eq!(first!(scene.ended(run).await, RunCancelled).by, "operator");
}

#[tokio::test]
async fn a_child_run_stops_when_its_parent_ended_with_the_process() {
    let mut scene = Scene::with_setup(asking()).await;
    let run = scene.start("the whole").await;
    let child = child_of(&scene.until(run, "child_run.started").await);
    has_started(&scene, child).await;
    let prompt_events = scene.until(child, "run.waiting").await;
    // The process dies with the ending of the parent, before it can end the child.
    scene.disk.crash_at(Crash { at: CrashAt::Type("run.cancelled"), kept: true });
    let cancel = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
    tokio::select! {
        () = scene.disk.crashed() => {}
        cancelled = scene.engine.write().submit(run, cancel) => panic!("the question is unanswered: {cancelled:?}"),
    }
    scene.restart().await;
    scene.answer(child, first!(prompt_events, ClarificationRequested).clarification_id, "\"blue\"").await;
    let child_events = scene.ended(child).await;
    assert_eq!(first!(child_events, RunCancelled).reason, "the parent run has ended");
    assert_eq!(count(&child_events, "turn.started"), 1);
}

#[tokio::test]
async fn a_crash_starts_no_second_child_run() {
    let deaths = [
        ("child_run.started", true),
        ("child_run.started", false),
        // The first event of the child run.
        ("run.queued", true),
        ("run.queued", false),
        ("clarification.requested", true),
        ("assistant.final_answer", true),
        ("tool.completed", false),
    ];
    for (at, kept) in deaths {
        let what = format!("{at}, {kept}");
        let mut scene = Scene::with_setup(asking()).await;
        let run = scene.start("the whole").await;
        scene.disk.crash_at(Crash { at: CrashAt::Type(at), kept });
        tokio::select! {
            () = scene.disk.crashed() => {}
            () = see_through(&scene, run) => panic!("{what}: the process did not die"),
        }
        scene.restart().await;
        see_through(&scene, run).await;
        let events = scene.ended(run).await;
        assert_eq!(types(&events).last(), Some(&"run.finished"), "{what}");
        if count(&events, "child_run.started") == 0 {
            // Nothing was recorded before the crash, so the call is over.
            assert_eq!((at, kept, runs(&scene).await), ("child_run.started", false, 1));
            assert_eq!(first!(events, ToolFailed).code.as_deref(), Some("interrupted"));
            continue;
        }
        assert_eq!(count(&events, "gap.run_disconnected"), 1, "{what}");
        assert_eq!((count(&events, "child_run.started"), runs(&scene).await), (1, 2), "{what}");
        assert_eq!(results(&events), [("It is blue.".to_owned(), false)], "{what}");
        assert_eq!(first!(events, AssistantFinalAnswer).summary, "That is known now.", "{what}");
    }
}

#[tokio::test]
async fn child_runs_have_a_maximum_depth_and_a_subset_of_the_tools() {
    let script = r#"
[[scene]]
when = "deeper"
[[scene.turn]]
call = [{ name = "spawn_run", input = { prompt = "deeper" } }]
[[scene.turn]]
text = "Back."

[[scene]]
when = "others"
[[scene.turn]]
call = [{ name = "spawn_run", input = { prompt = "with tools", tools = ["shell_exec"] } }]
[[scene.turn]]
text = "Without."
"#;
    let scene = Scene::with_setup(Setup { script: script.to_owned(), ..giving() }).await;
    let mut run = scene.start("deeper").await;
    assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.finished"));
    for _ in 0..recount_agent::limits::CHILD_RUN_DEPTH_MAX {
        run = child_of(&scene.all(run).await);
    }
    let deepest = scene.all(run).await;
    assert_eq!((count(&deepest, "child_run.started"), refusals(&deepest)[0].0.as_str()), (0, "unavailable"));
    let order = RunConfig { tools: Some(vec!["spawn_run".into(), "grep".into()]), ..RunConfig::default() };
    let run = scene.start_with("others", order, None, None).await;
    let events = scene.ended(run).await;
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("child_refused"));
    assert!(failed.error.unwrap().contains("the tool \"shell_exec\" is not available in this run"));
    assert_eq!(count(&events, "child_run.started"), 0);
}
