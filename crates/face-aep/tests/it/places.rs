//! FaceState for streams: bounded, taken by streams only, given back by all.

use axum::body::Body;
use http::Method;
use recount_face_aep::FaceState;

use crate::stage::{Stage, json, piece};

#[tokio::test]
async fn streams_beyond_the_limit_get_a_retry_time() {
    let stage = Stage::set(FaceState::new(2)).await;
    let run = stage.new_run().await;
    let target = format!("/v1/runs/{run}/events");
    // What opens no stream takes no place, however often.
    for _ in 0..5 {
        for (method, target, accept, status) in [
            (Method::HEAD, target.as_str(), "text/event-stream", 200),
            (Method::HEAD, "/v1/events/stream", "*/*", 200),
            (Method::GET, target.as_str(), "application/json", 200),
            (Method::GET, "/v1/events/stream?after_position=9", "*/*", 409),
            (Method::GET, "/v1/runs/x/events", "text/event-stream", 404),
        ] {
            let reply = stage.ask(method.clone(), target, accept, Body::empty()).await;
            assert_eq!(reply.status(), status, "{method} {target}");
        }
    }
    let first = stage.stream(&target).await;
    let second = stage.stream("/v1/events").await;
    assert_eq!((first.status(), second.status()), (http::StatusCode::OK, http::StatusCode::OK));
    for target in [target.as_str(), "/v1/events", "/v1/events/stream"] {
        let reply = stage.stream(target).await;
        assert_eq!(reply.status(), 503, "{target}");
        assert_eq!(reply.headers()["retry-after"], "5");
        let problem = json(reply).await;
        assert_eq!((&problem["code"], &problem["retryable"]), (&"too_many_streams".into(), &true.into()));
    }
    // Reading pages still works, and a released permit can be taken.
    let reply = stage.ask(Method::GET, &target, "*/*", Body::empty()).await;
    assert_eq!(reply.status(), 200);
    drop(first);
    let mut third = stage.stream(&target).await;
    assert_eq!(third.status(), 200);
    assert_eq!(stage.stream(&target).await.status(), 503);
    assert!(piece(third.body_mut()).await.unwrap().starts_with("retry: "));
    // A stream that ends by itself gives its place back when it is let go.
    let story = r#"{"type":"run.started","data":{}},{"type":"run.finished","data":{"final_status":"ok"}}"#;
    stage.append(&run, 0, story).await;
    while piece(third.body_mut()).await.is_some() {}
    drop(third);
    assert_eq!(stage.stream(&target).await.status(), 200);
}

#[tokio::test]
async fn an_unread_stream_does_not_delay_others() {
    let stage = Stage::set(FaceState::new(recount_face_aep::limits::STREAMS_MAX)).await;
    let run = stage.new_run().await;
    let unread = stage.stream(&format!("/v1/runs/{run}/events")).await;
    for seq in 0..20 {
        let large = format!(r#"{{"type":"user.message","data":{{"text":"{}"}}}}"#, "x".repeat(200_000));
        stage.append(&run, seq, &large).await;
    }
    // It was four times too slow for the live list, and still misses nothing.
    let mut body = unread.into_body();
    let mut received = String::new();
    while !received.contains("event: caught_up") {
        received.push_str(&piece(&mut body).await.unwrap());
    }
    let ids: Vec<u64> =
        received.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids, (0..=20).collect::<Vec<u64>>());
    assert_eq!(stage.engine.admin().awake(), 1);
}

#[tokio::test]
async fn a_tenant_with_all_streams_does_not_block_other_tenants() {
    let own = recount_face_aep::limits::STREAMS_OWN_MAX;
    let places = FaceState::new(own + 2);
    let greedy = Stage::set(places.clone()).await;
    let other = Stage::set(places.clone()).await;
    let mut held = Vec::new();
    for _ in 0..own + 2 {
        held.push(greedy.stream("/v1/events").await);
        assert_eq!(held.last().unwrap().status(), 200);
    }
    let refused = greedy.stream("/v1/events").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"5".parse().unwrap()));
    let mut theirs = Vec::new();
    for at in 0..own {
        theirs.push(other.stream("/v1/events").await);
        assert_eq!(theirs.last().unwrap().status(), 200, "stream {at} of the other tenant");
    }
    assert_eq!(other.stream("/v1/events").await.status(), 503, "beyond its own, where nothing is left");
    assert_eq!(places.streams_refused(), 2);
    held.clear();
    assert_eq!(other.stream("/v1/events").await.status(), 200, "what is free is for everybody");
}
