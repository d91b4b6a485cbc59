//! A long run whose context exceeds its model's limit: shortened during the run, as recorded.

use std::sync::Arc;

use recount_agent::conversation::Conversation;
use recount_engine::{Redactor, RunConfig};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Event, Payload};
use recount_redact::Secret;
use serde_json::json;

use crate::runs::scene::{Scene, Setup, count, first, results, types};

/// A scene with this number of files, each with its number, and a model that reads them one after the other and accepts
/// requests up to this size.
async fn reading(files: usize, bytes: usize, context_tokens: u64, play: &'static str) -> Scene {
    let mut script = format!("context_tokens = {context_tokens}\n[[turn]]\ncall = [{}]\n", read(0));
    for file in 0..files {
        let next = match file + 1 {
            next if next == files => "text = 'All of it is read.'".to_owned(),
            next => format!("call = [{}]", read(next)),
        };
        script.push_str(&format!("[[turn]]\nwhen = 'file {file};'\n{next}\n"));
    }
    let scene = Scene::with_setup(Setup { script, play, ..Setup::default() }).await;
    // The tool truncates lines of more than 2,000 bytes.
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

/// A worker that reads the log again would send the same requests.
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
async fn a_run_continues_after_the_provider_refuses_a_long_request() {
    let scene = reading(40, 2_000, 6_000, "").await;
    let run = scene.start("read all files").await;
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
    // A refused size is not tried again.
    assert!(!refusals.is_empty() && refusals.len() <= 3, "{refusals:?}");
    assert!(refusals.iter().all(|refusal| *refusal == ("model_context_full", true)));
    assert_eq!(first!(events, ErrorUpstream).status, Some(400));
    assert!(count(&events, "context.trimmed") > 0);
    let trimmed = first!(events, ContextTrimmed);
    assert!(trimmed.tokens_after < trimmed.tokens_before);
    check_rebuilt(&events);
}

#[tokio::test]
async fn a_run_shortens_results_first_and_then_steps() {
    let scene = reading(60, 700, 1_000_000, "").await;
    let order = RunConfig { compact_above: Some(1_500), ..RunConfig::default() };
    let run = scene.start_with("read all files", order, None, None).await;
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

/// The size of all requests together, with and without a budget for results: `docs/compaction.md` has the figures.
#[tokio::test]
async fn large_results_are_sent_by_reference_within_the_budget_of_the_model() {
    let mut sent = Vec::new();
    for budget in [None, Some(8_000)] {
        let play = budget.map_or("", |_| "models = { \"*\" = { context_tokens = 8000 } }");
        let scene = reading(40, 8_000, 1_000_000, play).await;
        let run = scene.start("read all files").await;
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
                let output = &results(&events)[0].0;
                let call = &trimmed.results[0].tool_call_id;
                assert!(output.contains(&format!("with read_result, call_id {call}")), "{output}");
            }
        }
        check_rebuilt(&events);
    }
    println!("tokens sent in 41 turns: {} without a budget, {} with 8,000", sent[0], sent[1]);
    assert!(sent[1] * 5 < sent[0], "{sent:?}");
}

/// Omitted results are read again from the log, also by a run that continues the first, and masked parts stay masked.
#[tokio::test]
async fn an_omitted_result_can_be_read_again() {
    const CANARY: &str = "canary-5d0b7c21ee94";
    let script = "[[scene]]\nwhen = 'read it'\n[[scene.turn]]\ncall = [{ name = 'read_file', input = { path = 'f' } }]\n\
                  [[scene.turn]]\ntext = 'Read.'\n[[scene]]\nwhen = 'once more'\n[[scene.turn]]\n\
                  call = [{ name = 'reads_back', input = {} }]\n[[scene.turn]]\ntext = 'Again.'\n";
    let redactor = Redactor::new(vec![Secret::new(CANARY).unwrap()], true);
    let setup = Setup { script: script.to_owned(), redactor: Arc::new(redactor), ..Setup::default() };
    let scene = Scene::with_setup(setup).await;
    scene.put("f", format!("first {CANARY}\n{}last\n", "some words\n".repeat(10_000)));
    let run = scene.start("read it").await;
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
        let again = scene.queue(queued, RunConfig::default(), None, None).await;
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
        (json!({ "call_id": "call_none" }), "no finished call call_none"),
        (json!({ "call_id": call, "offset": 100_000_000 }), "is past its end"),
        (json!({ "call_id": "no id" }), "is not a valid call id"),
    ] {
        let (text, is_error) = read(input).await;
        assert!(is_error && text.contains(why), "{text}");
    }
    assert!(!scene.disk.has_seen(CANARY));
}

#[tokio::test]
async fn a_request_that_stays_too_long_fails_with_a_reason() {
    let scene = reading(1, 100, 1_000, "").await;
    let run = scene.start(&"too much ".repeat(2_000)).await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "model_context_full");
    assert!(failed.message.contains("exceeds the model's context window"), "{}", failed.message);
    assert_eq!(count(&events, "turn.started"), 1);
}
