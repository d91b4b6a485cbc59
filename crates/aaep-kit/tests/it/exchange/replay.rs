//! Our replay, received by their capture, and their replay of that capture.

use crate::exchange::theirs::{
    PATIENCE, RECORDINGS, our_replay, program, recorded_events, recording, run, values,
};

#[tokio::test]
#[ignore = "full: needs the public AAEP tools"]
async fn their_capture_records_every_event_of_our_replay() {
    let folder = tempfile::tempdir().unwrap();
    for name in RECORDINGS {
        let recording = recording(name);
        let replay = our_replay(&recording).await;
        let file = folder.path().join(format!("{name}.jsonl"));
        let mut capture = program("aaep-capture");
        capture.args(["--endpoint", &replay.url(), "--output"]).arg(&file);
        let (status, words) = run(&mut capture).await;
        assert_eq!(status, Some(0), "{name}: {words}");
        let taken = std::fs::read_to_string(&file).unwrap();
        assert_eq!(values(&taken), recorded_events(&recording), "{name}: {words}");
        tokio::time::timeout(PATIENCE, replay.ended()).await.expect("all was taken");
    }
}

/// Their timeout is checked only when bytes arrive, so heartbeats determine how late it is.
#[tokio::test]
#[ignore = "full: needs the public AAEP tools"]
async fn their_capture_ends_in_time_on_a_stream_at_rest() {
    let recording = recording("good.minimal");
    let script = recount_aaep_kit::replay::ReplayScript::read(recording.as_bytes(), None).unwrap();
    let options = recount_aaep_kit::replay::ReplayOptions { stay: true, ..Default::default() };
    let world = recount_aaep_kit::World::real();
    let notify = std::sync::Arc::new(|_: recount_aaep_kit::replay::ReplayNotice<'_>| {});
    let replay = recount_aaep_kit::replay::Replay::start(&world, script, options, notify).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("taken.jsonl");
    let start = recount_world::moment();
    let mut capture = program("aaep-capture");
    capture.args(["--timeout", "3", "--endpoint", &replay.url(), "--output"]).arg(&file);
    let (status, words) = run(&mut capture).await;
    assert!(status == Some(0) && words.contains("Stop reason: timeout"), "{words}");
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert_eq!(values(&std::fs::read_to_string(&file).unwrap()), recorded_events(&recording));
    replay.stop().await;
}
