//! Shared helpers of the tests: opening, appending, and comparing whole stores.

use std::path::Path;

use recount_log::{Append, FeedRecord, Guard, Integrity, Row, RowRange, Store, StreamKey, Tail};
use recount_log_conformance::{ALL, block_on};
use recount_log_sqlite::{SqliteOptions, SqliteStore};

/// A folder in memory if the system has one: for stores that are opened hundreds of times, in tests that do not depend
/// on syncs.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub(crate) fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(folder)).unwrap()
}

pub(crate) fn close(store: SqliteStore) {
    block_on(store.close()).unwrap();
}

pub(crate) fn append_ok(store: &dyn Store, append: Append) {
    block_on(store.append(append)).unwrap();
}

/// Appends to both stores, which must have the same outcome. Returns whether it succeeded.
pub(crate) fn append_to_both(store: &dyn Store, model: &dyn Store, append: Append, what: &str) -> bool {
    let outcome = block_on(store.append(append.clone()));
    assert_eq!(outcome, block_on(model.append(append)), "{what}");
    outcome.is_ok()
}

pub(crate) fn records(stream: &str, expected_tail: u64, records: &[&[u8]]) -> Append {
    recount_log_conformance::records(stream, expected_tail, records)
}

pub(crate) fn row(key: &str, value: &[u8]) -> Append {
    recount_log_conformance::row("space", key, Guard::Any, Some(value))
}

/// The whole content of a store.
#[derive(Debug, PartialEq)]
pub(crate) struct Whole {
    pub(crate) feed: Vec<FeedRecord>,
    pub(crate) tails: Vec<(StreamKey, Tail)>,
    pub(crate) rows: Vec<Row>,
    pub(crate) integrity: Integrity,
}

/// The rows of the space that the tests use.
pub(crate) fn all_rows(backwards: bool) -> RowRange {
    RowRange { space: "space".into(), prefix: "".into(), after: None, backwards, limit: usize::MAX }
}

pub(crate) fn whole(store: &dyn Store) -> Whole {
    let keys = block_on(store.streams(None, usize::MAX)).unwrap();
    let tails = keys.into_iter().map(|key| (key.clone(), block_on(store.tail(&key)).unwrap().unwrap()));
    Whole {
        tails: tails.collect(),
        feed: block_on(store.read_feed(1, ALL)).unwrap(),
        rows: block_on(store.rows(all_rows(false))).unwrap(),
        integrity: block_on(store.integrity()).unwrap(),
    }
}

/// The number of occurrences of a text in the files of a store.
pub(crate) fn count_in_files(folder: &Path, text: &str) -> usize {
    let count = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    };
    count("recount.db") + count("recount.db-wal")
}

/// Fills a store with several streams, odd bytes, rows and large records, always the same.
pub(crate) fn fill(store: &dyn Store) {
    for n in 0..40_u64 {
        let stream = format!("run_{:02}", n % 5);
        let bytes: Vec<u8> = (0..100 + n * 7).map(|place| (place * (n + 3)) as u8).collect();
        let append = records(&stream, n / 5 * 2, &[&bytes, format!(r#"{{"n":{n}}}"#).as_bytes()]);
        append_ok(store, recount_log_conformance::both(append, row(&stream, &bytes[..50])));
    }
    append_ok(store, records("large", 0, &[&vec![b'x'; 100_000], b""]));
}

/// The random numbers of SplitMix64, which depend only on the seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }
}

/// Opens a store with a small hot part, so that it seals between appends.
pub(crate) fn open_sealing(folder: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions { hot_records_max: 48, ..SqliteOptions::new(folder) }).unwrap()
}

/// Whether some chunk holds records whose groups still exist.
pub(crate) fn is_half_sealed(folder: &Path) -> bool {
    let tool = rusqlite::Connection::open(folder.join("recount.db")).unwrap();
    let sql = "SELECT EXISTS (SELECT 1 FROM chunks WHERE first_position >= (SELECT min(first_position) FROM groups))";
    tool.query_row(sql, [], |row| row.get(0)).unwrap()
}
