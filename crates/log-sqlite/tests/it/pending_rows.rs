//! Pending rows: after any operations and any end of the process, the store returns the same rows as the store in
//! memory.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{Append, Guard, MemoryStore, RowPut, RowRange, Store, StreamAppend};
use recount_log_conformance::{block_on, cut};
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

use super::work::{Dice, append_ok, append_to_both, close, records, row, scratch};

const SEEDS: u64 = 40;
const TURNS: usize = 200;
const KEYS: usize = 12;

fn space(number: usize) -> Arc<str> {
    ["a", "b"][number].into()
}

fn key(number: usize) -> Arc<str> {
    format!("{}{number:02}", ["x", "y"][number % 2]).into()
}

/// Random row changes and deletions, with guards that hold or fail; sometimes with records or a cut.
fn draw(dice: &mut Dice, model: &MemoryStore) -> Append {
    let first = dice.below(KEYS);
    let rows = (first..first + dice.below(5)).map(|number| {
        let (space, key) = (space(dice.below(2)), key(number % KEYS));
        let actual = block_on(model.row(&space, &key)).unwrap().map(|row| row.version);
        let guard = match dice.below(8) {
            0 => Guard::Absent,
            1 => Guard::Version(actual.unwrap_or(1)),
            2 => Guard::Version(2),
            _ => Guard::Any,
        };
        let value = (dice.below(3) > 0).then(|| Bytes::from(vec![dice.roll() as u8; dice.below(3000)]));
        RowPut { space, key, guard, value }
    });
    let mut append = Append { rows: rows.collect(), ..Append::default() };
    let tail = block_on(model.tail(&"run".into())).unwrap().map_or(0, |tail| tail.next_sequence);
    match dice.below(8) {
        0..=3 => append.streams.push(StreamAppend {
            stream: "run".into(),
            expected_tail: tail,
            records: vec![Bytes::from_static(b"{}")],
        }),
        4 if tail > 0 => append.cuts = cut("run", dice.below(tail as usize + 1) as u64).cuts,
        _ => {}
    }
    append
}

fn compare(store: &SqliteStore, model: &MemoryStore, dice: &mut Dice, what: &str) {
    for number in 0..KEYS {
        let (space, key) = (space(dice.below(2)), key(number));
        let (found, expected) = (block_on(store.row(&space, &key)), block_on(model.row(&space, &key)));
        assert_eq!(found, expected, "{what}: {space}/{key}");
    }
    for _ in 0..4 {
        let range = RowRange {
            space: space(dice.below(2)),
            prefix: ["", "x", "y", "y0", "z"][dice.below(5)].into(),
            after: dice.coin().then(|| key(dice.below(KEYS))),
            backwards: dice.coin(),
            limit: dice.below(KEYS + 2),
        };
        let (found, expected) = (block_on(store.rows(range.clone())), block_on(model.rows(range.clone())));
        assert_eq!(found, expected, "{what}: {range:?}");
    }
}

/// Copies the current files, as a process that is killed now leaves them.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to.join("blobs")).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let is_recreated = |name: &str| ["lock", "recount.db-shm", "reserve"].contains(&name);
        if entry.path().is_file() && !is_recreated(entry.file_name().to_str().unwrap()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn rows_match_the_model_at_every_stage() {
    let (mut ended, mut killed, mut refused) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut dice = Dice(seed);
        let mut folder = scratch();
        let options = |folder: &Path| SqliteOptions {
            durability: Durability::Relaxed,
            fresh_rows_max: [1, 3, 10, usize::MAX][seed as usize % 4],
            reserve_bytes: 4096,
            ..SqliteOptions::new(folder)
        };
        let mut store = SqliteStore::open(options(folder.path())).unwrap();
        let model = MemoryStore::new();
        for turn in 0..TURNS {
            let what = format!("seed {seed}, turn {turn}");
            match dice.below(30) {
                0 => {
                    close(store);
                    store = SqliteStore::open(options(folder.path())).unwrap();
                    ended += 1;
                }
                1 => {
                    let other = scratch();
                    copy_files(folder.path(), other.path());
                    close(store);
                    folder = other;
                    store = SqliteStore::open(options(folder.path())).unwrap();
                    killed += 1;
                }
                _ => {
                    let append = draw(&mut dice, &model);
                    refused += u32::from(!append_to_both(&store, &model, append, &what));
                }
            }
            compare(&store, &model, &mut dice, &what);
        }
        assert_eq!(block_on(store.integrity()).unwrap().problems, [""; 0], "seed {seed}");
    }
    println!("{ended} times ended, {killed} times killed, {refused} appends refused");
    assert!(ended > 50 && killed > 50 && refused > 50);
}

