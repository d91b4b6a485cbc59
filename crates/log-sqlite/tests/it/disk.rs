//! A disk that is full or fails: a typed fault, nothing half written, reads go on, and so does the store
//! when the disk does.

use std::path::Path;

use recount_faulty_disk::FaultyDisk;
use recount_log::{Append, AppendError, Fault, FaultKind, Retry, Store};
use recount_log_conformance::{ALL, block_on, both, cut};
use recount_log_sqlite::{SqliteOptions, SqliteStore};

use super::work::{Dice, close, fill, land, open, records, row, whole};

fn shimmed() -> (FaultyDisk, SqliteStore, tempfile::TempDir) {
    made(16, u64::MAX)
}

fn made(checkpoint_pages: u32, hot_records_max: u64) -> (FaultyDisk, SqliteStore, tempfile::TempDir) {
    let (shim, folder) = (FaultyDisk::recording().unwrap(), tempfile::tempdir().unwrap());
    let options = SqliteOptions { checkpoint_pages, hot_records_max, ..through(&shim, folder.path()) };
    (shim, SqliteStore::open(options).unwrap(), folder)
}

/// Through the shim, whose disk the reserve is on, too.
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
fn a_full_disk_is_told_and_service_returns() {
    let (shim, store, folder) = shimmed();
    fill(&store);
    let before = whole(&store);
    for room in [0, 1, 24, 4096, 5000, 20_000, 100_000] {
        shim.leave_room(room);
        let large = records("new", 0, &[&vec![1; 3_000_000]]);
        // All of a group share its fate, whatever each alone would have met.
        let group: Vec<_> = [both(large, row("new", b"v")), records("large", 2, &[&vec![2; 3_000_000]])]
            .map(|append| store.append(append))
            .into_iter()
            .collect();
        for answer in group {
            let fault = fault(block_on(answer));
            assert_eq!((fault.kind, fault.retry), (FaultKind::Full, Retry::Maybe), "{fault}");
            assert!(fault.message.contains("free some space"), "{fault}");
        }
        assert_eq!(whole(&store), before, "reads go on, and nothing was changed");
    }
    shim.heal();
    land(&store, both(records("new", 0, &[&vec![1; 200_000]]), row("new", b"v")));
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
    let (shim, store, folder) = made(16, hot_records_max);
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
    let left = whole(&store);
    assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
    close(store);
    assert_eq!(whole(&open(folder.path())), left);
}

#[test]
fn a_sync_that_fails_is_told() {
    // Copying the log would sync it too.
    let (shim, store, folder) = made(4096, u64::MAX);
    land(&store, records("a", 0, &[b"0"]));
    shim.fail_wal_syncs(1);
    let once = fault(block_on(store.append(records("a", 1, &[b"1"]))));
    assert_eq!(once.kind, FaultKind::Io);
    assert!(!once.message.contains("may still take effect"), "a later sync proved that it is gone: {once}");
    shim.fail_wal_syncs(u32::MAX);
    for append in [records("a", 1, &[b"1"]), row("k", b"v")] {
        let doubtful = fault(block_on(store.append(append)));
        assert_eq!(doubtful.kind, FaultKind::Io);
        assert!(
            doubtful.message.contains("may still take effect"),
            "no sync works, so a doubt is left: {doubtful}"
        );
    }
    assert_eq!(block_on(store.read_feed(1, ALL)).unwrap().len(), 1);
    shim.heal();
    land(&store, both(records("a", 1, &[b"one"]), row("k", b"v")));
    let left = whole(&store);
    assert_eq!((left.feed.len(), left.rows[0].version), (2, 1));
    close(store);
    assert_eq!(whole(&open(folder.path())), left);
}

