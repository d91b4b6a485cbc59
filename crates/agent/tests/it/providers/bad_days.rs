//! Providers that fail, break off, fall silent or say what nobody can read; and answers nobody waits for.

use std::time::Duration;

use recount_agent::model::{Failure, Piece};
use recount_event::family::turn::StopReason;

use crate::providers::stage::{APIS, KEY, Stage, drain, finish, model, request, stage, text, user};

async fn fail(stage: &Stage) -> (Vec<Piece>, Failure) {
    let (pieces, failure) = stage.hear().await;
    (pieces, failure.expect("the recording fails"))
}

#[tokio::test]
async fn failures_are_told_by_code_and_by_what_may_be_done() {
    let started = || vec![text("Good ")];
    for api in APIS {
        let scenarios = [
            ("cut", "model_cut", true, started(), "was cut off"),
            ("missing_finish", "model_cut", true, vec![text("Good "), text("morning")], "without a finish"),
            ("malformed", "model_malformed", true, started(), "cannot be read"),
            ("not_sse", "model_malformed", true, vec![], "answered text/html where a stream"),
            ("not_sse_unsaid", "model_malformed", true, vec![], "is no stream of events"),
            ("error_body", "model_overloaded", true, vec![], "Overloaded"),
            ("overloaded_in_stream", "model_overloaded", true, started(), "broke off with"),
            ("huge_line", "model_malformed", true, vec![], "LINE_BYTES_MAX"),
            ("huge_answer", "model_malformed", true, vec![], "MODEL_ANSWER_BYTES_MAX"),
            ("unauthorized", "model_unauthorized", false, vec![], "check the key"),
            ("not_found", "model_not_found", false, vec![], "not_found"),
            ("context_full", "model_context_full", false, vec![], "longer than the model can take"),
            ("bad_request", "model_refused", false, vec![], "messages"),
        ];
        for (recording, code, retriable, said, why) in scenarios {
            let (pieces, failure) = fail(&stage(api, recording, "").await).await;
            assert_eq!((failure.code, failure.retriable), (code, retriable), "{api} {recording}: {failure}");
            assert_eq!(pieces, said, "{api} {recording}");
            assert!(failure.message.contains(why), "{api} {recording}: {failure}");
            assert!(failure.message.starts_with("the "), "{api} {recording}: {failure}");
            assert!(!failure.message.contains(KEY), "{api} {recording}: {failure}");
        }
    }
}

#[tokio::test]
async fn what_only_some_servers_say() {
    let (_, failure) = fail(&stage("openai", "dialect_error_text", "").await).await;
    assert_eq!(failure.code, "model_failed");
    assert!(failure.message.contains("llama runner"), "{failure}");
    let (_, failure) = fail(&stage("openai", "out_of_funds", "").await).await;
    assert_eq!((failure.code, failure.retriable), ("model_refused", false));
}

#[tokio::test]
async fn who_asks_too_often_is_told_how_long_to_wait_and_served_then() {
    for (api, wait) in [("anthropic", 7_000), ("openai", 1_500)] {
        let stage = stage(api, "rate_limited", "").await;
        let (_, failure) = fail(&stage).await;
        assert_eq!((failure.code, failure.status), ("model_rate_limited", Some(429)));
        assert_eq!(failure.retry_after, Some(Duration::from_millis(wait)));
        assert_eq!(stage.hear().await.0.last(), Some(&finish(StopReason::EndTurn)));
    }
}

#[tokio::test]
async fn a_wait_may_be_told_as_a_date() {
    for api in APIS {
        let (_, failure) = fail(&stage(api, "overloaded", "").await).await;
        assert_eq!((failure.code, failure.status), ("model_overloaded", Some(529)), "{api}");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(100)), "{api}");
    }
}

#[tokio::test]
async fn a_provider_may_fail_three_times_and_then_answer() {
    for api in APIS {
        let stage = stage(api, "failing", "").await;
        for _ in 0..3 {
            let (_, failure) = fail(&stage).await;
            assert_eq!((failure.code, failure.status), ("model_failed", Some(500)), "{api}");
            assert!(failure.retriable && failure.retry_after.is_none(), "{api}");
        }
        assert_eq!(stage.hear().await.1, None, "{api}");
    }
}

#[tokio::test]
async fn silence_ends_with_patience() {
    for api in APIS {
        for (recording, settings, said) in [
            ("silent", "first_byte_timeout_ms = 200", vec![]),
            ("silent_midway", "silence_timeout_ms = 200", vec![text("Good ")]),
            ("signs_of_life", "first_byte_timeout_ms = 1000\nlife_signs_timeout_ms = 1000", vec![]),
        ] {
            let stage = stage(api, recording, settings).await;
            let (pieces, failure) = fail(&stage).await;
            assert_eq!((failure.code, failure.retriable), ("model_timeout", true), "{api} {recording}");
            assert_eq!(pieces, said, "{api} {recording}");
            stage.player.wait_abandoned(1).await;
        }
    }
}

#[tokio::test]
async fn dropping_an_answer_closes_its_connection() {
    for api in APIS {
        let waiting = stage(api, "silent", "").await;
        let mut reply = waiting.begin();
        tokio::select! {
            _ = reply.next() => panic!("{api}: nothing is said"),
            () = waiting.player.wait_seen(1) => {}
        }
        drop(reply);
        waiting.player.wait_abandoned(1).await;

        let midway = stage(api, "silent_midway", "").await;
        let mut reply = midway.begin();
        let mut first = reply.next().await;
        // Usage that is reported at the beginning comes before the text.
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
        let stage = stage(api, "slow", "").await;
        let mut reply = stage.begin();
        let mut pieces = Vec::new();
        while !matches!(pieces.last(), Some(Piece::Finish { .. })) {
            if let Ok(piece) = tokio::time::timeout(Duration::from_millis(20), reply.next()).await {
                pieces.push(piece.unwrap());
            }
        }
        pieces.retain(|piece| !matches!(piece, Piece::Usage(_)));
        let hello = [text("Good "), text("morning, "), text("friend."), finish(StopReason::EndTurn)];
        assert_eq!(pieces, hello, "{api}");
        assert_eq!(stage.player.seen().len(), 1, "{api}: asked once");
    }
}

#[tokio::test]
async fn nobody_there_is_a_reason_to_try_again() {
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
async fn a_server_without_tls_is_not_spoken_to_over_it() {
    let stage = stage("openai", "text", "").await;
    let base = format!("{}/v1", stage.player.url().replace("http://", "https://"));
    let model = model("openai", &base, "");
    let (_, failure) = drain(model.begin(std::sync::Arc::new(request(vec![user("hello")])))).await;
    assert_eq!(failure.unwrap().code, "model_unreachable");
    assert_eq!(stage.player.seen(), []);
}
