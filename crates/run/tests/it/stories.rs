//! Whole runs from `run.queued` to the ending: `testdata/runs/<name>.jsonl`. Every protocol's
//! transcript and every view is derived from them, so a story that is added here tests all of them.
//!
//! `RECOUNT_BLESS=1` writes the files, anything else compares; where `CI` is set nothing is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use recount_event::codec::{decode, encode};
use recount_event::registry::{self, Status as Settled};
use recount_event::{Event, Payload};
use recount_run::{State, Status, apply, audit};

mod applications;
mod endings;
mod people;
mod plain;
mod teller;
mod tools;
mod workspaces;

use teller::Story;

/// All stories, and what each run has come to.
fn all() -> Vec<(Story, Status)> {
    let mut stories = Vec::new();
    for family in
        [plain::all(), tools::all(), people::all(), endings::all(), workspaces::all(), applications::all()]
    {
        stories.extend(family);
    }
    stories
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs")
}

fn blessing() -> bool {
    let requested = std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1");
    assert!(!requested || std::env::var_os("CI").is_none(), "CI compares; it does not bless");
    requested
}

/// The file as it is committed.
fn committed(name: &str) -> String {
    let file = folder().join(format!("{name}.jsonl"));
    std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{name}: {why}: RECOUNT_BLESS=1 writes it"))
}

/// The events as a reader of the file has them.
fn events(story: &Story) -> Vec<Event> {
    let read = |(index, line): (usize, &str)| {
        let event =
            decode(line.as_bytes()).unwrap_or_else(|why| panic!("{}:{}: {why}", story.name, index + 1));
        assert_eq!(encode(&event), line.as_bytes(), "{}:{}", story.name, index + 1);
        event
    };
    story.text().lines().enumerate().map(read).collect()
}

#[test]
fn the_files_match_the_stories() {
    let stories = all();
    let names: BTreeSet<&str> = stories.iter().map(|(story, _)| story.name).collect();
    assert_eq!(names.len(), stories.len(), "a name is used twice");
    for (story, _) in &stories {
        if blessing() {
            std::fs::write(folder().join(format!("{}.jsonl", story.name)), story.text()).unwrap();
            continue;
        }
        for (index, (expected, written)) in
            committed(story.name).lines().zip(story.text().lines()).enumerate()
        {
            assert_eq!(expected, written, "{}:{}: if it is meant, RECOUNT_BLESS=1", story.name, index + 1);
        }
        assert_eq!(committed(story.name), story.text(), "{}: if it is meant, RECOUNT_BLESS=1", story.name);
    }
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let known = file.strip_suffix(".jsonl").is_some_and(|name| names.contains(name));
        assert!(known, "no story writes testdata/runs/{file}");
    }
}

#[test]
fn every_story_is_legal_and_has_the_expected_status() {
    for (story, status) in all() {
        let events = events(&story);
        assert_eq!(audit(&events), None, "{}", story.name);
        let first = &events[0];
        let mut state = State::blank(first.run_id, first.task_id, first.session_id);
        for event in &events {
            apply(&mut state, event);
        }
        assert_eq!(state.status(), status, "{}", story.name);
        assert!(state.is_ended() && state.open_calls().next().is_none(), "{}", story.name);
        assert!(state.open_prompts().next().is_none(), "{}", story.name);
    }
}

/// A story cut anywhere is a run that goes on: the replay of what is there never fails.
#[test]
fn every_beginning_of_a_story_is_legal() {
    for (story, _) in all() {
        let events = events(&story);
        for end in 1..events.len() {
            assert_eq!(audit(&events[..end]), None, "{} up to {end}", story.name);
        }
    }
}

#[test]
fn event_ids_are_unique_over_all_stories() {
    let mut seen = BTreeSet::new();
    for (story, _) in all() {
        for event in events(&story) {
            assert!(seen.insert(event.event_id), "{}: {} was used before", story.name, event.event_id);
        }
    }
}

/// Not in any story: these markers replace pruned and damaged events.
const NOT_IN_STORIES: [&str; 2] = ["gap.events_damaged", "gap.events_pruned"];

#[test]
fn every_event_type_occurs_in_a_story() {
    let written: BTreeSet<String> =
        all().iter().flat_map(|(story, _)| events(story)).map(|event| event.type_name().to_owned()).collect();
    for row in registry::TABLE {
        let expected = !NOT_IN_STORIES.contains(&row.type_name);
        assert_eq!(written.contains(row.type_name), expected, "{}", row.type_name);
    }
}

/// Our own runs have only settled types; the experimental types have a story of their own.
#[test]
fn only_one_story_is_experimental_and_only_producers_are_old_fashioned() {
    for (story, _) in all() {
        for event in events(&story) {
            let external = story.name.starts_with("external");
            match registry::row(event.type_name()).map(|row| row.status) {
                Some(Settled::Experimental) => assert_eq!(story.name, "experimental"),
                Some(Settled::Deprecated) => assert!(external, "{}", story.name),
                Some(Settled::Core | Settled::Artifact) => {}
                None => assert!(external && matches!(event.payload(), Payload::Opaque(_)), "{}", story.name),
            }
        }
    }
}
