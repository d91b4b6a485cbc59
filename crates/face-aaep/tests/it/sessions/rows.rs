//! The table of what each event of the log gives: `rows.txt`, one case for each row. A case has the events before
//! (`.`), the events that the row is about (`>`), and after each of those all that it gives, whole. `RECOUNT_BLESS=1`
//! writes what is given, anything else compares. Types that give nothing are held against their examples in
//! `testdata/events`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use recount_aaep::rule::Severity;
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::{TextDirection, Timestamp};
use recount_aaep::{Body, Event as AaepEvent};
use recount_event::Event;
use recount_event::codec::decode;
use recount_event::registry::TABLE;
use recount_face_aaep::project::Projector;
use recount_face_aaep::speech::Speech;
use serde_json::Value;

use super::holds::token;

const RUN: &str = "run_01HZX3Q0M0000000000000000A";
const T0_MS: i64 = 1_777_803_825_000;

/// What comes first in a case that names it.
const BEGINNINGS: [(&str, &[&str]); 2] = [
    (
        ":own",
        &[
            r#"run.queued {"kind":"agent_loop","title":"Tidy up.","agent":{"name":"clerk","version":"1"}}"#,
            r#"run.started {"worker_id":"w1"}"#,
            r#"turn.started {"turn_index":0}"#,
        ],
    ),
    (
        ":external",
        &[
            r#"run.queued {"kind":"external","driver":"external","title":"Deploy.","agent":{"name":"acme"}}"#,
            r#"run.started {"worker_id":"ci"}"#,
            r#"turn.started {"turn_index":1}"#,
        ],
    ),
];

/// Makes events of the log, a second after each other where no time is given.
struct Log {
    sequence: u64,
    now_ms: i64,
}

impl Log {
    fn event(&mut self, text: &str) -> Event {
        let (at, text) = match text.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            Some((at, text)) => (T0_MS + at.parse::<i64>().unwrap(), text),
            None => (self.now_ms + 1_000, text),
        };
        self.now_ms = at;
        let (type_name, data) = text.split_once(' ').unwrap_or((text, "{}"));
        let occurred_at = Timestamp::of_millis(at);
        let (sequence, id) = (self.sequence, format!("evt_01HZX3Q0M{:017}", self.sequence));
        self.sequence += 1;
        let line = format!(
            r#"{{"schema_version":"1","event_id":"{id}","run_id":"{RUN}","sequence":{sequence},"occurred_at":"{occurred_at}","type":"{type_name}","data":{data}}}"#
        );
        decode(line.as_bytes()).unwrap_or_else(|why| panic!("{line}: {why}"))
    }
}

/// The name of an event's type, without what all have in common.
fn kind(event: &AaepEvent) -> String {
    let value: Value = serde_json::from_str(&event.to_json()).unwrap();
    value["type"].as_str().unwrap().trim_start_matches("aaep:agent.").to_owned()
}

/// All of an event but what is the same for each: its type, urgency, direction, body and summaries.
fn shown(event: &AaepEvent) -> String {
    let mut value: Value = serde_json::from_str(&event.to_json()).unwrap();
    let object = value.as_object_mut().unwrap();
    let hints = event.envelope.localization_hints.as_ref().unwrap();
    assert_eq!(hints.primary_language.as_deref(), Some("en-US"), "{event}");
    assert_eq!(hints.available_languages, ["en-US", "ar"], "{event}");
    let direction = match hints.text_direction.as_ref().unwrap() {
        TextDirection::Ltr => "ltr",
        TextDirection::Auto => "auto",
        other => panic!("{other:?} in English"),
    };
    let urgency = event.envelope.urgency().to_string();
    for name in [
        "@context",
        "aaep_version",
        "event_id",
        "localization_hints",
        "producer",
        "session_id",
        "summary_detailed",
        "summary_normal",
        "summary_terse",
        "timestamp",
        "type",
        "urgency",
        "verbosity",
    ] {
        object.remove(name);
    }
    let mut text = format!("    {} {urgency} {direction} {value}\n", kind(event));
    let forms = &event.summaries;
    for (name, form) in [("terse", &forms.terse), ("normal", &forms.normal), ("detailed", &forms.detailed)] {
        if let Some(form) = form {
            writeln!(text, "        {name}: {}", form.escape_debug()).unwrap();
        }
    }
    text
}

/// What one event of the log gave.
struct Row {
    type_name: String,
    given: Vec<AaepEvent>,
}

/// Plays the cases: the file as it should be, and what each `>` gave.
fn play(text: &str) -> (String, Vec<Row>) {
    let (mut page, mut rows) = (String::new(), Vec::new());
    let mut case = String::new();
    let speech = Speech::of("en-US");
    let begin =
        || (Projector::new(RUN.parse().unwrap(), speech), Log { sequence: 0, now_ms: T0_MS }, checker());
    let (mut projector, mut log, mut check) = begin();
    for line in text.lines().filter(|line| !line.starts_with("    ")) {
        page.push_str(line);
        page.push('\n');
        if let Some(title) = line.strip_prefix("== ") {
            (projector, log, check) = begin();
            case = title.to_owned();
            continue;
        }
        let preset = BEGINNINGS.iter().find(|(name, _)| *name == line).map(|(_, events)| *events);
        let events: Vec<&str> = match preset {
            Some(events) => events.to_vec(),
            None => line.strip_prefix(". ").or_else(|| line.strip_prefix("> ")).into_iter().collect(),
        };
        for text in events {
            let event = log.event(text);
            let given = projector.event(&event, &token);
            let errors = check(&given);
            assert!(errors.is_empty(), "{case}: {errors:?}");
            if line.starts_with("> ") {
                given.iter().for_each(|event| page.push_str(&shown(event)));
                rows.push(Row { type_name: event.type_name().to_owned(), given });
            }
        }
    }
    (page, rows)
}

