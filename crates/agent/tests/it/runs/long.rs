//! Long conversations: shortened for the model, and kept from one message of a session to the next.

use recount_engine::Order;
use recount_event::SessionId;
use recount_event::family::run::RunKind;
use recount_playback::Player;
use serde_json::{Value, json};

use crate::runs::beginnings::{messages, seeded};
use crate::runs::providers::{Playing, playing, recording};
use crate::runs::scene::{Scene, count, first};

/// Speaks to a session, and answers what the provider was sent.
async fn say(
    scene: &Scene,
    player: &Player,
    session: SessionId,
    text: &str,
    above: Option<u64>,
) -> Vec<Value> {
    let order = Order { compact_above: above, tools: Some(vec![]), ..Order::default() };
    let run = scene.ask_for(text, order, None, Some(session)).await;
    scene.ended(run).await;
    messages(&player.seen().last().unwrap().body)
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap()
}

#[tokio::test]
async fn a_long_conversation_is_told_in_short_and_the_log_says_so() {
    let Playing { mut scene, player } = playing(recording("text"), "").await;
    let session = seeded(&scene, &[json!({ "role": "user", "content": "from elsewhere" })]).await;
    let long = |number: usize| format!("message {number} {}", "w".repeat(400));
    let above = Some(400);
    for number in 1..=3 {
        let sent = say(&scene, &player, session, &long(number), above).await;
        assert!(text(sent.last().unwrap()).ends_with(&long(number)));
    }
    let sent = say(&scene, &player, session, &long(4), above).await;
    let extract = text(&sent[0]).to_owned();
    assert!(extract.lines().count() >= 3 && extract.contains("user: message 3 ww"), "{extract}");
    assert!(extract.len() <= 400, "{}", extract.len());
    assert_eq!(text(sent.last().unwrap()), long(4));
    assert!(!sent[1..].iter().any(|message| text(message).contains("message 1")));
    // It holds in later runs, and after a restart, until there is a second, which works on the first.
    scene.restart().await;
    let sent = say(&scene, &player, session, "short", None).await;
    assert_eq!((text(&sent[0]), text(sent.last().unwrap())), (extract.as_str(), "short"));
    say(&scene, &player, session, &long(5), None).await;
    let order = Order { compact_above: above, tools: Some(vec![]), ..Order::default() };
    let run = scene.ask_for(&long(6), order, None, Some(session)).await;
    let events = scene.ended(run).await;
    let told = first!(events, ContextCompacted);
    assert!(told.tokens_after < told.tokens_before && told.tokens_before > above);
    assert_eq!(first!(events, TurnStarted).input_tokens_estimate, told.tokens_after);
    let sent = messages(&player.seen().last().unwrap().body);
    assert_eq!(text(&sent[0]), told.summary);
    assert!(told.summary.contains("earlier lines are left out") && told.summary.contains("user: short"));
    let place = |name: &str| events.iter().position(|event| event.type_name() == name).unwrap();
    assert_eq!(place("context.compacted") + 1, place("turn.started"));
}

#[tokio::test]
async fn a_session_that_is_kept_goes_on_as_one_that_is_read() {
    let mut told = Vec::new();
    for restarts in [false, true] {
        let Playing { mut scene, player } = playing(recording("text"), "").await;
        let session = seeded(&scene, &[json!({ "role": "user", "content": "from elsewhere" })]).await;
        let mut sent = Vec::new();
        for message in ["one", "two", "three"] {
            if restarts {
                scene.restart().await;
            }
            sent.push(say(&scene, &player, session, message, None).await);
        }
        // What another client does in the session comes between.
        let order = Order { command: Some("true".into()), ..Order::default() };
        let queued = recount_event::family::run::Queued::new(RunKind::Shell);
        let run = scene.queue(queued, order, None, Some(session)).await;
        assert_eq!(count(&scene.ended(run).await, "tool.completed"), 1);
        sent.push(say(&scene, &player, session, "four", None).await);
        sent.push(say(&scene, &player, session, "five", None).await);
        told.push(sent);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(text(told[0][4].last().unwrap()), "five");
    // What came from elsewhere is a message of its own, before four answered ones and the last.
    assert_eq!(told[0][4].len(), 1 + 2 * 4 + 1);
}

#[tokio::test]
async fn a_session_that_is_cancelled_in_the_middle_is_read_again() {
    let Playing { scene, player } = playing(recording("silent"), "").await;
    let session = seeded(&scene, &[]).await;
    let order = Order { tools: Some(vec![]), ..Order::default() };
    let run = scene.ask_for("one", order.clone(), None, Some(session)).await;
    player.wait_seen(1).await;
    scene.cancel(run).await;
    scene.ended(run).await;
    let run = scene.ask_for("two", order, None, Some(session)).await;
    player.wait_seen(2).await;
    scene.cancel(run).await;
    let sent = messages(&player.seen()[1].body);
    // The message that was never answered stays one of its own.
    assert_eq!(sent.iter().map(text).collect::<Vec<_>>(), ["one", "two"]);
}
