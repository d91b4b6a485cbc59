//! One long run whose context is more than its model takes: shortened during the run, as its log says.

use std::sync::Arc;

use recount_agent::conversation::Conversation;
use recount_engine::{Order, Redactor};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Event, Payload};
use recount_redact::Secret;
use serde_json::json;

use crate::runs::scene::{Scene, Setup, count, first, results, types};

/// A scene with so many files, each naming its number, and a model that reads them one after the other and takes requests
/// of so many tokens.
async fn reading(files: usize, bytes: usize, context_tokens: u64, play: &'static str) -> Scene {
    let mut script = format!("context_tokens = {context_tokens}\n[[turn]]\ncall = [{}]\n", read(0));
    for file in 0..files {
        let next = match file + 1 {
            next if next == files => "text = 'All of it is read.'".to_owned(),
            next => format!("call = [{}]", read(next)),
        };
        script.push_str(&format!("[[turn]]\nwhen = 'file {file};'\n{next}\n"));
    }
    let scene = Scene::of(Setup { script, play, ..Setup::default() }).await;
    // A line of more than 2,000 bytes is cut by the tool.
    let words = if bytes > 2_000 { "some words\n" } else { "some words " };
    for file in 0..files {
        scene.put(&format!("f{file}"), format!("file {file};\n{}\n", words.repeat(bytes / words.len())));
    }
    scene
}

fn read(file: usize) -> String {
    format!("{{ name = 'read_file', input = {{ path = 'f{file}' }} }}")
}

fn estimates(events: &[Event]) -> Vec<u64> {
    let estimate = |event: &Event| match event.payload() {
        Payload::TurnStarted(started) => started.input_tokens_estimate,
        _ => None,
    };
    events.iter().filter_map(estimate).collect()
}

/// What a worker that reads the log anew would send is what was sent.
fn check_rebuilt(events: &[Event]) {
    let mut conversation = Conversation::default();
    for event in events {
        if let Payload::TurnStarted(started) = event.payload() {
            assert_eq!(started.input_tokens_estimate, Some(conversation.tokens_estimate()));
        }
        conversation.event(event);
    }
}

#[tokio::test]
async fn a_run_goes_on_although_its_provider_refuses_what_is_too_long() {
    let scene = reading(40, 2_000, 6_000, "").await;
    let run = scene.ask("read all files").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunFinished).final_status, "completed", "{:?}", types(&events));
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "All of it is read.");
    assert_eq!(count(&events, "tool.completed"), 40, "each file is read once");
    let refusals: Vec<_> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::TurnFailed(failed) => Some((failed.code.as_str(), failed.will_retry)),
            _ => None,
        })
        .collect();
    // What was refused once is not tried again.
    assert!(!refusals.is_empty() && refusals.len() <= 3, "{refusals:?}");
    assert!(refusals.iter().all(|refusal| *refusal == ("model_context_full", true)));
    assert_eq!(first!(events, ErrorUpstream).status, Some(400));
    assert!(count(&events, "context.trimmed") > 0);
    let trimmed = first!(events, ContextTrimmed);
    assert!(trimmed.tokens_after < trimmed.tokens_before);
    check_rebuilt(&events);
}

#[tokio::test]
async fn a_run_stays_below_its_bound_first_by_results_and_then_by_steps() {
    let scene = reading(60, 700, 1_000_000, "").await;
    let order = Order { compact_above: Some(1_500), ..Order::default() };
    let run = scene.ask_for("read all files", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "tool.completed"), 60, "{:?}", types(&events));
    assert!(estimates(&events).iter().all(|tokens| *tokens <= 1_500), "{:?}", estimates(&events));
    let shortened: Vec<&str> =
        types(&events).into_iter().filter(|name| name.starts_with("context.")).collect();
    assert_eq!(shortened[0], "context.trimmed", "{shortened:?}");
    assert!(shortened.contains(&"context.compacted"), "{shortened:?}");
    assert_eq!(first!(events, ContextCompacted).request_kept, Some(true));
    assert_eq!(count(&events, "turn.failed"), 0);
    check_rebuilt(&events);
}

