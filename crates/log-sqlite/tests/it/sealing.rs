//! Sealing: when it happens, what it leaves, reading meanwhile, and taking away what was sealed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use recount_log::{ReadBound, Stats, Store};
use recount_log_conformance::{ALL, block_on, both, cut, erase};
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

use super::work::{
    close, count_in_files, fill, is_half_sealed, land, open, open_sealing, records, row, scratch, whole,
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
fn what_has_come_of_age_is_sealed_when_nothing_waits() {
    let folder = scratch();
    let options = SqliteOptions { seal_age: Duration::ZERO, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    fill(&store);
    // It is sealed by itself; reading meanwhile tells the same all the time.
    let expected = block_on(store.read_feed(1, ALL)).unwrap();
    while stats(&store).hot_records > 0 {
        assert_eq!(block_on(store.read_feed(1, ALL)).unwrap(), expected);
    }
    assert_eq!(stats(&store).sealed_records, expected.len() as u64);
    let left = whole(&store);
    assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
    close(store);
    assert_eq!(whole(&open(folder.path())), left);
}

#[test]
fn too_much_is_never_hot() {
    let folder = scratch();
    let options = SqliteOptions {
        hot_records_max: 50,
        durability: Durability::Relaxed,
        ..SqliteOptions::new(folder.path())
    };
    let store = SqliteStore::open(options).unwrap();
    for n in 0..200 {
        land(&store, records("a", n * 4, &[&event(n)[..]; 4]));
        let hot = stats(&store).hot_records;
        assert!(hot <= 54, "{hot} records are hot");
    }
    assert!(whole(&store).integrity.problems.is_empty());
}

#[test]
fn chunks_have_a_good_size_however_little_comes_at_once() {
    let folder = scratch();
    let store = open(folder.path());
    for n in 0..1500 {
        land(&store, both(records("often", n, &[&event(n)]), records("seldom", n / 8, &[])).only_filled(n));
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

/// Many runs in turns, each with more than a chunk of good size: nothing is written twice.
#[test]
fn a_chunk_is_written_once_when_there_is_enough_for_it() {
    let folder = scratch();
    let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("run_{n:02}")).collect();
    for n in 0..60 {
        let turn = names.iter().map(|name| records(name, 4 * n, &[&event(n)[..]; 4]));
        land(&store, turn.reduce(both).unwrap());
    }
    block_on(store.seal_now()).unwrap();
    for name in &names {
        let sizes = chunk_sizes(folder.path(), name);
        assert!(sizes.iter().all(|size| (64 << 10..=256 << 10).contains(size)), "{name}: {sizes:?}");
    }
    let tool = rusqlite::Connection::open(folder.path().join("recount.db")).unwrap();
    let count = |sql: &str| tool.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    // Their numbers go up with each that is written.
    assert_eq!(count("SELECT max(id) FROM chunks"), count("SELECT count(*) FROM chunks"));
    assert_eq!(count("SELECT count(*) FROM groups"), 0);
    assert!(whole(&store).integrity.problems.is_empty());
}

/// The files of a running store as a killed process would leave them, copied between any two appends of which
/// many come while chunks are written and their groups are there still.
#[test]
fn a_store_killed_between_chunks_and_their_groups_is_whole() {
    let folder = scratch();
    let store = open_sealing(folder.path());
    let mut half = 0;
    for n in 0..100 {
        land(&store, both(records("a", n, &[&event(n)]), records("b", 2 * n, &[b"{}", &event(n)])));
        if n % 3 == 0 {
            land(&store, records(&format!("short_{n}"), 0, &[b"{\"only\":1}"]));
        }
        if n == 70 {
            land(&store, both(cut("a", 66), cut("b", 40)));
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
        let left = whole(&store);
        assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
        let told = stats(&store);
        assert_eq!(told.hot_records + told.sealed_records, left.feed.len() as u64, "each is counted once");
        let again = open(killed.path());
        assert_eq!(whole(&again), left);
        let after = stats(&again);
        assert_eq!(after.hot_records + after.sealed_records, left.feed.len() as u64);
        // It can be cut, and sealed to the end.
        land(&again, both(cut("b", 2 * n), records("a", n + 1, &[b"{}"])));
        let cut = whole(&again);
        assert!(cut.integrity.problems.is_empty(), "{:?}", cut.integrity);
        block_on(again.seal_now()).unwrap();
        assert_eq!(whole(&again), cut);
        let after = stats(&again);
        assert_eq!((after.hot_records, after.sealed_records), (0, cut.feed.len() as u64));
    }
    assert!(half > 20, "{half} of the copies were made while sealing was under way");
}

/// Leaves out parts without records.
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

/// Readers of both kinds go over the border all the time while it moves.
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
            land(&store, records("a", 2 * n, &[&a, &b]));
            land(&store, records("b", 2 * n, &[&a, &b]));
        }
        over.store(true, Ordering::Relaxed);
        let pages: Vec<u64> =
            streams.into_iter().chain([feed]).map(|reader| reader.join().unwrap()).collect();
        println!("pages read meanwhile: {pages:?}, {} records sealed", stats(&store).sealed_records);
        assert!(pages.iter().all(|pages| *pages > 10));
    });
    assert!(whole(&store).integrity.problems.is_empty());
}

