//! Runs with providers on real sockets that play recordings: good responses, and all kinds of failures.

use recount_agent::model::ModelsSettings;
use recount_event::{Event, Payload};
use recount_playback::{Player, Recording, Shelf, recordings};
use recount_world::World;

use crate::runs::scene::{Scene, Setup, count, first, types};

pub(crate) struct Playing {
    pub(crate) scene: Scene,
    pub(crate) player: Player,
}

pub(crate) fn recording(name: &str) -> Recording {
    Recording::load(&recordings().join("openai").join(name).with_extension("toml")).unwrap()
}

/// A scene whose model is a provider that plays a recording. The player has a world of its own, which does not end with
/// the engine's.
pub(crate) async fn playing(recording: Recording, settings: &str) -> Playing {
    let player = Player::start(&World::real(), 0, Shelf::of(recording)).await.unwrap();
    let models = format!(
        "[providers.real]\nkind = 'openai'\nbase_url = '{}/v1'\napi_key = 'k'\n{settings}\n",
        player.url()
    );
    let _read: ModelsSettings = toml::from_str(&models).unwrap();
    let setup = Setup { models, default: "real/recorded-1", ..Setup::default() };
    Playing { scene: Scene::with_setup(setup).await, player }
}

fn attempts(events: &[Event]) -> Vec<(Option<u64>, Option<u64>)> {
    let upstream = |event: &Event| match event.payload() {
        Payload::ErrorUpstream(upstream) => Some((upstream.attempt, upstream.status)),
        _ => None,
    };
    events.iter().filter_map(upstream).collect()
}

#[tokio::test]
async fn good_responses_complete() {
    for (name, status, answer) in [
        ("text", "completed", Some("Good morning, friend.")),
        ("slow", "completed", Some("Good morning, friend.")),
        ("bytes", "completed", Some("Grüße, 日本 🌍!")),
        ("length", "truncated", None),
        ("refusal", "refused", None),
    ] {
        let Playing { scene, player } = playing(recording(name), "").await;
        let run = scene.start("hello").await;
        let events = scene.ended(run).await;
        assert_eq!(first!(events, RunFinished).final_status, status, "{name}");
        match answer {
            Some(answer) => assert_eq!(first!(events, AssistantFinalAnswer).summary, answer, "{name}"),
            None => assert_eq!(count(&events, "assistant.final_answer"), 0, "{name}"),
        }
        let sent = &player.seen()[0].body;
        assert_eq!(sent["messages"].as_array().unwrap().last().unwrap()["content"], "hello", "{name}");
        let tools: Vec<&str> = sent["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .collect();
        assert!(tools.contains(&"shell_exec") && tools.contains(&"hand_off"), "{tools:?}");
    }
}

#[tokio::test]
async fn calls_are_executed_and_returned_with_the_ids_of_the_provider() {
    let mut recorded = recording("call");
    recorded.answer.extend(recording("text").answer);
    let Playing { scene, player } = playing(recorded, "").await;
    scene.put("notes.md", "remember the milk\n");
    let run = scene.start("read").await;
    let events = scene.ended(run).await;
    let proposed = first!(events, AssistantToolCallProposed);
    assert_eq!(proposed.provider_call_id.as_deref(), Some("call_A"));
    assert!(proposed.tool_call_id.starts_with("call_") && &*proposed.tool_call_id != "call_A");
    let sent = player.seen()[1].body["messages"].clone();
    let answered = sent.as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (answered["role"].as_str(), answered["tool_call_id"].as_str()),
        (Some("tool"), Some("call_A"))
    );
    assert!(answered["content"].to_string().contains("remember the milk"), "{answered}");
}

#[tokio::test]
async fn a_rate_limit_waits_as_long_as_the_provider_requests() {
    let mut recorded = recording("rate_limited");
    let headers = &mut recorded.answer[0].headers;
    headers.clear();
    headers.insert("retry-after-ms".into(), "30".into());
    let Playing { scene, player } = playing(recorded, "").await;
    let run = scene.start("hello").await;
    let events = scene.ended(run).await;
    assert_eq!(attempts(&events), [(Some(1), Some(429))]);
    // Nothing of the turn was recorded before, so it does not start again.
    assert_eq!((count(&events, "turn.started"), count(&events, "turn.failed")), (1, 0));
    assert_eq!(first!(events, RunFinished).final_status, "completed");
    assert_eq!(player.seen().len(), 2);
}

#[tokio::test]
async fn three_provider_failures_are_followed_by_a_fourth_attempt() {
    let Playing { scene, player } = playing(recording("failing"), "").await;
    let run = scene.start("hello").await;
    let events = scene.ended(run).await;
    assert_eq!(attempts(&events), [1, 2, 3].map(|attempt| (Some(attempt), Some(500))));
    assert_eq!(first!(events, RunFinished).turns, Some(1));
    assert_eq!(player.seen().len(), 4);
}

