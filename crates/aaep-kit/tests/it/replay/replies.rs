//! Replies: how they are evaluated and reported, and prompts that wait for them.

use std::time::Duration;

use recount_aaep_kit::replay::{Pace, ReplayOptions};
use recount_world::moment;
use reqwest::StatusCode;

use crate::replay::fixture::{Fixture, at_once, field, recorded_lines, recording};
use crate::replay::surfaces::subscribe;

fn holding() -> ReplayOptions {
    ReplayOptions { hold: true, ..at_once() }
}

fn reply(token: &str, decision: &str, subscription: &str) -> String {
    format!(
        "{{\"type\":\"confirmation.reply\",\"reply_token\":\"{token}\",\"decision\":\"{decision}\",\
         \"subscription_id\":\"{subscription}\",\"timestamp\":\"2026-05-24T14:22:21.000Z\"}}"
    )
}

/// Reads up to the prompt; returns the texts and the prompt's token.
async fn up_to_the_prompt(reader: &mut crate::replay::fixture::StreamReader) -> (Vec<String>, String) {
    let mut received = Vec::new();
    loop {
        let text = reader.next().await.expect("a prompt comes").data;
        received.push(text.clone());
        if text.contains("\"aaep:agent.awaiting.") {
            return (received, field(&text, "reply_token"));
        }
    }
}

#[tokio::test]
async fn a_prompt_waits_for_its_answer() {
    let recording = recording("good.confirmed");
    let fixture = Fixture::of(&recording, holding()).await;
    let mut reader = fixture.listen("/events", None).await;
    let (mut received, token) = up_to_the_prompt(&mut reader).await;
    let waits = fixture.wait_notice("WaitingForReply").await;
    assert!(waits.contains("line: 4"), "{waits}");

    // R-079: the response to an ineffective reply is always the same.
    for ineffective in [reply("rpl_other", "accept", "sub_1"), reply(&token, "perhaps", "sub_1")] {
        assert_eq!(fixture.post("/messages", &ineffective).await, (StatusCode::NO_CONTENT, String::new()));
    }
    for unfit in ["", "[]", "{\"type\":\"confirmation.reply\"}", "{\"type\":\"subscription.accepted\"}", "{}"]
    {
        assert_eq!(fixture.post("/messages", unfit).await.0, StatusCode::BAD_REQUEST, "{unfit}");
    }
    let notices = fixture.notices.lock().unwrap().join("\n");
    assert!(
        notices.contains("outcome: Unknown") && notices.contains("outcome: Invalid { line: 4"),
        "{notices}"
    );
    assert!(!notices.contains("line 6"), "nothing after the prompt was sent: {notices}");

    assert_eq!(fixture.post("/messages", &reply(&token, "reject", "")).await.0, StatusCode::NO_CONTENT);
    received.extend(reader.rest().await);
    assert_eq!(received, recorded_lines(&recording), "the recorded lines follow, whatever the reply");
    let notice = fixture.wait_notice("Reply {").await;
    assert!(notice.contains("Unknown"), "{notice}");
    let notices = fixture.notices.lock().unwrap().join("\n");
    let taken = r#"Accepted { line: 4, value: "\"reject\"", recorded: Some("\"accept\"") }"#;
    assert!(notices.contains(taken), "{notices}");
    fixture.ends().await;
}

#[tokio::test]
async fn an_answer_shortens_the_pause_that_was_recorded_for_it() {
    let recording = recording("good.confirmed");
    // An hour until the reply, and another until its effect.
    let slow = recording.replace("14:22:05", "15:22:05").replace("14:22:06", "16:22:06");
    assert_ne!(slow, recording);
    let first_pauses = Pace::Recorded { speed: 50.0 };
    let fixture = Fixture::of(&slow, ReplayOptions { pace: first_pauses, ..holding() }).await;
    let start = moment();
    let mut reader = fixture.listen("/events", None).await;
    let (_, token) = up_to_the_prompt(&mut reader).await;
    assert_eq!(fixture.post("/messages", &reply(&token, "accept", "")).await.0, StatusCode::NO_CONTENT);
    // At this speed two hours take more than two minutes.
    reader.some(1).await;
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[tokio::test]
async fn without_a_reply_it_continues_when_the_prompt_expires() {
    let recording = recording("good.confirmed").replace("\"timeout_seconds\":300", "\"timeout_seconds\":1");
    let fixture = Fixture::of(&recording, ReplayOptions { stay: true, ..holding() }).await;
    let start = moment();
    let mut reader = fixture.listen("/events", None).await;
    let (_, token) = up_to_the_prompt(&mut reader).await;
    reader.some(1).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    fixture.wait_notice("ReplyTimedOut { line: 4 }").await;
    assert_eq!(fixture.post("/messages", &reply(&token, "accept", "")).await.0, StatusCode::NO_CONTENT);
    let notice = fixture.wait_notice("Reply {").await;
    assert!(notice.contains("Late { line: 4 }"), "{notice}");
}

#[tokio::test]
async fn replies_without_an_open_prompt_are_reported() {
    let fixture = Fixture::of(&recording("good.confirmed"), ReplayOptions { stay: true, ..at_once() }).await;
    let mut reader = fixture.listen("/events", None).await;
    let (_, token) = up_to_the_prompt(&mut reader).await;
    for _ in 0..2 {
        assert_eq!(fixture.post("/messages", &reply(&token, "accept", "")).await.0, StatusCode::NO_CONTENT);
    }
    assert_eq!(
        fixture.post("/messages", r#"{"kind":"user_input","text":"go"}"#).await.0,
        StatusCode::NO_CONTENT
    );
    let notice = fixture.wait_notice("Input {").await;
    assert!(notice.contains("user_input"), "{notice}");
    let notices = fixture.notices.lock().unwrap().join("\n");
    assert!(
        notices.contains("Accepted { line: 4") && notices.contains("outcome: Duplicate { line: 4 }"),
        "{notices}"
    );
}

/// R-161: the token alone is not enough if there are subscriptions.
#[tokio::test]
async fn a_reply_on_another_subscription_counts_for_nothing() {
    let fixture = Fixture::of(&recording("good.confirmed"), ReplayOptions { stay: true, ..holding() }).await;
    let (place, accepted) = subscribe(&fixture, r#"{"supports_confirmation_reply":true}"#).await;
    let mut reader = fixture.listen(&place, None).await;
    let (_, token) = up_to_the_prompt(&mut reader).await;
    let own = accepted["subscription_id"].as_str().unwrap();
    for (subscription, outcome) in [("sub_other", "UnknownSubscription"), (own, "Accepted")] {
        let sent = fixture.post("/aaep/v1/replies", &reply(&token, "accept", subscription)).await;
        assert_eq!(sent, (StatusCode::NO_CONTENT, String::new()));
        assert!(fixture.notices.lock().unwrap().iter().any(|notice| notice.contains(outcome)), "{outcome}");
    }
    let short =
        format!("{{\"type\":\"confirmation.reply\",\"reply_token\":\"{token}\",\"decision\":\"accept\"}}");
    let unfit = fixture.post("/aaep/v1/replies", &short).await.0;
    assert_eq!(unfit, StatusCode::BAD_REQUEST, "here messages are as the protocol words them");
}
