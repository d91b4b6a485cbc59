//! Their replay, received by our link and capture; their captures, replayed by both sides.

use std::path::Path;

use recount_aaep_kit::World;
use recount_aaep_kit::capture::{CaptureNotice, CapturePlan, EndReason, Filter, capture};
use recount_aaep_kit::link::{Dial, Link, Target};
use recount_aaep_kit::recording::Writer;
use serde_json::Value;

use crate::exchange::theirs::{
    PATIENCE, TheirReplay, our_replay, program, recorded_events, recording, run, values,
};

/// Their replay sends all lines of a file, replies too, and starts immediately, so a client misses the beginning. The
/// test lets it repeat the file and reads until one round is complete.
fn whole_round(received: &[Value], file: &[Value]) -> bool {
    received.windows(file.len()).any(|round| round == file)
}

#[tokio::test]
#[ignore = "full: needs the public AAEP tools"]
async fn our_link_receives_every_event_of_their_replay() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["good.confirmed", "good.chapter46", "good.extension"] {
        let file = folder.path().join("recording.jsonl");
        std::fs::write(&file, recording(name)).unwrap();
        let lines = values(&recording(name));
        let theirs = TheirReplay::of(&file, &["--loop", "--speed", "100"]).await;
        let dial = Dial::to(theirs.url.parse().unwrap());
        let mut link = Link::open(&World::real(), &dial).await.unwrap();
        let mut received: Vec<Value> = Vec::new();
        while !whole_round(&received, &lines) {
            let next = tokio::time::timeout(PATIENCE, link.next()).await.expect("it goes on").unwrap();
            received.push(serde_json::from_str(&next.expect("it does not end").text).unwrap());
            assert!(received.len() <= 3 * lines.len(), "{name}: {received:#?}");
        }
        link.close().await;
    }
}

#[tokio::test]
#[ignore = "full: needs the public AAEP tools"]
async fn their_captures_are_replayed_by_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first.jsonl"), folder.path().join("second.jsonl"));
    let recording = recording("good.confirmed");
    let taken = async |url: &str, file: &std::path::Path, more: &[&str]| {
        let mut capture = program("aaep-capture");
        capture.args(["--endpoint", url, "--output"]).arg(file).args(more);
        let (status, words) = run(&mut capture).await;
        assert_eq!(status, Some(0), "{words}");
        values(&std::fs::read_to_string(file).unwrap())
    };
    let replay = our_replay(&recording).await;
    assert_eq!(taken(&replay.url(), &first, &[]).await, recorded_events(&recording));
    // Our replay reads the capture and sends the same.
    let replay = our_replay(&std::fs::read_to_string(&first).unwrap()).await;
    assert_eq!(taken(&replay.url(), &second, &[]).await, recorded_events(&recording));
    // So does theirs.
    let theirs = TheirReplay::of(&first, &["--loop", "--speed", "100"]).await;
    let count = (2 * recorded_events(&recording).len()).to_string();
    let received = taken(&theirs.url, &second, &["--max-events", &count]).await;
    assert!(whole_round(&received, &recorded_events(&recording)), "{received:#?}");
}

/// Captures from an address, up to a number of events.
async fn our_capture(url: &str, request: Option<&str>, file: &Path, most: Option<u64>) -> Vec<Value> {
    let target: Target = url.parse().unwrap();
    let dial = Dial { request: request.map(str::to_owned), ..Dial::to(target) };
    let filter = Filter::default();
    let plan =
        CapturePlan { dial, timeout: Some(PATIENCE), max_events: most, filter, reconnect: false, auto: None };
    let mut writer = Writer::create(file).unwrap();
    let mut notify = |_: CaptureNotice<'_>| {};
    let summary =
        capture(&World::real(), &plan, &mut writer, &mut notify, std::future::pending()).await.unwrap();
    writer.finish().unwrap();
    assert!(matches!(summary.ended, EndReason::Enough | EndReason::ByProducer), "{summary:?}");
    values(&std::fs::read_to_string(file).unwrap())
}

fn events(lines: Vec<Value>) -> Vec<Value> {
    lines.into_iter().filter(|line| line.get("event_id").is_some()).collect()
}

#[tokio::test]
#[ignore = "full: needs the public AAEP tools"]
async fn our_capture_records_every_event_of_their_replay() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["good.confirmed", "good.chapter46", "good.tool"] {
        let file = folder.path().join("recording.jsonl");
        std::fs::write(&file, recording(name)).unwrap();
        let expected = recorded_events(&recording(name));
        let theirs = TheirReplay::of(&file, &["--loop", "--speed", "100"]).await;
        let taken = folder.path().join(format!("{name}.taken.jsonl"));
        let most = u64::try_from(expected.len()).unwrap();
        let mut received = events(our_capture(&theirs.url, None, &taken, Some(most)).await);
        // The capture starts anywhere; repeated events are stored once.
        let first = expected
            .iter()
            .position(|event| *event == received[0])
            .expect("the first event is in the recording");
        received.rotate_right(first);
        assert_eq!(received, expected, "{name}");
    }
}

#[tokio::test]
#[ignore = "full: needs the public AAEP tools"]
async fn our_captures_are_replayed_by_their_tools() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours.jsonl"), folder.path().join("theirs.jsonl"));
    let recording = recording("good.confirmed");
    let request = "{\"type\":\"subscription.request\",\"aaep_version\":\"1.0.0\",\"subscriber_id\":\"reader\",\
                   \"capabilities\":{\"supports_confirmation_reply\":true}}";
    for (surface, request) in [("", None), ("/aaep/v1", Some(request))] {
        let replay = our_replay(&recording).await;
        let taken = our_capture(&format!("{}{surface}", replay.url()), request, &ours, None).await;
        assert_eq!(events(taken.clone()), recorded_events(&recording));
        assert_eq!(
            taken.len() - recorded_events(&recording).len(),
            if request.is_some() { 2 } else { 0 },
            "the handshake"
        );
        let there = TheirReplay::of(&ours, &["--loop", "--speed", "100"]).await;
        let mut capture = program("aaep-capture");
        let count = (2 * taken.len()).to_string();
        capture.args(["--endpoint", &there.url, "--max-events", &count, "--output"]).arg(&theirs);
        let (status, words) = run(&mut capture).await;
        assert_eq!(status, Some(0), "{words}");
        let received = values(&std::fs::read_to_string(&theirs).unwrap());
        assert!(whole_round(&received, &taken), "{received:#?}");
    }
}
