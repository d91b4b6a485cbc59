//! Empty partitions are dropped after removals, without holding up appends.

use std::time::Duration;

use recount_log::Store;
use recount_log_conformance::{ALL, block_on, cut, erase};
use recount_log_postgres::{Database, PostgresOptions, PostgresStore};
use recount_test_postgres::fresh_database;
use recount_world::moment;

use super::damage::schema;
use super::work::{Sql, append, check_dense, options, texts};

/// Positions of a partition. The first one begins at 0, which no record has.
const SIZE: u64 = 3;

fn small(url: &str, node: &str) -> PostgresOptions {
    let pause = Duration::from_millis(200);
    PostgresOptions { partition_records: SIZE, partition_sweep_pause: pause, ..options(url, node) }
}

/// A condition about the first positions of the partitions.
fn firsts_are(expected: &str) -> String {
    format!(
        "(SELECT string_agg(substr(relname, 9), ' ' ORDER BY substr(relname, 9)::bigint) FROM pg_class \
         JOIN pg_inherits ON inhrelid = oid WHERE relkind = 'r') = '{expected}'"
    )
}

/// Each of five streams has the records of one partition, at positions 3 to 17.
fn fill(store: &PostgresStore) {
    for record in 0..2 {
        append(store, "first", record, "x").unwrap();
    }
    for stream in 1..=5 {
        for record in 0..SIZE {
            append(store, &format!("s{stream}"), record, &format!("{stream} {record}")).unwrap();
        }
    }
}

#[test]
fn partitions_that_removals_have_emptied_are_dropped_and_the_newest_stay() {
    let url = fresh_database();
    let database = Database::open(small(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    fill(&store);
    let sql = Sql::connect(&url);
    sql.wait(&firsts_are("0 3 6 9 12 15 18"));

    // One in the middle, and one of which a record stays.
    block_on(store.append(erase("s2"))).unwrap();
    block_on(store.append(cut("s3", SIZE - 1))).unwrap();
    sql.wait(&firsts_are("0 3 9 12 15 18"));
    block_on(store.append(erase("s3"))).unwrap();
    block_on(store.append(erase("s5"))).unwrap();
    // That of the last position stays, though it is empty.
    sql.wait(&firsts_are("0 3 12 15 18"));
    assert_eq!(texts(&store, "s4"), ["4 0", "4 1", "4 2"]);
    let positions = |store: &PostgresStore| {
        let feed = block_on(store.read_feed(1, ALL)).unwrap();
        feed.iter().map(|fed| fed.record.position).collect::<Vec<_>>()
    };
    assert_eq!(positions(&store), [1, 2, 3, 4, 5, 12, 13, 14]);

    // It goes on after the last position, here and on another node, which drops what the first one did not.
    for record in 0..SIZE {
        append(&store, "more", record, "x").unwrap();
    }
    sql.wait(&firsts_are("0 3 12 18 21"));
    block_on(store.close()).unwrap();
    database.close();
    sql.change(&format!("DELETE FROM {}.records WHERE position < 3", schema(&sql, "a")));
    let other = Database::open(small(&url, "other")).unwrap();
    let store = other.open_store("a").unwrap();
    sql.wait(&firsts_are("3 12 18 21"));
    for record in SIZE..SIZE + 2 {
        append(&store, "more", record, "x").unwrap();
    }
    assert_eq!(positions(&store), [3, 4, 5, 12, 13, 14, 18, 19, 20, 21, 22]);
    let found = block_on(store.integrity()).unwrap();
    assert_eq!(found.readable_records, 11);
    other.close();
}

#[test]
fn a_reader_that_holds_a_partition_delays_its_drop_and_no_append() {
    let url = fresh_database();
    let database = Database::open(small(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    fill(&store);
    let (sql, reader) = (Sql::connect(&url), Sql::connect(&url));
    reader.rows(&format!("BEGIN; SELECT count(*) FROM {}.records", schema(&sql, "a")));
    block_on(store.append(erase("s1"))).unwrap();
    // The drop waits, gives up and is tried again; appends that queue after it wait for no more than one attempt.
    sql.wait("EXISTS (SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted)");
    let start = moment();
    for record in 0..20 {
        append(&store, "more", record, "x").unwrap();
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "20 appends took {took:?}");
    reader.rows("COMMIT");
    sql.wait("NOT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'records_3')");
    database.close();
}

#[test]
fn a_store_without_removals_keeps_its_partitions() {
    let url = fresh_database();
    let database = Database::open(small(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    fill(&store);
    check_dense(&store);
    database.close();
}
