//! Damage to the write-ahead log, and truncated, removed or outdated files: acknowledged commits exist, or their loss
//! is named before anything is overwritten.
//!
//! A store is copied while it works, as a killed process leaves it; then each test changes one thing in the copy.

use std::path::{Path, PathBuf};

use recount_log::{Fault, FaultKind, FeedRecord, Store};
use recount_log_conformance::{ALL, block_on};
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore, glance, high_water, inspect, kept_logs};

use super::work::{Dice, append_ok, close, records, scratch};

const FLIPS: u64 = 300;
const CUTS: u64 = 60;
const RUNS: usize = 12;
const APPENDS: usize = 240;
const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// The files of a store whose process was killed, and all that it had acknowledged.
struct Killed {
    folder: tempfile::TempDir,
    feed: Vec<FeedRecord>,
}

/// `checkpoint_pages`: how often the log is copied and restarted.
fn killed(seed: u64, options: SqliteOptions) -> Killed {
    let source = scratch();
    let store = SqliteStore::open(SqliteOptions { data_dir: source.path().to_owned(), ..options }).unwrap();
    let mut dice = Dice(seed);
    let mut tails = [0; RUNS];
    for _ in 0..APPENDS {
        let run = dice.below(RUNS);
        let padding = "x".repeat(dice.below(900));
        let event = format!(r#"{{"run":{run},"n":{},"padding":"{padding}"}}"#, tails[run]);
        append_ok(&store, records(&format!("run_{run:02}"), tails[run], &[event.as_bytes()]));
        tails[run] += 1;
    }
    let feed = block_on(store.read_feed(1, ALL)).unwrap();
    // The mark lags; the tests need one that has caught up.
    while high_water(source.path()).unwrap() != Some(feed.len() as u64) {
        std::thread::yield_now();
    }
    let folder = scratch();
    copy_store(source.path(), folder.path());
    close(store);
    Killed { folder, feed }
}

/// A process that never copied its log into the database.
fn with_one_log(seed: u64) -> Killed {
    killed(seed, SqliteOptions::new(""))
}

fn copy_store(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("blobs")).unwrap();
    for name in ["recount.db", "recount.db-wal", "high-water"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

impl Killed {
    /// A copy to be damaged.
    fn copy(&self) -> tempfile::TempDir {
        let copy = scratch();
        copy_store(self.folder.path(), copy.path());
        copy
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("recount.db-wal")
}

fn try_open(folder: &Path) -> Result<SqliteStore, Fault> {
    SqliteStore::open(SqliteOptions::new(folder))
}

fn change_log(folder: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(log_of(folder)).unwrap();
    change(&mut bytes);
    std::fs::write(log_of(folder), bytes).unwrap();
}

/// The outcome of an open.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    Named,
}

/// Opens a damaged store: it is whole, or the refusal names the loss and nothing was overwritten.
fn outcome(folder: &Path, feed: &[FeedRecord], what: &str) -> Outcome {
    // SQLite creates a missing log.
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let (log, database) = (read("recount.db-wal"), read("recount.db"));
    match try_open(folder) {
        Ok(store) => {
            assert!(block_on(store.read_feed(1, ALL)).unwrap() == feed, "{what}: opened, so whole");
            assert!(block_on(store.integrity()).unwrap().problems.is_empty(), "{what}");
            close(store);
            Outcome::Whole
        }
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Corrupt, "{what}: {fault}");
            let now = (read("recount.db-wal"), read("recount.db"));
            assert!(now == (log, database), "{what}: nothing was changed");
            let again = try_open(folder).err().unwrap();
            assert_eq!(again.message, fault.message, "{what}: the same refusal again");
            Outcome::Named
        }
    }
}

#[test]
fn a_flipped_bit_in_the_log_loses_nothing_unnamed() {
    for (what, checkpoint_pages, few) in [("one log", 4096, false), ("rounds", 40, true)] {
        let killed = killed(1, SqliteOptions { checkpoint_pages, ..SqliteOptions::new("") });
        let length = std::fs::metadata(log_of(killed.folder.path())).unwrap().len() as usize;
        let mut named = 0;
        for seed in 0..FLIPS / if few { 3 } else { 1 } {
            let mut dice = Dice(seed);
            let frame = HEADER + dice.below((length - HEADER) / FRAME) * FRAME;
            let place = match dice.below(8) {
                0 => dice.below(HEADER),
                1 => frame + dice.below(24),
                _ => dice.below(length),
            };
            let bit = 1 << dice.below(8);
            let copy = killed.copy();
            change_log(copy.path(), |bytes| bytes[place] ^= bit);
            let what = format!("{what}, seed {seed}: bit {bit} of byte {place}");
            named += u64::from(outcome(copy.path(), &killed.feed, &what) == Outcome::Named);
        }
        println!("{what}: {named} flips of one bit were named");
        assert!(few || named > FLIPS * 9 / 10, "{what}: every frame of one log counts, {named} were named");
    }
}

#[test]
fn a_truncated_log_loses_nothing_unnamed() {
    let killed = with_one_log(2);
    let length = std::fs::metadata(log_of(killed.folder.path())).unwrap().len() as usize;
    let mut dice = Dice(2);
    let places = (0..CUTS).map(|n| match n % 2 {
        0 => dice.below(length),
        _ => HEADER + dice.below((length - HEADER) / FRAME) * FRAME,
    });
    for place in places.chain([0, 1, HEADER]) {
        let copy = killed.copy();
        change_log(copy.path(), |bytes| bytes.truncate(place));
        let outcome = outcome(copy.path(), &killed.feed, &format!("cut at {place}"));
        assert_eq!(outcome, Outcome::Named, "cut at {place}");
    }
    let copy = killed.copy();
    std::fs::remove_file(log_of(copy.path())).unwrap();
    assert_eq!(outcome(copy.path(), &killed.feed, "removed"), Outcome::Named);
}

