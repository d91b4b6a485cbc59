//! Damage: bytes that were changed with SQL are reported and never returned, and the rest can be read.

use recount_log::{Damage, DamagedRow, FaultKind, RepairedRow, RowRange, RowRepair, Store};
use recount_log_conformance::{ALL, block_on, records, row};
use recount_log_postgres::{Database, PostgresStore};
use recount_test_postgres::fresh_database;

use super::work::{Sql, append, options, texts};

/// The quoted schema of a store.
pub(crate) fn schema(sql: &Sql, store: &str) -> String {
    let found = sql.rows(&format!("SELECT schema FROM recount.stores WHERE name = '{store}'"));
    format!("\"{}\"", found[0][0])
}

pub(crate) fn records_table(sql: &Sql, store: &str) -> String {
    format!("{}.records", schema(sql, store))
}

/// Changes a byte of a stored blob. Returns how many rows were changed.
pub(crate) fn damage_blob(sql: &Sql, store: &str, hash: &str) -> u64 {
    sql.change(&format!(
        "UPDATE {}.blobs SET bytes = {} WHERE hash = decode('{hash}', 'hex')",
        schema(sql, store),
        flipped("bytes")
    ))
}

/// An expression for the bytes of a column with one bit changed.
fn flipped(column: &str) -> String {
    format!("set_byte({column}, 0, get_byte({column}, 0) # 1)")
}

/// A store with two streams in turns, rows, and plain SQL to damage it.
struct Victim {
    database: Database,
    store: PostgresStore,
    sql: Sql,
    schema: String,
}

const RECORDS: u64 = 8;

impl Victim {
    fn new() -> Self {
        let url = fresh_database();
        let database = Database::open(options(&url, "victim")).unwrap();
        let store = database.open_store("a").unwrap();
        for n in 0..RECORDS {
            append(&store, "s", n, &format!("s{n}")).unwrap();
            append(&store, "other", n, &format!("other{n}")).unwrap();
        }
        for key in ["k1", "k2", "k3"] {
            block_on(store.append(row("space", key, recount_log::Guard::Any, Some(key.as_bytes())))).unwrap();
        }
        let sql = Sql::connect(&url);
        let schema = schema(&sql, "a");
        Victim { database, store, sql, schema }
    }

    /// Changes some records of the stream `s`.
    #[track_caller]
    fn change(&self, what: &str, sequences: &str) {
        let (records, streams) = (format!("{}.records", self.schema), format!("{}.streams", self.schema));
        let of_stream = format!("stream = (SELECT id FROM {streams} WHERE name = 's')");
        let statement = what.replace("RECORDS", &records);
        let changed =
            self.sql.change(&format!("{statement} WHERE {of_stream} AND sequence IN ({sequences})"));
        assert!(changed > 0, "{statement}");
    }

    #[track_caller]
    fn problems(&self) -> Vec<String> {
        block_on(self.store.integrity()).unwrap().problems
    }

    /// Checks that reads of `s` report the damage from 3 to the given sequence, and return everything else.
    #[track_caller]
    fn check_damage_from_3(&self, last: u64) {
        let read = |from| block_on(self.store.read(&"s".into(), from, ALL));
        let sequences = |from| read(from).unwrap().iter().map(|record| record.sequence).collect::<Vec<_>>();
        assert_eq!(sequences(0), [0, 1, 2], "a page ends before the damage");
        for from in 3..=last {
            let fault = read(from).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
            let damage = Damage { stream: Some("s".into()), sequences: Some(from..=last), positions: None };
            assert_eq!(fault.damage.as_deref(), Some(&damage), "{fault}");
            assert!(
                fault.message.contains(&format!("stream s is damaged from sequence {from} to {last}")),
                "{fault}"
            );
        }
        assert_eq!(sequences(last + 1), (last + 1..RECORDS).collect::<Vec<_>>());
        assert_eq!(texts(&self.store, "other").len() as u64, RECORDS);
        let problems = self.problems();
        assert!(
            matches!(&problems[..], [only] if only.contains("stream s") && only.contains(&format!("3 to {last}"))),
            "{problems:?}"
        );
        let found = block_on(self.store.integrity()).unwrap();
        assert_eq!(found.readable_records, 2 * RECORDS - (last - 2));
        assert_eq!(found.readable_streams, 1);
    }

