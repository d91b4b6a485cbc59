//! Sealing: when it runs, its chunks, concurrent reads, and removals of sealed records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use recount_log::{ReadBound, Stats, Store};
use recount_log_conformance::{ALL, block_on, both, cut, erase};
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

use super::work::{
    append_ok, close, count_in_files, fill, is_half_sealed, open, open_sealing, records, row, scratch, whole,
};

fn stats(store: &SqliteStore) -> Stats {
    block_on(store.stats()).unwrap()
}

fn event(n: u64) -> Vec<u8> {
    format!("{{\"n\":{n},\"text\":\"{}\"}}", "z".repeat(380)).into_bytes()
}

fn chunk_sizes(folder: &std::path::Path, stream: &str) -> Vec<usize> {
    let tool = rusqlite::Connection::open(folder.join("recount.db")).unwrap();
    let sql = "SELECT bytes FROM chunks JOIN streams ON streams.id = chunks.stream WHERE key = ?1
        ORDER BY chunks.first_sequence";
    let mut statement = tool.prepare(sql).unwrap();
    let sizes = statement.query_map([stream], |row| row.get::<_, i64>(0)).unwrap();
    sizes.map(|size| size.unwrap() as usize).collect()
}

#[test]
fn old_records_are_sealed_when_the_queue_is_empty() {
    let folder = scratch();
    let options = SqliteOptions { seal_age: Duration::ZERO, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    fill(&store);
    // Sealing runs by itself; concurrent reads return the same.
    let expected = block_on(store.read_feed(1, ALL)).unwrap();
    while stats(&store).hot_records > 0 {
        assert_eq!(block_on(store.read_feed(1, ALL)).unwrap(), expected);
    }
    assert_eq!(stats(&store).sealed_records, expected.len() as u64);
    let content = whole(&store);
    assert!(content.integrity.problems.is_empty(), "{:?}", content.integrity);
    close(store);
    assert_eq!(whole(&open(folder.path())), content);
}

#[test]
fn the_hot_part_is_bounded() {
    let folder = scratch();
    let options = SqliteOptions {
        hot_records_max: 50,
        durability: Durability::Relaxed,
        ..SqliteOptions::new(folder.path())
    };
    let store = SqliteStore::open(options).unwrap();
    for n in 0..200 {
        append_ok(&store, records("a", n * 4, &[&event(n)[..]; 4]));
        let hot = stats(&store).hot_records;
        assert!(hot <= 54, "{hot} records are hot");
    }
    assert!(whole(&store).integrity.problems.is_empty());
}

#[test]
fn chunks_have_a_good_size_for_small_appends() {
    let folder = scratch();
    let store = open(folder.path());
    for n in 0..1500 {
        append_ok(
            &store,
            both(records("often", n, &[&event(n)]), records("seldom", n / 8, &[])).only_filled(n),
        );
        if n % 7 == 0 {
            block_on(store.seal_now()).unwrap();
        }
    }
    block_on(store.seal_now()).unwrap();
    let sizes = chunk_sizes(folder.path(), "often");
    let full: Vec<_> = sizes.iter().filter(|size| **size >= 64 << 10).collect();
    assert!(full.len() >= 5 && full.iter().all(|size| **size <= 256 << 10), "{sizes:?}");
    assert!(sizes.len() - full.len() <= 8, "few small ones at the end: {sizes:?}");
    assert!(whole(&store).integrity.problems.is_empty());
}

/// Interleaved runs, each larger than a chunk of good size: no chunk is written twice.
#[test]
fn a_chunk_is_written_once_when_there_is_enough_for_it() {
    let folder = scratch();
    let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("run_{n:02}")).collect();
    for n in 0..60 {
        let turn = names.iter().map(|name| records(name, 4 * n, &[&event(n)[..]; 4]));
        append_ok(&store, turn.reduce(both).unwrap());
    }
    block_on(store.seal_now()).unwrap();
    for name in &names {
        let sizes = chunk_sizes(folder.path(), name);
        assert!(sizes.iter().all(|size| (64 << 10..=256 << 10).contains(size)), "{name}: {sizes:?}");
    }
    let tool = rusqlite::Connection::open(folder.path().join("recount.db")).unwrap();
    let count = |sql: &str| tool.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    // Each written chunk has the next number.
    assert_eq!(count("SELECT max(id) FROM chunks"), count("SELECT count(*) FROM chunks"));
    assert_eq!(count("SELECT count(*) FROM groups"), 0);
    assert!(whole(&store).integrity.problems.is_empty());
}

