//! Close codes of the WebSocket of the accessibility face, read from a socket.

use std::time::Duration;

use recount_world::Kind;
use serde_json::json;

use crate::http::access::{context_with_token, make_token, request_as};
use crate::http::web_socket::{BINARY, TEXT, WebSocket, subscription_request};
use crate::test_context::{STORY, TestContext, text};
use crate::wire::{Wire, request};

#[tokio::test]
async fn a_run_that_has_ended_closes_with_4000_after_all_of_it() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let (mut socket, _) =
        WebSocket::subscribed(context.address, None, json!({ "run_id": run, "from": "start" })).await;
    context.report(&run, 0, STORY).await;
    let mut last = String::new();
    while let Some(text) = socket.text().await {
        last = text;
    }
    assert!(last.contains("agent.session.completed"), "{last}");
    let (mut again, _) = WebSocket::subscribed(context.address, None, json!({ "run_id": run })).await;
    assert_eq!(again.closed().await, Some((4000, "all events were sent".to_owned())));
}

#[tokio::test]
async fn a_rejected_subscription_closes_with_4001() {
    let context = TestContext::memory().await;
    let mut version = subscription_request(json!({}), json!({}));
    version["aaep_version"] = json!("99.0.0");
    let nowhere = subscription_request(json!({}), json!({ "run_id": "run_01JZZZZZZZZZZZZZZZZZZZZZZZ" }));
    for (request, reason) in [
        (version, "version_unsupported"),
        (
            subscription_request(json!({ "accept_signed_manifests_only": true }), json!({})),
            "manifest_signature_required",
        ),
        (
            subscription_request(json!({ "preferred_verbosity": "loud" }), json!({})),
            "capabilities_incompatible",
        ),
        (nowhere, "unknown"),
    ] {
        let mut socket = WebSocket::open(context.address, None).await;
        socket.send_json(&request).await;
        let answer = socket.message().await;
        assert_eq!(answer["type"], "subscription.rejected", "{answer}");
        assert_eq!(answer["reason_code"], reason, "{answer}");
        let closed = socket.closed().await;
        assert_eq!(closed, Some((4001, "the subscription was rejected".to_owned())), "{reason}");
        assert_eq!(socket.wire.rest().await, b"", "nothing follows");
    }
}

#[tokio::test]
async fn a_revoked_token_closes_with_4002_and_a_missing_scope_with_4003() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let made = request_as(
        &context,
        Some(&admin),
        "POST",
        "/admin/tokens",
        Some(r#"{"name":"reader","scopes":["read"]}"#),
    )
    .await;
    let (id, token) = (text(&made.data()["id"]), text(&made.data()["secret"]));
    let (mut socket, _) = WebSocket::subscribed(context.address, Some(&token), json!({})).await;
    request_as(&context, Some(&admin), "DELETE", &format!("/admin/tokens/{id}"), None).await;
    assert_eq!(socket.closed().await, Some((4002, "the token is no longer valid".to_owned())));

    let writer = make_token(&context, Some(&admin), r#"{"name":"writer","scopes":["ingest"]}"#).await;
    let mut socket = WebSocket::open(context.address, Some(&writer)).await;
    socket.send_json(&subscription_request(json!({}), json!({}))).await;
    let answer = socket.message().await;
    assert_eq!(answer["reason_code"], "authorization_denied", "{answer}");
    let reason = "the token does not permit this subscription";
    assert_eq!(socket.closed().await, Some((4003, reason.to_owned())));
}

#[tokio::test]
async fn a_late_subscription_request_closes_with_4004() {
    let context = TestContext::memory().await;
    // In real time: a paused clock advances while bytes are in the kernel. The server's wait begins after this.
    let began = recount_world::moment();
    let mut socket = WebSocket::open(context.address, None).await;
    let closed = socket.closed().await;
    let waited = began.elapsed();
    assert_eq!(closed, Some((4004, "no subscription.request arrived in time".to_owned())));
    let limit = recount_face_aaep::limits::HANDSHAKE_WAIT;
    // No upper bound: a busy machine takes longer.
    assert!(waited >= limit, "{waited:?}");
}

#[tokio::test]
async fn closing_a_subscription_closes_with_4005() {
    let context = TestContext::memory().await;
    let (mut socket, id) = WebSocket::subscribed(context.address, None, json!({})).await;
    socket.send_json(&json!({ "type": "subscription.close", "subscription_id": id })).await;
    assert_eq!(socket.closed().await, Some((4005, "closed on request".to_owned())));
}

#[tokio::test]
async fn a_server_that_shuts_down_closes_with_1001() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let own = json!({ "run_id": run, "from": "start" });
    let (mut socket, _) = WebSocket::subscribed(context.address, None, own).await;
    // The last sentence is incomplete, and is announced anyway.
    let started = ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"It rains. It will"}"#);
    context.report(&run, 0, &[STORY[0], STORY[1], STORY[2], started]).await;
    let mut announced = String::new();
    while !announced.contains("It rains.") {
        announced.push_str(&socket.text().await.expect("complete sentences arrive at once"));
    }
    let ((rest, closed), alive) = tokio::join!(socket.until_closed(), context.running.stop());
    assert!(rest.concat().contains("It will"), "{rest:?}");
    assert_eq!(closed, Some((1001, "the server is shutting down".to_owned())));
    assert_eq!(alive, 0, "every task ended in time");
}

