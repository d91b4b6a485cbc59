//! The queue of the writer: bounded, in order, and closed after a panic of the writer.

use std::sync::{Arc, Mutex, mpsc};

use recount_log::limits::{APPENDS_WAITING_BYTES_MAX, APPENDS_WAITING_MAX};
use recount_log::{AppendError, Fault, FaultKind, FeedRecord, Guard, Observer, Store};
use recount_log_conformance::{ALL, block_on};
use recount_log_sqlite::SqliteStore;

use super::work::{append_ok, close, open, records, row, whole};

/// An observer that signals its first commit and blocks the writer until the other end is dropped.
struct Gate(Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>);

impl Observer for Gate {
    fn committed(&self, _: &[FeedRecord]) {
        if let Some((reached, gate)) = self.0.lock().unwrap().take() {
            reached.send(()).unwrap();
            assert!(gate.recv().is_err(), "nothing is ever sent");
        }
    }
}

/// A store whose writer is blocked in its first commit until the returned sender is dropped.
fn blocked_writer(folder: &std::path::Path) -> (SqliteStore, mpsc::Sender<()>) {
    let store = open(folder);
    let (reached, blocked) = mpsc::channel();
    let (go, gate) = mpsc::channel();
    store.observe(Arc::new(Gate(Mutex::new(Some((reached, gate))))));
    drop(store.append(records("first", 0, &[b"x"])));
    blocked.recv().unwrap();
    (store, go)
}

fn kind(answer: Result<recount_log::Committed, AppendError>) -> FaultKind {
    match answer {
        Err(AppendError::Fault(Fault { kind, .. })) => kind,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

#[test]
fn a_full_queue_is_busy_and_queued_appends_finish() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go) = blocked_writer(folder.path());
    let waiting: Vec<_> =
        (0..APPENDS_WAITING_MAX as u64).map(|n| store.append(records("a", n, &[b"x"]))).collect();
    assert_eq!(kind(block_on(store.append(records("b", 0, &[b"x"])))), FaultKind::Busy);
    drop(go);
    assert!(waiting.into_iter().map(block_on).all(|answer| answer.is_ok()));
    append_ok(&store, records("b", 0, &[b"x"]));
    close(store);
}

#[test]
fn queued_bytes_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go) = blocked_writer(folder.path());
    let megabytes = bytes::Bytes::from(vec![0; 8 << 20]);
    let large = |n: u64| {
        let mut append = records("a", n, &[b""]);
        append.streams[0].records[0] = megabytes.clone();
        append
    };
    let capacity = APPENDS_WAITING_BYTES_MAX / (8 << 20);
    // Names count too, so one less than would fit.
    let waiting: Vec<_> = (0..capacity as u64 - 1).map(|n| store.append(large(n))).collect();
    assert_eq!(kind(block_on(store.append(large(capacity as u64 - 1)))), FaultKind::Busy);
    let small = store.append(records("b", 0, &[b"small ones still fit"]));
    drop(go);
    drop(waiting);
    assert!(block_on(small).is_ok());
}

#[test]
fn one_commit_takes_all_queued_appends_and_refusals_affect_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (store, go) = blocked_writer(folder.path());
    let mut waiting = Vec::new();
    for n in 0..100_u64 {
        waiting.push((true, store.append(records("a", n, &[b"x"]))));
        waiting.push((false, store.append(records("a", n, &[b"late"]))));
        waiting.push((false, store.append(records(&format!("no{n}"), 1, &[b"not there"]))));
        let put = recount_log_conformance::row("space", "k", Guard::Version(n), Some(b"v"));
        waiting.push((n > 0, store.append(if n == 0 { put } else { row("k", b"v") })));
    }
    drop(go);
    for (good, answer) in waiting {
        let answer = block_on(answer);
        assert_eq!(answer.is_ok(), good, "{answer:?}");
    }
    let whole = whole(&store);
    assert_eq!((whole.feed.len(), whole.tails.len(), whole.rows[0].version), (101, 2, 99));
    assert!(whole.integrity.problems.is_empty());
}

#[test]
fn an_observer_that_panics_stops_the_writer_but_not_the_readers() {
    struct Panics;
    impl Observer for Panics {
        fn committed(&self, _: &[FeedRecord]) {
            panic!("intended by the test");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.observe(Arc::new(Panics));
    assert_eq!(kind(block_on(store.append(records("a", 0, &[b"x"])))), FaultKind::Closed);
    assert_eq!(kind(block_on(store.append(records("a", 1, &[b"x"])))), FaultKind::Closed);
    assert_eq!(
        block_on(store.read_feed(1, ALL)).unwrap().len(),
        1,
        "it was durable before the observer was called"
    );
    close(store);
    let store = open(folder.path());
    append_ok(&store, records("a", 1, &[b"x"]));
}

#[test]
fn changes_by_another_program_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    append_ok(&store, records("a", 0, &[b"0", b"1"]));
    append_ok(&store, records("b", 0, &[b"0"]));
    let tool = rusqlite::Connection::open(folder.path().join("recount.db")).unwrap();
    tool.execute_batch("DELETE FROM groups WHERE first_position = 3; DELETE FROM streams WHERE key = 'b'")
        .unwrap();
    append_ok(&store, records("b", 0, &[b"again"]));
    append_ok(&store, records("a", 2, &[b"2"]));
    let whole = whole(&store);
    assert_eq!(whole.feed.len(), 4);
    assert!(whole.integrity.problems.is_empty(), "{:?}", whole.integrity);
}

#[test]
fn the_last_handle_may_be_dropped_on_the_writer() {
    struct Holds(Mutex<Option<Arc<SqliteStore>>>);
    impl Observer for Holds {
        fn committed(&self, _: &[FeedRecord]) {
            self.0.lock().unwrap().take();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    store.observe(Arc::new(Holds(Mutex::new(Some(store.clone())))));
    let answer = store.append(records("a", 0, &[b"x"]));
    drop(store);
    assert!(block_on(answer).is_ok());
}
