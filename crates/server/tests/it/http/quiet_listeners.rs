//! Heartbeats of quiet streams of the accessibility face, over an event stream and a WebSocket.

use std::time::Duration;

use recount_face_aaep::limits::HEARTBEAT_EVERY;
use recount_transport::sse::Decoder;
use serde_json::json;

use crate::http::web_socket::{PING, WebSocket, subscription_request};
use crate::test_context::TestContext;
use crate::wire::{Wire, request};

/// The number of awaited heartbeats. Time advances only when no task can run.
const BEATS: u32 = 3;

fn check(waited: Duration, beat: u32) {
    let due = HEARTBEAT_EVERY * beat;
    assert!(waited + Duration::from_millis(5) >= due, "beat {beat} after {waited:?}");
    assert!(waited < due + HEARTBEAT_EVERY / 2, "beat {beat} after {waited:?}");
}

#[tokio::test]
async fn a_quiet_event_stream_has_a_comment_every_ten_seconds() {
    let context = TestContext::memory().await;
    let reply =
        context.post("/aaep/v1/subscriptions", &subscription_request(json!({}), json!({})).to_string()).await;
    let location = reply.header("location").unwrap().to_owned();
    let mut wire = Wire::connect(context.address).await;
    wire.send(&request(context.address, "GET", &location, &[("accept", "text/event-stream")], None)).await;
    assert_eq!(wire.head().await.unwrap().status, 200);
    let mut decoder = Decoder::new();
    // The first comment shows that the stream is open.
    while decoder.comments() == 0 {
        decoder.feed(&wire.chunk().await.unwrap().expect("the stream continues")).unwrap();
    }
    tokio::time::pause();
    let began = recount_world::moment();
    let before = decoder.comments();
    for beat in 1..=BEATS {
        while decoder.comments() < before + u64::from(beat) {
            decoder.feed(&wire.chunk().await.unwrap().expect("the stream continues")).unwrap();
            assert!(decoder.next_frame().is_none(), "it is quiet");
        }
        check(began.elapsed(), beat);
    }
}

#[tokio::test]
async fn a_quiet_websocket_has_a_ping_every_ten_seconds() {
    let context = TestContext::memory().await;
    let (mut socket, _) = WebSocket::subscribed(context.address, None, json!({})).await;
    tokio::time::pause();
    let began = recount_world::moment();
    for beat in 1..=BEATS {
        assert_eq!(socket.next().await, Some((PING, Vec::new())));
        check(began.elapsed(), beat);
    }
}