    /// Reads the feed over all damage: the positions that were returned.
    #[track_caller]
    fn positions(&self) -> Vec<u64> {
        let (mut next, mut positions) = (1, vec![]);
        loop {
            match block_on(self.store.read_feed(next, ALL)) {
                Ok(page) => {
                    let Some(last) = page.last() else { return positions };
                    next = last.record.position + 1;
                    positions.extend(page.iter().map(|fed| fed.record.position));
                }
                Err(fault) => {
                    let range = fault.damage.and_then(|damage| damage.positions).expect("the feed continues");
                    assert!(range.contains(&next), "{range:?} from {next}");
                    next = range.end() + 1;
                }
            }
        }
    }
}

#[test]
fn changed_bytes_of_a_record_are_reported_and_never_returned() {
    let victim = Victim::new();
    victim.change(&format!("UPDATE RECORDS SET bytes = {}", flipped("bytes")), "3");
    victim.check_damage_from_3(3);
    // The positions of `s` are odd.
    assert_eq!(victim.positions(), (1..=2 * RECORDS).filter(|position| *position != 7).collect::<Vec<_>>());
    victim.database.close();
}

#[test]
fn neighbouring_damaged_records_are_one_range() {
    let victim = Victim::new();
    victim.change("UPDATE RECORDS SET bytes = 'x'", "3, 4, 5");
    victim.check_damage_from_3(5);
    assert_eq!(victim.positions().len() as u64, 2 * RECORDS - 3);
    victim.database.close();
}

#[test]
fn a_missing_record_is_reported() {
    let victim = Victim::new();
    victim.change("DELETE FROM RECORDS", "3");
    victim.check_damage_from_3(3);
    victim.database.close();
}

/// What is stored is whole, but in another place.
#[test]
fn records_that_were_exchanged_are_reported() {
    let victim = Victim::new();
    victim.change("UPDATE RECORDS SET sequence = sequence + 100", "3, 4");
    victim.change("UPDATE RECORDS SET sequence = 107 - sequence", "103, 104");
    victim.check_damage_from_3(4);
    victim.database.close();
}

#[test]
fn records_that_are_missing_at_the_end_are_reported() {
    let victim = Victim::new();
    victim.change("DELETE FROM RECORDS", "6, 7");
    let problems = victim.problems();
    assert!(matches!(&problems[..], [only] if only.contains("2 records are missing")), "{problems:?}");
    victim.database.close();
}

#[test]
fn a_changed_stream_is_reported() {
    let victim = Victim::new();
    let streams = format!("{}.streams", victim.schema);
    victim.sql.change(&format!("UPDATE {streams} SET first_position = 9 WHERE name = 's'"));
    let fault = block_on(victim.store.tail(&"s".into())).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
    assert!(fault.message.contains("stream s"), "{fault}");
    let problems = victim.problems();
    assert!(problems.iter().any(|problem| problem.contains("stream s")), "{problems:?}");
    assert_eq!(texts(&victim.store, "other").len() as u64, RECORDS);
    victim.database.close();
}

