//! What goes wrong below HTTP, or just within it.

use std::time::Duration;

use recount_event::Code;
use recount_server::limits::HEAD_WAIT;
use recount_world::Kind;
use tokio::io::AsyncWriteExt as _;

use crate::house::{House, STORY, batch, check_problem};
use crate::wire::{Wire, request};

#[tokio::test]
async fn heads_that_are_too_large_or_no_heads() {
    let house = House::memory().await;
    let host = format!("host: {}\r\n", house.address);
    let many = |count: usize| (0..count).map(|at| format!("x-{at}: y\r\n")).collect::<String>();
    for (head, statuses) in [
        (format!("GET /v1/runs HTTP/1.1\r\n{host}{}\r\n", many(101)), &[431_u16][..]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}{}\r\n", many(5000)), &[431]),
        (format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(160 << 10)), &[431]),
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
        let mut wire = Wire::connect(house.address).await;
        wire.send_anyway(head.as_bytes()).await;
        let reply = wire.reply("GET").await.unwrap_or_else(|| panic!("no answer to {head:.60}"));
        assert!(statuses.contains(&reply.status), "{}: {head:.60}", reply.status);
        assert_eq!(wire.rest().await, b"", "the connection ends: {head:.60}");
    }
    // The most there may be is taken.
    let head = format!("GET /v1/runs HTTP/1.1\r\n{host}{}\r\n", many(99));
    let mut wire = Wire::connect(house.address).await;
    wire.send(head.as_bytes()).await;
    assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    let mut wire = Wire::connect(house.address).await;
    wire.send(format!("GET /v1/runs HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(60 << 10)).as_bytes()).await;
    assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    house.lives().await;
}

#[tokio::test]
async fn a_length_and_chunks_at_once_smuggle_nothing() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let inner = request(house.address, "POST", &format!("/v1/runs/{run}/cancel"), &[], None);
    let mut bytes = format!(
        "POST /v1/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        house.address,
        5 + inner.len()
    )
    .into_bytes();
    bytes.extend_from_slice(&inner);
    let mut wire = Wire::connect(house.address).await;
    wire.send(&bytes).await;
    let mut answers = Vec::new();
    while let Some(reply) = wire.reply("POST").await {
        answers.push(reply.status);
    }
    // Refused, or read as chunks say and the connection given up: what follows is then no request of ours.
    assert!(answers == [400] || answers == [201], "{answers:?}");
    assert_eq!(house.get(&format!("/v1/runs/{run}")).await.data()["status"], "queued");
}

#[tokio::test]
async fn requests_in_one_piece_are_answered_in_order() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let mut bytes = Vec::new();
    for (seq, event) in STORY.iter().enumerate() {
        let body = batch("p", 1, seq as u64, &[*event]);
        bytes.extend(request(house.address, "POST", &path, &[], Some(body.as_bytes())));
        bytes.extend(request(house.address, "GET", "/v1/none", &[], None));
    }
    bytes.extend(request(house.address, "GET", &path, &[("accept", "text/event-stream")], None));
    let mut wire = Wire::connect(house.address).await;
    wire.send(&bytes).await;
    for seq in 0..STORY.len() {
        let reply = wire.reply("POST").await.unwrap();
        assert_eq!(reply.data()["first_sequence"], seq + 1, "{}", reply.text());
        check_problem(&wire.reply("GET").await.unwrap(), Code::RouteNotFound, "between");
    }
    let told = wire.reply("GET").await.unwrap();
    assert!(told.text().ends_with("event: caught_up\ndata: {\"sequence\":14}\n\n"));
    // Byte by byte comes to the same.
    for byte in request(house.address, "GET", "/v1/runs", &[], None) {
        wire.send(&[byte]).await;
    }
    assert_eq!(wire.reply("GET").await.unwrap().status, 200);
}

#[tokio::test]
async fn peers_that_leave_in_the_middle() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let body = batch("p", 1, 0, STORY);
    let whole = request(house.address, "POST", &format!("/v1/runs/{run}/events"), &[], Some(body.as_bytes()));
    for cut in [0, 1, 20, whole.len() - body.len() - 1, whole.len() - body.len(), whole.len() - 1] {
        for half in [true, false] {
            let mut wire = Wire::connect(house.address).await;
            wire.send(&whole[..cut]).await;
            if half {
                wire.socket.shutdown().await.unwrap();
                let reply = wire.reply("POST").await;
                assert!(reply.is_none_or(|reply| reply.status == 400), "cut at {cut}");
            }
        }
    }
    assert_eq!(house.envelopes(&format!("/v1/runs/{run}/events")).await.len(), 1, "half a batch is none");
    // Who stops talking after a whole request may still be answered, or not; the server does not mind.
    let mut wire = Wire::connect(house.address).await;
    wire.send(&whole).await;
    wire.socket.shutdown().await.unwrap();
    wire.rest().await;
    let reply = house.post(&format!("/v1/runs/{run}/events"), &body).await;
    assert_eq!(reply.data()["first_sequence"], 1, "sent again, it counts once");
    assert_eq!(house.envelopes(&format!("/v1/runs/{run}/events")).await.len(), STORY.len() + 1);
    house.lives().await;
}

#[tokio::test]
async fn a_client_may_ask_before_it_sends_its_body() {
    let house = House::memory().await;
    let body = br#"{"kind":"external"}"#;
    let head = |target: &str, length: usize, media_type: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nhost: {}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
             expect: 100-continue\r\n\r\n",
            house.address
        )
    };
    let mut wire = Wire::connect(house.address).await;
    wire.send(head("/v1/runs", body.len(), "application/json").as_bytes()).await;
    assert_eq!(wire.reply("POST").await.unwrap().status, 100);
    wire.send(body).await;
    assert_eq!(wire.reply("POST").await.unwrap().status, 201);
    // What is refused by its head is refused before the body comes.
    for (target, length, media_type, code) in [
        ("/v1/none", 10, "application/json", Code::RouteNotFound),
        ("/v1/runs", (64 << 10) + 1, "application/json", Code::BodyTooLarge),
        ("/v1/runs", 10, "text/plain", Code::MediaTypeUnsupported),
        ("/v1/runs/x/cancel", 10, "application/json", Code::RunNotFound),
        ("/v1/approvals/x/resolve", 10, "application/json", Code::ApprovalNotFound),
    ] {
        let mut wire = Wire::connect(house.address).await;
        wire.send(head(target, length, media_type).as_bytes()).await;
        let reply = wire.reply("POST").await.unwrap();
        check_problem(&reply, code, target);
    }
}

#[tokio::test]
async fn bodies_where_none_is_wanted() {
    let house = House::memory().await;
    let mut wire = Wire::connect(house.address).await;
    for _ in 0..2 {
        wire.send(&request(house.address, "GET", "/v1/runs", &[], Some(b"{\"not\":\"read\"}"))).await;
        assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn heads_that_do_not_come_and_connections_at_rest_are_let_go() {
    let house = House::memory().await;
    let tasks = house.running.engine.world().tasks.clone();
    let whole = request(house.address, "GET", "/v1/runs", &[], None);
    for sent in [0, 10, whole.len()] {
        let mut wire = Wire::connect(house.address).await;
        wire.send(&whole[..sent]).await;
        if sent == whole.len() {
            assert_eq!(wire.reply("GET").await.unwrap().status, 200);
        }
        // Until the server has seen it all; then time passes only when nothing else can happen.
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
