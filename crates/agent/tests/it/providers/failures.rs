//! Providers that fail, disconnect, stall or send unreadable data; and responses that the caller drops.

use std::time::Duration;

use recount_agent::model::{Failure, Piece};
use recount_event::family::turn::StopReason;

use crate::providers::recorded::{
    APIS, KEY, RecordedProvider, drain, finish, model, play, request, text, user,
};

async fn fail(provider: &RecordedProvider) -> (Vec<Piece>, Failure) {
    let (pieces, failure) = provider.receive().await;
    (pieces, failure.expect("the recording fails"))
}

#[tokio::test]
async fn failures_have_a_code_and_a_remedy() {
    let started = || vec![text("Good ")];
    for api in APIS {
        let scenarios = [
            ("cut", "model_cut", true, started(), "was cut off"),
            (
                "missing_finish",
                "model_cut",
                true,
                vec![text("Good "), text("morning")],
                "before it was complete",
            ),
            ("malformed", "model_malformed", true, started(), "cannot be read"),
            ("not_sse", "model_malformed", true, vec![], "returned text/html instead of an event stream"),
            ("not_sse_unsaid", "model_malformed", true, vec![], "is not an event stream"),
            ("error_body", "model_overloaded", true, vec![], "Overloaded"),
            ("overloaded_in_stream", "model_overloaded", true, started(), "failed during the response with"),
            ("huge_line", "model_malformed", true, vec![], "LINE_BYTES_MAX"),
            ("huge_answer", "model_malformed", true, vec![], "MODEL_ANSWER_BYTES_MAX"),
            ("unauthorized", "model_unauthorized", false, vec![], "check the API key"),
            ("not_found", "model_not_found", false, vec![], "not_found"),
            ("context_full", "model_context_full", false, vec![], "exceeds the model's context window"),
            ("bad_request", "model_refused", false, vec![], "messages"),
        ];
        for (recording, code, retriable, expected, why) in scenarios {
            let (pieces, failure) = fail(&play(api, recording, "").await).await;
            assert_eq!((failure.code, failure.retriable), (code, retriable), "{api} {recording}: {failure}");
            assert_eq!(pieces, expected, "{api} {recording}");
            assert!(failure.message.contains(why), "{api} {recording}: {failure}");
            assert!(failure.message.starts_with("the "), "{api} {recording}: {failure}");
            assert!(!failure.message.contains(KEY), "{api} {recording}: {failure}");
        }
    }
}

#[tokio::test]
async fn errors_of_single_dialects_are_classified() {
    let (_, failure) = fail(&play("openai", "dialect_error_text", "").await).await;
    assert_eq!(failure.code, "model_failed");
    assert!(failure.message.contains("llama runner"), "{failure}");
    let (_, failure) = fail(&play("openai", "out_of_funds", "").await).await;
    assert_eq!((failure.code, failure.retriable), ("model_refused", false));
}

#[tokio::test]
async fn a_rate_limit_returns_the_wait_and_a_later_attempt_succeeds() {
    for (api, wait) in [("anthropic", 7_000), ("openai", 1_500)] {
        let provider = play(api, "rate_limited", "").await;
        let (_, failure) = fail(&provider).await;
        assert_eq!((failure.code, failure.status), ("model_rate_limited", Some(429)));
        assert_eq!(failure.retry_after, Some(Duration::from_millis(wait)));
        assert_eq!(provider.receive().await.0.last(), Some(&finish(StopReason::EndTurn)));
    }
}

#[tokio::test]
async fn a_wait_can_be_a_date() {
    for api in APIS {
        let (_, failure) = fail(&play(api, "overloaded", "").await).await;
        assert_eq!((failure.code, failure.status), ("model_overloaded", Some(529)), "{api}");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(100)), "{api}");
    }
}

#[tokio::test]
async fn a_provider_can_fail_three_times_and_then_respond() {
    for api in APIS {
        let provider = play(api, "failing", "").await;
        for _ in 0..3 {
            let (_, failure) = fail(&provider).await;
            assert_eq!((failure.code, failure.status), ("model_failed", Some(500)), "{api}");
            assert!(failure.retriable && failure.retry_after.is_none(), "{api}");
        }
        assert_eq!(provider.receive().await.1, None, "{api}");
    }
}

#[tokio::test]
async fn a_silent_provider_times_out() {
    for api in APIS {
        for (recording, settings, expected) in [
            ("silent", "first_byte_timeout_ms = 200", vec![]),
            ("silent_midway", "silence_timeout_ms = 200", vec![text("Good ")]),
            ("signs_of_life", "first_byte_timeout_ms = 1000\nlife_signs_timeout_ms = 1000", vec![]),
        ] {
            let provider = play(api, recording, settings).await;
            let (pieces, failure) = fail(&provider).await;
            assert_eq!((failure.code, failure.retriable), ("model_timeout", true), "{api} {recording}");
            assert_eq!(pieces, expected, "{api} {recording}");
            provider.player.wait_abandoned(1).await;
        }
    }
}

#[tokio::test]
async fn dropping_a_reply_closes_its_connection() {
    for api in APIS {
        let waiting = play(api, "silent", "").await;
        let mut reply = waiting.begin();
        tokio::select! {
            _ = reply.next() => panic!("{api}: a silent provider sent a piece"),
            () = waiting.player.wait_seen(1) => {}
        }
        drop(reply);
        waiting.player.wait_abandoned(1).await;

        let midway = play(api, "silent_midway", "").await;
        let mut reply = midway.begin();
        let mut first = reply.next().await;
        // Usage at the start comes before the text.
        while matches!(first, Ok(Piece::Usage(_))) {
            first = reply.next().await;
        }
        assert_eq!(first, Ok(text("Good ")));
        drop(reply);
        midway.player.wait_abandoned(1).await;
    }
}

#[tokio::test]
async fn dropping_a_wait_loses_nothing() {
    for api in APIS {
        let provider = play(api, "slow", "").await;
        let mut reply = provider.begin();
        let mut pieces = Vec::new();
        while !matches!(pieces.last(), Some(Piece::Finish { .. })) {
            if let Ok(piece) = tokio::time::timeout(Duration::from_millis(20), reply.next()).await {
                pieces.push(piece.unwrap());
            }
        }
        pieces.retain(|piece| !matches!(piece, Piece::Usage(_)));
        let hello = [text("Good "), text("morning, "), text("friend."), finish(StopReason::EndTurn)];
        assert_eq!(pieces, hello, "{api}");
        assert_eq!(provider.player.seen().len(), 1, "{api}: one request");
    }
}

#[tokio::test]
async fn a_refused_connection_is_retriable() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for api in APIS {
        let model = model(api, &format!("http://127.0.0.1:{port}/v1"), "");
        let (_, failure) = drain(model.begin(std::sync::Arc::new(request(vec![user("hello")])))).await;
        let failure = failure.unwrap();
        assert_eq!((failure.code, failure.retriable), ("model_unreachable", true));
        assert!(failure.message.contains("127.0.0.1"), "{failure}");
    }
}

#[tokio::test]
async fn an_https_url_is_not_used_without_tls() {
    let provider = play("openai", "text", "").await;
    let base = format!("{}/v1", provider.player.url().replace("http://", "https://"));
    let model = model("openai", &base, "");
    let (_, failure) = drain(model.begin(std::sync::Arc::new(request(vec![user("hello")])))).await;
    assert_eq!(failure.unwrap().code, "model_unreachable");
    assert_eq!(provider.player.seen(), []);
}
