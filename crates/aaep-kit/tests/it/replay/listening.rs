//! Who listens gets all of it: from the beginning, from where it was, at the pace of the recording.

use std::time::Duration;

use recount_aaep_kit::limits;
use recount_aaep_kit::replay::{Pace, ReplayOptions, ReplayScript, ScriptError};
use recount_world::moment;
use reqwest::{Method, StatusCode};
use tokio::io::AsyncWriteExt as _;

use crate::replay::stage::{Stage, at_once, field, recording, said, script};

fn paced(speed: f64) -> ReplayOptions {
    ReplayOptions { pace: Pace::Recorded { speed }, ..ReplayOptions::default() }
}

#[tokio::test]
async fn all_is_said_byte_for_byte_and_then_it_ends() {
    for name in ["good.confirmed", "good.two_sessions", "good.extension", "good.chapter46", "bad.appendix8.1"]
    {
        let recording = recording(name);
        let stage = Stage::of(&recording, at_once()).await;
        let mut ear = stage.listen("/events", None).await;
        assert_eq!(ear.rest().await, said(&recording), "{name}");
        let raw = String::from_utf8(std::mem::take(&mut ear.raw)).unwrap();
        assert!(raw.starts_with(": connected\n\nid: evt_"), "{raw}");
        // Subscribers in use hear frames without a name only, and split at line feeds only.
        assert!(!raw.contains('\r') && !raw.contains("event: "), "{raw}");
        assert!(raw.lines().all(|line| ["", ": ", "id: ", "data: "].iter().any(|it| line.starts_with(it))));
        stage.ends().await;
    }
}

