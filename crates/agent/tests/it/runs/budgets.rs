//! Budgets of tasks: over turns, over runs, and raised during a run.

use recount_engine::{NewTask, RunConfig, TaskChange};
use recount_event::{Event, Payload, TaskId};
use recount_playback::{Api, End, RecordedResponse};

use crate::runs::hostile::{answer, playing};
use crate::runs::scene::{Scene, count, first, model_run, refusals, types};

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
    scene.engine.write().create_task_keyed(new, None, None).await.unwrap().0.id
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
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    let events = scene.approve_all(run).await;
    assert_eq!(ticks(&events), [(1_020, Some(2_480)), (2_040, Some(1_460)), (3_060, Some(440))]);
    assert_eq!(count(&events, "cost.budget_warning"), 1);
    assert_eq!(first!(events, CostBudgetWarning).cumulative_cost_micros_usd, 3_060);
    assert_eq!(first!(events, RunFinished).cost_micros_usd, Some(3_060));
}

#[tokio::test]
async fn open_calls_are_refused_when_the_budget_is_exhausted() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, Some(2_000), None).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, CostBudgetExceeded).cumulative_cost_micros_usd, 2_040);
    assert_eq!(refusals(&events)[0].0, "budget");
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.turns), ("budget_exceeded", Some(2)));
    assert_eq!(count(&events, "clarification.requested"), 0);
    assert_eq!(count(&events, "cost.budget_warning"), 0);
}

#[tokio::test]
async fn tokens_are_counted_like_money() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, None, Some(2_000)).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(run).await;
    assert_eq!(ticks(&events), [(1_020, Some(990)), (2_040, Some(0))]);
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded");
}

#[tokio::test]
async fn a_budget_is_raised_while_its_run_goes_on() {
    let scene = Scene::with(WORKING).await;
    let task = task(&scene, Some(2_100), None).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    let events = scene.until(run, "run.waiting").await;
    let clarification_id = first!(events, ClarificationRequested).clarification_id;
    let raise = TaskChange { budget_micros_usd: Some(10_000), ..TaskChange::default() };
    scene.engine.write().change_task(task, raise).await.unwrap();
    scene.answer(run, clarification_id, "\"yes\"").await;
    let events = scene.ended(run).await;
    assert_eq!(ticks(&events).last(), Some(&(3_060, Some(6_940))));
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn runs_of_a_task_share_its_budget() {
    let script = "[[turn]]\nusage = { input_tokens = 1000, output_tokens = 10 }\ntext = 'Done.'";
    let scene = Scene::with(script).await;
    let task = task(&scene, Some(2_400), None).await;
    let first_run = scene.start_with("one", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(first_run).await;
    assert_eq!(count(&events, "cost.budget_warning"), 0);
    let second = scene.start_with("two", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(second).await;
    let queued = first!(events, RunQueued);
    assert_eq!(queued.prior_run_id.as_deref(), Some(first_run.to_string().as_str()));
    assert_eq!(queued.prior_cost_micros_usd, Some(1_020));
    assert_eq!((queued.prior_input_tokens, queued.prior_output_tokens), (Some(1_000), Some(10)));
    assert_eq!(ticks(&events), [(2_040, Some(360))]);
    assert_eq!(count(&events, "cost.budget_warning"), 1);
    // The third run knows that the warning was given and gives none, and it exceeds the rest of the budget.
    let third = scene.start_with("three", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(third).await;
    assert_eq!(first!(events, RunQueued).budget_warned, Some(true));
    assert_eq!(count(&events, "cost.budget_warning"), 0);
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded");
    let fourth = scene.start_with("four", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(fourth).await;
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded");
    assert_eq!(count(&events, "turn.started"), 0);
}

#[tokio::test]
async fn a_last_turn_that_exceeds_the_budget_ends_as_budget_exceeded() {
    let script = "[[turn]]\nusage = { input_tokens = 1000, output_tokens = 10 }\ntext = 'Done.'";
    for (micros_usd, tokens) in [(Some(1_000), None), (None, Some(1_000))] {
        let scene = Scene::with(script).await;
        let task = task(&scene, micros_usd, tokens).await;
        let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
        let events = scene.ended(run).await;
        assert_eq!((count(&events, "cost.budget_warning"), count(&events, "cost.budget_exceeded")), (0, 1));
        let failed = first!(events, RunFailed);
        assert_eq!(
            (failed.code.as_str(), failed.turns, failed.cost_micros_usd),
            ("budget_exceeded", Some(1), Some(1_020))
        );
        // The turn is in the log, whatever it cost.
        assert_eq!(count(&events, "assistant.text_complete"), 1);
    }
    // Using exactly the rest of the budget does not exceed it.
    let scene = Scene::with(script).await;
    let task = task(&scene, Some(1_020), None).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "cost.budget_warning"), types(&events).last()), (1, Some(&"run.finished")));
}

const PRICED: &str =
    "[[prices]]\nmodel = 'real/*'\ninput_micros_usd = 1_000_000\noutput_micros_usd = 1_000_000\n";

const STARTED: &str = r#"data: {"type": "message_start", "message": {"usage": {"input_tokens": 700, "output_tokens": 1}}}

data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good "}}

"#;

const ENDED: &str = r#"data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50}}

data: {"type": "message_stop"}

"#;

fn cut() -> RecordedResponse {
    RecordedResponse { end: End::Cut, pause_ms: 20, ..answer(STARTED.to_owned()) }
}

fn whole() -> RecordedResponse {
    answer(format!("{STARTED}{ENDED}"))
}

#[tokio::test]
async fn usage_that_was_reported_before_a_cut_counts() {
    let (scene, _player) = playing(Api::Anthropic, vec![cut(), whole()], PRICED).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    // 701 of the interrupted attempt, 750 of the other one.
    assert_eq!(ticks(&events).last(), Some(&(1_451, None)));
    assert_eq!(first!(events, RunFinished).cost_micros_usd, Some(1_451));
}

#[tokio::test]
async fn interrupted_attempts_count_towards_the_budget() {
    let (scene, player) = playing(Api::Anthropic, vec![cut()], PRICED).await;
    let task = task(&scene, Some(1_300), None).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(run).await;
    assert_eq!(player.seen().len(), 2, "no request is sent when the budget is exhausted");
    assert_eq!(first!(events, CostBudgetExceeded).cumulative_cost_micros_usd, 1_402);
    assert_eq!(first!(events, RunFailed).code, "budget_exceeded");
}

#[tokio::test]
async fn usage_that_was_reported_before_a_cancellation_counts() {
    let hanging = RecordedResponse { end: End::Hang, ..answer(STARTED.to_owned()) };
    let (scene, _player) = playing(Api::Anthropic, vec![hanging, whole()], PRICED).await;
    let task = task(&scene, Some(10_000), None).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    scene.until(run, "assistant.text_delta").await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunCancelled).cost_micros_usd, Some(701));
    let second = scene.start_with("again", RunConfig::default(), Some(task), None).await;
    let events = scene.ended(second).await;
    assert_eq!(first!(events, RunQueued).prior_cost_micros_usd, Some(701));
    assert_eq!(ticks(&events).last(), Some(&(1_451, Some(8_549))));
}