/// Gives the errors of the protocol's strict profile as the events come.
fn checker() -> impl FnMut(&[AaepEvent]) -> Vec<String> {
    let mut checker = Checker::new(Options::default());
    let mut line = 0;
    move |events| {
        for event in events {
            line += 1;
            checker.text(line, &event.to_json());
        }
        let findings = checker.take();
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        errors.map(ToString::to_string).collect()
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sessions/rows.txt")
}

#[test]
fn every_row_of_the_table_gives_what_is_written() {
    let agreed = std::fs::read_to_string(file()).unwrap();
    let (page, _) = play(&agreed);
    if std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1") {
        assert!(std::env::var_os("CI").is_none(), "CI compares; it does not bless");
        std::fs::write(file(), &page).unwrap();
        return;
    }
    for (at, (ours, theirs)) in page.lines().zip(agreed.lines()).enumerate() {
        assert_eq!(ours, theirs, "rows.txt, line {}", at + 1);
    }
    assert_eq!(page, agreed);
}

/// The types of the protocol that a row of the registry names, in order.
fn named(row: &str) -> Vec<&'static str> {
    let row = row.trim_end_matches("request_text of session.started");
    const KINDS: [&str; 13] = [
        "session.started",
        "session.completed",
        "session.errored",
        "session.cancelled",
        "state.changed",
        "progress.updated",
        "tool.invoked",
        "tool.completed",
        "output.streaming",
        "awaiting.confirmation",
        "awaiting.clarification",
        "handoff.requested",
        "sentence",
    ];
    let mut found: Vec<(usize, &str)> =
        KINDS.into_iter().filter_map(|kind| Some((row.find(kind)?, kind))).collect();
    found.sort_unstable();
    let mut found: Vec<&str> =
        found.into_iter().map(|(_, kind)| if kind == "sentence" { "state.changed" } else { kind }).collect();
    found.dedup();
    found
}

/// Checks the registry against the cases: the events that it lists for a type are those that a case of the type gives.
#[test]
fn every_type_of_the_registry_has_its_case() {
    let (_, rows) = play(&std::fs::read_to_string(file()).unwrap());
    let mut by_type: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    for row in &rows {
        let mut kinds: Vec<String> = row.given.iter().map(kind).collect();
        kinds.dedup();
        by_type.entry(&row.type_name).or_default().push(kinds);
    }
    let resumed = by_type["run.queued"].contains(&vec!["session.started".into(), "state.changed".into()]);
    for row in TABLE {
        let cases = by_type.remove(row.type_name).unwrap_or_default();
        let wanted = named(row.aaep);
        if row.aaep == "silent" {
            assert!(cases.iter().all(Vec::is_empty), "{} is silent", row.type_name);
            continue;
        }
        assert!(!cases.is_empty(), "{} has no case in rows.txt", row.type_name);
        // The session starts at the `run.queued` that follows, and its sentence after that.
        if row.type_name == "run.resumed_from_event" {
            assert!(cases.iter().all(Vec::is_empty) && resumed, "{cases:?}");
            continue;
        }
        // Not each of them gives it: what a long command writes does.
        if row.type_name.starts_with("tool.shell.") && row.type_name != "tool.shell.output_chunk" {
            continue;
        }
        let given = cases
            .iter()
            .any(|given| given.iter().map(String::as_str).take(wanted.len()).eq(wanted.iter().copied()));
        assert!(given, "{}: the registry says {:?}; the cases give {cases:?}", row.type_name, row.aaep);
        if row.aaep.starts_with("silent") {
            assert!(cases.iter().any(Vec::is_empty), "{} is silent in some case", row.type_name);
        }
    }
    assert!(by_type.keys().all(|name| name.starts_with("ext.")), "not in the registry: {by_type:?}");
}

#[test]
fn silent_event_types_give_nothing_during_a_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/events");
    let mut seen = BTreeSet::new();
    let examples = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    for example in examples.filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let event = decode(std::fs::read_to_string(example).unwrap().trim_end().as_bytes()).unwrap();
        let row = TABLE.iter().find(|row| row.type_name == event.type_name());
        if row.is_some_and(|row| row.aaep != "silent") {
            continue;
        }
        let mut projector = Projector::new(RUN.parse().unwrap(), Speech::of("en-US"));
        let mut log = Log { sequence: 0, now_ms: T0_MS };
        for text in BEGINNINGS[0].1 {
            projector.event(&log.event(text), &token);
        }
        let given = projector.event(&event, &token);
        assert!(given.is_empty(), "{}: {given:?}", event.type_name());
        seen.insert(event.type_name().to_owned());
    }
    for row in TABLE.iter().filter(|row| row.aaep == "silent") {
        assert!(seen.contains(row.type_name), "{} has no example in testdata/events", row.type_name);
    }
    assert!(seen.iter().any(|name| name.starts_with("ext.")), "types outside the registry are silent");
}

/// One text for all of a run would lose its place: each block counts its own characters.
#[test]
fn positions_count_characters_of_each_output() {
    let (_, rows) = play(&std::fs::read_to_string(file()).unwrap());
    let mut pieces = 0;
    for event in rows.iter().flat_map(|row| &row.given) {
        if let Body::OutputStreaming(piece) = &event.body {
            assert!(piece.output_id.is_some(), "{event}");
            pieces += 1;
        }
    }
    assert!(pieces >= 8, "{pieces}");
}
