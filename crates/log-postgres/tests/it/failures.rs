//! Failures of PostgreSQL and of single connections: every append gets an outcome, and the outcome is true.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use recount_faulty_link::{Cut, Flow, Trap};
use recount_log::{AppendError, FaultKind, Store};
use recount_log_conformance::{block_on, records};
use recount_log_postgres::{Database, PostgresStore};
use recount_test_postgres::{Server, Signal, fresh_database};
use recount_world::{moment, thread};

use super::work::{
    Observed, Sql, append, check_dense, check_elsewhere, fault_of, link, options, settled_tail, short_lease,
    texts, until,
};

/// Streams that are written at the same time.
const WRITERS: u64 = 4;

/// Writers that append until they are to stop and each has so many records.
pub(crate) struct Load {
    store: Arc<PostgresStore>,
    observed: Arc<Observed>,
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    writers: Vec<std::thread::JoinHandle<()>>,
    /// How many records each stream has.
    written: Arc<[AtomicU64; WRITERS as usize]>,
}

impl Load {
    pub(crate) fn start(store: PostgresStore, records_each: u64) -> Self {
        let observed = Observed::of(&store);
        let (store, acknowledged) = (Arc::new(store), Arc::<AtomicU64>::default());
        let stop = Arc::<AtomicBool>::default();
        let written = Arc::<[AtomicU64; WRITERS as usize]>::default();
        let writer = |writer: u64| {
            let (store, acknowledged, stop) = (store.clone(), acknowledged.clone(), stop.clone());
            let written = written.clone();
            thread("writer", move || {
                let stream = format!("w{writer}");
                let mut tail = 0;
                while tail < records_each || !stop.load(Ordering::SeqCst) {
                    match append(&store, &stream, tail, &format!("{stream} {tail}")) {
                        Ok(_) => {
                            acknowledged.fetch_add(1, Ordering::SeqCst);
                            tail += 1;
                        }
                        Err(AppendError::Fault(_)) => {
                            let now = settled_tail(&store, &stream);
                            assert!(
                                now == tail || now == tail + 1,
                                "{stream} ends at {now}, not near {tail}"
                            );
                            tail = now;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                written[writer as usize].store(tail, Ordering::SeqCst);
            })
        };
        let writers = (0..WRITERS).map(writer).collect();
        Load { store, observed, acknowledged, stop, writers, written }
    }

    fn wait_acknowledged(&self, count: u64) {
        until(|| {
            let is_there = self.acknowledged.load(Ordering::SeqCst) >= count;
            let have_ended = self.writers.iter().all(std::thread::JoinHandle::is_finished);
            assert!(is_there || !have_ended, "all writers have ended");
            is_there
        });
    }

    /// Lets the writers stop, and waits until every one has its records.
    pub(crate) fn wait_written(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.writers.drain(..).for_each(|writer| writer.join().unwrap());
    }

    pub(crate) fn check(mut self) -> Vec<recount_log::FeedRecord> {
        self.wait_written();
        let feed = check_dense(&self.store);
        let written = self.written.each_ref().map(|records| records.load(Ordering::SeqCst));
        assert_eq!(feed.len() as u64, written.iter().sum::<u64>());
        for (writer, records) in written.into_iter().enumerate() {
            let stream = format!("w{writer}");
            let expected: Vec<_> = (0..records).map(|n| format!("{stream} {n}")).collect();
            assert_eq!(texts(&self.store, &stream), expected, "each record once and in order");
        }
        assert_eq!(self.observed.records(), feed, "the observer gets each record once and in order");
        block_on(self.store.close()).unwrap();
        feed
    }
}

#[test]
fn a_killed_postgres_loses_nothing_that_was_acknowledged() {
    const RECORDS: u64 = 150;
    let server = Server::start(&[]).unwrap();
    let url = server.fresh_database().unwrap();
    let database = Database::open(options(&url, "first")).unwrap();
    let load = Load::start(database.open_store("a").unwrap(), RECORDS);
    for (kill, signal) in [(1, Signal::QUIT), (2, Signal::KILL), (3, Signal::INT)] {
        load.wait_acknowledged(kill * WRITERS * RECORDS / 5);
        server.end(signal).unwrap();
        server.restart().unwrap();
        let before = load.acknowledged.load(Ordering::SeqCst);
        let start = moment();
        load.wait_acknowledged(before + 1);
        println!("after {signal:?}: the next append was acknowledged in {:?}", start.elapsed());
    }
    let feed = load.check();
    database.close();
    check_elsewhere(&url, "a", &feed);
}

#[test]
fn terminated_backends_lose_nothing_that_was_acknowledged() {
    const RECORDS: u64 = 100;
    let url = fresh_database();
    let database = Database::open(options(&url, "first")).unwrap();
    let load = Load::start(database.open_store("a").unwrap(), RECORDS);
    let sql = Sql::connect(&url);
    let mut terminated = 0;
    for turn in 1..8 {
        load.wait_acknowledged(turn * WRITERS * RECORDS / 10);
        let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        // There may be none at a moment: the store is connecting again.
        let before = terminated;
        while terminated == before {
            terminated += sql.number(others);
        }
    }
    println!("{terminated} backends were terminated");
    assert!(terminated >= 7);
    let feed = load.check();
    database.close();
    check_elsewhere(&url, "a", &feed);
}

/// The statement waits for a lock, so its backend is certainly terminated in the middle of it.
#[test]
fn a_backend_that_is_terminated_in_a_statement_leaves_a_true_outcome() {
    let url = fresh_database();
    let database = Database::open(options(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let observed = Observed::of(&store);
    append(&store, "s", 0, "0").unwrap();
    let sql = Sql::connect(&url);
    sql.rows(&format!(
        "BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE",
        super::damage::records_table(&sql, "a")
    ));
    let waiting = store.append(records("s", 1, &[b"1"]));
    let blocked = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sql.wait(&format!("EXISTS (SELECT 1 {blocked})"));
    assert!(sql.number(&format!("SELECT count(pg_terminate_backend(pid)) {blocked}")) >= 1);
    sql.rows("ROLLBACK");
    let outcome = block_on(waiting);
    println!("{outcome:?}");
    check_outcome(&store, &observed, outcome.is_ok(), "1");
    database.close();
}

/// Checks that the second record of the stream exists if it was acknowledged, and that the store works.
fn check_outcome(store: &PostgresStore, observed: &Observed, acknowledged: bool, record: &str) {
    let tail = settled_tail(store, "s");
    assert_eq!(tail, if acknowledged { 2 } else { 1 }, "the outcome was true");
    append(store, "s", tail, "last").unwrap();
    let feed = check_dense(store);
    assert_eq!(observed.records(), feed, "the observer gets each record once and in order");
    let all = ["0", record, "last"];
    let expected = if tail == 2 { &all[..] } else { &["0", "last"] };
    assert_eq!(texts(store, "s"), expected);
}

#[test]
fn the_lost_answer_to_a_commit_is_settled() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let observed = Observed::of(&store);
    append(&store, "s", 0, "0").unwrap();
    let sql = Sql::connect(&url);
    let count = format!("(SELECT count(*) FROM {})", super::damage::records_table(&sql, "a"));
    for (turn, how) in [Cut::Reset, Cut::Finish].into_iter().cycle().take(6).enumerate() {
        let turn = turn as u64 + 1;
        let record = format!("the answer {turn} is lost");
        link.set_trap(record.as_bytes(), Trap::SwallowAnswer);
        let waiting = store.append(records("s", turn, &[record.as_bytes()]));
        link.wait_for("the commit", |traffic| traffic.sprung == turn);
        sql.wait(&format!("{count} = {}", turn + 1));
        link.cut(how);
        let landed = block_on(waiting).expect("the store finds out that it was committed");
        assert_eq!((landed.streams[0].first_sequence, landed.streams[0].first_position), (turn, turn + 1));
        assert_eq!(observed.records().len() as u64, turn + 1, "observed before it is acknowledged");
    }
    assert_eq!(observed.records(), check_dense(&store));
    database.close();
}

#[test]
fn a_commit_that_never_arrived_is_settled() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let observed = Observed::of(&store);
    append(&store, "s", 0, "0").unwrap();
    link.set_trap(b"never arrives", Trap::ResetBefore);
    let outcome = block_on(store.append(records("s", 1, &[b"never arrives"])));
    assert_eq!(link.traffic().sprung, 1);
    println!("{outcome:?}");
    check_outcome(&store, &observed, outcome.is_ok(), "never arrives");
    database.close();
}

/// The network delivers a statement long after its sender gave the connection up.
#[test]
fn a_statement_that_arrives_after_its_failure_was_reported_changes_nothing() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let observed = Observed::of(&store);
    append(&store, "s", 0, "0").unwrap();
    link.set_trap(b"held back", Trap::HoldBack);
    let waiting = store.append(records("s", 1, &[b"held back"]));
    link.wait_for("the first attempt", |traffic| traffic.sprung == 1);
    // A second attempt does not arrive at all.
    link.set_trap(b"held back", Trap::ResetBefore);
    let outcome = block_on(waiting);
    println!("{outcome:?}");
    let open = link.traffic().open;
    link.release();
    link.wait_for("the end of the first connection", |traffic| traffic.open < open);
    check_outcome(&store, &observed, outcome.is_ok(), "held back");
    database.close();
}

/// A connection on which nothing arrives any more is given up, whatever it was used for.
#[test]
fn a_silent_connection_delays_one_append_only() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    // The writer looks for a stream that it does not know.
    link.set_trap(b"unknown stream", Trap::HoldBack);
    append(&store, "unknown stream", 0, "0").expect("the writer looks again on another connection");
    assert_eq!(link.traffic().sprung, 1);
    let start = moment();
    append(&store, "unknown stream", 1, "1").unwrap();
    assert!(start.elapsed() < recount_log_postgres::limits::STATEMENT_WAIT, "{:?}", start.elapsed());
    check_dense(&store);
    database.close();
}

#[test]
fn a_commit_is_published_when_a_long_outage_ends() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let observed = Observed::of(&store);
    append(&store, "s", 0, "0").unwrap();
    let waiting = commit_without_answer(&link, &url, &store);
    link.set_both(Flow::Stall);
    link.cut(Cut::Reset);
    let fault = fault_of(block_on(waiting));
    assert_eq!(fault.kind, FaultKind::Io, "{fault}");
    assert!(fault.message.contains("may have been committed"), "{fault}");
    link.heal();
    assert_eq!(settled_tail(&store, "s"), 2);
    let mut next = append(&store, "s", 2, "next");
    while let Err(AppendError::Fault(fault)) = &next {
        assert_eq!(fault.kind, FaultKind::Io, "{fault}");
        next = append(&store, "s", settled_tail(&store, "s"), "next");
    }
    assert_eq!(observed.records(), check_dense(&store), "the observer gets each record once and in order");
    database.close();
}