#[tokio::test]
async fn an_interrupted_turn_restarts_with_the_same_index() {
    let mut recorded = recording("cut");
    recorded.answer.extend(recording("text").answer);
    let Playing { scene, .. } = playing(recorded, "").await;
    let run = scene.start("hello").await;
    let events = scene.ended(run).await;
    assert_eq!(
        types(&events)[4..],
        [
            "turn.started",
            "assistant.text_delta",
            "error.upstream",
            "assistant.text_complete",
            "turn.failed",
            "turn.started",
            "assistant.text_delta",
            "assistant.text_complete",
            "assistant.final_answer",
            "turn.completed",
            "cost.tick",
            "run.finished",
        ]
    );
    let texts: Vec<_> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::AssistantTextComplete(text) => {
                Some((text.turn_index, text.block_index, text.text.as_str(), text.aborted))
            }
            _ => None,
        })
        .collect();
    assert_eq!(texts, [(0, 0, "Good ", Some(true)), (0, 1, "Good morning, friend.", None)]);
    let failed = first!(events, TurnFailed);
    assert_eq!((failed.code.as_str(), failed.will_retry, failed.turn_index), ("model_cut", true, 0));
}

#[tokio::test]
async fn an_unusable_provider_ends_the_run_with_a_reason() {
    for (name, code, retriable, status) in [
        ("unauthorized", "model_unauthorized", false, Some(401)),
        ("not_found", "model_not_found", false, Some(404)),
        ("context_full", "model_context_full", false, Some(400)),
        ("bad_request", "model_refused", false, Some(422)),
        // It requests a longer wait than the limit.
        ("overloaded", "model_overloaded", true, Some(529)),
    ] {
        let mut recorded = recording(name);
        recorded.answer[0].headers.insert("retry-after".into(), "3600".into());
        let Playing { scene, player } = playing(recorded, "").await;
        let run = scene.start("hello").await;
        let events = scene.ended(run).await;
        let failed = first!(events, RunFailed);
        assert_eq!((failed.code.as_str(), failed.retriable), (code, retriable), "{}", failed.message);
        assert_eq!(attempts(&events), [(Some(1), status)], "{name}");
        assert!(!first!(events, TurnFailed).will_retry, "{name}");
        assert_eq!(player.seen().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn transient_stream_failures_are_retried() {
    // The timeouts apply only to silence: slow responses are accepted.
    for (name, code, settings) in [
        ("silent", "model_timeout", "first_byte_timeout_ms = 1500"),
        ("silent_midway", "model_timeout", "silence_timeout_ms = 1500"),
        ("malformed", "model_malformed", ""),
        ("missing_finish", "model_cut", ""),
        ("not_sse", "model_malformed", ""),
        ("overloaded_in_stream", "model_overloaded", ""),
    ] {
        let mut recorded = recording(name);
        recorded.answer.truncate(1);
        recorded.answer.extend(recording("text").answer);
        let Playing { scene, player } = playing(recorded, settings).await;
        let run = scene.start("hello").await;
        let events = scene.ended(run).await;
        assert_eq!(attempts(&events).len(), 1, "{name}");
        assert_eq!(first!(events, RunFinished).final_status, "completed", "{name}");
        // A turn is recorded as failed only if some of it was recorded.
        if count(&events, "turn.failed") > 0 {
            assert_eq!(first!(events, TurnFailed).code, code, "{name}");
            assert_eq!(count(&events, "turn.started"), 2, "{name}");
        }
        assert_eq!(player.seen().len(), 2, "{name}");
    }
}

#[tokio::test]
async fn cancelling_closes_the_provider_connection_at_once() {
    let Playing { scene, player } = playing(recording("silent"), "").await;
    let run = scene.start("hello").await;
    player.wait_seen(1).await;
    scene.cancel(run).await;
    player.wait_abandoned(1).await;
    assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.cancelled"));
}

#[tokio::test]
async fn a_rule_sends_a_run_to_another_model() {
    let player = Player::start(&World::real(), 0, Shelf::of(recording("text"))).await.unwrap();
    let models = format!(
        "[providers.real]\nkind = 'openai'\nbase_url = '{}/v1'\napi_key = 'k'\n[[rewrite]]\nfrom = 'real/dear-*'\n\
         to = 'real/cheap-*'\nreason = 'it is cheaper'\n",
        player.url()
    );
    let scene = Scene::with_setup(Setup { models, default: "real/dear-1", ..Setup::default() }).await;
    let run = scene.start("hello").await;
    let events = scene.ended(run).await;
    let rewrote = first!(events, PolicyModelRewrote);
    assert_eq!((rewrote.from_model.as_str(), rewrote.to_model.as_str()), ("dear-1", "cheap-1"));
    assert_eq!(rewrote.reason, "it is cheaper");
    assert_eq!(first!(events, RunQueued).model.as_deref(), Some("dear-1"));
    assert_eq!(first!(events, TurnStarted).model.as_deref(), Some("cheap-1"));
    assert_eq!(player.seen()[0].body["model"], "cheap-1");
}
