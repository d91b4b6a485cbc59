//! How runs end: well, badly, cut off, out of money.

use recount_engine::Order;
use recount_event::Payload;

use crate::scene::{Scene, first, types};

#[tokio::test]
async fn a_provider_that_fails_is_told_of_and_tried_again() {
    let script = r#"
[[turn]]
text = "I was about to say it all."
failure = { how = "status", status = 529, retry_after_ms = 10, times = 2, after = 2 }
"#;
    let scene = Scene::with(script).await;
    let run = scene.ask("go").await;
    let events = scene.ended(run).await;
    let attempts: Vec<Option<u64>> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ErrorUpstream(upstream) => Some(upstream.attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [Some(1), Some(2)]);
    assert_eq!(events.last().unwrap().type_name(), "run.finished", "{:?}", types(&events));
    assert_eq!(first!(events, RunFinished).turns, Some(1));
}

#[tokio::test]
async fn a_provider_that_says_no_ends_the_run() {
    let script = "[[turn]]\ntext = 'x'\nfailure = { how = 'status', status = 401 }";
    let scene = Scene::with(script).await;
    let run = scene.ask("go").await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("model_unauthorized", false));
}

#[tokio::test]
async fn a_model_without_an_end_is_ended() {
    let call = "call = [{ name = 'glob', input = { pattern = '*' } }]\n";
    let script = format!("[[turn]]\n{call}").repeat(20);
    let scene = Scene::with(&script).await;
    let order = Order { max_turns: Some(5), ..Order::default() };
    let run = scene.ask_for("go", order, None, None).await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.turns), ("turn_limit", Some(5)));
}

#[tokio::test]
async fn a_run_that_is_cancelled_stops_in_the_middle_of_a_word() {
    let script =
        "[[turn]]\npace = { tokens_per_second = 20 }\ntext = 'a b c d e f g h i j k l m n o p q r s t'";
    let scene = Scene::with(script).await;
    let run = scene.ask("go").await;
    scene.until(run, "assistant.text_delta").await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    let types = types(&events);
    assert_eq!(types[types.len() - 3..], ["assistant.text_complete", "turn.failed", "run.cancelled"]);
    // The place is free again.
    let next = scene.ask("go").await;
    scene.until(next, "run.started").await;
}

#[tokio::test]
async fn a_budget_halts_before_the_next_call() {
    let script = r#"
[[turn]]
text = "Working."
usage = { input_tokens = 1000, output_tokens = 10 }
call = [{ name = "glob", input = { pattern = "*" } }]
[[turn]]
text = "Done."
"#;
    let scene = Scene::with(script).await;
    let mut queued = recount_event::family::run::Queued::new(recount_event::family::run::RunKind::AgentLoop);
    queued.request_text = Some("go".into());
    queued.task_budget_micros_usd = Some(1_000);
    let run = scene.queue(queued, Order::default(), None, None).await;
    let events = scene.ended(run).await;
    let exceeded = first!(events, CostBudgetExceeded);
    assert_eq!((exceeded.cumulative_cost_micros_usd, exceeded.action.as_str()), (1_020, "halted"));
    assert_eq!(first!(events, ToolRefused).code.as_str(), "budget");
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "budget_exceeded");
    assert!(!types(&events).contains(&"tool.invoked"));
    assert_eq!(first!(events, CostBudgetWarning).threshold_pct, 80);
}
