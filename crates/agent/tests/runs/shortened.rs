//! One long run whose context is more than its model takes: shortened during the run, as its log says.

use recount_agent::conversation::Conversation;
use recount_engine::Order;
use recount_event::{Event, Payload};

use crate::scene::{Scene, Setup, count, first, types};

/// A scene with so many files, each naming its number, and a model that reads them one after the other and takes requests
/// of so many tokens.
async fn reading(files: usize, bytes: usize, context_tokens: u64) -> Scene {
    let mut script = format!("context_tokens = {context_tokens}\n[[turn]]\ncall = [{}]\n", read(0));
    for file in 0..files {
        let next = match file + 1 {
            next if next == files => "text = 'All of it is read.'".to_owned(),
            next => format!("call = [{}]", read(next)),
        };
        script.push_str(&format!("[[turn]]\nwhen = 'file {file};'\n{next}\n"));
    }
    let scene = Scene::of(Setup { script, ..Setup::default() }).await;
    for file in 0..files {
        scene.put(&format!("f{file}"), format!("file {file};\n{}\n", "some words ".repeat(bytes / 11)));
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
    let scene = reading(40, 2_000, 6_000).await;
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
    let scene = reading(60, 700, 1_000_000).await;
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

#[tokio::test]
async fn a_request_that_no_model_takes_fails_and_says_why() {
    let scene = reading(1, 100, 1_000).await;
    let run = scene.ask(&"too much ".repeat(2_000)).await;
    let events = scene.ended(run).await;
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "model_context_full");
    assert!(failed.message.contains("longer than the model can take"), "{}", failed.message);
    assert_eq!(count(&events, "turn.started"), 1);
}