/// Appends a record to the stream `s` with one, whose commit happens and whose answer is lost.
fn commit_without_answer(
    link: &recount_faulty_link::Link,
    url: &str,
    store: &PostgresStore,
) -> recount_log::Answer<recount_log::Committed, AppendError> {
    let sql = Sql::connect(url);
    link.set_trap(b"without answer", Trap::SwallowAnswer);
    let waiting = store.append(records("s", 1, &[b"without answer"]));
    link.wait_for("the commit", |traffic| traffic.sprung == 1);
    sql.wait(&format!("(SELECT count(*) FROM {}) = 2", super::damage::records_table(&sql, "a")));
    waiting
}

/// The owner cannot find out what happened to its last append, and then another node owns the store.
#[test]
fn an_owner_that_is_replaced_while_an_outcome_is_unknown_is_fenced() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let first = Database::open(short_lease(&through, "first")).unwrap();
    let replaced = first.open_store("a").unwrap();
    append(&replaced, "s", 0, "0").unwrap();
    let waiting = commit_without_answer(&link, &url, &replaced);
    link.set_both(Flow::Stall);
    link.cut(Cut::Reset);
    let second = Database::open(short_lease(&url, "second")).unwrap();
    let store = second.open_store("a").unwrap();
    append(&store, "s", 2, "of the second").unwrap();
    link.heal();
    let fault = fault_of(block_on(waiting));
    println!("the unknown append: {fault}");
    assert!(fault.message.contains("may have been committed"), "{fault}");
    let start = moment();
    loop {
        let fault = fault_of(append(&replaced, "s", 3, "too late"));
        if fault.kind == FaultKind::Fenced {
            break;
        }
        assert!(start.elapsed() < LATE_MAX, "not fenced: {fault}");
    }
    assert_eq!(texts(&store, "s"), ["0", "without answer", "of the second"]);
    check_dense(&store);
    first.close();
    second.close();
}

