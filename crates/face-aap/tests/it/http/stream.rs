//! Turns told as they come: frames, their order, and what a client that leaves or comes late finds.

use http::Method;
use serde_json::json;

use crate::http::stage::{Stage, says};

/// It speaks slowly enough for what it says to come in more than one piece.
const HELLO: &str =
    "[pace]\nbytes = 4\ntokens_per_second = 50.0\n[[turn]]\ntext = \"Hello there, friend.\"\n";

// P-021, P-022, P-023, P-024
#[tokio::test]
async fn a_plain_turn_in_pieces() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let reply = stage.turn(&session, &says("hi", "delta")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.header("cache-control"), "no-store");
    assert_eq!(reply.header("x-accel-buffering"), "no");
    let told = reply.told().await;
    assert_eq!(told.names(), ["turn_start", "text_delta", "turn_stop"]);
    assert_eq!(told.text(), "Hello there, friend.");
    assert!(told.frames.iter().filter(|frame| frame.name == "text_delta").count() > 1);
    assert_eq!(told.reason(), "end_turn");
    assert_eq!(told.frames[0].data, json!({}));
    assert_eq!(told.frames[0].id.as_deref(), Some("0.0"));
    assert!(told.turn.ends_with("-0"), "{}", told.turn);
}

// P-024
#[tokio::test]
async fn the_same_in_whole_blocks() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let told = stage.told(&session, &says("hi", "message")).await;
    assert_eq!(told.names(), ["turn_start", "text", "turn_stop"]);
    assert_eq!(told.text(), "Hello there, friend.");
}

// P-029
#[tokio::test]
async fn the_same_in_one_reply() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let reply = stage.turn(&session, &body).await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert!(reply.header("aap-turn-id").ends_with("-0"));
    let (status, body) = reply.json().await;
    assert_eq!((status, body["stopReason"].as_str()), (200, Some("end_turn")));
    assert_eq!(
        body["messages"],
        json!([{ "role": "assistant", "content": [
            { "type": "text", "text": "Hello there, friend." },
        ]}])
    );
}

#[tokio::test]
async fn a_turn_is_read_on_from_any_frame() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let told = stage.say(&session, "hi").await;
    let path = format!("/sessions/{session}/turns/{}/events", told.turn);
    let again = stage.get(&path).await.told().await;
    assert_eq!((again.turn, &again.frames), (told.turn.clone(), &told.frames));
    for (index, frame) in told.frames.iter().enumerate() {
        let headers = [("last-event-id", frame.id.as_deref().unwrap())];
        let caller = recount_engine::Caller::operator();
        let reply = stage.ask_as(caller, Method::GET, &path, &headers, "").await;
        if index + 1 == told.frames.len() {
            assert_eq!((reply.status.as_u16(), reply.text().await.as_str()), (204, ""));
        } else {
            assert_eq!(reply.told().await.frames, told.frames[index + 1..]);
        }
    }
    let stop = told.frames.last().unwrap().id.as_deref().unwrap();
    let beyond = format!("{}.7", stop.split_once('.').unwrap().0);
    for (last, status, code) in [
        ("x", 400, "cursor_malformed"),
        ("7", 400, "cursor_malformed"),
        ("9999.0", 400, "cursor_ahead"),
        // Nothing is told of the second event, and one thing of the last.
        ("1.0", 400, "cursor_foreign"),
        (beyond.as_str(), 400, "cursor_foreign"),
    ] {
        let caller = recount_engine::Caller::operator();
        let reply = stage.ask_as(caller, Method::GET, &path, &[("last-event-id", last)], "").await;
        assert_eq!(reply.refused().await, (status, code.to_owned()), "{last}");
    }
    // A piece of a block is no place in the same turn told in whole blocks.
    let piece = told.frames.iter().find(|frame| frame.name == "text_delta").unwrap();
    let headers = [("last-event-id", piece.id.as_deref().unwrap())];
    let caller = recount_engine::Caller::operator();
    let reply = stage.ask_as(caller, Method::GET, &format!("{path}?stream=message"), &headers, "").await;
    assert_eq!(reply.refused().await, (400, "cursor_foreign".to_owned()));
    let (run, _) = told.turn.split_once('-').unwrap();
    for turn in
        ["x".to_owned(), format!("{run}-1"), format!("{run}-99"), "01JZZZZZZZZZZZZZZZZZZZZZZZ-0".into()]
    {
        let reply = stage.get(&format!("/sessions/{session}/turns/{turn}/events")).await;
        assert_eq!(reply.refused().await, (404, "turn_not_found".to_owned()), "{turn}");
    }
    let other = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let reply = stage.get(&format!("/sessions/{other}/turns/{}/events", told.turn)).await;
    assert_eq!(reply.refused().await, (404, "turn_not_found".to_owned()));
}
