//! Endings of runs: completed, failed, cancelled and over budget.

use recount_engine::RunConfig;
use recount_event::Payload;

use crate::runs::scene::{Scene, Setup, count, first, refusals, results, types};

#[tokio::test]
async fn a_provider_failure_is_recorded_and_retried() {
    let script = r#"
[[turn]]
text = "I was about to say it all."
failure = { how = "status", status = 529, retry_after_ms = 10, times = 2, after = 2 }
"#;
    let scene = Scene::with(script).await;
    let run = scene.start("go").await;
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
async fn a_provider_refusal_ends_the_run() {
    let script = "[[turn]]\ntext = 'x'\nfailure = { how = 'status', status = 401 }";
    let scene = Scene::with(script).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("model_unauthorized", false));
}

#[tokio::test]
async fn an_endless_model_is_stopped() {
    let call = "call = [{ name = 'glob', input = { pattern = '*' } }]\n";
    let script = format!("[[turn]]\n{call}").repeat(20);
    let scene = Scene::with(&script).await;
    let order = RunConfig { max_turns: Some(5), ..RunConfig::default() };
    let run = scene.start_with("go", order, None, None).await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.turns), ("turn_limit", Some(5)));
}

#[tokio::test]
async fn a_cancelled_run_stops_in_the_middle_of_the_text() {
    let script =
        "[[turn]]\npace = { tokens_per_second = 20 }\ntext = 'a b c d e f g h i j k l m n o p q r s t'";
    let scene = Scene::with(script).await;
    let run = scene.start("go").await;
    scene.until(run, "assistant.text_delta").await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    let types = types(&events);
    assert_eq!(types[types.len() - 3..], ["assistant.text_complete", "turn.failed", "run.cancelled"]);
    // The place is free again.
    let next = scene.start("go").await;
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
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    let events = scene.ended(run).await;
    let exceeded = first!(events, CostBudgetExceeded);
    assert_eq!((exceeded.cumulative_cost_micros_usd, exceeded.action.as_str()), (1_020, "halted"));
    assert_eq!(first!(events, ToolRefused).code.as_str(), "budget");
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "budget_exceeded");
    assert!(!types(&events).contains(&"tool.invoked"));
    assert_eq!(exceeded.exhausted.as_deref(), Some("cost_micros_usd"));
    assert_eq!(count(&events, "cost.budget_warning"), 0, "what is used up is not nearly used up");
}

#[tokio::test]
async fn the_stop_reason_decides_the_ending() {
    for (stop, status) in [("end_turn", "completed"), ("max_tokens", "truncated"), ("refusal", "refused")] {
        let scene = Scene::with(&format!("[[turn]]\ntext = 'x'\nstop = '{stop}'")).await;
        let run = scene.start("go").await;
        let events = scene.ended(run).await;
        assert_eq!(first!(events, RunFinished).final_status, status);
        assert_eq!(first!(events, TurnCompleted).stop_reason.as_str(), stop);
        assert_eq!(count(&events, "assistant.final_answer"), usize::from(stop == "end_turn"));
    }
}

#[tokio::test]
async fn the_run_fails_with_the_error_of_its_model() {
    for (failure, code, retriable) in [
        ("how = 'status', status = 401", "model_unauthorized", false),
        ("how = 'status', status = 404", "model_not_found", false),
        ("how = 'status', status = 400", "model_refused", false),
        ("how = 'cut', retriable = false", "model_cut", false),
        ("how = 'malformed', retriable = false", "model_malformed", false),
        ("how = 'unreachable', retriable = false", "model_unreachable", false),
        ("how = 'silent', retriable = false", "model_timeout", false),
        ("how = 'status', status = 500, retry_after_ms = 3600000", "model_failed", true),
        ("how = 'status', status = 429, retry_after_ms = 3600000", "model_rate_limited", true),
        ("how = 'status', status = 529, retry_after_ms = 3600000", "model_overloaded", true),
    ] {
        for after in [0, 2] {
            let script = format!(
                "[pace]\nwords = 1\n[[turn]]\ntext = 'a b c d'\nfailure = {{ {failure}, after = {after} }}"
            );
            let play = "first_byte_timeout_ms = 100\nsilence_timeout_ms = 100";
            let scene = Scene::with_setup(Setup { script, play, ..Setup::default() }).await;
            let run = scene.start("go").await;
            let events = scene.ended(run).await;
            let failed = first!(events, RunFailed);
            assert_eq!((failed.code.as_str(), failed.retriable), (code, retriable), "{}", failed.message);
            assert_eq!(first!(events, TurnFailed).code, code);
            let cut = events.iter().filter(|event| match event.payload() {
                Payload::AssistantTextComplete(text) => text.aborted == Some(true),
                _ => false,
            });
            assert_eq!(cut.count(), usize::from(after > 0), "{failure}");
        }
    }
}