/// What the model is sent in all turns together, with a budget of its settings and without: `docs/compaction.md` has the
/// figures.
#[tokio::test]
async fn large_results_are_sent_by_reference_within_the_budget_of_the_model() {
    let mut sent = Vec::new();
    for budget in [None, Some(8_000)] {
        let play = budget.map_or("", |_| "models = { \"*\" = { context_tokens = 8000 } }");
        let scene = reading(40, 8_000, 1_000_000, play).await;
        let run = scene.ask("read all files").await;
        let events = scene.ended(run).await;
        assert_eq!(count(&events, "tool.completed"), 40, "{:?}", types(&events));
        let estimates = estimates(&events);
        assert!(estimates.iter().all(|tokens| *tokens <= budget.unwrap_or(u64::MAX)), "{estimates:?}");
        sent.push(estimates.iter().sum::<u64>());
        let shortened = types(&events).into_iter().filter(|name| name.starts_with("context."));
        match budget {
            None => assert_eq!(shortened.count(), 0),
            Some(_) => {
                assert!(shortened.into_iter().all(|name| name == "context.trimmed"), "no summary was needed");
                let trimmed = first!(events, ContextTrimmed);
                assert!(trimmed.results.iter().all(|result| result.kept_bytes == 512), "{trimmed:?}");
                let told = &results(&events)[0].0;
                let call = &trimmed.results[0].tool_call_id;
                assert!(told.contains(&format!("read_result with call_id {call}")), "{told}");
            }
        }
        check_rebuilt(&events);
    }
    println!("tokens sent in 41 turns: {} without a budget, {} with 8,000", sent[0], sent[1]);
    assert!(sent[1] * 5 < sent[0], "{sent:?}");
}

/// What was left out is read again from the log, also by a run that continues the first, and what is masked there stays
/// masked.
#[tokio::test]
async fn a_result_that_was_left_out_is_read_again() {
    const CANARY: &str = "canary-5d0b7c21ee94";
    let script = "[[scene]]\nwhen = 'read it'\n[[scene.turn]]\ncall = [{ name = 'read_file', input = { path = 'f' } }]\n\
                  [[scene.turn]]\ntext = 'Read.'\n[[scene]]\nwhen = 'once more'\n[[scene.turn]]\n\
                  call = [{ name = 'reads_back', input = {} }]\n[[scene.turn]]\ntext = 'Again.'\n";
    let redactor = Redactor::new(vec![Secret::new(CANARY).unwrap()], true);
    let setup = Setup { script: script.to_owned(), redactor: Arc::new(redactor), ..Setup::default() };
    let scene = Scene::of(setup).await;
    scene.put("f", format!("first {CANARY}\n{}last\n", "some words\n".repeat(10_000)));
    let run = scene.ask("read it").await;
    let events = scene.ended(run).await;
    let ended = first!(events, ToolCompleted);
    let whole = {
        let output = ended.output.as_ref().unwrap();
        serde_json::from_str::<String>(output.text()).unwrap()
    };
    let read = async |input: serde_json::Value| {
        *scene.toys.reads_back.lock().unwrap() = input;
        let mut queued = Queued::new(RunKind::AgentLoop);
        queued.request_text = Some("once more".into());
        queued.prior_run_id = Some(run.to_string());
        let again = scene.queue(queued, Order::default(), None, None).await;
        results(&scene.ended(again).await).pop().unwrap()
    };
    let call = ended.tool_call_id.to_string();
    let (text, is_error) = read(json!({ "call_id": call })).await;
    let end = whole.len().min(16 * 1024);
    assert!(!is_error && text.contains(&whole[..whole.len().min(1_000)]), "{text:.300}");
    assert!(text.starts_with(&format!("[bytes 0 to {end} of ")), "{text:.100}");
    assert!(!text.contains(CANARY) && text.contains("first "), "{text:.300}");
    let (text, _) = read(json!({ "call_id": call, "offset": 2, "limit": 7 })).await;
    assert!(text.ends_with(&format!("\n{}", &whole[2..9])), "{text}");
    for (input, why) in [
        (json!({ "call_id": "call_none" }), "no call call_none has ended"),
        (json!({ "call_id": call, "offset": 100_000_000 }), "is beyond its end"),
        (json!({ "call_id": "no id" }), "is not the id of a call"),
    ] {
        let (text, is_error) = read(input).await;
        assert!(is_error && text.contains(why), "{text}");
    }
    assert!(!scene.disk.has_seen(CANARY));
}

#[tokio::test]
async fn a_request_that_no_model_takes_fails_and_says_why() {
    let scene = reading(1, 100, 1_000, "").await;
    let run = scene.ask(&"too much ".repeat(2_000)).await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "model_context_full");
    assert!(failed.message.contains("longer than the model can take"), "{}", failed.message);
    assert_eq!(count(&events, "turn.started"), 1);
}
