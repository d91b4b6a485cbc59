//! Handshakes and replies on both HTTP surfaces.

use std::sync::Arc;
use std::time::Duration;

use recount_aaep_client::limits;
use recount_aaep_client::link::{Dial, Link, LinkError};
use recount_world::World;
use tokio::sync::Notify;

use crate::server::{STREAM, Server, all, dial, response, texts, write};

const REQUEST: &str =
    r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"t","capabilities":{}}"#;
const ACCEPTED: &str = r#"{"type":"subscription.accepted",  "subscription_id":"sub_1"}"#;
const REJECTED: &str = r#"{"type":"subscription.rejected","reason_code":"rate_limit"}"#;

fn dial_with_request(target: &str) -> Dial {
    Dial { request: Some(REQUEST.to_owned()), ..dial(target) }
}

#[tokio::test]
async fn a_versioned_handshake_response_locates_the_events() {
    let world = World::real();
    let server = Server::start(&world, |request, mut socket| async move {
        let answer = match request.line.as_str() {
            "POST /aaep/v1/subscriptions" => {
                response("201 Created", "location: /aaep/v1/elsewhere?subscription_id=sub_1\r\n", ACCEPTED)
            }
            "GET /aaep/v1/elsewhere?subscription_id=sub_1" => match request.header("last-event-id") {
                None => format!("{STREAM}id: evt_1\ndata: 1\n\n"),
                Some(id) => format!("{STREAM}data: \"behind {id}\"\n\n"),
            },
            "POST /aaep/v1/replies" => response("204 No Content", "", ""),
            "POST /messages" => response("202 Accepted", "", "{}"),
            _ => response("404 Not Found", "", ""),
        };
        write(&mut socket, answer).await;
    })
    .await;
    let mut link =
        Link::open(&world, &dial_with_request(&format!("{}/aaep/v1", server.http()))).await.unwrap();
    assert_eq!((link.handshake_response(), link.response_status()), (Some(ACCEPTED), Some(201)));
    assert_eq!((link.subscription(), link.is_rejected()), (Some("sub_1"), false));
    assert_eq!(texts(&all(&mut link).await.0), ["1"]);
    link.reopen(Some("evt_1")).await.unwrap();
    assert_eq!(texts(&all(&mut link).await.0), ["\"behind evt_1\""], "without another handshake");
    for (text, expected) in [
        (r#"{"type":"confirmation.reply"}"#, 204),
        (r#"{"type":"subscription.renegotiate"}"#, 204),
        (r#"{"type":"aaep:subscription.close"}"#, 204),
        (r#"{"kind":"user_input","text":"x"}"#, 202),
    ] {
        let sent = link.send(text).await.unwrap();
        assert_eq!(sent.status, Some(expected), "{text}");
        assert_eq!(server.seen().last().unwrap().body, text);
    }
    assert!(matches!(link.send("[1]").await, Err(LinkError::Unusable(_))));
    let lines = server.lines();
    assert_eq!(lines.iter().filter(|line| line.starts_with("POST /aaep/v1/subscriptions")).count(), 1);
    assert_eq!(lines.last().unwrap(), "POST /messages");
}

#[tokio::test]
async fn without_a_location_the_default_events_url_is_used() {
    let world = World::real();
    let server = Server::start(&world, |request, mut socket| async move {
        let answer = match request.line.as_str() {
            "POST /aaep/v1/subscriptions" => response("201 Created", "", ACCEPTED),
            "GET /aaep/v1/events?subscription_id=sub_1" => format!("{STREAM}data: 1\n\n"),
            _ => response("404 Not Found", "", ""),
        };
        write(&mut socket, answer).await;
    })
    .await;
    let target = format!("{}/aaep/v1", server.http());
    let mut link = Link::open(&world, &dial_with_request(&target)).await.unwrap();
    assert_eq!(texts(&all(&mut link).await.0), ["1"]);
    // A second reader of the same subscription.
    let again = Dial { subscription: Some("sub_1".to_owned()), ..dial(&target) };
    let mut link = Link::open(&world, &again).await.unwrap();
    assert_eq!((link.handshake_response(), link.subscription()), (None, Some("sub_1")));
    assert_eq!(texts(&all(&mut link).await.0), ["1"]);
}

#[tokio::test]
async fn a_location_on_another_server_is_not_followed() {
    let world = World::real();
    let other = Server::responding(&world, format!("{STREAM}data: 1\n\n")).await;
    let elsewhere = format!("location: {}/events\r\n", other.http());
    let server = Server::responding(&world, response("201 Created", &elsewhere, ACCEPTED)).await;
    let why =
        Link::open(&world, &dial_with_request(&format!("{}/aaep/v1", server.http()))).await.err().unwrap();
    assert!(matches!(why, LinkError::Protocol(_)) && why.to_string().contains("another server"), "{why}");
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn a_rejection_is_a_response_whatever_its_status() {
    let world = World::real();
    for status in ["200 OK", "401 Unauthorized", "429 Too Many Requests", "503 Later"] {
        let server = Server::responding(&world, response(status, "", REJECTED)).await;
        let mut link =
            Link::open(&world, &dial_with_request(&format!("{}/aaep/v1", server.http()))).await.unwrap();
        assert_eq!((link.handshake_response(), link.is_rejected()), (Some(REJECTED), true), "{status}");
        assert_eq!(link.response_status(), Some(status[..3].parse().unwrap()));
        assert!(all(&mut link).await.0.is_empty());
        assert_eq!(server.lines(), ["POST /aaep/v1/subscriptions"]);
    }
    for (status, body) in [("401 Unauthorized", "no"), ("201 Created", "{}"), ("500 Oh", ACCEPTED)] {
        let server = Server::responding(&world, response(status, "", body)).await;
        let why = Link::open(&world, &dial_with_request(&format!("{}/aaep/v1", server.http())))
            .await
            .err()
            .unwrap();
        assert_eq!(why.status(), Some(status[..3].parse().unwrap()), "{why}");
    }
}

/// A producer of the legacy surface whose stream waits for the request.
async fn legacy_producer(
    world: &World,
    before: &'static str,
    answer: &'static str,
    status: &'static str,
) -> Server {
    let requested = Arc::new(Notify::new());
    Server::start(world, move |request, mut socket| {
        let requested = requested.clone();
        async move {
            if request.line == "GET /events" {
                write(&mut socket, format!("{STREAM}{before}")).await;
                requested.notified().await;
                write(&mut socket, format!("data: {answer}\n\ndata: \"behind\"\n\n")).await;
            } else {
                write(&mut socket, response(status, "", "")).await;
                requested.notify_one();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_legacy_handshake_response_arrives_on_the_stream() {
    let world = World::real();
    let server = legacy_producer(&world, "data: \"before\"\n\n", ACCEPTED, "204 No Content").await;
    let mut link = Link::open(&world, &dial_with_request(&server.http())).await.unwrap();
    assert_eq!((link.handshake_response(), link.response_status()), (Some(ACCEPTED), None));
    assert_eq!(link.subscription(), Some("sub_1"));
    assert_eq!(texts(&all(&mut link).await.0), ["\"before\"", "\"behind\""]);
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /events", "the stream opens before the handshake response arrives");
    assert_eq!((seen[1].line.as_str(), seen[1].body.as_str()), ("POST /messages", REQUEST));
    assert_eq!(seen[1].header("content-type"), Some("application/json"));

    let server = legacy_producer(&world, "", REJECTED, "200 OK").await;
    let link = Link::open(&world, &dial_with_request(&server.http())).await.unwrap();
    assert!(link.is_rejected());
}

#[tokio::test]
async fn a_producer_without_handshakes_is_recognised() {
    let world = World::real();
    let server = legacy_producer(&world, "", ACCEPTED, "400 Bad Request").await;
    let why = Link::open(&world, &dial_with_request(&server.http())).await.err().unwrap();
    assert_eq!(why.status(), Some(400), "{why}");
    assert!(why.to_string().contains("/messages"), "{why}");

    let server = Server::start(&world, |request, mut socket| async move {
        if request.line == "GET /events" {
            write(&mut socket, format!("{STREAM}: connected\n\n")).await;
            std::future::pending::<()>().await;
        }
        write(&mut socket, response("200 OK", "", r#"{"status":"received"}"#)).await;
    })
    .await;
    let dial = Dial { patience: Duration::from_millis(200), ..dial_with_request(&server.http()) };
    let why = Link::open(&world, &dial).await.err().unwrap();
    assert!(matches!(why, LinkError::NoAnswer { .. }), "{why}");

    // Some producers put the handshake response into the HTTP response.
    let server = Server::start(&world, |request, mut socket| async move {
        let get = request.line == "GET /events";
        let answer = if get { format!("{STREAM}data: 1\n\n") } else { response("200 OK", "", ACCEPTED) };
        write(&mut socket, answer).await;
    })
    .await;
    let mut link = Link::open(&world, &dial_with_request(&server.http())).await.unwrap();
    assert_eq!((link.handshake_response(), link.response_status()), (Some(ACCEPTED), Some(200)));
    assert_eq!(texts(&all(&mut link).await.0), ["1"]);
}

#[tokio::test]
async fn a_flood_before_the_answer_is_not_kept() {
    let world = World::real();
    let flood = "data: {}\n\n".repeat(limits::HELD_MESSAGES_MAX + 1);
    let server = Server::start(&world, move |request, mut socket| {
        let flood = flood.clone();
        async move {
            if request.line == "GET /events" {
                write(&mut socket, format!("{STREAM}{flood}data: {ACCEPTED}\n\n")).await;
                std::future::pending::<()>().await;
            }
            write(&mut socket, response("200 OK", "", "")).await;
        }
    })
    .await;
    let why = Link::open(&world, &dial_with_request(&server.http())).await.err().unwrap();
    assert!(matches!(why, LinkError::Flooded { .. }), "{why}");
}

#[tokio::test]
async fn a_request_that_is_not_an_object_is_not_sent() {
    let world = World::real();
    let server = Server::responding(&world, STREAM).await;
    let dial = Dial { request: Some("hello".to_owned()), ..dial(&server.http()) };
    assert!(matches!(Link::open(&world, &dial).await, Err(LinkError::Unusable(_))));
    assert!(server.seen().is_empty());
}