/// A failover to a standby that lacks even the take-over, while a commit has no response.
#[test]
fn a_database_that_lost_the_take_over_itself_stops_the_store() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    let sql = Sql::connect(&url);
    let table = super::damage::records_table(&sql, "a");
    link.set_trap(b"no answer", Trap::SwallowAnswer);
    let waiting = store.append(records("s", 1, &[b"no answer"]));
    link.wait_for("the commit", |traffic| traffic.sprung == 1);
    sql.wait(&format!("(SELECT count(*) FROM {table}) = 2"));
    sql.change("UPDATE recount.stores SET epoch = 0, group_number = 0, last_position = 0 WHERE name = 'a'");
    sql.change(&format!("DELETE FROM {table}"));
    link.cut(Cut::Reset);
    let fault = fault_of(block_on(waiting));
    assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
    assert!(fault.message.contains("position 1") && fault.message.contains("ends at 0"), "{fault}");
    database.close();
    let second = Database::open(options(&url, "second")).unwrap();
    let fault = second.open_store("a").err().expect("the loss is noted");
    assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
    second.close();
}

/// How long a replaced owner may need to find out, also on a busy machine.
const LATE_MAX: std::time::Duration = std::time::Duration::from_secs(30);

#[test]
fn an_owner_goes_on_after_an_outage_that_was_longer_than_its_lease() {
    let server = Server::start(&[]).unwrap();
    let url = server.fresh_database().unwrap();
    let database = Database::open(short_lease(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    assert!(store.is_owner());
    server.end(Signal::QUIT).unwrap();
    until(|| !store.is_owner());
    let fault = fault_of(append(&store, "s", 1, "in the outage"));
    println!("in the outage: {fault}");
    assert_eq!(fault.kind, FaultKind::Io, "{fault}");
    server.restart().unwrap();
    let tail = settled_tail(&store, "s");
    assert_eq!(tail, 1, "nothing was sent");
    append(&store, "s", 1, "after it").unwrap();
    until(|| store.is_owner());
    check_dense(&store);
    database.close();
}

#[test]
fn appends_wait_for_a_postgres_that_is_frozen_for_longer_than_the_lease() {
    let server = Server::start(&[]).unwrap();
    let url = server.fresh_database().unwrap();
    let database = Database::open(short_lease(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    let frozen = server.freeze().unwrap();
    let waiting = store.append(records("s", 1, &[b"1"]));
    until(|| !store.is_owner());
    drop(frozen);
    block_on(waiting).unwrap();
    until(|| store.is_owner());
    append(&store, "s", 2, "2").unwrap();
    assert_eq!(check_dense(&store).len(), 3);
    database.close();
}

/// What a failover to a standby without the last commits looks like.
#[test]
fn a_database_that_lost_acknowledged_records_stops_the_store() {
    let url = fresh_database();
    let database = Database::open(options(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    for n in 0..3 {
        append(&store, "s", n, &n.to_string()).unwrap();
    }
    let sql = Sql::connect(&url);
    let table = super::damage::records_table(&sql, "a");
    sql.change(
        "UPDATE recount.stores SET group_number = group_number - 1, last_position = 2 WHERE name = 'a'",
    );
    sql.change(&format!("DELETE FROM {table} WHERE position = 3"));
    for _ in 0..2 {
        let fault = fault_of(append(&store, "s", 3, "3"));
        assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
        let names = ["lost acknowledged events", "store \"a\"", "position 3", "ends at 2"];
        assert!(names.iter().all(|name| fault.message.contains(name)), "{fault}");
    }
    block_on(store.close()).unwrap();
    drop(store);
    // Nor does another server open it, before a person gives the events up. Their positions are not used again.
    let second = Database::open(options(&url, "second")).unwrap();
    for database in [&database, &second] {
        let fault = database.open_store("a").err().expect("the loss is noted");
        assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
        assert!(
            fault.message.contains("position 3") && fault.message.contains("lost_after = NULL"),
            "{fault}"
        );
    }
    sql.change("UPDATE recount.stores SET last_position = lost_after, lost_after = NULL WHERE name = 'a'");
    let store = second.open_store("a").unwrap();
    let landed = append(&store, "s", 2, "2 again").unwrap();
    assert_eq!(landed.streams[0].first_position, 4);
    assert_eq!(texts(&store, "s"), ["0", "1", "2 again"]);
    second.close();
    database.close();
}

#[test]
fn a_late_removal_does_not_take_a_blob_that_was_stored_again() {
    check_late_removal(true);
}

#[test]
fn a_late_removal_that_was_reported_as_failed_does_not_take_a_blob_that_was_stored_again() {
    check_late_removal(false);
}

/// The network delivers the removal of a blob long after its bytes were stored again. The store sends it a second time, which
/// arrives at once or never.
fn check_late_removal(arrives_again: bool) {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let bytes = bytes::Bytes::from_static(b"stored again");
    let hash = block_on(store.put_blob(bytes.clone())).unwrap();
    // The hash, and after it the versions that are removed.
    let removal = [&blake3::hash(&bytes).as_bytes()[..], &[0, 0, 0]].concat();
    link.set_trap(&removal, Trap::HoldBack);
    let removing = store.remove_blob(&hash);
    link.wait_for("the removal", |traffic| traffic.sprung == 1);
    if !arrives_again {
        link.set_trap(&removal, Trap::ResetBefore);
    }
    let removed = block_on(removing);
    assert_eq!(removed.is_ok(), arrives_again, "{removed:?}");
    assert_eq!(block_on(store.put_blob(bytes.clone())), Ok(hash.clone()));
    let open = link.traffic().open;
    link.release();
    link.wait_for("the end of the first connection", |traffic| traffic.open < open);
    assert_eq!(block_on(store.blob(&hash)), Ok(Some(bytes)));
    database.close();
}

#[test]
fn the_largest_appends_are_committed() {
    let url = fresh_database();
    let database = Database::open(options(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let largest = vec![7; recount_log::limits::RECORD_BYTES_MAX];
    let few: Vec<&[u8]> = vec![&largest; recount_log::limits::APPEND_BYTES_MAX / largest.len() - 1];
    let many: Vec<&[u8]> = vec![b"x"; recount_log::limits::APPEND_ENTRIES_MAX];
    let start = moment();
    block_on(store.append(records("few", 0, &few))).unwrap();
    println!("{} of the largest records in {:?}", few.len(), start.elapsed());
    let start = moment();
    block_on(store.append(records("many", 0, &many))).unwrap();
    println!("{} records in {:?}", many.len(), start.elapsed());
    assert_eq!(check_dense(&store).len(), few.len() + many.len());
    database.close();
}
