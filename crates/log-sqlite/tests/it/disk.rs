//! A full or failing disk: appends fail with a typed fault and write nothing, reads continue, and the store recovers
//! with the disk.

use std::path::Path;

use recount_faulty_disk::FaultyDisk;
use recount_log::{Append, AppendError, Fault, FaultKind, Retry, Store};
use recount_log_conformance::{ALL, block_on, both, cut};
use recount_log_sqlite::{SqliteOptions, SqliteStore};

use super::work::{Dice, append_ok, close, fill, open, records, row, whole};

fn shimmed() -> (FaultyDisk, SqliteStore, tempfile::TempDir) {
    create(16, u64::MAX)
}

fn create(checkpoint_pages: u32, hot_records_max: u64) -> (FaultyDisk, SqliteStore, tempfile::TempDir) {
    let (shim, folder) = (FaultyDisk::recording().unwrap(), tempfile::tempdir().unwrap());
    let options = SqliteOptions { checkpoint_pages, hot_records_max, ..through(&shim, folder.path()) };
    (shim, SqliteStore::open(options).unwrap(), folder)
}

/// Options that use the simulated disk, also for the reserve.
fn through(shim: &FaultyDisk, folder: &Path) -> SqliteOptions {
    SqliteOptions {
        vfs: Some(shim.name.clone()),
        reserve_bytes: RESERVE,
        reserve_gate: Some(shim.watch_reserve(folder)),
        ..SqliteOptions::new(folder)
    }
}

const RESERVE: u64 = 4 << 20;

