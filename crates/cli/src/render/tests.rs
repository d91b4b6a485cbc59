//! Envelopes against the lines they give; whole stories against their transcripts.
//!
//! `RECOUNT_BLESS=1` writes the transcripts anew.

use std::path::{Path, PathBuf};

use super::Account;

fn envelope(sequence: u64, type_name: &str, data: &str) -> String {
    format!(
        r#"{{"schema_version":"1","event_id":"evt_1","run_id":"run_1","sequence":{sequence},"occurred_at":"2026-05-03T10:23:45.123Z","type":"{type_name}","data":{data}}}"#
    )
}

/// The lines of one event, the day left out.
fn lines_of(type_name: &str, data: &str) -> Vec<String> {
    let mut account = Account::of_run(false);
    account.event(envelope(11, "ext.some.thing", "{}").as_bytes());
    account.event(envelope(12, type_name, data).as_bytes())
}

#[track_caller]
fn check(type_name: &str, data: &str, expected: &[&str]) {
    assert_eq!(lines_of(type_name, data), expected);
}

#[test]
fn a_line_an_event() {
    let mut account = Account::of_run(false);
    let data = r#"{"tool_call_id":"call_1","tool_name":"shell_exec","summary":"exited with status 0","duration_ms":312}"#;
    assert_eq!(
        account.event(envelope(12, "tool.completed", data).as_bytes()),
        [
            "Day 2026-05-03 in UTC",
            "12  10:23:45.123  tool.completed  shell_exec call_1 (312 ms): exited with status 0"
        ]
    );
    let mut feed = Account::of_feed(false);
    let lines = feed.event(envelope(0, "run.started", "{}").as_bytes());
    assert_eq!(lines[1], "run_1  0  10:23:45.123  run.started  started");
}

