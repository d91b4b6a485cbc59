//! The responses of the surfaces: statuses, codes, and recipients.
#![allow(clippy::unwrap_used, reason = "it is part of the tests")]

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use recount_aaep_kit::World;
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Scripted};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::scripted::peer::{Peer, Surface, everything, http};

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Sends one message on a socket; returns the received text and the close code.
async fn on_socket(
    base: &str,
    path: &str,
    protocol: Option<&str>,
    message: Message,
) -> Result<(String, CloseCode), u16> {
    let mut request = format!("{}{path}", base.replace("http://", "ws://")).into_client_request().unwrap();
    if let Some(protocol) = protocol {
        request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
    }
    let mut socket = match tokio_tungstenite::connect_async(request).await {
        Ok((socket, answer)) => {
            let agreed = answer.headers().get("sec-websocket-protocol").map(|name| name.to_str().unwrap());
            assert_eq!(agreed, protocol, "the subprotocol that was offered is the one that is spoken");
            socket
        }
        Err(Error::Http(answer)) => return Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    };
    socket.send(message).await.unwrap();
    let mut received = String::new();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) => received.push_str(&text),
            Message::Close(Some(frame)) => return Ok((received, frame.code)),
            _ => {}
        }
    }
    panic!("it ended without a code, after {received:?}");
}

// R-145; the codes are those of Appendix B.
#[tokio::test]
async fn sockets_are_closed_with_the_code_of_the_reason() {
    let producer = Scripted::start(&World::real(), Behaviour::default()).await.unwrap();
    let base = producer.base();
    let both = ["/aaep/v1/ws", "/ws"];
    assert_eq!(on_socket(base, both[0], None, Message::text("{}")).await.unwrap_err(), 400);
    let (text, code) = on_socket(base, both[0], Some("aaep.v1"), Message::text("{}")).await.unwrap();
    assert_eq!(code, CloseCode::from(4001));
    assert!(text.contains("subscription.rejected"), "{text}");
    for path in both {
        let binary = on_socket(base, path, Some("aaep.v1"), Message::binary(b"{}".to_vec())).await.unwrap();
        assert_eq!(binary.1, CloseCode::Unsupported, "{path}");
        let large = Message::text(" ".repeat(300 * 1024));
        let large = on_socket(base, path, Some("aaep.v1"), large).await.unwrap();
        assert_eq!(large.1, CloseCode::Size, "{path}");
    }
    let mut peer = Peer::open(base, Surface::Socket, None).await;
    let close = json!({"type": "subscription.close", "subscription_id": peer.subscription});
    peer.send(&close).await;
    assert!(peer.next().await.is_none(), "the socket is closed");
    producer.stop().await;
}

