//! Tests of streamed turns: frames, their order, and clients that disconnect or connect late.

use http::Method;
use serde_json::json;

use crate::http::stage::{Stage, user_message};

/// A model that is slow enough to send its text in several pieces.
const HELLO: &str =
    "[pace]\nbytes = 4\ntokens_per_second = 50.0\n[[turn]]\ntext = \"Hello there, friend.\"\n";

// P-021, P-022, P-023, P-024
#[tokio::test]
async fn a_plain_turn_in_pieces() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let reply = stage.turn(&session, &user_message("hi", "delta")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.header("cache-control"), "no-store");
    assert_eq!(reply.header("x-accel-buffering"), "no");
    let output = reply.into_turn_stream().await;
    assert_eq!(output.names(), ["turn_start", "text_delta", "turn_stop"]);
    assert_eq!(output.text(), "Hello there, friend.");
    assert!(output.frames.iter().filter(|frame| frame.name == "text_delta").count() > 1);
    assert_eq!(output.reason(), "end_turn");
    assert_eq!(output.frames[0].data, json!({}));
    assert_eq!(output.frames[0].id.as_deref(), Some("0.0"));
    assert!(output.turn.ends_with("-0"), "{}", output.turn);
}

// P-024
#[tokio::test]
async fn the_same_in_whole_blocks() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let output = stage.stream_turn(&session, &user_message("hi", "message")).await;
    assert_eq!(output.names(), ["turn_start", "text", "turn_stop"]);
    assert_eq!(output.text(), "Hello there, friend.");
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
async fn a_turn_is_resumed_from_any_frame() {
    let stage = Stage::with(HELLO).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let output = stage.send_message(&session, "hi").await;
    let path = format!("/sessions/{session}/turns/{}/events", output.turn);
    let again = stage.get(&path).await.into_turn_stream().await;
    assert_eq!((again.turn, &again.frames), (output.turn.clone(), &output.frames));
    for (index, frame) in output.frames.iter().enumerate() {
        let headers = [("last-event-id", frame.id.as_deref().unwrap())];
        let caller = recount_engine::Caller::operator();
        let reply = stage.ask_as(caller, Method::GET, &path, &headers, "").await;
        if index + 1 == output.frames.len() {
            assert_eq!((reply.status.as_u16(), reply.text().await.as_str()), (204, ""));
        } else {
            assert_eq!(reply.into_turn_stream().await.frames, output.frames[index + 1..]);
        }
    }
    let stop = output.frames.last().unwrap().id.as_deref().unwrap();
    let beyond = format!("{}.7", stop.split_once('.').unwrap().0);
    for (last, status, code) in [
        ("x", 400, "cursor_malformed"),
        ("7", 400, "cursor_malformed"),
        ("9999.0", 400, "cursor_ahead"),
        // The second event has no frames, and the last has one.
        ("1.0", 400, "cursor_foreign"),
        (beyond.as_str(), 400, "cursor_foreign"),
    ] {
        let caller = recount_engine::Caller::operator();
        let reply = stage.ask_as(caller, Method::GET, &path, &[("last-event-id", last)], "").await;
        assert_eq!(reply.refused().await, (status, code.to_owned()), "{last}");
    }
    // A frame of a piece is not a position in the same turn streamed in whole blocks.
    let piece = output.frames.iter().find(|frame| frame.name == "text_delta").unwrap();
    let headers = [("last-event-id", piece.id.as_deref().unwrap())];
    let caller = recount_engine::Caller::operator();
    let reply = stage.ask_as(caller, Method::GET, &format!("{path}?stream=message"), &headers, "").await;
    assert_eq!(reply.refused().await, (400, "cursor_foreign".to_owned()));
    let (run, _) = output.turn.split_once('-').unwrap();
    for turn in
        ["x".to_owned(), format!("{run}-1"), format!("{run}-99"), "01JZZZZZZZZZZZZZZZZZZZZZZZ-0".into()]
    {
        let reply = stage.get(&format!("/sessions/{session}/turns/{turn}/events")).await;
        assert_eq!(reply.refused().await, (404, "turn_not_found".to_owned()), "{turn}");
    }
    let other = stage.session(json!({ "agent": { "name": "clerk" } })).await;
    let reply = stage.get(&format!("/sessions/{other}/turns/{}/events", output.turn)).await;
    assert_eq!(reply.refused().await, (404, "turn_not_found".to_owned()));
}
