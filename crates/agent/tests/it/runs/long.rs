//! Long conversations: summarized for the model, and cached between the messages of a session.

use recount_engine::RunConfig;
use recount_event::SessionId;
use recount_event::family::run::RunKind;
use recount_playback::Player;
use serde_json::{Value, json};

use crate::runs::beginnings::{messages, seeded};
use crate::runs::providers::{Playing, playing, recording};
use crate::runs::scene::{Scene, count, first};

/// Sends a message in a session. Returns the messages that the provider received.
async fn send(
    scene: &Scene,
    player: &Player,
    session: SessionId,
    text: &str,
    above: Option<u64>,
) -> Vec<Value> {
    let order = RunConfig { compact_above: above, tools: Some(vec![]), ..RunConfig::default() };
    let run = scene.start_with(text, order, None, Some(session)).await;
    scene.ended(run).await;
    messages(&player.seen().last().unwrap().body)
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap()
}

#[tokio::test]
async fn a_long_conversation_is_summarized_and_recorded() {
    let Playing { mut scene, player } = playing(recording("text"), "").await;
    let session = seeded(&scene, &[json!({ "role": "user", "content": "from elsewhere" })]).await;
    let long = |number: usize| format!("message {number} {}", "w".repeat(400));
    let above = Some(400);
    for number in 1..=3 {
        let sent = send(&scene, &player, session, &long(number), above).await;
        assert!(text(sent.last().unwrap()).ends_with(&long(number)));
    }
    let sent = send(&scene, &player, session, &long(4), above).await;
    let extract = text(&sent[0]).to_owned();
    assert!(extract.lines().count() >= 3 && extract.contains("user: message 3 ww"), "{extract}");
    assert!(extract.len() <= 400, "{}", extract.len());
    assert_eq!(text(sent.last().unwrap()), long(4));
    assert!(!sent[1..].iter().any(|message| text(message).contains("message 1")));
    // The summary holds in later runs and after a restart, until a second one replaces it.
    scene.restart().await;
    let sent = send(&scene, &player, session, "short", None).await;
    assert_eq!((text(&sent[0]), text(sent.last().unwrap())), (extract.as_str(), "short"));
    send(&scene, &player, session, &long(5), None).await;
    let order = RunConfig { compact_above: above, tools: Some(vec![]), ..RunConfig::default() };
    let run = scene.start_with(&long(6), order, None, Some(session)).await;
    let events = scene.ended(run).await;
    let compacted = first!(events, ContextCompacted);
    assert!(compacted.tokens_after < compacted.tokens_before && compacted.tokens_before > above);
    assert_eq!(first!(events, TurnStarted).input_tokens_estimate, compacted.tokens_after);
    let sent = messages(&player.seen().last().unwrap().body);
    assert_eq!(text(&sent[0]), compacted.summary);
    assert!(compacted.summary.contains("earlier lines omitted") && compacted.summary.contains("user: short"));
    let place = |name: &str| events.iter().position(|event| event.type_name() == name).unwrap();
    assert_eq!(place("context.compacted") + 1, place("turn.started"));
}

#[tokio::test]
async fn a_cached_session_continues_like_one_read_from_the_log() {
    let mut requests = Vec::new();
    for restarts in [false, true] {
        let Playing { mut scene, player } = playing(recording("text"), "").await;
        let session = seeded(&scene, &[json!({ "role": "user", "content": "from elsewhere" })]).await;
        let mut sent = Vec::new();
        for message in ["one", "two", "three"] {
            if restarts {
                scene.restart().await;
            }
            sent.push(send(&scene, &player, session, message, None).await);
        }
        // Another client's run in the session is in between.
        let order = RunConfig { command: Some("true".into()), ..RunConfig::default() };
        let queued = recount_event::family::run::Queued::new(RunKind::Shell);
        let run = scene.queue(queued, order, None, Some(session)).await;
        assert_eq!(count(&scene.ended(run).await, "tool.completed"), 1);
        sent.push(send(&scene, &player, session, "four", None).await);
        sent.push(send(&scene, &player, session, "five", None).await);
        requests.push(sent);
    }
    assert_eq!(requests[0], requests[1]);
    assert_eq!(text(requests[0][4].last().unwrap()), "five");
    // The seed message is separate, before four answered messages and the last one.
    assert_eq!(requests[0][4].len(), 1 + 2 * 4 + 1);
}

#[tokio::test]
async fn a_session_cancelled_in_the_middle_is_read_again() {
    let Playing { scene, player } = playing(recording("silent"), "").await;
    let session = seeded(&scene, &[]).await;
    let order = RunConfig { tools: Some(vec![]), ..RunConfig::default() };
    let run = scene.start_with("one", order.clone(), None, Some(session)).await;
    player.wait_seen(1).await;
    scene.cancel(run).await;
    scene.ended(run).await;
    let run = scene.start_with("two", order, None, Some(session)).await;
    player.wait_seen(2).await;
    scene.cancel(run).await;
    let sent = messages(&player.seen()[1].body);
    // The unanswered message stays separate.
    assert_eq!(sent.iter().map(text).collect::<Vec<_>>(), ["one", "two"]);
}
