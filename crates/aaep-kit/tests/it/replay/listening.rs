//! Every listener gets everything: from the beginning, after a resume, and with the recorded pauses.

use std::time::Duration;

use recount_aaep_kit::limits;
use recount_aaep_kit::replay::{Pace, ReplayOptions, ReplayScript, ScriptError};
use recount_world::moment;
use reqwest::{Method, StatusCode};
use tokio::io::AsyncWriteExt as _;

use crate::replay::fixture::{Fixture, at_once, field, recorded_lines, recording, script};

fn paced(speed: f64) -> ReplayOptions {
    ReplayOptions { pace: Pace::Recorded { speed }, ..ReplayOptions::default() }
}

#[tokio::test]
async fn a_replay_sends_every_line_byte_for_byte_and_ends() {
    for name in ["good.confirmed", "good.two_sessions", "good.extension", "good.chapter46", "bad.appendix8.1"]
    {
        let recording = recording(name);
        let fixture = Fixture::of(&recording, at_once()).await;
        let mut reader = fixture.listen("/events", None).await;
        assert_eq!(reader.rest().await, recorded_lines(&recording), "{name}");
        let raw = String::from_utf8(std::mem::take(&mut reader.raw)).unwrap();
        assert!(raw.starts_with(": connected\n\nid: evt_"), "{raw}");
        // Existing subscribers read only frames without a name, and split only at line feeds.
        assert!(!raw.contains('\r') && !raw.contains("event: "), "{raw}");
        assert!(raw.lines().all(|line| ["", ": ", "id: ", "data: "].iter().any(|it| line.starts_with(it))));
        fixture.ends().await;
    }
}

