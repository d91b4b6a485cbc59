//! Failures below HTTP and at its edges: malformed heads, disconnects, pipelining, idle connections.

use std::time::Duration;

use recount_event::Code;
use recount_server::limits::HEAD_WAIT;
use recount_world::Kind;
use tokio::io::AsyncWriteExt as _;

use crate::test_context::{STORY, TestContext, batch, check_problem};
use crate::wire::{Wire, request};

#[tokio::test]
async fn oversized_and_malformed_heads_are_refused() {
    let context = TestContext::memory().await;
    let host = format!("host: {}\r\n", context.address);
    let many = |count: usize| (0..count).map(|at| format!("x-{at}: y\r\n")).collect::<String>();
    for (head, statuses) in [
        (format!("GET /v1/runs HTTP/1.1\r\n{host}{}\r\n", many(101)), &[431_u16][..]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}{}\r\n", many(5000)), &[431]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(160 << 10)), &[431]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(64 << 10)), &[431]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(100 << 10)), &[431]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}", "y".repeat(1 << 20)), &[431]),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "y".repeat(70 << 10)), &[414, 431]),
        ("garbage\r\n\r\n".to_owned(), &[400]),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned(), &[400]),
        ("GET\r\n\r\n".to_owned(), &[400]),
        ("GET /v1/runs\r\n\r\n".to_owned(), &[400]),
        ("GET /v1/runs HTTP/7.3\r\n\r\n".to_owned(), &[400]),
        (format!("GET /v1 /runs HTTP/1.1\r\n{host}\r\n"), &[400]),
        (format!("GET /\u{1} HTTP/1.1\r\n{host}\r\n"), &[400]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}no colon\r\n\r\n"), &[400]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}x: a\0b\r\n\r\n"), &[400]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host} folded\r\n\r\n"), &[400]),
        (format!("POST /v1/runs HTTP/1.1\r\n{host}content-length: x\r\n\r\n"), &[400]),
        (format!("POST /v1/runs HTTP/1.1\r\n{host}content-length: -1\r\n\r\n"), &[400]),
        (format!("POST /v1/runs HTTP/1.1\r\n{host}content-length: 1\r\ncontent-length: 2\r\n\r\nab"), &[400]),
        (format!("POST /v1/runs HTTP/1.1\r\n{host}transfer-encoding: gzip\r\n\r\n"), &[400]),
    ] {
        let mut wire = Wire::connect(context.address).await;
        wire.send_anyway(head.as_bytes()).await;
        let reply = wire.reply("GET").await.unwrap_or_else(|| panic!("no answer to {head:.60}"));
        assert!(statuses.contains(&reply.status), "{}: {head:.60}", reply.status);
        assert_eq!(wire.rest().await, b"", "the connection ends: {head:.60}");
    }
    // The largest allowed head is accepted.
    let head = format!("GET /v1/runs HTTP/1.1\r\n{host}{}\r\n", many(99));
    let mut wire = Wire::connect(context.address).await;
    wire.send(head.as_bytes()).await;
    assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    let mut wire = Wire::connect(context.address).await;
    wire.send(format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(60 << 10)).as_bytes()).await;
    assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    context.assert_ready().await;
}

#[tokio::test]
async fn a_length_and_chunks_at_once_smuggle_nothing() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let inner = request(context.address, "POST", &format!("/v1/runs/{run}/cancel"), &[], None);
    let mut bytes = format!(
        "POST /v1/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        context.address,
        5 + inner.len()
    )
    .into_bytes();
    bytes.extend_from_slice(&inner);
    let mut wire = Wire::connect(context.address).await;
    wire.send(&bytes).await;
    let mut answers = Vec::new();
    while let Some(reply) = wire.reply("POST").await {
        answers.push(reply.status);
    }
    // Refused, or read as chunks and the connection closed: the rest is then no request.
    assert!(answers == [400] || answers == [201], "{answers:?}");
    assert_eq!(context.get(&format!("/v1/runs/{run}")).await.data()["status"], "queued");
}

#[tokio::test]
async fn requests_in_one_piece_are_answered_in_order() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let mut bytes = Vec::new();
    for (seq, event) in STORY.iter().enumerate() {
        let body = batch("p", 1, seq as u64, &[*event]);
        bytes.extend(request(context.address, "POST", &path, &[], Some(body.as_bytes())));
        bytes.extend(request(context.address, "GET", "/v1/none", &[], None));
    }
    bytes.extend(request(context.address, "GET", &path, &[("accept", "text/event-stream")], None));
    let mut wire = Wire::connect(context.address).await;
    wire.send(&bytes).await;
    for seq in 0..STORY.len() {
        let reply = wire.reply("POST").await.unwrap();
        assert_eq!(reply.data()["first_sequence"], seq + 1, "{}", reply.text());
        check_problem(&wire.reply("GET").await.unwrap(), Code::RouteNotFound, "between");
    }
    let streamed = wire.reply("GET").await.unwrap();
    assert!(streamed.text().ends_with("event: caught_up\ndata: {\"sequence\":14}\n\n"));
    // A request sent byte by byte gets the same response.
    for byte in request(context.address, "GET", "/v1/runs", &[], None) {
        wire.send(&[byte]).await;
    }
    assert_eq!(wire.reply("GET").await.unwrap().status, 200);
}