#[tokio::test]
async fn a_budget_in_money_needs_a_model_with_a_price() {
    let (scene, player) = playing(Api::Anthropic, vec![whole()], "").await;
    let priceless = task(&scene, Some(10_000), None).await;
    let refused =
        scene.try_queue(model_run("go"), RunConfig::default(), Some(priceless), None).await.unwrap_err();
    let recount_engine::Error::Rejected(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.code.as_str(), "budget_unpriced");
    assert!(refused.message.contains("real/recorded-1"), "{}", refused.message);
    assert_eq!(player.seen().len(), 0);
    // One limit that can be enforced is enough.
    let bounded = task(&scene, Some(10_000), Some(100_000)).await;
    let run = scene.start_with("go", RunConfig::default(), Some(bounded), None).await;
    assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn a_budget_in_turns_limits_the_turns() {
    let scene = Scene::with(WORKING).await;
    for (turns, status) in [(1, "run.failed"), (2, "run.failed"), (3, "run.finished")] {
        let order = RunConfig { budget_turns: Some(turns), ..RunConfig::default() };
        let run = scene.start_with("go", order, None, None).await;
        let events = scene.approve_all(run).await;
        assert_eq!(types(&events).last(), Some(&status), "{turns}");
        if turns < 3 {
            assert_eq!(first!(events, CostBudgetExceeded).exhausted.as_deref(), Some("turns"));
            let failed = first!(events, RunFailed);
            assert_eq!((failed.code.as_str(), failed.turns), ("budget_exceeded", Some(turns)));
        }
    }
}

#[tokio::test]
async fn unreported_usage_is_estimated_if_there_is_a_budget() {
    let silent = r#"data: {"choices": [{"index": 0, "delta": {"content": "Good morning, friend."}, "finish_reason": "stop"}]}

data: [DONE]

"#;
    let (scene, _player) = playing(Api::OpenAi, vec![answer(silent.to_owned())], PRICED).await;
    let bounded = task(&scene, None, Some(1_000)).await;
    for (task, adjusted) in [(Some(bounded), Some(vec!["usage_estimated".to_owned()])), (None, None)] {
        let run = scene.start_with("say good morning", RunConfig::default(), task, None).await;
        let events = scene.ended(run).await;
        let completed = first!(events, TurnCompleted);
        assert_eq!(completed.adjusted, adjusted);
        assert_eq!(completed.output_tokens, Some(if adjusted.is_some() { 6 } else { 0 }));
        assert_eq!(completed.input_tokens.unwrap() > 0, adjusted.is_some());
    }
}