#[tokio::test]
async fn it_starts_when_a_listener_connects_and_not_when_one_looks() {
    let recording = recording("good.minimal");
    let stage = Stage::of(&recording, at_once()).await;
    let looked = stage.ask(Method::HEAD, "/events").await;
    assert_eq!(looked.status(), StatusCode::OK);
    assert_eq!(looked.headers()["content-type"], "text/event-stream");
    let health = stage.ask(Method::GET, "/healthz").await.text().await.unwrap();
    assert!(health.contains(r#""said":0"#) && health.contains(r#""status":"ok""#), "{health}");
    assert!(!stage.has_told("Begins"));
    let mut ear = stage.listen("/events", None).await;
    assert_eq!(ear.rest().await, said(&recording));
    stage.ends().await;
}

#[tokio::test]
async fn it_begins_at_once_when_it_is_not_to_wait() {
    let stage =
        Stage::of(&recording("good.minimal"), ReplayOptions { wait: false, stay: true, ..at_once() }).await;
    stage.hears("line 2").await;
    // Who comes late has missed nothing.
    let mut ear = stage.listen("/events", None).await;
    assert_eq!(ear.some(2).await.len(), 2);
    stage.replay.stop().await;
    assert_eq!(ear.rest().await, [""; 0]);
}

#[tokio::test]
async fn who_comes_late_gets_all_and_who_comes_back_gets_the_rest() {
    let recording = recording("good.tool");
    let said = said(&recording);
    let stage = Stage::of(&recording, ReplayOptions { stay: true, ..at_once() }).await;
    let mut first = stage.listen("/events", None).await;
    let frames = first.some(said.len()).await;
    let mut late = stage.listen("/events", None).await;
    assert_eq!(late.some(said.len()).await, frames);
    // R-149
    for at in 0..said.len() {
        let mut back = stage.listen("/events", frames[at].id.as_deref()).await;
        let rest: Vec<_> = back.some(said.len() - at - 1).await.into_iter().map(|frame| frame.data).collect();
        assert_eq!(rest, said[at + 1..], "behind line {at}");
    }
    // Nothing is lost to who names what nobody knows.
    let mut stranger = stage.listen("/events", Some("evt_nobody")).await;
    assert_eq!(stranger.some(said.len()).await, frames);
    stage.replay.stop().await;
}

#[tokio::test]
async fn who_left_before_the_end_is_waited_for() {
    let recording = recording("good.tool");
    let said = said(&recording);
    let stage = Stage::of(&recording, paced(20.0)).await;
    let mut ear = stage.listen("/events", None).await;
    let heard = ear.some(1).await;
    drop(ear);
    stage.hears("Lingers").await;
    let mut back = stage.listen("/events", heard[0].id.as_deref()).await;
    assert_eq!(back.rest().await, said[1..]);
    stage.ends().await;
}

#[tokio::test]
async fn pauses_are_those_of_the_recording() {
    let recording = recording("good.minimal");
    let first = field(&said(&recording)[0], "timestamp");
    // An hour of the recording in half a second.
    let later = recording.replace(&first, "2026-05-24T13:22:02.000Z");
    assert_ne!(later, recording);
    let stage = Stage::of(&later, paced(7_200.0)).await;
    let start = moment();
    let mut ear = stage.listen("/events", None).await;
    assert_eq!(ear.rest().await, said(&later));
    assert!(start.elapsed() >= Duration::from_millis(490), "{:?}", start.elapsed());
    stage.ends().await;
}

#[tokio::test]
async fn times_beside_a_recording_say_when_and_whose() {
    let recording = format!(
        "{}\n{}\n{}\n{}\n",
        r#"{"type":"aaep:agent.session.started","event_id":"evt_1","timestamp":"2026-05-24T10:00:00.000Z"}"#,
        r#"{"type":"x:odd","event_id":"evt_2"}"#,
        r#"{"type":"x:odd","event_id":"evt_3","timestamp":"2026-05-24T10:00:01.000Z"}"#,
        r#"{"type":"aaep:agent.session.completed","event_id":"evt_4","timestamp":"2026-05-24T19:00:00.000Z"}"#,
    );
    let row = |line: u32, direction: &str, after: u32| {
        format!(
            "{{\"line\":{line},\"direction\":\"{direction}\",\"at\":\"2026-05-24T10:00:00.000Z\",\
             \"after_ms\":{after},\"connection\":1,\"id\":\"evt_{line}\"}}\n"
        )
    };
    let times = [row(1, "in", 100), row(2, "out", 200), row(3, "in", 300), row(4, "in", 400)].concat();
    let script = ReplayScript::read(recording.as_bytes(), Some(&times)).unwrap();
    assert_eq!((script.len(), script.unsaid(), script.warnings().len()), (3, 1, 0));
    let start = moment();
    let stage = Stage::of_script(script, paced(1.0)).await;
    let mut ear = stage.listen("/events", None).await;
    let heard: Vec<_> = ear.rest().await.iter().map(|text| field(text, "event_id")).collect();
    assert_eq!(heard, ["evt_1", "evt_3", "evt_4"]);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(20), "{took:?}");
    stage.ends().await;
    let cut = ReplayScript::read(recording.as_bytes(), Some(&times[..times.len() - 9])).unwrap();
    assert!(cut.warnings()[0].contains("from their line 4 on"), "{:?}", cut.warnings());
    let other = ReplayScript::read(recording.as_bytes(), Some(&times.replace("evt_3", "evt_7"))).unwrap();
    assert!(other.warnings()[0].contains("line 3 is evt_3"), "{:?}", other.warnings());
}

/// R-152, and what the clocks of subscribers in use need.
#[tokio::test(start_paused = true)]
async fn a_stream_at_rest_shows_that_it_lives() {
    let stage = Stage::of(&recording("good.minimal"), ReplayOptions { stay: true, ..at_once() }).await;
    let mut response = stage.web.get(stage.url("/events")).send().await.unwrap();
    let (start, mut came) = (moment(), Vec::new());
    while came.windows(3).filter(|bytes| bytes == b":\n\n").count() < 3 {
        came.extend_from_slice(&response.chunk().await.unwrap().expect("it stays open"));
    }
    let took = start.elapsed();
    assert!(took >= limits::REPLAY_HEARTBEAT * 3 && took <= Duration::from_secs(30), "{took:?}");
}

#[tokio::test]
async fn a_crowd_is_bounded() {
    let stage = Stage::of(&recording("good.minimal"), ReplayOptions { stay: true, ..at_once() }).await;
    let mut crowd = Vec::new();
    for _ in 0..limits::REPLAY_LISTENERS_MAX {
        crowd.push(stage.listen("/events", None).await);
    }
    assert_eq!(stage.ask(Method::GET, "/events").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(crowd.pop());
    stage.hears("Left").await;
    crowd.push(stage.listen("/events", None).await);
}

/// R-151: nobody waits for one who reads nothing, and nothing is kept for it.
#[tokio::test(start_paused = true)]
async fn who_stops_reading_is_left_behind() {
    let text = "x".repeat(200_000);
    let line =
        |number: u32| format!("{{\"type\":\"x:y\",\"event_id\":\"evt_{number}\",\"text\":\"{text}\"}}\n");
    let recording: String = (0..100).map(line).collect();
    let stage = Stage::of(&recording, at_once()).await;
    let mut peer = tokio::net::TcpStream::connect(stage.replay.address()).await.unwrap();
    peer.write_all(b"GET /events HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let start = moment();
    stage.replay.ended().await;
    let took = start.elapsed();
    assert!(took >= limits::REPLAY_STALL + limits::REPLAY_RETURN_WAIT, "{took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    let left = stage.hears("Left").await;
    assert!(left.contains("of: 100") && !left.contains("lines: 100"), "{left}");
}

#[test]
fn what_cannot_be_said_is_told_and_what_is_odd_is_said() {
    for nothing in
        ["", "\n\n", "not JSON\n", "[1, 2]", r#"{"type":"confirmation.reply","reply_token":"rpl_1"}"#]
    {
        let error = ReplayScript::read(nothing.as_bytes(), None).unwrap_err();
        assert!(matches!(error, ScriptError::Empty), "{nothing}: {error}");
    }
    let odd = "\u{feff}{\"type\":\"x:y\"}\r\n\r\n{\"cut off\n[1]\n{\"session_id\":\"sess_1\"}\n{\"kind\":\"user_input\"}";
    let script = ReplayScript::read(odd.as_bytes(), None).unwrap();
    assert_eq!((script.len(), script.unsaid()), (4, 1));
    let told = script.warnings().join("; ");
    for part in
        ["byte order mark", "line 3: the text ends in the middle", "line 4: no JSON object; it is said"]
    {
        assert!(told.contains(part), "{told}");
    }
    let pretty = r#"[{"type": "x:y",
        "a": 1}, {"type": "x:z"}]"#;
    assert_eq!(script_lines(pretty), 2);
    assert_eq!(script_lines("{\n  \"type\": \"x:y\"\n}\n"), 1);
}

fn script_lines(text: &str) -> usize {
    script(text).len()
}