#[test]
fn missing_commits_are_reported_and_the_log_is_kept() {
    let killed = with_one_log(3);
    let copy = killed.copy();
    let length = std::fs::metadata(log_of(copy.path())).unwrap().len() as usize;
    change_log(copy.path(), |bytes| bytes[HEADER + length / FRAME / 2 * FRAME + 2000] ^= 4);
    let damaged = std::fs::read(log_of(copy.path())).unwrap();
    let fault = try_open(copy.path()).err().unwrap();
    let last = last_of(&fault);
    assert!(last > 0 && last < killed.feed.len() as u64, "{fault}");
    let missing = killed.feed.len() as u64 - last;
    for words in [
        format!("is damaged at frame {}", length / FRAME / 2 + 1),
        format!("the {missing} events at positions {} to {} are missing", last + 1, killed.feed.len()),
        format!("of at least {RUNS} runs (run_"),
        "`recount salvage`".to_owned(),
    ] {
        assert!(fault.message.contains(&words), "{words:?}: {fault}");
    }
    let kept = kept_logs(copy.path()).unwrap();
    assert_eq!(kept.len(), 1);
    assert!(std::fs::read(&kept[0]).unwrap() == damaged);
    // A check without opening reports it, too.
    assert!(inspect(copy.path()).unwrap().problems[0].contains("is damaged at frame"));
    assert_eq!(glance(copy.path()).unwrap_err().kind, FaultKind::Corrupt);
    let backup = scratch();
    let refused = recount_log_sqlite::copy(copy.path(), &backup.path().join("b")).unwrap_err();
    assert!(refused.message.contains("is damaged at frame"), "{refused}");
}

fn last_of(fault: &Fault) -> u64 {
    let (_, rest) = fault.message.split_once("--accept-loss-after ").unwrap_or_else(|| panic!("{fault}"));
    rest.trim_end_matches('`').parse().unwrap()
}

#[test]
fn a_loss_can_be_accepted_by_its_position() {
    let killed = with_one_log(4);
    let copy = killed.copy();
    change_log(copy.path(), |bytes| bytes[HEADER + 100 * FRAME + 2000] ^= 4);
    let fault = try_open(copy.path()).err().unwrap();
    let last = last_of(&fault);
    let open = |accept: u64| {
        let options = SqliteOptions { accept_loss_after: vec![accept], ..SqliteOptions::new(copy.path()) };
        SqliteStore::open(options)
    };
    assert_eq!(open(last + 1).err().unwrap().message, fault.message, "another loss was accepted");
    let store = open(last).unwrap();
    assert!(block_on(store.read_feed(1, ALL)).unwrap() == killed.feed[..last as usize]);
    append_ok(&store, records("run_new", 0, &[b"{}"]));
    // The process is killed. Frames of the lost commits in the log are no damage for the next start.
    let after = scratch();
    copy_store(copy.path(), after.path());
    close(store);
    for folder in [copy.path(), after.path()] {
        let store = try_open(folder).unwrap();
        assert_eq!(block_on(store.last_position()), Ok(last + 1));
        close(store);
    }
}

#[test]
fn a_database_from_an_older_copy_is_refused() {
    let killed = with_one_log(5);
    let copy = killed.copy();
    let older = scratch();
    close(try_open(copy.path()).unwrap());
    copy_store(copy.path(), older.path());
    let store = try_open(copy.path()).unwrap();
    append_ok(&store, records("run_new", 0, &[b"{}", b"{}"]));
    close(store);
    std::fs::copy(older.path().join("recount.db"), copy.path().join("recount.db")).unwrap();
    let fault = try_open(copy.path()).err().unwrap();
    let (last, end) = (killed.feed.len(), killed.feed.len() + 2);
    assert!(
        fault.message.contains(&format!("position {end} was acknowledged"))
            && fault.message.contains(&format!("ends at position {last}")),
        "{fault}"
    );
}

/// A torn frame without a later synced commit may come from a power cut during a commit.
#[test]
fn a_torn_last_commit_is_no_loss() {
    let killed = with_one_log(6);
    let copy = killed.copy();
    std::fs::remove_file(copy.path().join("high-water")).unwrap();
    change_log(copy.path(), |bytes| {
        let last = bytes.len() - FRAME;
        bytes[last + 24 + 100] ^= 1;
    });
    let store = try_open(copy.path()).unwrap();
    let feed = block_on(store.read_feed(1, ALL)).unwrap();
    assert!(feed == killed.feed[..killed.feed.len() - 1]);
    // Smaller than the torn commit; then the process is killed.
    append_ok(&store, records("run_new", 0, &[b"{}"]));
    let after = scratch();
    copy_store(copy.path(), after.path());
    close(store);
    close(try_open(after.path()).unwrap());
    assert_eq!(kept_logs(copy.path()).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn relaxed_reports_what_a_power_cut_may_take_and_opens() {
    let relaxed = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::new("") };
    let killed = killed(7, relaxed);
    let copy = killed.copy();
    change_log(copy.path(), |bytes| bytes.truncate(HEADER + 50 * FRAME));
    let store = try_open(copy.path()).unwrap();
    let feed = block_on(store.read_feed(1, ALL)).unwrap();
    assert!(feed.len() < killed.feed.len() && feed == killed.feed[..feed.len()]);
    assert_eq!(kept_logs(copy.path()).unwrap().len(), 1, "the damaged log is kept");
    close(store);
}
