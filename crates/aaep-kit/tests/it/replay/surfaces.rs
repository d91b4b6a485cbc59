//! The surfaces of a replay: responses by route, handshakes, WebSockets.

use futures_util::{SinkExt as _, StreamExt as _};
use recount_aaep_kit::aaep::Message;
use recount_aaep_kit::aaep::negotiate::exceeded_capabilities;
use recount_aaep_kit::limits;
use recount_aaep_kit::replay::ReplayOptions;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::replay::fixture::{Fixture, PATIENCE, at_once, recorded_lines, recording};

pub(crate) fn request(capabilities: &str) -> String {
    format!(
        "{{\"type\":\"subscription.request\",\"aaep_version\":\"1.0.0\",\"subscriber_id\":\"reader\",\
         \"capabilities\":{capabilities}}}"
    )
}

/// Subscribes on the specification's surface; returns the path of its events and the response.
pub(crate) async fn subscribe(fixture: &Fixture, capabilities: &str) -> (String, Value) {
    let sent = fixture
        .web
        .post(fixture.url("/aaep/v1/subscriptions"))
        .body(request(capabilities))
        .send()
        .await
        .unwrap();
    assert_eq!(sent.status(), StatusCode::CREATED);
    let place = sent.headers()["location"].to_str().unwrap().to_owned();
    (place, serde_json::from_str(&sent.text().await.unwrap()).unwrap())
}

const ALL: &str = r#"{"supports_confirmation_reply":true,"supports_clarification_reply":true,
    "event_filters":{"include":["*"]}}"#;

#[tokio::test]
async fn pages_of_any_origin_may_listen_and_answer() {
    let fixture = Fixture::of(&recording("good.minimal"), at_once()).await;
    for path in
        ["/events", "/messages", "/healthz", "/aaep/v1/subscriptions", "/aaep/v1/events", "/aaep/v1/replies"]
    {
        let response = fixture.ask(Method::OPTIONS, path).await;
        assert_eq!(response.status(), StatusCode::NO_CONTENT, "{path}");
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        let allowed = response.headers()["access-control-allow-headers"].to_str().unwrap();
        assert!(allowed.contains("Content-Type") && allowed.contains("Authorization"), "{allowed}");
        assert!(response.headers()["access-control-allow-methods"].to_str().unwrap().contains("POST"));
        assert_eq!(
            fixture.ask(Method::DELETE, path).await.status(),
            StatusCode::METHOD_NOT_ALLOWED,
            "{path}"
        );
    }
    let nowhere = fixture.ask(Method::GET, "/nowhere").await;
    assert_eq!(nowhere.status(), StatusCode::NOT_FOUND);
    assert_eq!(nowhere.headers()["access-control-allow-origin"], "*");
    assert!(!fixture.has_notice("RoundStarted"));
}

#[tokio::test]
async fn a_handshake_gets_frames_with_names_and_ids() {
    let recording = recording("good.confirmed");
    let fixture = Fixture::of(&recording, at_once()).await;
    let (place, accepted) = subscribe(&fixture, ALL).await;
    assert_eq!(accepted["type"], "subscription.accepted");
    assert_eq!(accepted["producer"]["agent_id"], "planner", "the recorded producer");
    assert!(accepted["negotiation_notes"].as_str().unwrap().contains("replay"));
    let mut reader = fixture.listen(&place, None).await;
    let mut texts = Vec::new();
    while let Some(frame) = reader.next().await {
        assert_eq!(frame.event.as_deref(), Some("aaep.event"));
        assert_eq!(
            frame.id,
            serde_json::from_str::<Value>(&frame.data).unwrap()["event_id"].as_str().map(str::to_owned)
        );
        texts.push(frame.data);
    }
    assert_eq!(texts, recorded_lines(&recording));
    fixture.ends().await;
}