/// Copies the files of a running store between appends, as a killed process would leave them. Many copies are from the
/// time when chunks are written and their groups still exist.
#[test]
fn a_store_killed_between_chunks_and_their_groups_is_whole() {
    let folder = scratch();
    let store = open_sealing(folder.path());
    let mut half = 0;
    for n in 0..100 {
        append_ok(&store, both(records("a", n, &[&event(n)]), records("b", 2 * n, &[b"{}", &event(n)])));
        if n % 3 == 0 {
            append_ok(&store, records(&format!("short_{n}"), 0, &[b"{\"only\":1}"]));
        }
        if n == 70 {
            append_ok(&store, both(cut("a", 66), cut("b", 40)));
        }
        let killed = scratch();
        std::fs::create_dir(killed.path().join("blobs")).unwrap();
        for name in ["recount.db", "recount.db-wal"] {
            std::fs::copy(folder.path().join(name), killed.path().join(name)).unwrap();
        }
        if !is_half_sealed(killed.path()) {
            continue;
        }
        half += 1;
        let content = whole(&store);
        assert!(content.integrity.problems.is_empty(), "{:?}", content.integrity);
        let counts = stats(&store);
        assert_eq!(
            counts.hot_records + counts.sealed_records,
            content.feed.len() as u64,
            "each record counts once"
        );
        let again = open(killed.path());
        assert_eq!(whole(&again), content);
        let after = stats(&again);
        assert_eq!(after.hot_records + after.sealed_records, content.feed.len() as u64);
        // The copy can be cut and sealed completely.
        append_ok(&again, both(cut("b", 2 * n), records("a", n + 1, &[b"{}"])));
        let cut = whole(&again);
        assert!(cut.integrity.problems.is_empty(), "{:?}", cut.integrity);
        block_on(again.seal_now()).unwrap();
        assert_eq!(whole(&again), cut);
        let after = stats(&again);
        assert_eq!((after.hot_records, after.sealed_records), (0, cut.feed.len() as u64));
    }
    assert!(half > 20, "{half} copies are from the middle of a sealing");
}

/// Omits parts without records.
trait OnlyFilled {
    fn only_filled(self, n: u64) -> Self;
}

impl OnlyFilled for recount_log::Append {
    fn only_filled(mut self, n: u64) -> Self {
        let seldom = Bytes::from(event(n));
        for part in &mut self.streams {
            if part.records.is_empty() && n.is_multiple_of(8) {
                part.records.push(seldom.clone());
            }
        }
        self.streams.retain(|part| !part.records.is_empty());
        self
    }
}

/// Readers of streams and of the feed cross the border while it moves.
#[test]
fn reads_cross_the_border_while_it_moves() {
    let folder = scratch();
    let options = SqliteOptions {
        hot_records_max: 24,
        durability: Durability::Relaxed,
        ..SqliteOptions::new(folder.path())
    };
    let store = SqliteStore::open(options).unwrap();
    let over = AtomicBool::new(false);
    let bound = ReadBound { count: 37, bytes: 6000 };
    std::thread::scope(|scope| {
        let streams = ["a", "b"].map(|name| {
            let (store, over) = (&store, &over);
            scope.spawn(move || {
                let mut pages = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    let before = block_on(store.tail(&name.into())).unwrap().map_or(0, |t| t.next_sequence);
                    let mut next = before.saturating_sub(90);
                    while next < before {
                        let page = block_on(store.read(&name.into(), next, bound)).unwrap();
                        assert!(!page.is_empty(), "{name} ends at {next}, {before} were there");
                        for record in page {
                            assert_eq!((record.sequence, &record.bytes[..]), (next, &event(next)[..]));
                            next += 1;
                        }
                        pages += 1;
                    }
                }
                pages
            })
        });
        let feed = scope.spawn(|| {
            let mut next = 1;
            let mut pages = 0_u64;
            while !over.load(Ordering::Relaxed) {
                for feed in block_on(store.read_feed(next, bound)).unwrap() {
                    assert_eq!(feed.record.position, next);
                    next += 1;
                }
                pages += 1;
            }
            pages
        });
        for n in 0..1200 {
            let (a, b) = (event(2 * n), event(2 * n + 1));
            append_ok(&store, records("a", 2 * n, &[&a, &b]));
            append_ok(&store, records("b", 2 * n, &[&a, &b]));
        }
        over.store(true, Ordering::Relaxed);
        let pages: Vec<u64> =
            streams.into_iter().chain([feed]).map(|reader| reader.join().unwrap()).collect();
        println!("pages read meanwhile: {pages:?}, {} records sealed", stats(&store).sealed_records);
        assert!(pages.iter().all(|pages| *pages > 10));
    });
    assert!(whole(&store).integrity.problems.is_empty());
}