#[tokio::test]
async fn peers_that_disconnect_mid_request_leave_nothing() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let body = batch("p", 1, 0, STORY);
    let whole =
        request(context.address, "POST", &format!("/v1/runs/{run}/events"), &[], Some(body.as_bytes()));
    for cut in [0, 1, 20, whole.len() - body.len() - 1, whole.len() - body.len(), whole.len() - 1] {
        for half in [true, false] {
            let mut wire = Wire::connect(context.address).await;
            wire.send(&whole[..cut]).await;
            if half {
                wire.socket.shutdown().await.unwrap();
                let reply = wire.reply("POST").await;
                assert!(reply.is_none_or(|reply| reply.status == 400), "cut at {cut}");
            }
        }
    }
    assert_eq!(context.envelopes(&format!("/v1/runs/{run}/events")).await.len(), 1, "half a batch is none");
    // After a whole request the peer may stop sending; the response is optional.
    let mut wire = Wire::connect(context.address).await;
    wire.send(&whole).await;
    wire.socket.shutdown().await.unwrap();
    wire.rest().await;
    let reply = context.post(&format!("/v1/runs/{run}/events"), &body).await;
    assert_eq!(reply.data()["first_sequence"], 1, "sent again, it counts once");
    assert_eq!(context.envelopes(&format!("/v1/runs/{run}/events")).await.len(), STORY.len() + 1);
    context.assert_ready().await;
}

#[tokio::test]
async fn a_client_may_expect_100_continue() {
    let context = TestContext::memory().await;
    let body = br#"{"kind":"external"}"#;
    let head = |target: &str, length: usize, media_type: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nhost: {}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
             expect: 100-continue\r\n\r\n",
            context.address
        )
    };
    let mut wire = Wire::connect(context.address).await;
    wire.send(head("/v1/runs", body.len(), "application/json").as_bytes()).await;
    assert_eq!(wire.reply("POST").await.unwrap().status, 100);
    wire.send(body).await;
    assert_eq!(wire.reply("POST").await.unwrap().status, 201);
    // A request with a refused head is refused before its body arrives.
    for (target, length, media_type, code) in [
        ("/v1/none", 10, "application/json", Code::RouteNotFound),
        ("/v1/runs", (64 << 10) + 1, "application/json", Code::BodyTooLarge),
        ("/v1/runs", 10, "text/plain", Code::MediaTypeUnsupported),
        ("/v1/runs/x/cancel", 10, "application/json", Code::RunNotFound),
        ("/v1/approvals/x/resolve", 10, "application/json", Code::ApprovalNotFound),
    ] {
        let mut wire = Wire::connect(context.address).await;
        wire.send(head(target, length, media_type).as_bytes()).await;
        let reply = wire.reply("POST").await.unwrap();
        check_problem(&reply, code, target);
    }
}

#[tokio::test]
async fn bodies_of_get_requests_are_ignored() {
    let context = TestContext::memory().await;
    let mut wire = Wire::connect(context.address).await;
    for _ in 0..2 {
        wire.send(&request(context.address, "GET", "/v1/runs", &[], Some(b"{\"not\":\"read\"}"))).await;
        assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn incomplete_heads_and_idle_connections_are_closed() {
    let context = TestContext::memory().await;
    let tasks = context.running.engine.world().tasks.clone();
    let whole = request(context.address, "GET", "/v1/runs", &[], None);
    for sent in [0, 10, whole.len()] {
        let mut wire = Wire::connect(context.address).await;
        wire.send(&whole[..sent]).await;
        if sent == whole.len() {
            assert_eq!(wire.reply("GET").await.unwrap().status, 200);
        }
        // Wait until the server has read everything; then time advances only when no task can run.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        let began = recount_world::moment();
        while tasks.alive(Kind::Connection) > 0 {
            assert!(began.elapsed() < HEAD_WAIT * 2, "{sent} bytes: it was never let go");
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
        let waited = began.elapsed();
        assert!(waited + Duration::from_secs(1) >= HEAD_WAIT, "{sent} bytes: let go after {waited:?}");
        tokio::time::resume();
        assert_eq!(wire.rest().await, b"", "{sent} bytes");
    }
}