#[test]
fn unknown_types_and_shapes_are_shown_as_they_are() {
    check("ext.acme.thing", r#"{"a":[1,"x"]}"#, &[r#"12  10:23:45.123  ext.acme.thing  data {"a":[1,"x"]}"#]);
    check("turn.imagined", "{}", &["12  10:23:45.123  turn.imagined  data {}"]);
    check("tool.completed", r#"{"later":1}"#, &[r#"12  10:23:45.123  tool.completed  data {"later":1}"#]);
    let mut account = Account::of_run(false);
    assert_eq!(account.event(b"{}\x1b"), ["not an event: {}\\u{1b}"]);
    let later = envelope(1, "run.started", "{}").replacen("\"1\"", "\"2\"", 1);
    assert!(account.event(later.as_bytes())[0].starts_with("event of unknown schema version 2: {"));
}

#[test]
fn text_cannot_drive_the_terminal() {
    let data = r#"{"text":"a\u001b]0;owned\u0007\nsecond\r\nthird \u009b2J"}"#;
    check(
        "user.message",
        data,
        &[
            "12  10:23:45.123  user.message  3 lines:",
            r"    a\u{1b}]0;owned\u{7}",
            "    second",
            r"    third \u{9b}2J",
        ],
    );
    check(
        "user.message",
        r#"{"text":"12  run.finished\u2028fake"}"#,
        &[r"12  10:23:45.123  user.message  12  run.finished\u{2028}fake"],
    );
    let opaque = "{\"x\":\"\u{9b}2J\u{202e}\"}";
    check("ext.acme.x", opaque, &[r#"12  10:23:45.123  ext.acme.x  data {"x":"\u{9b}2J\u{202e}"}"#]);
}

#[test]
fn pieces_are_printed_with_their_block() {
    let delta = |at, text: &str| {
        envelope(
            at,
            "assistant.text_delta",
            &format!(r#"{{"turn_index":0,"block_index":0,"delta":"{text}"}}"#),
        )
    };
    let complete =
        envelope(3, "assistant.text_complete", r#"{"turn_index":0,"block_index":0,"text":"Hello there"}"#);
    let mut account = Account::of_run(false);
    assert!(account.event(delta(1, "Hello ").as_bytes()).is_empty());
    assert!(account.event(delta(2, "there").as_bytes()).is_empty());
    let lines = account.event(complete.as_bytes());
    assert_eq!(lines[1], "3  10:23:45.123  assistant.text_complete  Hello there");
    assert!(account.finish().is_empty());

    assert!(account.event(delta(4, "Never").as_bytes()).is_empty());
    assert_eq!(account.finish(), ["4  unfinished text of turn 0  Never"]);

    let mut account = Account::of_run(true);
    assert_eq!(
        account.event(delta(1, "Hello ").as_bytes())[1],
        "1  10:23:45.123  assistant.text_delta  turn 0: Hello "
    );
}

#[test]
fn gathering_is_bounded() {
    let text = "x".repeat(400_000);
    let mut account = Account::of_run(false);
    let mut line_count = 0;
    for block in 0..10 {
        let data = format!(r#"{{"turn_index":0,"block_index":{block},"delta":"{text}"}}"#);
        line_count += account.event(envelope(block, "assistant.text_delta", &data).as_bytes()).len();
    }
    line_count += account.finish().len();
    assert_eq!(line_count, 20, "a head and a line for each block, early or late");
}

#[test]
fn long_texts_are_shortened_without_all() {
    let text = (0..30).map(|n| format!("line {n}\\n")).collect::<String>();
    let lines = lines_of("user.message", &format!(r#"{{"text":"{text}"}}"#));
    assert_eq!(lines.len(), 22);
    assert_eq!(lines[0], "12  10:23:45.123  user.message  30 lines:");
    assert_eq!(lines[21], "    (10 more lines not shown)");
    let mut account = Account::of_run(true);
    let data = format!(r#"{{"text":"{text}"}}"#);
    assert_eq!(account.event(envelope(1, "user.message", &data).as_bytes()).len(), 32);
}

#[test]
fn identifiers() {
    assert_eq!(super::short("call_01J00000000000000000ABCDEF"), "call_…ABCDEF");
    assert_eq!(super::short("call_1"), "call_1");
    assert_eq!(super::short("ünusual_identifier_of_another_client"), "ünusual_identifier_of_another_client");
}

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

#[track_caller]
fn check_transcript(name: &str, given: &str) {
    assert!(!given.chars().any(|c| c.is_control() && c != '\n'), "{name} could drive the terminal");
    let path = transcripts().join(name).with_extension("txt");
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(&path, given).expect("the transcript can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        given == expected,
        "{} differs; look at this, then run with RECOUNT_BLESS=1:\n{given}",
        path.display()
    );
}

#[test]
fn stories_give_their_transcripts() {
    let stories = files(&tree().join("testdata/runs"), "jsonl");
    let mut known = vec!["all-types".to_owned()];
    for story in &stories {
        let mut account = Account::of_run(false);
        let text = std::fs::read_to_string(story).expect("the story can be read");
        let mut lines: Vec<String> = text.lines().flat_map(|event| account.event(event.as_bytes())).collect();
        lines.extend(account.finish());
        let name = story.file_stem().expect("a story has a name").to_string_lossy().into_owned();
        check_transcript(&name, &(lines.join("\n") + "\n"));
        known.push(name);
    }
    for transcript in files(&transcripts(), "txt") {
        let name = transcript.file_stem().expect("a transcript has a name").to_string_lossy().into_owned();
        assert!(known.contains(&name), "{name} has no story");
    }
}

/// Every registered type has a fixture, and every fixture a sentence.
#[test]
fn every_fixture_has_a_sentence() {
    let mut blocks = Vec::new();
    for fixture in files(&tree().join("testdata/events"), "json") {
        let text = std::fs::read_to_string(&fixture).expect("the fixture can be read");
        let name = fixture.file_name().expect("a fixture has a name").to_string_lossy().into_owned();
        let lines = Account::of_run(true).event(text.trim_end().as_bytes());
        let opaque = name.starts_with("ext.") || name == "unknown-type.json";
        assert_eq!(lines[1].contains("  data {"), opaque, "{name}: {lines:?}");
        blocks.push(lines[1..].join("\n"));
    }
    check_transcript("all-types", &(blocks.join("\n") + "\n"));
}