#[tokio::test]
async fn binary_oversized_and_broken_frames_close_with_their_codes() {
    let context = TestContext::memory().await;
    let large = format!("\"{}\"", "x".repeat(recount_face_aaep::limits::MESSAGE_BYTES_MAX));
    for subscribed in [true, false] {
        for (opcode, payload, code, reason) in [
            (BINARY, &b"{}"[..], 1003, "send text frames"),
            (TEXT, &b"\"\xff\xfe\""[..], 1007, "the text is not UTF-8"),
            (TEXT, large.as_bytes(), 1009, "the message is too large"),
            // No such opcode.
            (3, &b"{}"[..], 1002, "the frame cannot be read"),
        ] {
            let mut socket = match subscribed {
                true => WebSocket::subscribed(context.address, None, json!({})).await.0,
                false => WebSocket::open(context.address, None).await,
            };
            socket.frame(opcode, payload).await;
            let closed = socket.closed().await;
            assert_eq!(closed, Some((code, reason.to_owned())), "subscribed: {subscribed}");
        }
    }
    assert_eq!(context.get("/readyz").await.status, 200);
}

/// A subscription has one stream at a time; a newer one replaces a stalled socket.
#[tokio::test]
async fn a_socket_whose_subscription_has_a_newer_stream_closes_with_1013() {
    let context = TestContext::memory().await;
    let (mut socket, id) = WebSocket::subscribed(context.address, None, json!({})).await;
    let path = format!("/aaep/v1/events?subscription_id={id}");
    let mut wire = Wire::connect(context.address).await;
    wire.send(&request(context.address, "GET", &path, &[("accept", "text/event-stream")], None)).await;
    let reason = "the subscription is no longer open, or the limit of subscribers is reached";
    assert_eq!(socket.closed().await, Some((1013, reason.to_owned())));
    assert_eq!(wire.head().await.unwrap().status, 200);
}

/// A subscription over a WebSocket ends with it and frees its slot.
#[tokio::test]
async fn a_subscription_ends_with_its_socket() {
    let context = TestContext::memory().await;
    let (mut socket, _) = WebSocket::subscribed(context.address, None, json!({})).await;
    let count = async || {
        let metrics = context.get("/metrics").await;
        metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("recount_aaep_subscriptions "))
            .map(str::to_owned)
    };
    assert_eq!(count().await.as_deref(), Some("1"));
    // Without a close frame, as when a cable is pulled.
    drop(std::mem::replace(&mut socket.wire, Wire::connect(context.address).await));
    let tasks = context.running.engine.world().tasks.clone();
    let until = recount_world::moment() + Duration::from_secs(60);
    while count().await.as_deref() != Some("0") {
        assert!(recount_world::moment() < until, "{} connections", tasks.alive(Kind::Connection));
        tokio::task::yield_now().await;
    }
}