/// R-111, R-112, R-113
#[tokio::test]
async fn handshakes_are_answered_truthfully() {
    let fixture = Fixture::of(&recording("good.confirmed"), at_once()).await;
    let wish = r#"{"languages":["tlh","en"],"max_events_per_second":7,"supports_confirmation_reply":true}"#;
    let (_, accepted) = subscribe(&fixture, wish).await;
    let Ok(Message::SubscriptionAccepted(accepted)) = Message::parse(&accepted.to_string()) else { panic!() };
    let requested = serde_json::from_str(wish).unwrap();
    assert!(exceeded_capabilities(&requested, &accepted.honored_capabilities).is_empty());
    for (body, status, code) in [
        (request("{}").replace("1.0.0", "99.99.99"), 400, "version_unsupported"),
        (request(r#"{"accept_signed_manifests_only":true}"#), 409, "manifest_signature_required"),
        (request(r#"{"max_events_per_second":"many"}"#), 409, "capabilities_incompatible"),
        ("{".to_owned(), 400, "unknown"),
        (String::new(), 400, "unknown"),
    ] {
        let (answered, text) = fixture.post("/aaep/v1/subscriptions", &body).await;
        assert_eq!(answered.as_u16(), status, "{body}: {text}");
        let Ok(Message::SubscriptionRejected(rejected)) = Message::parse(&text) else { panic!("{text}") };
        assert_eq!(rejected.reason_code, code);
    }
    assert_eq!(fixture.ask(Method::GET, "/aaep/v1/events").await.status(), StatusCode::BAD_REQUEST);
    let unknown = fixture.ask(Method::GET, "/aaep/v1/events?subscription_id=sub_1").await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    assert!(!fixture.has_notice("RoundStarted"));
}

/// R-117, R-116, R-093
#[tokio::test]
async fn filtered_events_are_not_sent() {
    let recording = recording("good.confirmed");
    for (capabilities, wanted) in [
        (
            r#"{"event_filters":{"include":["aaep:agent.tool.*"],"exclude":["aaep:agent.tool.completed"]},
            "supports_confirmation_reply":true}"#,
            &["tool.invoked", "awaiting.confirmation"][..],
        ),
        (r#"{"event_filters":{"include":["aaep:agent.tool.*"]}}"#, &["tool.invoked", "tool.completed"]),
    ] {
        let fixture = Fixture::of(&recording, at_once()).await;
        let (place, _) = subscribe(&fixture, capabilities).await;
        let received = fixture.listen(&place, None).await.rest().await;
        let expected: Vec<_> = recorded_lines(&recording)
            .into_iter()
            .filter(|text| wanted.iter().any(|name| text.contains(&format!("\"aaep:agent.{name}\""))))
            .collect();
        assert!(!expected.is_empty());
        assert_eq!(received, expected);
        fixture.ends().await;
    }
}

#[tokio::test]
async fn unused_subscriptions_are_evicted_at_the_limit() {
    let fixture = Fixture::of(&recording("good.minimal"), ReplayOptions { stay: true, ..at_once() }).await;
    let (kept, _) = subscribe(&fixture, ALL).await;
    let mut reader = fixture.listen(&kept, None).await;
    reader.some(1).await;
    let (oldest, _) = subscribe(&fixture, ALL).await;
    for _ in 2..limits::REPLAY_SUBSCRIPTIONS_MAX {
        subscribe(&fixture, ALL).await;
    }
    assert_eq!(fixture.ask(Method::HEAD, &oldest).await.status(), StatusCode::OK);
    let (newest, _) = subscribe(&fixture, ALL).await;
    assert_eq!(fixture.ask(Method::HEAD, &oldest).await.status(), StatusCode::NOT_FOUND);
    for there in [kept, newest] {
        assert_eq!(fixture.ask(Method::HEAD, &there).await.status(), StatusCode::OK);
    }
}

/// R-115, R-116, R-118: events over the rate are held and joined without losing text; critical events do not wait.
#[tokio::test]
async fn the_agreed_rate_is_kept() {
    let line = |number: u32, rest: &str| {
        format!(
            "{{\"@context\":\"https://aaep-protocol.org/context/v1\",\"event_id\":\"evt_{number}\",\"session_id\":\"sess_1\",\
             \"timestamp\":\"2026-05-24T14:22:11.000Z\",\"producer\":{{\"agent_id\":\"planner\"}},{rest}}}\n"
        )
    };
    let mut recording = line(0, r#""type":"aaep:agent.session.started","summary_normal":"Starting.""#);
    let mut whole = String::new();
    for number in 1..=60 {
        let (chunk, position) = (format!("Word {number}. "), whole.len());
        let complete = number == 60;
        recording += &line(
            number,
            &format!(
                "\"type\":\"aaep:agent.output.streaming\",\"chunk\":\"{chunk}\",\"position\":{position},\
                 \"complete\":{complete},\"coalesce_hint\":\"sentence\",\"output_id\":\"out_1\""
            ),
        );
        whole += &chunk;
    }
    let ending = r#""type":"aaep:agent.session.errored","urgency":"critical","error_category":"unknown","summary_normal":"No.""#;
    recording += &line(61, ending);

    let fixture = Fixture::of(&recording, at_once()).await;
    let (place, accepted) = subscribe(&fixture, r#"{"max_events_per_second":3}"#).await;
    assert_eq!(accepted["honored_capabilities"]["max_events_per_second"], 3);
    let start = recount_world::moment();
    let mut reader = fixture.listen(&place, None).await;
    let (mut received, mut at) = (String::new(), Vec::new());
    while let Some(frame) = reader.next().await {
        let value: Value = serde_json::from_str(&frame.data).unwrap();
        assert_eq!(frame.id.as_deref(), value["event_id"].as_str());
        received += value["chunk"].as_str().unwrap_or_default();
        at.push(start.elapsed());
    }
    assert_eq!(received, whole);
    assert!(at.len() < 20, "events were joined: {at:?}");
    assert!(at.last().unwrap().as_secs() < 10, "critical events did not wait for the rest: {at:?}");
    fixture.ends().await;
}

/// R-120, R-122
#[tokio::test]
async fn a_subscriber_may_change_its_mind_and_leave() {
    let fixture = Fixture::of(&recording("good.confirmed"), ReplayOptions { stay: true, ..at_once() }).await;
    let (place, accepted) = subscribe(&fixture, ALL).await;
    let id = accepted["subscription_id"].as_str().unwrap();
    let wish = |id: &str| {
        format!(
            "{{\"type\":\"subscription.renegotiate\",\"subscription_id\":\"{id}\",\"capabilities\":{{\"max_events_per_second\":3}}}}"
        )
    };
    let (status, text) = fixture.post("/aaep/v1/replies", &wish(id)).await;
    let Ok(Message::SubscriptionAccepted(again)) = Message::parse(&text) else { panic!("{status} {text}") };
    assert_eq!((status, again.honored_capabilities.max_events_per_second), (StatusCode::OK, Some(3)));
    assert_eq!(
        again.honored_capabilities.supports_confirmation_reply,
        Some(true),
        "omitted capabilities stay"
    );
    assert_eq!(fixture.post("/aaep/v1/replies", &wish("sub_other")).await.0, StatusCode::NOT_FOUND);

    let mut reader = fixture.listen(&place, None).await;
    reader.some(1).await;
    let close =
        format!("{{\"type\":\"subscription.close\",\"subscription_id\":\"{id}\",\"reason_code\":\"done\"}}");
    assert_eq!(fixture.post("/aaep/v1/replies", &close).await.0, StatusCode::NO_CONTENT);
    reader.rest().await;
    assert_eq!(fixture.ask(Method::GET, &place).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_legacy_handshake_is_answered_on_the_stream() {
    let recording = recording("good.confirmed");
    let fixture = Fixture::of(&recording, at_once()).await;
    // The response was published before any listener; the first one receives it.
    assert_eq!(fixture.post("/messages", &request(ALL)).await.0, StatusCode::NO_CONTENT);
    let mut reader = fixture.listen("/events", None).await;
    let received = reader.rest().await;
    assert!(received[0].contains("\"subscription.accepted\""), "{}", received[0]);
    assert_eq!(received[1..], recorded_lines(&recording));
    fixture.ends().await;
}

async fn dial(fixture: &Fixture, path: &str, protocol: Option<&str>) -> Result<Socket, String> {
    let mut request = fixture.url(path).replace("http://", "ws://").into_client_request().unwrap();
    if let Some(protocol) = protocol {
        request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
    }
    let (socket, answer) = tokio_tungstenite::connect_async(request).await.map_err(|why| why.to_string())?;
    let spoken = answer.headers().get("sec-websocket-protocol").map(|name| name.to_str().unwrap().to_owned());
    assert_eq!(spoken.as_deref(), protocol);
    Ok(socket)
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// All texts until the connection closes, and the close code.
async fn all(socket: &mut Socket) -> (Vec<String>, Option<u16>) {
    let mut texts = Vec::new();
    loop {
        match tokio::time::timeout(PATIENCE, socket.next()).await.expect("more comes, or the end") {
            Some(Ok(Frame::Text(text))) => texts.push(text.to_string()),
            Some(Ok(Frame::Close(close))) => return (texts, close.map(|close| close.code.into())),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return (texts, None),
        }
    }
}

#[tokio::test]
async fn a_legacy_websocket_gets_everything_at_once_and_closes_cleanly() {
    let recording = recording("good.confirmed");
    for protocol in [None, Some("aaep.v1")] {
        let fixture = Fixture::of(&recording, at_once()).await;
        let mut socket = dial(&fixture, "/ws", protocol).await.unwrap();
        assert_eq!(all(&mut socket).await, (recorded_lines(&recording), Some(4000)));
        fixture.ends().await;
    }
}

#[tokio::test]
async fn a_websocket_of_the_specification_begins_with_a_handshake() {
    let recording = recording("good.confirmed");
    let fixture = Fixture::of(&recording, at_once()).await;
    let refused = dial(&fixture, "/aaep/v1/ws", None).await.unwrap_err();
    assert!(refused.contains("400"), "{refused}");

    let mut rejected = dial(&fixture, "/aaep/v1/ws", Some("aaep.v1")).await.unwrap();
    rejected.send(Frame::text(request("{}").replace("1.0.0", "2.0.0"))).await.unwrap();
    let (texts, code) = all(&mut rejected).await;
    assert!(texts.len() == 1 && texts[0].contains("version_unsupported"), "{texts:?}");
    assert_eq!(code, Some(4001));

    let mut binary = dial(&fixture, "/aaep/v1/ws", Some("aaep.v1")).await.unwrap();
    binary.send(Frame::binary(request(ALL).into_bytes())).await.unwrap();
    assert_eq!(all(&mut binary).await, (Vec::new(), Some(1003)));
    assert!(!fixture.has_notice("RoundStarted"));

    let mut socket = dial(&fixture, "/aaep/v1/ws", Some("aaep.v1")).await.unwrap();
    socket.send(Frame::text(request(ALL))).await.unwrap();
    let (texts, code) = all(&mut socket).await;
    assert!(texts[0].contains("\"subscription.accepted\""), "{}", texts[0]);
    assert_eq!((&texts[1..], code), (&recorded_lines(&recording)[..], Some(4000)));
    fixture.ends().await;
}
