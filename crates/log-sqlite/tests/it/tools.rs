//! Any SQLite tool can read the running store: tests use a separate connection and, if installed, the program
//! `sqlite3`.

use recount_log_conformance::{block_on, both, cut};
use std::path::Path;
use std::process::Command;

use super::work::{append_ok, close, is_half_sealed, open, open_sealing, records, scratch};

fn envelope(run: &str, sequence: u64, kind: &str) -> String {
    // Values that a parser could write in another form.
    format!(
        r#"{{"schema_version":"1","run_id":"{run}","sequence":{sequence},"occurred_at":"2026-01-02T03:04:05.{sequence:03}Z","type":"{kind}","data":{{"a":1.0e5,"b":-0.0,"c":"\u00e9\/é😀\n\"","d":[],"e":{{}},"f":null,"g":12345678901234567890,"h":0.1000}}}}"#
    )
}

/// Ten events of two runs in turns.
fn events() -> Vec<(&'static str, u64, String)> {
    let mut events = Vec::new();
    for sequence in 0..5 {
        for run in ["run_1", "run_2"] {
            let kind = if sequence % 2 == 1 { "tool.shell.exited" } else { "turn.started" };
            events.push((run, sequence, envelope(run, sequence, kind)));
        }
    }
    events
}

fn query(folder: &Path, sql: &str) -> Vec<String> {
    let database = folder.join("recount.db");
    let tool = rusqlite::Connection::open(&database).unwrap();
    let mut statement = tool.prepare(sql).unwrap();
    let columns = statement.column_count();
    let line = |row: &rusqlite::Row<'_>| {
        let cells = (0..columns).map(|column| match row.get_ref(column).unwrap() {
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            rusqlite::types::ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        });
        Ok(cells.collect::<Vec<_>>().join("|"))
    };
    let lines: Vec<String> = statement.query_map([], line).unwrap().collect::<Result<_, _>>().unwrap();
    match Command::new("sqlite3").arg("-readonly").arg(&database).arg(sql).output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text.lines().collect::<Vec<_>>(), lines, "sqlite3 returns the same");
        }
        Err(error) => panic!("sqlite3 cannot be run ({error}); install the package sqlite3"),
    }
    lines
}

fn check(folder: &Path, events: &[(&str, u64, String)], position_of_first: u64) {
    let found = query(folder, "SELECT run_id, sequence, position, envelope FROM log ORDER BY position");
    let expected = events.iter().zip(position_of_first..);
    let expected: Vec<String> = expected
        .map(|((run, sequence, text), position)| format!("{run}|{sequence}|{position}|{text}"))
        .collect();
    assert_eq!(found, expected);
    let found = query(
        folder,
        "SELECT sequence, occurred_at, envelope FROM events
            WHERE type = 'tool.shell.exited' AND run_id = 'run_2' ORDER BY sequence",
    );
    let expected: Vec<String> = events
        .iter()
        .filter(|(run, sequence, _)| *run == "run_2" && sequence % 2 == 1)
        .map(|(_, sequence, text)| format!("{sequence}|2026-01-02T03:04:05.{sequence:03}Z|{text}"))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn any_tool_can_query_the_running_store() {
    let folder = scratch();
    let store = open(folder.path());
    let events = events();
    for (place, (run, sequence, text)) in events.iter().enumerate() {
        append_ok(&store, records(run, *sequence, &[text.as_bytes()]));
        check(folder.path(), &events[..=place], 1);
        if place == 3 || place == 5 {
            block_on(store.seal_now()).unwrap();
            check(folder.path(), &events[..=place], 1);
        }
    }
    close(store);
    check(folder.path(), &events, 1);
}

/// A record in a chunk and in its group appears once.
#[test]
fn any_tool_can_query_during_sealing() {
    let folder = scratch();
    let store = open_sealing(folder.path());
    let mut all = Vec::new();
    let mut half = 0;
    for sequence in 0..60 {
        for run in ["run_1", "run_2"] {
            let text = envelope(run, sequence, "turn.started");
            append_ok(&store, records(run, sequence, &[text.as_bytes()]));
            all.push((run, sequence, text));
        }
        if is_half_sealed(folder.path()) {
            half += 1;
            let found = query(folder.path(), "SELECT run_id, sequence, position FROM log ORDER BY position");
            let expected = all.iter().zip(1..);
            let expected: Vec<String> = expected
                .map(|((run, sequence, _), position)| format!("{run}|{sequence}|{position}"))
                .collect();
            assert_eq!(found, expected);
        }
    }
    assert!(half > 5, "sealing was under way {half} times");
}

#[test]
fn records_that_are_no_events_are_hidden_and_harmless() {
    let folder = scratch();
    let store = open(folder.path());
    let one = envelope("run_1", 0, "turn.started");
    append_ok(&store, records("odd", 0, &[b"\xff", b"{", b"{}, {}", b""]));
    append_ok(&store, records("odd", 4, &[b"{}, {}"]));
    append_ok(&store, records("run_1", 0, &[one.as_bytes()]));
    check(folder.path(), &[("run_1", 0, one.clone())], 6);
    block_on(store.seal_now()).unwrap();
    check(folder.path(), &[("run_1", 0, one)], 6);
}

#[test]
fn removed_records_are_not_shown() {
    let folder = scratch();
    let store = open(folder.path());
    let texts = [0, 1, 2].map(|sequence| envelope("run_1", sequence, "turn.started"));
    append_ok(&store, records("run_1", 0, &texts.each_ref().map(|text| text.as_bytes())));
    append_ok(
        &store,
        both(cut("run_1", 1), records("run_2", 0, &[envelope("run_2", 0, "turn.started").as_bytes()])),
    );
    let expected = ["run_1|1|2", "run_1|2|3", "run_2|0|4"];
    assert_eq!(
        query(folder.path(), "SELECT run_id, sequence, position FROM log ORDER BY position"),
        expected
    );
    block_on(store.seal_now()).unwrap();
    assert_eq!(
        query(folder.path(), "SELECT run_id, sequence, position FROM log ORDER BY position"),
        expected
    );
}