const SECRET: &str = "the words that have to go";

fn secrets(n: u64) -> Vec<u8> {
    format!("{{\"n\":{n},\"text\":\"{SECRET} {}\"}}", "and more".repeat(400)).into_bytes()
}

fn found(folder: &std::path::Path) -> usize {
    count_in_files(folder, SECRET)
}

#[test]
fn what_was_erased_is_in_no_file_any_more() {
    let folder = scratch();
    let store = open(folder.path());
    for n in 0..120 {
        land(&store, both(records("secret", n, &[&secrets(n)]), records("other", n, &[&event(n)])));
        if n % 13 == 0 && n < 100 {
            block_on(store.seal_now()).unwrap();
        }
    }
    assert!(found(folder.path()) > 100);
    land(&store, both(cut("secret", 60), row("k", b"v")));
    assert_eq!(block_on(store.read(&"secret".into(), 0, ALL)).unwrap().len(), 60);
    assert_eq!(found(folder.path()), 60, "each of those that are left, once");
    land(&store, erase("secret"));
    assert_eq!(found(folder.path()), 0);
    let left = whole(&store);
    assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
    assert_eq!(left.feed.len(), 120);
    close(store);
    assert_eq!(found(folder.path()), 0);
    assert_eq!(whole(&open(folder.path())), left);
}

/// The same where some of it is in a chunk and in its group too.
#[test]
fn what_was_erased_while_sealing_goes_on_is_in_no_file_any_more() {
    let folder = scratch();
    let store = open_sealing(folder.path());
    let mut half = 0;
    let mut n = 0;
    for turn in 0..40 {
        let name = format!("secret_{turn}");
        let until = n + 9 + turn % 7;
        let mut next = 0;
        while n < until {
            land(&store, both(records(&name, next, &[&secrets(n)]), records("other", n, &[&event(n)])));
            (n, next) = (n + 1, next + 1);
        }
        let was_half = is_half_sealed(folder.path());
        land(&store, cut(&name, next - 2));
        half += u64::from(was_half && is_half_sealed(folder.path()));
        let left = whole(&store);
        assert!(left.integrity.problems.is_empty(), "{:?}", left.integrity);
        assert!((2..=4).contains(&found(folder.path())), "two, in a chunk or a group or both");
        land(&store, erase(&name));
        assert_eq!(found(folder.path()), 0, "turn {turn}");
        let told = stats(&store);
        let records = whole(&store).feed.len() as u64;
        assert_eq!((records, told.hot_records + told.sealed_records), (n, n));
    }
    assert!(half > 5, "{half} times sealing was under way");
    let left = whole(&store);
    close(store);
    assert_eq!(whole(&open(folder.path())), left);
}

#[test]
fn a_backup_is_a_store_as_it_was_at_one_moment() {
    let folder = scratch();
    let store = open(folder.path());
    fill(&store);
    let blob = block_on(store.put_blob(Bytes::from_static(b"a blob"))).unwrap();
    block_on(store.seal_now()).unwrap();
    land(&store, both(cut("run_02", 5), row("k", b"v")));
    let before = whole(&store);
    let to = folder.path().join("copies").join("first");
    block_on(store.backup(to.clone())).unwrap();
    let fault = block_on(store.backup(to.clone())).unwrap_err();
    assert!(fault.message.contains("already exists"), "{fault}");
    let copy = open(&to);
    assert_eq!(whole(&copy), before);
    assert_eq!(block_on(copy.blob(&blob)), Ok(Some(Bytes::from_static(b"a blob"))));
    close(copy);

    // And while appends go on: a beginning of them, whole.
    let second = folder.path().join("second");
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| block_on(store.backup(second.clone())));
        let mut n = 0;
        while !copying.is_finished() {
            land(&store, both(records("on", 2 * n, &[b"x", b"y"]), row("on", b"v")));
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