// R-079, G-05: the response to a reply reveals nothing.
#[tokio::test]
async fn replies_get_equal_responses_and_other_messages_are_refused() {
    let producer = Scripted::start(&World::real(), Behaviour::default()).await.unwrap();
    let base = producer.base();
    let peer = Peer::open(base, Surface::Versioned, None).await;
    let prompt = json!({"type": "aaep:agent.awaiting.confirmation", "reply_token": "rpl_unknown"});
    let whole = peer.reply(&prompt, &json!({"decision": "accept"}));
    let bare = json!({"type": "confirmation.reply"});
    let strange = json!({"type": "clarification.reply", "reply_token": 7, "response": null, "more": []});
    for path in ["/messages", "/aaep/v1/replies"] {
        for reply in [&whole, &bare, &strange] {
            assert_eq!(peer.post(path, reply).await, (204, String::new()), "{path} {reply}");
        }
        for other in [json!([]), json!({}), json!({"type": "subscription.accepted"}), json!("reply")] {
            let (status, body) = peer.post(path, &other).await;
            assert_eq!((status, body.as_str()), (400, r#"{"error":"malformed"}"#), "{path} {other}");
        }
        let large = json!({"type": "confirmation.reply", "more": " ".repeat(300 * 1024)});
        assert_eq!(peer.post(path, &large).await.0, 413, "{path}");
    }
    let driver = json!({"kind": "user_input", "text": "Hello."});
    assert_eq!(peer.post("/aaep/v1/replies", &driver).await.0, 400, "inputs have their own place");
    producer.stop().await;
}

// R-080, R-088: the first reply counts, and every subscription receives its outcome.
#[tokio::test]
async fn one_of_many_replies_counts_and_all_subscribers_see_it() {
    let behaviour = Behaviour { timeout_seconds: 30, ..Behaviour::default() };
    let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
    let mut peers = Vec::new();
    for surface in Surface::ALL {
        peers.push(Peer::open(producer.base(), surface, Some(everything())).await);
    }
    for _ in 0..3 {
        peers[1].input(Scenario::Irreversible.text()).await;
        let mut prompt = Value::Null;
        for peer in &mut peers {
            prompt = loop {
                let event = peer.next().await.unwrap();
                if event["type"] == "aaep:agent.awaiting.confirmation" {
                    break event;
                }
            };
        }
        let replies = (0..50).map(|at| {
            let decision = if at % 3 == 0 { "reject" } else { "accept" };
            (if at % 2 == 0 { "/messages" } else { "/aaep/v1/replies" }, decision)
        });
        let poster = &peers[1];
        let answers = join_all(replies.map(|(path, decision)| {
            let reply = poster.reply(&prompt, &json!({"decision": decision}));
            async move { poster.post(path, &reply).await.0 }
        }));
        assert!(answers.await.iter().all(|status| *status == 204));
        let mut ends = Vec::new();
        for peer in &mut peers {
            let events = peer.through(&Value::Null, &Value::Null).await;
            let calls = kinds(&events).iter().filter(|kind| kind.ends_with("tool.invoked")).count();
            let change = events.iter().find(|event| event["from_state"] == "awaiting_input").unwrap();
            assert_eq!(calls, usize::from(change["to_state"] == "calling_tool"), "{events:?}");
            ends.push(change["summary_normal"].clone());
        }
        assert!(ends.iter().all(|change| *change == ends[0]), "{ends:?}");
    }
    producer.stop().await;
}

// R-125: only subscribers that support prompts get them, and a producer of level 1 has none.
#[tokio::test]
async fn a_level_one_producer_sends_no_prompts() {
    let behaviour = Behaviour { level: 1, ..Behaviour::default() };
    let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
    for surface in Surface::ALL {
        let mut peer = Peer::open(producer.base(), surface, Some(everything())).await;
        for scenario in [Scenario::Irreversible, Scenario::Clarify, Scenario::Tool] {
            peer.input(scenario.text()).await;
            let events = peer.through(&Value::Null, &Value::Null).await;
            let kinds = kinds(&events);
            assert!(!kinds.iter().any(|kind| kind.contains("awaiting")), "{surface:?}: {kinds:?}");
            let calls = kinds.iter().any(|kind| kind.ends_with("tool.invoked"));
            assert_eq!(calls, scenario == Scenario::Tool, "{surface:?}: {kinds:?}");
        }
        let found = crate::scripted::findings(&peer.lines);
        assert!(found.is_empty(), "over {surface:?}:\n{}", found.join("\n"));
    }
    let manifest =
        http().get(format!("{}/.well-known/aaep-manifest.json", producer.base())).send().await.unwrap();
    let manifest: Value = serde_json::from_str(&manifest.text().await.unwrap()).unwrap();
    assert_eq!(manifest["conformance_levels_supported"], json!([1]));
    producer.stop().await;
}

#[tokio::test]
async fn an_input_is_answered_with_its_session_and_pages_may_send_it() {
    let producer = Scripted::start(&World::real(), Behaviour::default()).await.unwrap();
    let mut peer = Peer::open(producer.base(), Surface::Legacy, None).await;
    for (path, input) in [
        ("/messages", json!({"kind": "user_input", "text": "Hello."})),
        ("/sessions", json!({"user_message": "Hello.", "user_id": "ada"})),
    ] {
        let (status, body) = peer.post(path, &input).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &answer["status"]), (202, &json!("started")));
        let events = peer.through(&Value::Null, &Value::Null).await;
        assert!(events.iter().all(|event| event["session_id"] == answer["session_id"]));
    }
    let request = http().request(reqwest::Method::OPTIONS, format!("{}/messages", producer.base()));
    let allowed = request.send().await.unwrap();
    assert_eq!(allowed.status(), 204);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "*");
    producer.stop().await;
}