#[test]
fn the_write_ahead_log_stays_bounded() {
    let pages = 64;
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { checkpoint_pages: pages, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    let mut longest = 0;
    for n in 0..1500 {
        land(&store, records("a", n, &[&[n as u8; 3000]]));
        longest = longest.max(std::fs::metadata(folder.path().join("recount.db-wal")).unwrap().len());
    }
    let bound = u64::from(pages) * 16 * 4120;
    println!("the log was {longest} bytes long at most, {bound} is where the writer stands still");
    assert!(longest < bound + 64 * 4120, "one commit may pass it");
    let database = std::fs::metadata(folder.path().join("recount.db")).unwrap().len();
    assert!(database > 2_000_000, "it was copied while the store was open");
    assert!(whole(&store).integrity.problems.is_empty());
}

/// Far below the length at which the file is cut.
#[test]
fn the_log_begins_again_as_soon_as_nobody_reads_what_it_had() {
    let pages = 512;
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { checkpoint_pages: pages, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    // The header of the log counts its restarts.
    let log = folder.path().join("recount.db-wal");
    let restarts = || std::fs::read(&log).unwrap()[12..16].to_vec();
    let mut next = 0;
    let mut land_one = || {
        land(&store, records("a", next, &[&[next as u8; 3000]]));
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
    assert_eq!(restarts(), first, "it is read still");

    reader.execute_batch("COMMIT").unwrap();
    while restarts() == first {
        land_one();
        assert!(length() < u64::from(pages) * 15, "it is as long as if it had never been restarted");
    }
    assert!(whole(&store).integrity.problems.is_empty());
}

#[test]
fn what_takes_away_works_on_a_full_disk() {
    let (shim, store, folder) = shimmed();
    for run in ["a", "b", "c", "d"] {
        for n in 0..8 {
            land(&store, records(run, n, &[&[n as u8; 64 << 10]]));
        }
    }
    shim.leave_room(0);
    // More than the log's file has room for when it begins again.
    let full = fault(block_on(store.append(records("a", 8, &[&vec![8; 3_000_000]]))));
    assert_eq!(full.kind, FaultKind::Full, "{full}");
    assert_eq!(block_on(store.space()), Ok(()), "what is reserved is untouched");
    land(&store, cut("a", 7));
    land(&store, Append { erased: vec!["b".into()], ..Append::default() });
    // Part of a deletion, though by itself it takes nothing away.
    land(&store, Append { frees_space: true, ..row("going", b"soon") });
    land(&store, cut("c", 7));
    let left = whole(&store);
    assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
    assert_eq!(left.feed.len(), 1 + 1 + 8);
    close(store);
    shim.heal();
    assert_eq!(whole(&open(folder.path())), left);
}

/// Ordinary appends do not take the space that the next deletion needs.
#[test]
fn while_the_reserve_is_used_up_only_what_takes_away_is_written() {
    let (shim, store, folder) = shimmed();
    for n in 0..8 {
        land(&store, records("a", n, &[&[n as u8; 64 << 10]]));
    }
    shim.leave_room(0);
    // More than the log's file has room for when it begins again.
    land(&store, Append { frees_space: true, ..records("a", 8, &[&vec![8; 1_000_000]]) });
    assert_eq!(block_on(store.space()).unwrap_err().kind, FaultKind::Full);
    assert!(!folder.path().join("reserve").exists());
    let small = fault(block_on(store.append(row("k", b"v"))));
    assert_eq!((small.kind, small.retry), (FaultKind::Full, Retry::Maybe), "{small}");
    assert!(small.message.contains("free some space"), "{small}");
    land(&store, cut("a", 8));
    // After space is freed, the store recovers by itself.
    shim.heal();
    land(&store, row("k", b"v"));
    assert_eq!(block_on(store.space()), Ok(()));
    assert_eq!(std::fs::metadata(folder.path().join("reserve")).unwrap().len(), RESERVE);
    let left = whole(&store);
    assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
    close(store);
    assert_eq!(whole(&open(folder.path())), left);
}

#[test]
fn a_store_opens_on_a_full_disk_and_says_that_it_is_full() {
    let (shim, store, folder) = shimmed();
    for n in 0..8 {
        land(&store, records("a", n, &[&[n as u8; 64 << 10]]));
    }
    let before = whole(&store);
    close(store);
    // What others wrote meanwhile, the reserve's place included.
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
    land(&store, row("k", b"v"));
}