const SECRET: &str = "the words to be erased";

fn secrets(n: u64) -> Vec<u8> {
    format!("{{\"n\":{n},\"text\":\"{SECRET} {}\"}}", "and more".repeat(400)).into_bytes()
}

fn found(folder: &std::path::Path) -> usize {
    count_in_files(folder, SECRET)
}

#[test]
fn erased_records_are_in_no_file() {
    let folder = scratch();
    let store = open(folder.path());
    for n in 0..120 {
        append_ok(&store, both(records("secret", n, &[&secrets(n)]), records("other", n, &[&event(n)])));
        if n % 13 == 0 && n < 100 {
            block_on(store.seal_now()).unwrap();
        }
    }
    assert!(found(folder.path()) > 100);
    append_ok(&store, both(cut("secret", 60), row("k", b"v")));
    assert_eq!(block_on(store.read(&"secret".into(), 0, ALL)).unwrap().len(), 60);
    assert_eq!(found(folder.path()), 60, "each remaining record, once");
    append_ok(&store, erase("secret"));
    assert_eq!(found(folder.path()), 0);
    let content = whole(&store);
    assert!(content.integrity.problems.is_empty(), "{:?}", content.integrity);
    assert_eq!(content.feed.len(), 120);
    close(store);
    assert_eq!(found(folder.path()), 0);
    assert_eq!(whole(&open(folder.path())), content);
}

/// The same for records that are in a chunk and in their group.
#[test]
fn records_erased_during_sealing_are_in_no_file() {
    let folder = scratch();
    let store = open_sealing(folder.path());
    let mut half = 0;
    let mut n = 0;
    for turn in 0..40 {
        let name = format!("secret_{turn}");
        let until = n + 9 + turn % 7;
        let mut next = 0;
        while n < until {
            append_ok(&store, both(records(&name, next, &[&secrets(n)]), records("other", n, &[&event(n)])));
            (n, next) = (n + 1, next + 1);
        }
        let was_half = is_half_sealed(folder.path());
        append_ok(&store, cut(&name, next - 2));
        half += u64::from(was_half && is_half_sealed(folder.path()));
        let content = whole(&store);
        assert!(content.integrity.problems.is_empty(), "{:?}", content.integrity);
        assert!((2..=4).contains(&found(folder.path())), "two, in a chunk or a group or both");
        append_ok(&store, erase(&name));
        assert_eq!(found(folder.path()), 0, "turn {turn}");
        let counts = stats(&store);
        let records = whole(&store).feed.len() as u64;
        assert_eq!((records, counts.hot_records + counts.sealed_records), (n, n));
    }
    assert!(half > 5, "sealing was in progress {half} times");
    let content = whole(&store);
    close(store);
    assert_eq!(whole(&open(folder.path())), content);
}

#[test]
fn a_backup_is_a_store_as_it_was_at_one_moment() {
    let folder = scratch();
    let store = open(folder.path());
    fill(&store);
    let blob = block_on(store.put_blob(Bytes::from_static(b"a blob"))).unwrap();
    block_on(store.seal_now()).unwrap();
    append_ok(&store, both(cut("run_02", 5), row("k", b"v")));
    let before = whole(&store);
    let to = folder.path().join("copies").join("first");
    block_on(store.backup(to.clone())).unwrap();
    let fault = block_on(store.backup(to.clone())).unwrap_err();
    assert!(fault.message.contains("already exists"), "{fault}");
    let copy = open(&to);
    assert_eq!(whole(&copy), before);
    assert_eq!(block_on(copy.blob(&blob)), Ok(Some(Bytes::from_static(b"a blob"))));
    close(copy);

    // During appends, a backup has a whole prefix of them.
    let second = folder.path().join("second");
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| block_on(store.backup(second.clone())));
        let mut n = 0;
        while !copying.is_finished() {
            append_ok(&store, both(records("on", 2 * n, &[b"x", b"y"]), row("on", b"v")));
            n += 1;
        }
        copying.join().unwrap().unwrap();
    });
    let copy = whole(&open(&second));
    assert!(copy.integrity.problems.is_empty(), "{:?}", copy.integrity);
    let all = block_on(store.read_feed(1, ALL)).unwrap();
    assert_eq!(copy.feed[..], all[..copy.feed.len()]);
    assert_eq!(copy.feed.iter().filter(|feed| &*feed.stream == "on").count() % 2, 0);
}