fn fault<T: std::fmt::Debug>(answer: Result<T, AppendError>) -> Fault {
    match answer {
        Err(AppendError::Fault(fault)) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

#[test]
fn a_full_disk_is_reported_and_service_recovers() {
    let (shim, store, folder) = shimmed();
    fill(&store);
    let before = whole(&store);
    for free in [0, 1, 24, 4096, 5000, 20_000, 100_000] {
        shim.leave_room(free);
        let large = records("new", 0, &[&vec![1; 3_000_000]]);
        // All appends of a group fail together.
        let group: Vec<_> = [both(large, row("new", b"v")), records("large", 2, &[&vec![2; 3_000_000]])]
            .map(|append| store.append(append))
            .into_iter()
            .collect();
        for answer in group {
            let fault = fault(block_on(answer));
            assert_eq!((fault.kind, fault.retry), (FaultKind::Full, Retry::Maybe), "{fault}");
            assert!(fault.message.contains("free some space"), "{fault}");
        }
        assert_eq!(whole(&store), before, "reads continue, and nothing was changed");
    }
    shim.heal();
    append_ok(&store, both(records("new", 0, &[&vec![1; 200_000]]), row("new", b"v")));
    let after = whole(&store);
    assert_eq!(after.feed.len(), before.feed.len() + 1);
    assert!(after.integrity.problems.is_empty());
    close(store);
    assert_eq!(whole(&open(folder.path())), after);
}

#[test]
fn a_write_that_fails_anywhere_leaves_all_or_nothing() {
    fail_writes(u64::MAX);
}

#[test]
fn a_write_that_fails_anywhere_in_a_sealing_leaves_all_or_nothing() {
    fail_writes(3);
}

fn fail_writes(hot_records_max: u64) {
    // A sealing and an append write more than an append.
    let most = if hot_records_max < u64::MAX { 160 } else { 24 };
    let (shim, store, folder) = create(16, hot_records_max);
    let mut dice = Dice(3);
    let (mut landed, mut refused) = (0, 0);
    for turn in 0..200_u64 {
        shim.fail_write_after(dice.below(most) as u32);
        let append = records("a", landed, &[&vec![turn as u8; 1 + dice.below(12_000)]]);
        let mut append = both(append, row("a", b"x"));
        let keep_from = landed.saturating_sub(5);
        if turn % 4 == 0 {
            append = both(append, cut("a", keep_from));
        }
        let before = block_on(store.tail(&"a".into())).unwrap();
        match block_on(store.append(append)) {
            Ok(_) => landed += 1,
            Err(AppendError::Fault(fault)) => {
                assert_eq!(fault.kind, FaultKind::Io, "{fault}");
                refused += 1;
                assert_eq!(block_on(store.tail(&"a".into())).unwrap(), before, "nothing was deleted");
            }
            Err(other) => panic!("{other}"),
        }
        assert_eq!(block_on(store.last_position()), Ok(landed));
        let version = block_on(store.row("space", "a")).unwrap().map_or(0, |row| row.version);
        assert_eq!(version, landed, "the row goes with the record");
    }
    let stats = block_on(store.stats()).unwrap();
    assert_eq!(stats.sealed_records > 0, hot_records_max < u64::MAX, "{stats:?}");
    println!("writes that failed: {landed} appends landed, {refused} were refused");
    assert!(landed > 10 && refused > 10);
    shim.heal();
    let whole_store = whole(&store);
    assert!(whole_store.integrity.problems.is_empty(), "{:?}", whole_store.integrity);
    close(store);
    assert_eq!(whole(&open(folder.path())), whole_store);
}

#[test]
fn a_failed_sync_is_reported() {
    // Copying the log would sync it too.
    let (shim, store, folder) = create(4096, u64::MAX);
    append_ok(&store, records("a", 0, &[b"0"]));
    shim.fail_wal_syncs(1);
    let once = fault(block_on(store.append(records("a", 1, &[b"1"]))));
    assert_eq!(once.kind, FaultKind::Io);
    assert!(
        !once.message.contains("may still take effect"),
        "a later sync proved that it is not in the file: {once}"
    );
    shim.fail_wal_syncs(u32::MAX);
    for append in [records("a", 1, &[b"1"]), row("k", b"v")] {
        let doubtful = fault(block_on(store.append(append)));
        assert_eq!(doubtful.kind, FaultKind::Io);
        assert!(
            doubtful.message.contains("may still take effect"),
            "no sync works, so the outcome is unknown: {doubtful}"
        );
    }
    assert_eq!(block_on(store.read_feed(1, ALL)).unwrap().len(), 1);
    shim.heal();
    append_ok(&store, both(records("a", 1, &[b"one"]), row("k", b"v")));
    let whole_store = whole(&store);
    assert_eq!((whole_store.feed.len(), whole_store.rows[0].version), (2, 1));
    close(store);
    assert_eq!(whole(&open(folder.path())), whole_store);
}

#[test]
fn the_write_ahead_log_stays_bounded() {
    let pages = 64;
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { checkpoint_pages: pages, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    let mut longest = 0;
    for n in 0..1500 {
        append_ok(&store, records("a", n, &[&[n as u8; 3000]]));
        longest = longest.max(std::fs::metadata(folder.path().join("recount.db-wal")).unwrap().len());
    }
    let bound = u64::from(pages) * 16 * 4120;
    println!("the log was {longest} bytes long at most, the writer waits at {bound}");
    assert!(longest < bound + 64 * 4120, "one commit may pass it");
    let database = std::fs::metadata(folder.path().join("recount.db")).unwrap().len();
    assert!(database > 2_000_000, "it was copied while the store was open");
    assert!(whole(&store).integrity.problems.is_empty());
}

/// Far below the length at which the file is cut.
#[test]
fn the_log_restarts_when_no_reader_needs_it() {
    let pages = 512;
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { checkpoint_pages: pages, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    // The header of the log counts its restarts.
    let log = folder.path().join("recount.db-wal");
    let restarts = || std::fs::read(&log).unwrap()[12..16].to_vec();
    let mut next = 0;
    let mut land_one = || {
        append_ok(&store, records("a", next, &[&[next as u8; 3000]]));
        next += 1;
    };
    land_one();
    let first = restarts();
    let reader = rusqlite::Connection::open(folder.path().join("recount.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM streams").unwrap();
    let length = || std::fs::metadata(&log).unwrap().len() / 4120;
    while length() < u64::from(pages) * 5 {
        land_one();
    }
    assert_eq!(restarts(), first, "a reader still needs it");

    reader.execute_batch("COMMIT").unwrap();
    while restarts() == first {
        land_one();
        assert!(length() < u64::from(pages) * 15, "it is as long as if it had never been restarted");
    }
    assert!(whole(&store).integrity.problems.is_empty());
}

#[test]
fn pruning_works_on_a_full_disk() {
    let (shim, store, folder) = shimmed();
    for run in ["a", "b", "c", "d"] {
        for n in 0..8 {
            append_ok(&store, records(run, n, &[&[n as u8; 64 << 10]]));
        }
    }
    shim.leave_room(0);
    // More than the space in the log's file when it restarts.
    let full = fault(block_on(store.append(records("a", 8, &[&vec![8; 3_000_000]]))));
    assert_eq!(full.kind, FaultKind::Full, "{full}");
    assert_eq!(block_on(store.space()), Ok(()), "the reserve is untouched");
    append_ok(&store, cut("a", 7));
    append_ok(&store, Append { erased: vec!["b".into()], ..Append::default() });
    // Part of a deletion that itself removes nothing.
    append_ok(&store, Append { frees_space: true, ..row("deleted", b"soon") });
    append_ok(&store, cut("c", 7));
    let whole_store = whole(&store);
    assert!(whole_store.integrity.problems.is_empty(), "{:?}", whole_store.integrity);
    assert_eq!(whole_store.feed.len(), 1 + 1 + 8);
    close(store);
    shim.heal();
    assert_eq!(whole(&open(folder.path())), whole_store);
}

/// Ordinary appends do not take the space that the next deletion needs.
#[test]
fn while_the_reserve_is_spent_only_removals_are_written() {
    let (shim, store, folder) = shimmed();
    for n in 0..8 {
        append_ok(&store, records("a", n, &[&[n as u8; 64 << 10]]));
    }
    shim.leave_room(0);
    // More than the space in the log's file when it restarts.
    append_ok(&store, Append { frees_space: true, ..records("a", 8, &[&vec![8; 1_000_000]]) });
    assert_eq!(block_on(store.space()).unwrap_err().kind, FaultKind::Full);
    assert!(!folder.path().join("reserve").exists());
    let small = fault(block_on(store.append(row("k", b"v"))));
    assert_eq!((small.kind, small.retry), (FaultKind::Full, Retry::Maybe), "{small}");
    assert!(small.message.contains("free some space"), "{small}");
    append_ok(&store, cut("a", 8));
    // After space is freed, the store recovers by itself.
    shim.heal();
    append_ok(&store, row("k", b"v"));
    assert_eq!(block_on(store.space()), Ok(()));
    assert_eq!(std::fs::metadata(folder.path().join("reserve")).unwrap().len(), RESERVE);
    let whole_store = whole(&store);
    assert!(whole_store.integrity.problems.is_empty(), "{:?}", whole_store.integrity);
    close(store);
    assert_eq!(whole(&open(folder.path())), whole_store);
}

#[test]
fn a_store_opens_on_a_full_disk_and_reports_it() {
    let (shim, store, folder) = shimmed();
    for n in 0..8 {
        append_ok(&store, records("a", n, &[&[n as u8; 64 << 10]]));
    }
    let before = whole(&store);
    close(store);
    // Other programs filled the disk, including the space of the reserve.
    std::fs::remove_file(folder.path().join("reserve")).unwrap();
    let options = through(&shim, folder.path());
    shim.leave_room(0);
    let store = SqliteStore::open(options.clone()).unwrap();
    assert_eq!(whole(&store), before);
    assert_eq!(block_on(store.space()).unwrap_err().kind, FaultKind::Full);
    assert_eq!(fault(block_on(store.append(row("k", b"v")))).kind, FaultKind::Full);
    close(store);
    shim.heal();
    let store = SqliteStore::open(options).unwrap();
    assert_eq!(block_on(store.space()), Ok(()));
    append_ok(&store, row("k", b"v"));
}
