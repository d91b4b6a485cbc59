//! Replies: heard, judged, told; and prompts that wait for them.

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

/// Listens up to the prompt; answers what was heard and the prompt's token.
async fn up_to_the_prompt(ear: &mut crate::replay::fixture::Ear) -> (Vec<String>, String) {
    let mut heard = Vec::new();
    loop {
        let text = ear.next().await.expect("a prompt comes").data;
        heard.push(text.clone());
        if text.contains("\"aaep:agent.awaiting.") {
            return (heard, field(&text, "reply_token"));
        }
    }
}

#[tokio::test]
async fn a_prompt_waits_for_its_answer() {
    let recording = recording("good.confirmed");
    let fixture = Fixture::of(&recording, holding()).await;
    let mut ear = fixture.listen("/events", None).await;
    let (mut heard, token) = up_to_the_prompt(&mut ear).await;
    let waits = fixture.wait_notice("Waits").await;
    assert!(waits.contains("line: 4"), "{waits}");

    // R-079: whatever is wrong with a reply, the answer is the same.
    for ineffective in [reply("rpl_other", "accept", "sub_1"), reply(&token, "perhaps", "sub_1")] {
        assert_eq!(fixture.post("/messages", &ineffective).await, (StatusCode::NO_CONTENT, String::new()));
    }
    for unfit in ["", "[]", "{\"type\":\"confirmation.reply\"}", "{\"type\":\"subscription.accepted\"}", "{}"]
    {
        assert_eq!(fixture.post("/messages", unfit).await.0, StatusCode::BAD_REQUEST, "{unfit}");
    }
    let notices = fixture.notices.lock().unwrap().join("\n");
    assert!(
        notices.contains("outcome: Unknown") && notices.contains("outcome: Unfit { line: 4"),
        "{notices}"
    );
    assert!(!notices.contains("line 6"), "nothing behind the prompt was said: {notices}");

    assert_eq!(fixture.post("/messages", &reply(&token, "reject", "")).await.0, StatusCode::NO_CONTENT);
    heard.extend(ear.rest().await);
    assert_eq!(heard, recorded_lines(&recording), "what was recorded goes on, whatever was answered");
    let notice = fixture.wait_notice("Reply").await;
    assert!(notice.contains("Unknown"), "{notice}");
    let notices = fixture.notices.lock().unwrap().join("\n");
    let taken = r#"Taken { line: 4, value: "\"reject\"", recorded: Some("\"accept\"") }"#;
    assert!(notices.contains(taken), "{notices}");
    fixture.ends().await;
}

#[tokio::test]
async fn an_answer_shortens_the_pause_that_was_recorded_for_it() {
    let recording = recording("good.confirmed");
    // An hour until the answer came, and another until that had its effect.
    let slow = recording.replace("14:22:05", "15:22:05").replace("14:22:06", "16:22:06");
    assert_ne!(slow, recording);
    let first_pauses = Pace::Recorded { speed: 50.0 };
    let fixture = Fixture::of(&slow, ReplayOptions { pace: first_pauses, ..holding() }).await;
    let start = moment();
    let mut ear = fixture.listen("/events", None).await;
    let (_, token) = up_to_the_prompt(&mut ear).await;
    assert_eq!(fixture.post("/messages", &reply(&token, "accept", "")).await.0, StatusCode::NO_CONTENT);
    // Two hours are more than two minutes at this speed.
    ear.some(1).await;
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[tokio::test]
async fn without_an_answer_it_goes_on_when_the_prompt_s_time_is_over() {
    let recording = recording("good.confirmed").replace("\"timeout_seconds\":300", "\"timeout_seconds\":1");
    let fixture = Fixture::of(&recording, ReplayOptions { stay: true, ..holding() }).await;
    let start = moment();
    let mut ear = fixture.listen("/events", None).await;
    let (_, token) = up_to_the_prompt(&mut ear).await;
    ear.some(1).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    fixture.wait_notice("TimedOut { line: 4 }").await;
    assert_eq!(fixture.post("/messages", &reply(&token, "accept", "")).await.0, StatusCode::NO_CONTENT);
    let notice = fixture.wait_notice("Reply").await;
    assert!(notice.contains("Late { line: 4 }"), "{notice}");
}

#[tokio::test]
async fn replies_without_an_open_prompt_are_reported() {
    let fixture = Fixture::of(&recording("good.confirmed"), ReplayOptions { stay: true, ..at_once() }).await;
    let mut ear = fixture.listen("/events", None).await;
    let (_, token) = up_to_the_prompt(&mut ear).await;
    for _ in 0..2 {
        assert_eq!(fixture.post("/messages", &reply(&token, "accept", "")).await.0, StatusCode::NO_CONTENT);
    }
    assert_eq!(
        fixture.post("/messages", r#"{"kind":"user_input","text":"go"}"#).await.0,
        StatusCode::NO_CONTENT
    );
    let notice = fixture.wait_notice("Input").await;
    assert!(notice.contains("user_input"), "{notice}");
    let notices = fixture.notices.lock().unwrap().join("\n");
    assert!(
        notices.contains("Taken { line: 4") && notices.contains("outcome: Again { line: 4 }"),
        "{notices}"
    );
}

/// R-161: knowing the token is not enough where there are subscriptions.
#[tokio::test]
async fn a_reply_on_another_subscription_counts_for_nothing() {
    let fixture = Fixture::of(&recording("good.confirmed"), ReplayOptions { stay: true, ..holding() }).await;
    let (place, accepted) = subscribe(&fixture, r#"{"supports_confirmation_reply":true}"#).await;
    let mut ear = fixture.listen(&place, None).await;
    let (_, token) = up_to_the_prompt(&mut ear).await;
    let own = accepted["subscription_id"].as_str().unwrap();
    for (subscription, outcome) in [("sub_other", "Stranger"), (own, "Taken")] {
        let sent = fixture.post("/aaep/v1/replies", &reply(&token, "accept", subscription)).await;
        assert_eq!(sent, (StatusCode::NO_CONTENT, String::new()));
        assert!(fixture.notices.lock().unwrap().iter().any(|notice| notice.contains(outcome)), "{outcome}");
    }
    let short =
        format!("{{\"type\":\"confirmation.reply\",\"reply_token\":\"{token}\",\"decision\":\"accept\"}}");
    let unfit = fixture.post("/aaep/v1/replies", &short).await.0;
    assert_eq!(unfit, StatusCode::BAD_REQUEST, "here messages are as the protocol words them");
}
