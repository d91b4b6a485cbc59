//! Compares the turns of every story with its transcript `testdata/faces/aap/<story>.<mode>.txt`, and its history.
//! `RECOUNT_BLESS=1` writes the files, except if `CI` is set.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use recount_event::Event;
use recount_event::codec::decode;
use recount_face_aap::project::{Mode, TurnId};

use super::projected::{bytes, frames, history, message, reply, segments};
use super::properties::holds;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn stories() -> Vec<(String, Vec<Event>)> {
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

/// All turns in order, each with its id.
fn turns(events: &[Event], turn: impl Fn(u64) -> String) -> String {
    let lines = segments(events).into_iter().map(|segment| {
        let id = TurnId { run: events[0].run_id, opening: segment.opening };
        format!("### turn {id}\n{}", turn(segment.opening))
    });
    lines.collect()
}

fn streamed(events: &[Event], mode: Mode) -> String {
    turns(events, |opening| String::from_utf8(bytes(&frames(events, mode, opening))).unwrap())
}

fn files(events: &[Event]) -> [(&'static str, String); 4] {
    let lines = history(events).into_iter().map(|placed| format!("{}\n", message(&placed.line)));
    [
        ("delta", streamed(events, Mode::Delta)),
        ("message", streamed(events, Mode::Message)),
        ("none", turns(events, |opening| format!("{}\n", reply(events, opening)))),
        ("history", lines.collect()),
    ]
}

fn blessing() -> bool {
    let is_blessing = std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1");
    assert!(!is_blessing || std::env::var_os("CI").is_none(), "CI compares; it does not bless");
    is_blessing
}

#[test]
fn every_story_matches_its_transcript() {
    let folder = testdata().join("faces/aap");
    let mut names = BTreeSet::new();
    for (story, events) in stories() {
        for (mode, made) in files(&events) {
            let name = format!("{story}.{mode}.txt");
            let file = folder.join(&name);
            if blessing() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&file, &made).unwrap();
            }
            let there = std::fs::read_to_string(&file)
                .unwrap_or_else(|why| panic!("{name}: {why}: RECOUNT_BLESS=1 writes it"));
            for (at, (there, made)) in there.lines().zip(made.lines()).enumerate() {
                assert_eq!(there, made, "{name}:{}: if it is meant, RECOUNT_BLESS=1", at + 1);
            }
            assert_eq!(there, made, "{name}: if it is meant, RECOUNT_BLESS=1");
            names.insert(name);
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "no story has the transcript testdata/faces/aap/{name}");
    }
}

/// What holds of every run that dice make holds of every story of ours.
#[test]
fn every_story_can_be_folded_resumed_and_agrees_with_its_history() {
    for (story, events) in stories() {
        println!("{story}");
        holds(&events);
    }
}
