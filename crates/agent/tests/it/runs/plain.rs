//! Runs in which a model only writes text, and what the next run gets of them.

use recount_engine::RunConfig;
use recount_event::Payload;

use crate::runs::scene::{Scene, first, types};

#[tokio::test]
async fn a_text_turn_is_recorded_from_start_to_end() {
    let scene = Scene::with("[pace]\nwords = 1\n[[turn]]\ntext = 'Hello you out there.'").await;
    let run = scene.start("say hello").await;
    let events = scene.ended(run).await;
    assert_eq!(
        types(&events),
        [
            "run.queued",
            "run.started",
            "user.message",
            "workspace.provisioned",
            "turn.started",
            "assistant.text_delta",
            "assistant.text_complete",
            "assistant.final_answer",
            "turn.completed",
            "cost.tick",
            "run.finished",
        ]
    );
    let queued = first!(events, RunQueued);
    assert_eq!((queued.provider.as_deref(), queued.model.as_deref()), (Some("play"), Some("it")));
    let started = first!(events, RunStarted);
    assert!(started.worker_id.is_some() && started.lease_until.is_some());
    let text: String = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::AssistantTextDelta(delta) => Some(delta.delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "Hello you out there.");
    let turn = first!(events, TurnCompleted);
    let finished = first!(events, RunFinished);
    assert_eq!((finished.turns, finished.cost_micros_usd), (Some(1), turn.cost_micros_usd));
    assert!(turn.cost_micros_usd > Some(0) && finished.duration_ms.is_some());
}

#[tokio::test]
async fn a_session_is_one_conversation() {
    let script = "[[scene]]\nwhen = 'first'\n[[scene.turn]]\ntext = 'one'\n[[scene]]\nwhen = 'second'\n[[scene.turn]]\ntext = 'two'";
    let scene = Scene::with(script).await;
    let session = scene.engine.write().create_session(None).await.unwrap().id;
    let run = scene.start_with("the first", RunConfig::default(), None, Some(session)).await;
    assert_eq!(first!(scene.ended(run).await, AssistantFinalAnswer).summary, "one");
    let run = scene.start_with("the second", RunConfig::default(), None, Some(session)).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "two");
    let estimate = first!(events, TurnStarted).input_tokens_estimate.unwrap();
    assert!(estimate >= ("the first".len() + "one".len() + "the second".len()) as u64 / 4, "{estimate}");
}

#[tokio::test]
async fn runs_beyond_the_limit_wait_and_record_it() {
    let script = "[[turn]]\npace = { tokens_per_second = 20 }\ntext = 'a b c d e f g h i j'";
    let scene = Scene::with_policy(script, "", 1).await;
    let first = scene.start("go").await;
    scene.until(first, "assistant.text_delta").await;
    let second = scene.start("go").await;
    let events = scene.ended(second).await;
    let throttled = first!(events, RunThrottled);
    assert_eq!((throttled.reason.as_str(), throttled.place), ("runs_at_once", 1));
    let types = types(&events);
    let at = |name: &str| types.iter().position(|found| *found == name).unwrap();
    assert!(at("run.throttled") < at("run.started"));
    assert_eq!(types.last(), Some(&"run.finished"));
}