fn query<T: rusqlite::types::FromSql>(folder: &Path, sql: &str) -> T {
    let tool = rusqlite::Connection::open(folder.join("recount.db")).unwrap();
    tool.query_row(sql, [], |row| row.get(0)).unwrap()
}

const IN_TABLE: &str = r#"SELECT count(*) FROM "rows""#;
const JOURNALED: &str = "SELECT count(*) FROM changes";

#[test]
fn rows_are_journaled_at_commit_and_folded_at_close() {
    let folder = scratch();
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).unwrap();
    append_ok(&store, row("k", b"1"));
    append_ok(&store, row("k", b"2"));
    let versions: (i64, i64) = (query(folder.path(), IN_TABLE), query(folder.path(), JOURNALED));
    assert_eq!(versions, (0, 2));
    close(store);
    let versions: (i64, i64) = (query(folder.path(), IN_TABLE), query(folder.path(), JOURNALED));
    assert_eq!(versions, (1, 0));
    assert_eq!(query::<i64>(folder.path(), r#"SELECT version FROM "rows""#), 2);
}

/// More commits than slots, and more bytes than the slots may hold.
#[test]
fn journal_slots_are_reused_in_turn() {
    let folder = scratch();
    let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    let large = vec![b'x'; 300_000];
    for turn in 0..400_u32 {
        let value = if turn % 10 == 0 { &large[..] } else { b"small" };
        append_ok(&store, row(&format!("k{}", turn % 7), value));
    }
    let bytes: i64 = query(folder.path(), "SELECT sum(length(changes)) FROM changes");
    assert!(bytes < 8 << 20, "{bytes} bytes are in the journal");
    assert!(query::<i64>(folder.path(), JOURNALED) <= 128);
    let found = block_on(store.row("space", "k0")).unwrap().unwrap();
    assert_eq!(found.version, 58);
    close(store);
}

#[test]
fn a_removed_row_leaves_nothing_in_the_journal() {
    let folder = scratch();
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).unwrap();
    let mut first = records("run", 0, &[b"{}"]);
    first.rows = row("k", b"a word that has to go").rows;
    append_ok(&store, first);
    let mut erasing = recount_log_conformance::erase("run");
    erasing.rows = recount_log_conformance::row("space", "k", Guard::Any, None).rows;
    append_ok(&store, erasing);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(21).any(|part| part == b"a word that has to go");
            assert!(!found, "{}", path.display());
        }
    }
    assert_eq!(block_on(store.row("space", "k")), Ok(None));
}

#[test]
fn altered_journal_entries_are_reported() {
    let folder = scratch();
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).unwrap();
    append_ok(&store, row("k", b"a value"));
    append_ok(&store, row("l", b"another"));
    let other = scratch();
    copy_files(folder.path(), other.path());
    close(store);
    let database = other.path().join("recount.db");
    for (harm, words) in [
        ("UPDATE changes SET changes = CAST('x' || changes AS BLOB) WHERE number = 1", "commit 1"),
        ("DELETE FROM changes WHERE number = 1", "commit 1"),
        ("UPDATE changes SET first_needed = 2 WHERE number = 2", "commit 2"),
        ("UPDATE changes SET first_needed = 9 WHERE number = 2", "commit 2"),
        ("UPDATE changes SET number = 3 WHERE number = 2", "commit 2"),
    ] {
        let tool = rusqlite::Connection::open(&database).unwrap();
        tool.execute_batch("CREATE TABLE saved AS SELECT * FROM changes").unwrap();
        tool.execute_batch(harm).unwrap();
        let fault = SqliteStore::open(SqliteOptions::new(other.path())).err().unwrap();
        assert!(fault.message.contains(words), "{harm}: {fault}");
        let back = "DELETE FROM changes; INSERT INTO changes SELECT * FROM saved; DROP TABLE saved";
        tool.execute_batch(back).unwrap();
    }
    let store = SqliteStore::open(SqliteOptions::new(other.path())).unwrap();
    assert_eq!(block_on(store.row("space", "l")).unwrap().unwrap().value, "another");
}
