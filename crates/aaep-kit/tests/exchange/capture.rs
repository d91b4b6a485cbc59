//! Their replay, and our side hearing it; what their capture wrote, replayed here and there.

use recount_aaep_kit::World;
use recount_aaep_kit::link::{Dial, Link};
use serde_json::Value;

use crate::theirs::{PATIENCE, TheirReplay, our_replay, program, recording, run, said, values};

/// Their replay says all lines of a file, replies too, and begins when it is started: who comes misses the beginning.
/// So it is let say the file again and again, and heard until it was said whole.
fn whole_round(heard: &[Value], file: &[Value]) -> bool {
    heard.windows(file.len()).any(|round| round == file)
}

#[tokio::test]
async fn our_link_hears_all_that_their_replay_says() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["good.confirmed", "good.chapter46", "good.extension"] {
        let file = folder.path().join("recording.jsonl");
        std::fs::write(&file, recording(name)).unwrap();
        let lines = values(&recording(name));
        let theirs = TheirReplay::of(&file, &["--loop", "--speed", "100"]).await;
        let dial = Dial::to(theirs.url.parse().unwrap());
        let mut link = Link::open(&World::real(), &dial).await.unwrap();
        let mut heard: Vec<Value> = Vec::new();
        while !whole_round(&heard, &lines) {
            let next = tokio::time::timeout(PATIENCE, link.next()).await.expect("it goes on").unwrap();
            heard.push(serde_json::from_str(&next.expect("it does not end").text).unwrap());
            assert!(heard.len() <= 3 * lines.len(), "{name}: {heard:#?}");
        }
        link.close().await;
    }
}

#[tokio::test]
async fn what_their_capture_wrote_is_replayed_here_and_there() {
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
    assert_eq!(taken(&replay.url(), &first, &[]).await, said(&recording));
    // Ours reads it, and says the same again.
    let replay = our_replay(&std::fs::read_to_string(&first).unwrap()).await;
    assert_eq!(taken(&replay.url(), &second, &[]).await, said(&recording));
    // So does theirs.
    let theirs = TheirReplay::of(&first, &["--loop", "--speed", "100"]).await;
    let count = (2 * said(&recording).len()).to_string();
    let heard = taken(&theirs.url, &second, &["--max-events", &count]).await;
    assert!(whole_round(&heard, &said(&recording)), "{heard:#?}");
}
