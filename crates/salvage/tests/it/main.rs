//! Salvage: saved records are byte for byte as written after any damage, and every loss is named.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use recount_log::{Append, Cut, FaultKind, Guard, RowRange, Store, Tail};
use recount_log_conformance::{ALL, block_on, both, records};
use recount_log_sqlite::{SqliteOptions, SqliteStore, high_water};
use recount_salvage::{Salvage, Stream};
use recount_tier::times;

const PAGE: usize = 4096;
const STREAMS: u64 = 24;

/// The records of a stream, by sequence.
type Records = BTreeMap<u64, (u64, Bytes)>;

/// A store that was closed, or copied while it was open, and what it holds.
struct Original {
    folder: tempfile::TempDir,
    streams: BTreeMap<String, (Tail, Records)>,
    rows: usize,
    blob: String,
}

/// A record that names its stream and sequence.
fn record(stream: &str, sequence: u64, filler: usize) -> Vec<u8> {
    format!(r#"{{"of":"{stream}","at":{sequence},"text":"{}"}}"#, "words ".repeat(filler)).into_bytes()
}

fn claim(record: &[u8]) -> Option<(String, u64)> {
    let text = std::str::from_utf8(record).ok()?;
    let (of, rest) = text.strip_prefix(r#"{"of":""#)?.split_once(r#"","at":"#)?;
    Some((of.to_owned(), rest.split_once(',')?.0.parse().ok()?))
}

/// A folder in memory if the system has one.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(folder)).unwrap()
}

fn close(store: SqliteStore) {
    block_on(store.close()).unwrap();
}

fn append_ok(store: &SqliteStore, append: Append) {
    block_on(store.append(append)).unwrap();
}

fn row(key: &str, value: &[u8]) -> Append {
    recount_log_conformance::row("space", key, Guard::Any, Some(value))
}

fn count_rows(store: &SqliteStore) -> usize {
    block_on(store.rows(RowRange::first("space", "", usize::MAX))).unwrap().len()
}

/// The random numbers of SplitMix64, which depend only on the seed.
struct Dice(u64);

impl Dice {
    /// Less than `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

fn fill(store: &SqliteStore, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for number in 0..STREAMS {
            let stream = format!("run_{number:02}");
            let first = round * 2;
            let filler = (number as usize * 37 + round as usize * 11) % 300;
            let (one, two) = (record(&stream, first, filler), record(&stream, first + 1, 1));
            let append = records(&stream, first, &[&one, &two]);
            append_ok(store, both(append, row(&format!("{stream}/{round:03}"), b"a value of a row")));
        }
    }
}

/// Two thirds are sealed, one third is hot; a stream was cut and one was erased. `logged`: the newest part lies in the
/// write-ahead log.
fn original(logged: bool) -> Original {
    let folder = scratch();
    let store = open(folder.path());
    fill(&store, 0..8);
    let cut = Cut { stream: "run_03".into(), keep_from: 5 };
    append_ok(&store, Append { cuts: vec![cut], erased: vec!["run_04".into()], ..Append::default() });
    let blob = block_on(store.put_blob(Bytes::from_static(b"a blob"))).unwrap();
    block_on(store.seal_now()).unwrap();
    close(store);
    let store = open(folder.path());
    for round in 8..12 {
        for number in (0..STREAMS).filter(|number| *number != 4) {
            let stream = format!("run_{number:02}");
            let first = round * 2;
            let (one, two) = (record(&stream, first, 90), record(&stream, first + 1, 0));
            append_ok(
                &store,
                both(records(&stream, first, &[&one, &two]), row(&format!("{stream}/{round:03}"), b"newer")),
            );
        }
    }
    let mut streams = BTreeMap::new();
    for key in block_on(store.streams(None, usize::MAX)).unwrap() {
        let tail = block_on(store.tail(&key)).unwrap().unwrap();
        let all = block_on(store.read(&key, 0, ALL)).unwrap();
        let all = all.into_iter().map(|record| (record.sequence, (record.position, record.bytes))).collect();
        streams.insert(key.to_string(), (tail, all));
    }
    let rows = count_rows(&store);
    let copy = scratch();
    if logged {
        // The mark lags; the copy needs one that has caught up.
        let last = block_on(store.last_position()).unwrap();
        while high_water(folder.path()).unwrap() != Some(last) {
            std::thread::yield_now();
        }
        copy_folder(folder.path(), copy.path());
    }
    close(store);
    if !logged {
        copy_folder(folder.path(), copy.path());
    }
    assert_eq!(copy.path().join("recount.db-wal").exists(), logged);
    Original { folder: copy, streams, rows, blob }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// The files of a folder by name.
fn files(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[derive(Debug, Default, PartialEq)]
struct Count {
    whole: usize,
    part: usize,
    lost: usize,
}

/// Salvages, opens the result with the real store, and compares all of it with the original.
fn check(original: &Original, what: &str) -> Option<Count> {
    let before = files(original.folder.path());
    let place = scratch();
    let to = place.path().join("new");
    let mut salvage = match Salvage::read(original.folder.path(), &claim) {
        Ok(salvage) => salvage,
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Corrupt, "{what}: {fault}");
            return None;
        }
    };
    let streams: Vec<Stream> = salvage.streams().to_vec();
    salvage.write(&to, &|_| true, &|_| true).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    assert!(before == files(original.folder.path()), "{what}: the old store was changed");

    let store = SqliteStore::open(SqliteOptions::new(&to)).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    let integrity = block_on(store.integrity()).unwrap();
    assert_eq!(integrity.problems, Vec::<String>::new(), "{what}");
    let mut count = Count::default();
    for (key, (tail, all)) in &original.streams {
        let Some(stream) = streams.iter().find(|stream| *stream.key == **key) else {
            count.lost += 1;
            continue;
        };
        if stream.is_lost() {
            count.lost += 1;
            continue;
        }
        assert!(
            stream.first_sequence <= tail.first_sequence,
            "{what}: {key} is kept from {} on, as if the records before had been pruned",
            stream.first_sequence
        );
        let found = block_on(store.read(&stream.key, 0, ALL)).unwrap();
        let proven = found.iter().filter(|record| record.sequence < stream.proven_end);
        for record in proven.clone() {
            assert_eq!(
                all.get(&record.sequence),
                Some(&(record.position, record.bytes.clone())),
                "{what}: {key}"
            );
        }
        let stored = block_on(store.tail(&stream.key)).unwrap().unwrap();
        let whole = stream.is_whole() && !stream.may_continue;
        match whole {
            true => {
                assert_eq!(stored, *tail, "{what}: {key} is reported as whole");
                assert_eq!(found.len(), all.len(), "{what}: {key}");
                count.whole += 1;
            }
            false => count.part += 1,
        }
    }
    close(store);
    Some(count)
}

#[test]
fn a_sound_store_is_salvaged_whole_with_positions_heads_rows_and_blobs() {
    for logged in [false, true] {
        let original = original(logged);
        let count = check(&original, "nothing was damaged").unwrap();
        assert_eq!(count, Count { whole: STREAMS as usize, part: 0, lost: 0 });

        let place = scratch();
        let mut salvage = Salvage::read(original.folder.path(), &claim).unwrap();
        assert_eq!(salvage.damage, Default::default());
        let blobs = salvage.write(&place.path().join("new"), &|_| true, &|_| true).unwrap();
        assert_eq!((blobs.copied, blobs.damaged.len()), (1, 0));
        let store = open(&place.path().join("new"));
        assert_eq!(count_rows(&store), original.rows);
        assert_eq!(block_on(store.blob(&original.blob)).unwrap().as_deref(), Some(&b"a blob"[..]));
        let (tail, _) = &original.streams["run_07"];
        append_ok(&store, records("run_07", tail.next_sequence, &[&record("run_07", tail.next_sequence, 1)]));
        close(store);
    }
}

#[test]
fn flipped_bits_affect_only_what_they_hit() {
    let (mut kept, seeds) = (0, times(18));
    for seed in 0..seeds {
        let original = original(seed % 3 == 0);
        let name = if seed % 6 == 0 { "recount.db-wal" } else { "recount.db" };
        let path = original.folder.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let mut dice = Dice(seed);
        let (place, bit) = (dice.below(bytes.len()), dice.below(8));
        bytes[place] ^= 1 << bit;
        std::fs::write(&path, bytes).unwrap();
        let count = check(&original, &format!("seed {seed}: bit {bit} of byte {place} of {name}")).unwrap();
        // One bit can damage at most a page of names.
        kept += count.whole;
    }
    let all = usize::try_from(seeds * STREAMS).unwrap();
    assert!(kept > all / 2, "{kept} whole streams of {all}");
}

/// The index of a damaged group names its streams; no other stream is reported as damaged, also at the end.
#[test]
fn a_changed_record_affects_only_its_stream_in_salvage() {
    let original = original(false);
    let path = original.folder.path().join("recount.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let text = br#"{"of":"run_07","at":23,"text":"#;
    let at = bytes.windows(text.len()).rposition(|part| part == text).unwrap();
    bytes[at + text.len() - 2] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let count = check(&original, "the last record of run_07 was changed").unwrap();
    assert_eq!(count, Count { whole: STREAMS as usize - 1, part: 1, lost: 0 });
    let salvage = Salvage::read(original.folder.path(), &claim).unwrap();
    let stream = salvage.streams().iter().find(|stream| &*stream.key == "run_07").unwrap();
    assert!(stream.proven_end <= 23 && !stream.is_lost(), "{stream:?}");
}

/// A stream is kept from its beginning, or not at all.
#[test]
fn a_stream_whose_beginning_is_lost_is_lost() {
    for name in ["run_05", "run_11"] {
        let original = original(false);
        let path = original.folder.path().join("recount.db");
        let mut bytes = std::fs::read(&path).unwrap();
        let first = format!(r#"{{"of":"{name}","at":0,"text":""#);
        let places: Vec<usize> =
            (0..bytes.len() - first.len()).filter(|at| bytes[*at..].starts_with(first.as_bytes())).collect();
        assert!(!places.is_empty(), "{name} is stored as it is");
        for at in places {
            bytes[at + first.len()] ^= 1;
        }
        std::fs::write(&path, bytes).unwrap();
        let count = check(&original, &format!("the first record of {name} was changed")).unwrap();
        assert_eq!((count.lost, count.part), (1, 0), "{count:?}");
        let salvage = Salvage::read(original.folder.path(), &claim).unwrap();
        let stream = salvage.streams().iter().find(|stream| *stream.key == *name).unwrap();
        assert!(stream.is_lost() && !stream.is_whole() && stream.beyond == 8, "{stream:?}");
    }
}

#[test]
fn lost_pages_missing_tables_and_short_files_are_salvaged() {
    let mut dice = Dice(7);
    for (what, fill_with) in [("zeros", Some(0)), ("ones", Some(0xff)), ("noise", None)] {
        for _ in 0..8 {
            let original = original(false);
            let path = original.folder.path().join("recount.db");
            let mut bytes = std::fs::read(&path).unwrap();
            let page = dice.below(bytes.len() / PAGE);
            for byte in &mut bytes[page * PAGE..(page + 1) * PAGE] {
                *byte = fill_with.unwrap_or_else(|| dice.below(256) as u8);
            }
            std::fs::write(&path, bytes).unwrap();
            check(&original, &format!("page {page} is {what}")).unwrap();
        }
    }
    for table in ["streams", "chunks", "groups", "rows", "feed", "changes", "sealed"] {
        let original = original(false);
        let tool = rusqlite::Connection::open(original.folder.path().join("recount.db")).unwrap();
        tool.execute_batch(&format!("DROP VIEW events; DROP VIEW log; DROP TABLE \"{table}\"")).unwrap();
        drop(tool);
        let count = check(&original, &format!("the table {table} was dropped")).unwrap();
        // Without the heads, chunks cannot be compared, and erased streams are unknown.
        let proven = if table == "streams" { 0 } else { STREAMS as usize };
        let lost = usize::from(table == "streams");
        assert!(count.whole >= proven && count.lost == lost, "{table}: {count:?}");
    }
    for part in [4, 2, 1] {
        let original = original(false);
        let path = original.folder.path().join("recount.db");
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length * part / 5).unwrap();
        check(&original, &format!("{part} fifths of the file remain"));
    }
}

/// SQLite stops at the first damaged frame; salvage reads the frames after it.
#[test]
fn frames_after_a_damaged_one_are_read() {
    for (place, most_lost) in
        [(32 + 30, STREAMS as usize), (32 + 24 + PAGE * 2, STREAMS as usize), (3, 0), (20, 0)]
    {
        let original = original(true);
        let path = original.folder.path().join("recount.db-wal");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[place] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        let count = check(&original, &format!("byte {place} of the log was changed")).unwrap();
        assert!(count.lost == 0 && count.part <= most_lost, "{place}: {count:?}");
        let salvage = Salvage::read(original.folder.path(), &claim).unwrap();
        assert!(salvage.damage.frames > 0, "{place}: {:?}", salvage.damage);
        let last = salvage.streams().iter().map(|stream| stream.known_end).max();
        assert_eq!(last, Some(24), "{place}: the newest records are far after the damage");
    }
}

/// Such a log shows no damage; the high-water mark names a position that is missing.
#[test]
fn a_log_that_was_cut_between_commits_or_removed_is_reported() {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + PAGE;
    let original = original(true);
    let path = original.folder.path().join("recount.db-wal");
    let bytes = std::fs::read(&path).unwrap();
    let mark = original.folder.path().join("high-water");
    let marked = std::fs::read(&mark).unwrap();
    let frames = bytes[HEADER..].chunks_exact(FRAME);
    // A frame that ends a commit has the new number of pages of the database.
    let commits: Vec<usize> = frames
        .enumerate()
        .filter(|(_, frame)| frame[4..8] != [0; 4])
        .map(|(number, _)| HEADER + (number + 1) * FRAME)
        .collect();
    assert!(commits.len() > 20, "{} commits in the log", commits.len());
    for length in [Some(0), Some(HEADER), Some(commits[0]), Some(commits[commits.len() / 2]), None] {
        match length {
            Some(length) => std::fs::write(&path, &bytes[..length]).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let what = format!("{length:?} bytes of the log remain");
        let count = check(&original, &what).unwrap();
        let salvage = Salvage::read(original.folder.path(), &claim).unwrap();
        assert!(salvage.damage.commits, "{what}: {:?}", salvage.damage);
        assert!(count.whole < STREAMS as usize, "{what}: {count:?}");
        drop(salvage);
        // Without the mark nothing shows it.
        std::fs::remove_file(&mark).unwrap();
        assert!(!Salvage::read(original.folder.path(), &claim).unwrap().damage.commits, "{what}");
        std::fs::write(&mark, &marked).unwrap();
    }
}

#[test]
fn a_folder_that_is_held_or_holds_nothing_is_refused() {
    let original = original(false);
    let store = open(original.folder.path());
    assert_eq!(Salvage::read(original.folder.path(), &claim).err().unwrap().kind, FaultKind::Locked);
    close(store);
    let empty = scratch();
    let fault = Salvage::read(empty.path(), &claim).err().unwrap();
    assert!(fault.message.contains("contains no store"), "{fault}");
    std::fs::write(empty.path().join("recount.db"), vec![7; 3 * PAGE]).unwrap();
    assert_eq!(Salvage::read(empty.path(), &claim).err().unwrap().kind, FaultKind::Corrupt);
}