#[tokio::test]
async fn it_starts_when_a_listener_connects_and_not_on_head_requests() {
    let recording = recording("good.minimal");
    let fixture = Fixture::of(&recording, at_once()).await;
    let looked = fixture.ask(Method::HEAD, "/events").await;
    assert_eq!(looked.status(), StatusCode::OK);
    assert_eq!(looked.headers()["content-type"], "text/event-stream");
    let health = fixture.ask(Method::GET, "/healthz").await.text().await.unwrap();
    assert!(health.contains(r#""said":0"#) && health.contains(r#""status":"ok""#), "{health}");
    assert!(!fixture.has_notice("RoundStarted"));
    let mut reader = fixture.listen("/events", None).await;
    assert_eq!(reader.rest().await, recorded_lines(&recording));
    fixture.ends().await;
}

#[tokio::test]
async fn it_starts_at_once_without_wait() {
    let fixture =
        Fixture::of(&recording("good.minimal"), ReplayOptions { wait: false, stay: true, ..at_once() }).await;
    fixture.wait_notice("line 2").await;
    // A late listener misses nothing.
    let mut reader = fixture.listen("/events", None).await;
    assert_eq!(reader.some(2).await.len(), 2);
    fixture.replay.stop().await;
    assert_eq!(reader.rest().await, [""; 0]);
}

#[tokio::test]
async fn a_late_listener_gets_everything_and_a_returning_one_gets_the_rest() {
    let recording = recording("good.tool");
    let lines = recorded_lines(&recording);
    let fixture = Fixture::of(&recording, ReplayOptions { stay: true, ..at_once() }).await;
    let mut first = fixture.listen("/events", None).await;
    let frames = first.some(lines.len()).await;
    let mut late = fixture.listen("/events", None).await;
    assert_eq!(late.some(lines.len()).await, frames);
    // R-149
    for at in 0..lines.len() {
        let mut back = fixture.listen("/events", frames[at].id.as_deref()).await;
        let rest: Vec<_> =
            back.some(lines.len() - at - 1).await.into_iter().map(|frame| frame.data).collect();
        assert_eq!(rest, lines[at + 1..], "after line {at}");
    }
    // An unknown event id loses nothing.
    let mut stranger = fixture.listen("/events", Some("evt_nobody")).await;
    assert_eq!(stranger.some(lines.len()).await, frames);
    fixture.replay.stop().await;
}

#[tokio::test]
async fn the_replay_waits_for_a_listener_that_left_early() {
    let recording = recording("good.tool");
    let lines = recorded_lines(&recording);
    let fixture = Fixture::of(&recording, paced(20.0)).await;
    let mut reader = fixture.listen("/events", None).await;
    let received = reader.some(1).await;
    drop(reader);
    fixture.wait_notice("WaitingForListener").await;
    let mut back = fixture.listen("/events", received[0].id.as_deref()).await;
    assert_eq!(back.rest().await, lines[1..]);
    fixture.ends().await;
}

#[tokio::test]
async fn pauses_are_those_of_the_recording() {
    let recording = recording("good.minimal");
    let first = field(&recorded_lines(&recording)[0], "timestamp");
    // An hour of the recording in half a second.
    let later = recording.replace(&first, "2026-05-24T13:22:02.000Z");
    assert_ne!(later, recording);
    let fixture = Fixture::of(&later, paced(7_200.0)).await;
    let start = moment();
    let mut reader = fixture.listen("/events", None).await;
    assert_eq!(reader.rest().await, recorded_lines(&later));
    assert!(start.elapsed() >= Duration::from_millis(490), "{:?}", start.elapsed());
    fixture.ends().await;
}

#[tokio::test]
async fn a_times_file_gives_time_and_direction_of_each_line() {
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
    assert_eq!((script.len(), script.skipped_lines(), script.warnings().len()), (3, 1, 0));
    let start = moment();
    let fixture = Fixture::of_script(script, paced(1.0)).await;
    let mut reader = fixture.listen("/events", None).await;
    let received: Vec<_> = reader.rest().await.iter().map(|text| field(text, "event_id")).collect();
    assert_eq!(received, ["evt_1", "evt_3", "evt_4"]);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(20), "{took:?}");
    fixture.ends().await;
    let cut = ReplayScript::read(recording.as_bytes(), Some(&times[..times.len() - 9])).unwrap();
    assert!(cut.warnings()[0].contains("from line 4 on"), "{:?}", cut.warnings());
    let other = ReplayScript::read(recording.as_bytes(), Some(&times.replace("evt_3", "evt_7"))).unwrap();
    assert!(other.warnings()[0].contains("line 3 is evt_3"), "{:?}", other.warnings());
}

/// R-152, and the heartbeats that existing subscribers need for their timeouts.
#[tokio::test(start_paused = true)]
async fn a_stream_at_rest_shows_that_it_lives() {
    let fixture = Fixture::of(&recording("good.minimal"), ReplayOptions { stay: true, ..at_once() }).await;
    let mut response = fixture.web.get(fixture.url("/events")).send().await.unwrap();
    let (start, mut came) = (moment(), Vec::new());
    while came.windows(3).filter(|bytes| bytes == b":\n\n").count() < 3 {
        came.extend_from_slice(&response.chunk().await.unwrap().expect("it stays open"));
    }
    let took = start.elapsed();
    assert!(took >= limits::REPLAY_HEARTBEAT * 3 && took <= Duration::from_secs(30), "{took:?}");
}

#[tokio::test]
async fn the_number_of_listeners_is_limited() {
    let fixture = Fixture::of(&recording("good.minimal"), ReplayOptions { stay: true, ..at_once() }).await;
    let mut crowd = Vec::new();
    for _ in 0..limits::REPLAY_LISTENERS_MAX {
        crowd.push(fixture.listen("/events", None).await);
    }
    assert_eq!(fixture.ask(Method::GET, "/events").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(crowd.pop());
    fixture.wait_notice("ListenerLeft").await;
    crowd.push(fixture.listen("/events", None).await);
}

/// R-151: nothing waits for a listener that does not read, and nothing is kept for it.
#[tokio::test(start_paused = true)]
async fn a_stalled_listener_is_dropped() {
    let text = "x".repeat(200_000);
    let line =
        |number: u32| format!("{{\"type\":\"x:y\",\"event_id\":\"evt_{number}\",\"text\":\"{text}\"}}\n");
    let recording: String = (0..100).map(line).collect();
    let fixture = Fixture::of(&recording, at_once()).await;
    let mut peer = tokio::net::TcpStream::connect(fixture.replay.address()).await.unwrap();
    peer.write_all(b"GET /events HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let start = moment();
    fixture.replay.ended().await;
    let took = start.elapsed();
    assert!(took >= limits::REPLAY_STALL + limits::REPLAY_RETURN_WAIT, "{took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    let left = fixture.wait_notice("ListenerLeft").await;
    assert!(left.contains("of: 100") && !left.contains("lines: 100"), "{left}");
}

#[test]
fn unsendable_lines_are_reported_and_unusual_lines_are_sent() {
    for nothing in
        ["", "\n\n", "not JSON\n", "[1, 2]", r#"{"type":"confirmation.reply","reply_token":"rpl_1"}"#]
    {
        let error = ReplayScript::read(nothing.as_bytes(), None).unwrap_err();
        assert!(matches!(error, ScriptError::Empty), "{nothing}: {error}");
    }
    let odd = "\u{feff}{\"type\":\"x:y\"}\r\n\r\n{\"cut off\n[1]\n{\"session_id\":\"sess_1\"}\n{\"kind\":\"user_input\"}";
    let script = ReplayScript::read(odd.as_bytes(), None).unwrap();
    assert_eq!((script.len(), script.skipped_lines()), (4, 1));
    let notices = script.warnings().join("; ");
    for part in
        ["byte order mark", "line 3: the text ends in the middle", "line 4: not a JSON object; it is sent"]
    {
        assert!(notices.contains(part), "{notices}");
    }
    let pretty = r#"[{"type": "x:y",
        "a": 1}, {"type": "x:z"}]"#;
    assert_eq!(script_lines(pretty), 2);
    assert_eq!(script_lines("{\n  \"type\": \"x:y\"\n}\n"), 1);
}

fn script_lines(text: &str) -> usize {
    script(text).len()
}