#[tokio::test]
async fn a_persistent_provider_failure_ends_the_run() {
    let script = "[[turn]]\ntext = 'x'\nfailure = { how = 'status', status = 503, retry_after_ms = 5 }";
    let scene = Scene::with(script).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "error.upstream"), 4);
    assert!(first!(events, RunFailed).retriable);
}

#[tokio::test]
async fn a_turn_with_more_calls_than_are_recorded_fails() {
    let call = "{ name = 'glob', input = { pattern = '*' } },";
    let scene = Scene::with(&format!("[[turn]]\ncall = [{}]", call.repeat(129))).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunFailed).code, "model_malformed");
    assert_eq!(count(&events, "assistant.tool_call_proposed"), 0);
}

#[tokio::test]
async fn a_tool_that_is_not_offered_is_refused() {
    let script =
        "[[turn]]\ncall = [{ name = 'shell_exec', input = { command = 'ls' } }]\n[[turn]]\ntext = 'I see.'";
    let scene = Scene::with(script).await;
    let order = RunConfig { tools: Some(vec!["glob".into()]), ..RunConfig::default() };
    let run = scene.start_with("go", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, ErrorToolUnavailable).reason, "not_offered");
    assert_eq!(refusals(&events)[0].0, "unavailable");
    assert!(results(&events)[0].0.contains("is not available in this run"));
}

#[tokio::test]
async fn a_tool_that_kills_every_worker_ends_the_run() {
    // A run that is one call of such a tool has no model that could continue.
    let scene = Scene::with("[[turn]]\ncall = [{ name = 'panics', input = {} }]").await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    // It is not called again: the interruption is recorded, and the model continues.
    assert_eq!(refusals(&events)[0].0, "interrupted");
    assert_eq!(first!(events, RunFinished).final_status, "completed");
}

#[tokio::test]
async fn a_running_call_is_cancelled_with_its_run() {
    let scene = Scene::with("[[turn]]\ncall = [{ name = 'hangs', input = {} }]").await;
    let run = scene.start("go").await;
    scene.until(run, "tool.started").await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    let types = types(&events);
    assert_eq!(types[types.len() - 2..], ["tool.cancelled", "run.cancelled"]);
    let error = first!(events, ToolCancelled).error.unwrap();
    assert_eq!(
        error,
        "cancelled (enough): the call may have started, and it is unknown whether it took effect"
    );
    assert_eq!(first!(events, RunCancelled).by, "operator");
}

#[tokio::test]
async fn a_long_output_is_stored_and_the_model_gets_its_beginning() {
    let script = r#"
[[turn]]
call = [{ name = "read_file", input = { path = "long" } }, { name = "shell_exec", input = { command = "cat long" } }]
[[turn]]
text = "Read."
"#;
    let scene = Scene::with(script).await;
    scene.put("long", "a line of some length\n".repeat(3_000));
    let run = scene.start("read").await;
    let events = scene.ended(run).await;
    for (text, is_error) in results(&events) {
        assert!(!is_error && text.len() < 40_000 && text.contains("a line of some length"), "{}", text.len());
    }
    let kept: Vec<u64> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ArtifactCreated(created) => created.size_bytes,
            _ => None,
        })
        .collect();
    assert!(kept.iter().filter(|bytes| **bytes >= 3_000 * 22).count() >= 2, "{kept:?}");
    for event in &events {
        if let Payload::ToolCompleted(ended) = event.payload() {
            assert!(ended.result_artifact_id.is_some());
        }
    }
}
