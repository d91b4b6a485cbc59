//! Small shorthands the tests share: opening, appending, and comparing whole stores.

use std::path::Path;

use recount_log::{Append, FeedRecord, Guard, Integrity, Row, RowRange, Store, StreamKey, Tail};
use recount_log_conformance::{ALL, block_on};
use recount_log_sqlite::{SqliteOptions, SqliteStore};

/// A folder in memory where there is one: for stores that are looked at hundreds of times, and whose
/// syncs are not what is tested.
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

pub(crate) fn land(store: &dyn Store, append: Append) {
    block_on(store.append(append)).unwrap();
}

/// Appends to both stores, which must answer alike. Whether it happened.
pub(crate) fn land_alike(store: &dyn Store, model: &dyn Store, append: Append, what: &str) -> bool {
    let told = block_on(store.append(append.clone()));
    assert_eq!(told, block_on(model.append(append)), "{what}");
    told.is_ok()
}

pub(crate) fn records(stream: &str, expected_tail: u64, records: &[&[u8]]) -> Append {
    recount_log_conformance::records(stream, expected_tail, records)
}

pub(crate) fn row(key: &str, value: &[u8]) -> Append {
    recount_log_conformance::row("space", key, Guard::Any, Some(value))
}

/// Everything a store tells.
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

/// How often a text is in the files of a store.
pub(crate) fn count_in_files(folder: &Path, text: &str) -> usize {
    let count = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    };
    count("recount.db") + count("recount.db-wal")
}

/// A store with several streams, odd bytes, rows and large records, the same each time.
pub(crate) fn fill(store: &dyn Store) {
    for n in 0..40_u64 {
        let stream = format!("run_{:02}", n % 5);
        let bytes: Vec<u8> = (0..100 + n * 7).map(|place| (place * (n + 3)) as u8).collect();
        let append = records(&stream, n / 5 * 2, &[&bytes, format!(r#"{{"n":{n}}}"#).as_bytes()]);
        land(store, recount_log_conformance::both(append, row(&stream, &bytes[..50])));
    }
    land(store, records("large", 0, &[&vec![b'x'; 100_000], b""]));
}

/// SplitMix64: the same numbers for the same seed.
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

/// A store in which so little may be hot that sealing goes on between appends, some records at a time.
pub(crate) fn open_sealing(folder: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions { hot_records_max: 48, ..SqliteOptions::new(folder) }).unwrap()
}

/// Whether some chunk holds records whose groups are there still.
pub(crate) fn is_half_sealed(folder: &Path) -> bool {
    let tool = rusqlite::Connection::open(folder.join("recount.db")).unwrap();
    let sql = "SELECT EXISTS (SELECT 1 FROM chunks WHERE first_position >= (SELECT min(first_position) FROM groups))";
    tool.query_row(sql, [], |row| row.get(0)).unwrap()
}
