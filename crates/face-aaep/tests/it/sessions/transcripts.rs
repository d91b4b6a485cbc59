//! Compares the session of every story with its transcript `testdata/faces/aaep/<story>.<language>.txt`: a line per
//! event, with its state and normal form. `RECOUNT_BLESS=1` writes the files, except if `CI` is set.

use std::path::{Path, PathBuf};

use recount_aaep::{Body, Event as AaepEvent};
use recount_event::Event;
use recount_event::codec::decode;
use recount_face_aaep::speech::Speech;

use super::holds::holds;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

pub(crate) fn stories() -> Vec<(String, Vec<Event>)> {
    let mut stories: Vec<(String, Vec<Event>)> = std::fs::read_dir(testdata().join("runs"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let events = text.lines().map(|line| decode(line.as_bytes()).unwrap()).collect();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), events)
        })
        .collect();
    stories.sort_by(|a, b| a.0.cmp(&b.0));
    stories
}

fn line(event: &AaepEvent) -> String {
    let text = |summary: &Option<String>| summary.as_deref().unwrap_or_default().to_owned();
    let normal = text(&event.summaries.normal);
    let line = match &event.body {
        Body::StateChanged(change) if change.from_state == change.to_state => {
            format!("({}) {normal}", change.to_state)
        }
        Body::StateChanged(change) => format!("[{}] {normal}", change.to_state),
        Body::OutputStreaming(piece) => {
            format!("{}{:?}", if piece.complete { "text, last: " } else { "text: " }, piece.chunk)
        }
        Body::AwaitingConfirmation(ask) => {
            format!("MAY I? {normal} ({} s, else {})", ask.timeout_seconds, ask.default_decision)
        }
        Body::AwaitingClarification(ask) => format!("QUESTION {normal} ({} s)", ask.timeout_seconds),
        Body::HandoffRequested(_) => format!("HANDOFF {normal}"),
        Body::SessionErrored(_) => format!("ERROR {normal}"),
        _ => normal,
    };
    format!("{line}\n")
}

#[test]
fn every_story_matches_its_transcript() {
    let blessing = std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1");
    assert!(!blessing || std::env::var_os("CI").is_none(), "CI compares; it does not bless");
    let folder = testdata().join("faces/aaep");
    let mut wanted = Vec::new();
    for (name, events) in stories() {
        for language in Speech::languages() {
            let transcript: String = holds(&events, language).iter().map(|(_, event)| line(event)).collect();
            let file = folder.join(format!("{name}.{language}.txt"));
            if blessing {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&file, &transcript).unwrap();
            }
            let agreed = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(transcript, agreed, "{}", file.display());
            wanted.push(file);
        }
    }
    let there = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let stray: Vec<PathBuf> = there.filter(|path| !wanted.contains(path)).collect();
    assert!(stray.is_empty(), "no story has this transcript: {stray:?}");
}
