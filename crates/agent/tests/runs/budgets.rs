//! What tasks may cost: over turns, over runs, and raised while a run goes on.

use recount_engine::{NewTask, Order, Raise};
use recount_event::{Event, Payload, TaskId};

use crate::scene::{Scene, count, first, refusals, types};

/// Each turn costs 1020 millionths of a dollar, and 1010 tokens.
const WORKING: &str = r#"
[[turn]]
text = "Working."
usage = { input_tokens = 1000, output_tokens = 10 }
call = [{ name = "glob", input = { pattern = "*" } }]
[[turn]]
usage = { input_tokens = 1000, output_tokens = 10 }
text = "Still."
call = [{ name = "ask_user", input = { question = "Go on?" } }]
[[turn]]
usage = { input_tokens = 1000, output_tokens = 10 }
text = "Done."
"#;

async fn task(scene: &Scene, budget_micros_usd: Option<u64>, budget_tokens: Option<u64>) -> TaskId {
    let new = NewTask { title: None, budget_micros_usd, budget_tokens };
    scene.engine.create_task_once(new, None, None).await.unwrap().0.id.parse().unwrap()
}

fn ticks(events: &[Event]) -> Vec<(u64, Option<u64>)> {
    let tick = |event: &Event| match event.payload() {
        Payload::CostTick(tick) => Some((
            tick.cumulative_cost_micros_usd,
            tick.task_budget_remaining_micros_usd.or(tick.task_budget_remaining_tokens),
        )),
        _ => None,
    };
    events.iter().filter_map(tick).collect()
}

#[tokio::test]
async fn a_warning_is_given_once() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, Some(3_500), None).await;
    let run = scene.ask_for("go", Order::default(), Some(task), None).await;
    let events = scene.nod(run).await;
    assert_eq!(ticks(&events), [(1_020, Some(2_480)), (2_040, Some(1_460)), (3_060, Some(440))]);
    assert_eq!(count(&events, "cost.budget_warning"), 1);
    assert_eq!(first!(events, CostBudgetWarning).cumulative_cost_micros_usd, 3_060);
    assert_eq!(first!(events, RunFinished).cost_micros_usd, Some(3_060));
}

#[tokio::test]
async fn what_is_open_when_the_money_is_gone_is_refused() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, Some(2_000), None).await;
    let run = scene.ask_for("go", Order::default(), Some(task), None).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, CostBudgetExceeded).cumulative_cost_micros_usd, 2_040);
    assert_eq!(refusals(&events)[0].0, "budget");
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.turns), ("budget_exceeded", Some(2)));
    assert_eq!(count(&events, "clarification.requested"), 0);
    assert_eq!(count(&events, "cost.budget_warning"), 1);
}

#[tokio::test]
async fn tokens_are_counted_like_money() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, None, Some(2_000)).await;
    let run = scene.ask_for("go", Order::default(), Some(task), None).await;
    let events = scene.ended(run).await;
    assert_eq!(ticks(&events), [(1_020, Some(990)), (2_040, Some(0))]);
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded");
}

#[tokio::test]
async fn a_budget_is_raised_while_its_run_goes_on() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, Some(2_100), None).await;
    let run = scene.ask_for("go", Order::default(), Some(task), None).await;
    let events = scene.until(run, "run.waiting").await;
    let asked = first!(events, ClarificationRequested).clarification_id;
    let raise = Raise { budget_micros_usd: Some(10_000), ..Raise::default() };
    scene.engine.change_task(task, raise).await.unwrap();
    scene.answer(run, asked, "\"yes\"").await;
    let events = scene.ended(run).await;
    assert_eq!(ticks(&events).last(), Some(&(3_060, Some(6_940))));
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn what_one_run_has_used_is_gone_for_the_next() {
    let script = "[[turn]]\nusage = { input_tokens = 1000, output_tokens = 10 }\ntext = 'Done.'";
    let scene = Scene::with(script).await;
    let task = task(&scene, Some(2_400), None).await;
    let first_run = scene.ask_for("one", Order::default(), Some(task), None).await;
    let events = scene.ended(first_run).await;
    assert_eq!(count(&events, "cost.budget_warning"), 0);
    let second = scene.ask_for("two", Order::default(), Some(task), None).await;
    let events = scene.ended(second).await;
    let queued = first!(events, RunQueued);
    assert_eq!(queued.prior_run_id.as_deref(), Some(first_run.to_string().as_str()));
    assert_eq!(queued.prior_cost_micros_usd, Some(1_020));
    assert_eq!((queued.prior_input_tokens, queued.prior_output_tokens), (Some(1_000), Some(10)));
    assert_eq!(ticks(&events), [(2_040, Some(360))]);
    assert_eq!(count(&events, "cost.budget_warning"), 1);
    // The third is told that it was warned of, and so it is not again; and it is the last.
    let third = scene.ask_for("three", Order::default(), Some(task), None).await;
    let events = scene.ended(third).await;
    assert_eq!(first!(events, RunQueued).budget_warned, Some(true));
    assert_eq!(count(&events, "cost.budget_warning"), 0);
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    let fourth = scene.ask_for("four", Order::default(), Some(task), None).await;
    let events = scene.ended(fourth).await;
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded");
    assert_eq!(count(&events, "turn.started"), 0);
}