#[test]
fn a_changed_row_is_reported_and_can_be_repaired() {
    let victim = Victim::new();
    let store = &victim.store;
    let rows = format!("{}.rows", victim.schema);
    victim.sql.change(&format!("UPDATE {rows} SET value = {} WHERE key = 'k2'", flipped("value")));
    let all = || RowRange::first("space", "", usize::MAX);
    let whole_keys = || {
        let found = block_on(store.whole_rows(all())).unwrap();
        (found.rows.iter().map(|row| row.key.to_string()).collect::<Vec<_>>(), found.damaged)
    };
    for fault in [block_on(store.row("space", "k2")).unwrap_err(), block_on(store.rows(all())).unwrap_err()] {
        assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
        assert!(fault.message.contains("space/k2"), "{fault}");
    }
    let damaged = DamagedRow { space: "space".into(), key: "k2".into(), before: None, after: None };
    assert_eq!(whole_keys(), (vec!["k1".into(), "k3".into()], vec![damaged.clone()]));
    assert_eq!(block_on(store.damaged_rows()), Ok(vec![damaged.clone()]));
    let problems = victim.problems();
    assert!(matches!(&problems[..], [only] if only.contains("space/k2")), "{problems:?}");
    let repaired = |expected_tail| RowRepair {
        damaged: vec![damaged.clone()],
        rows: vec![RepairedRow {
            space: "space".into(),
            key: "k2".into(),
            value: "again".into(),
            stream: "s".into(),
            expected_tail,
        }],
    };
    assert_eq!(block_on(store.repair_rows(repaired(3))), Ok(false), "the stream ends elsewhere");
    assert_eq!(block_on(store.repair_rows(repaired(RECORDS))), Ok(true));
    assert_eq!(&block_on(store.row("space", "k2")).unwrap().unwrap().value[..], b"again");
    assert_eq!(victim.problems(), [""; 0]);
    append(store, "s", RECORDS, "the writer goes on").unwrap();
    victim.database.close();
}

#[test]
fn a_row_with_a_changed_key_is_reported() {
    let victim = Victim::new();
    let rows = format!("{}.rows", victim.schema);
    victim.sql.change(&format!("UPDATE {rows} SET key = '\\xff' WHERE key = 'k2'"));
    let damaged = block_on(victim.store.damaged_rows()).unwrap();
    assert_eq!((damaged.len(), &damaged[0].key[..]), (1, &b"\xff"[..]));
    assert_eq!(victim.problems().len(), 1);
    victim.database.close();
}

#[test]
fn a_blob_with_a_changed_or_missing_part_is_reported() {
    let victim = Victim::new();
    let store = &victim.store;
    let bytes: bytes::Bytes = (0..2_500_000_u32).map(|n| (n / 1000) as u8).collect();
    let hash = block_on(store.put_blob(bytes.clone())).unwrap();
    let blobs = format!("{}.blobs", victim.schema);
    assert_eq!(victim.sql.number(&format!("SELECT count(*) FROM {blobs}")), 3);
    for damage in [
        format!("UPDATE {blobs} SET bytes = {} WHERE part = 1", flipped("bytes")),
        format!("DELETE FROM {blobs} WHERE part = 1"),
        format!("DELETE FROM {blobs} WHERE part = 2"),
    ] {
        assert_eq!(victim.sql.change(&damage), 1, "{damage}");
        let fault = block_on(store.blob(&hash)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
        assert!(fault.message.contains(&hash), "{fault}");
        assert!(victim.problems().iter().any(|problem| problem.contains(&hash)), "{damage}");
        assert_eq!(block_on(store.put_blob(bytes.clone())), Ok(hash.clone()));
        assert_eq!(block_on(store.blob(&hash)), Ok(Some(bytes.clone())));
        assert_eq!(victim.problems(), [""; 0]);
    }
    victim.database.close();
}

/// An owner that reads damage does not write over it.
#[test]
fn a_new_owner_reports_damage_too() {
    let victim = Victim::new();
    victim.change(&format!("UPDATE RECORDS SET bytes = {}", flipped("bytes")), "3");
    block_on(victim.store.close()).unwrap();
    let store = victim.database.open_store("a").unwrap();
    let victim = Victim { store, ..victim };
    victim.check_damage_from_3(3);
    block_on(victim.store.append(records("s", RECORDS, &[b"more"]))).unwrap();
    assert_eq!(block_on(victim.store.end(&"s".into())).unwrap().unwrap().next_sequence, RECORDS + 1);
    victim.database.close();
}
