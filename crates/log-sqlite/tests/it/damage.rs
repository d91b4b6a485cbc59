//! Damage: it is reported, the rest can be read, and nothing panics or counts as whole.

use std::path::{Path, PathBuf};

use recount_log::{FaultKind, Guard, Integrity, Store};
use recount_log_conformance::{ALL, block_on, both, erase};
use recount_log_sqlite::{SqliteOptions, SqliteStore, inspect};

use super::work::{
    Dice, Whole, append_ok, close, count_in_files, fill, is_half_sealed, open, open_sealing, records,
    scratch, whole,
};

const PAGE: usize = 4096;

/// A closed store with a few hundred records, and what it holds.
struct Victim {
    folder: tempfile::TempDir,
    whole: Whole,
}

fn victim() -> Victim {
    create(|_| ())
}

/// The same, with all records in chunks.
fn sealed_victim() -> Victim {
    create(|store| block_on(store.seal_now()).unwrap())
}

/// The same, with some records in chunks and in their groups.
fn half_sealed_victim() -> Victim {
    let victim = victim();
    let store = open_sealing(victim.folder.path());
    let mut n = 300;
    while !is_half_sealed(victim.folder.path()) {
        append_ok(&store, records("long", n, &[b"one more"]));
        n += 1;
        assert!(n < 1000, "sealing goes on");
    }
    let whole = whole(&store);
    close(store);
    assert!(is_half_sealed(victim.folder.path()), "closing leaves it as it is");
    Victim { whole, ..victim }
}

fn create(sealing: impl FnOnce(&SqliteStore)) -> Victim {
    let folder = scratch();
    let store = open(folder.path());
    fill(&store);
    for n in 0..300 {
        append_ok(
            &store,
            records("long", n, &[format!("record {n} {}", "of the long stream ".repeat(20)).as_bytes()]),
        );
    }
    sealing(&store);
    let whole = whole(&store);
    close(store);
    Victim { folder, whole }
}

impl Victim {
    fn path(&self) -> PathBuf {
        self.folder.path().join("recount.db")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        std::fs::write(self.path(), bytes).unwrap();
    }

    fn records(&self) -> u64 {
        self.whole.feed.len() as u64
    }
}

fn try_open(folder: &Path) -> Result<SqliteStore, recount_log::Fault> {
    SqliteStore::open(SqliteOptions::new(folder))
}

/// Opens a store that must be refused as corrupt; returns the readable streams and records in the message.
fn readable_in_refusal(folder: &Path) -> (u64, u64) {
    let fault = try_open(folder).err().expect("a refusal");
    assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
    let numbers = fault.message.split(": ").last().unwrap().split_whitespace();
    let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.len(), 2, "{fault}");
    (numbers[0], numbers[1])
}

fn change_record_150(victim: &Victim) {
    change_record(victim, 150);
}

/// Flips a bit of a record of the long stream.
fn change_record(victim: &Victim, sequence: u64) {
    let mut bytes = victim.bytes();
    let needle = format!("record {sequence} of the long stream").into_bytes();
    let place = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[place + 20] ^= 1;
    victim.put(&bytes);
}

#[test]
fn a_damaged_stream_can_be_erased() {
    for victim in [victim(), sealed_victim(), half_sealed_victim()] {
        change_record_150(&victim);
        let store = open(victim.folder.path());
        let before = block_on(store.integrity()).unwrap();
        assert_eq!(before.problems.len(), 1, "{before:?}");
        append_ok(&store, erase("long"));
        assert!(block_on(store.end(&"long".into())).unwrap().unwrap().erased);
        assert_eq!(block_on(store.read(&"long".into(), 0, ALL)).unwrap(), []);
        let found = block_on(store.integrity()).unwrap();
        assert_eq!(found.problems, [""; 0]);
        close(store);
        assert_eq!(count_in_files(victim.folder.path(), "of the long stream"), 0);
        let store = open(victim.folder.path());
        let others = victim.whole.feed.iter().filter(|one| &*one.stream != "long");
        assert!(others.eq(&block_on(store.read_feed(1, ALL)).unwrap()));
    }
}

/// The bytes of one commit have one sum, so the damaged stream among its streams is unknown.
#[test]
fn the_rest_of_a_damaged_commit_stays_damaged_when_one_stream_is_erased() {
    let victim = create(|store| {
        let long = records("long", 300, &[b"record 300 of the long stream"]);
        append_ok(store, both(long, records("beside", 0, &[b"beside"])));
    });
    change_record(&victim, 300);
    let store = open(victim.folder.path());
    append_ok(&store, erase("long"));
    for restarted in [false, true] {
        let store = if restarted { &open(victim.folder.path()) } else { &store };
        let problems = block_on(store.integrity()).unwrap().problems;
        assert!(problems.len() == 1 && problems[0].contains("stream beside"), "{problems:?}");
        let refused = block_on(store.read(&"beside".into(), 0, ALL)).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Corrupt);
        assert!(block_on(store.append(records("beside", 1, &[b"more"]))).is_err());
        block_on(store.close()).unwrap();
        assert_eq!(count_in_files(victim.folder.path(), "of the long stream"), 0);
    }
    let store = open(victim.folder.path());
    append_ok(&store, erase("beside"));
    assert_eq!(block_on(store.integrity()).unwrap().problems, [""; 0]);
}

#[test]
fn a_changed_record_is_named_with_its_stream_and_its_range() {
    let victim = sealed_victim();
    change_record_150(&victim);
    let store = open(victim.folder.path());
    let found = block_on(store.integrity()).unwrap();
    assert_eq!(found.problems.len(), 1, "{found:?}");
    assert!(found.problems[0].contains("stream long is damaged from sequence 0 to 299"), "{found:?}");
    assert_eq!(found.readable_records, victim.records() - 300);
    assert_eq!(found.readable_streams, victim.whole.tails.len() as u64 - 1);
    // It is not rewritten with the records after it, which would make it look whole.
    append_ok(&store, records("long", 300, &[b"x"]));
    block_on(store.seal_now()).unwrap();
    let found = block_on(store.integrity()).unwrap();
    assert!(found.problems[0].contains("stream long is damaged from sequence 0 to 299"), "{found:?}");
    assert_eq!(block_on(store.read(&"long".into(), 300, ALL)).unwrap().len(), 1);
}

/// The store opens; the damaged stream takes no appends, and everything else works. This stays so after sealing and
/// after another open.
#[test]
fn a_changed_hot_record_affects_only_its_stream() {
    let victim = victim();
    change_record_150(&victim);
    let long: recount_log::StreamKey = "long".into();
    let damaged = |fault: &recount_log::Fault| {
        let damage = fault.damage.clone().unwrap_or_else(|| panic!("{fault}"));
        assert_eq!((fault.kind, damage.stream), (FaultKind::Corrupt, Some("long".into())));
        damage.sequences.unwrap()
    };
    let check = |store: &SqliteStore, is_hot: bool| {
        assert_eq!(block_on(store.read(&long, 0, ALL)).unwrap().len(), 150);
        let range = damaged(&block_on(store.read(&long, 150, ALL)).unwrap_err());
        assert_eq!(range, 150..=150);
        assert_eq!(block_on(store.read(&long, 151, ALL)).unwrap().len(), 149);
        let found = block_on(store.integrity()).unwrap();
        assert!(found.problems[0].contains("stream long is damaged from sequence 150 to 150"), "{found:?}");
        let refused = is_hot.then(|| block_on(store.append(records("long", 300, &[b"more"]))).unwrap_err());
        if let Some(recount_log::AppendError::Fault(fault)) = refused {
            assert_eq!(damaged(&fault), 150..=150);
        }
    };
    let store = open(victim.folder.path());
    check(&store, true);
    append_ok(&store, records("another", 0, &[b"goes on"]));
    block_on(store.seal_now()).unwrap();
    check(&store, true);
    close(store);
    let store = open(victim.folder.path());
    check(&store, false);
    assert_eq!(block_on(store.read(&"another".into(), 0, ALL)).unwrap().len(), 1);
}

#[test]
fn destroyed_pages_are_reported_with_the_readable_rest() {
    // A lost page damages its group or chunk.
    for (victim, most) in [(victim(), 20), (sealed_victim(), 300)] {
        let whole = victim.bytes();
        let needle = b"record 150 of the long stream";
        let page = whole.windows(needle.len()).position(|window| window == needle).unwrap() / PAGE;
        for (what, damage) in [("zeros", 0), ("ones", 0xff)] {
            let mut bytes = whole.clone();
            bytes[page * PAGE..(page + 1) * PAGE].fill(damage);
            victim.put(&bytes);
            let (streams, records) = readable_in_refusal(victim.folder.path());
            assert_eq!(streams, victim.whole.tails.len() as u64 - 1, "{what}: all but the long one");
            let lost = victim.records() - records;
            assert!((1..=most).contains(&lost), "{what}: {lost} records on one page");
            let found = inspect(victim.folder.path()).unwrap();
            assert_eq!((found.readable_streams, found.readable_records), (streams, records));
            assert!(!found.problems.is_empty(), "{found:?}");
            assert_eq!(victim.bytes(), bytes, "the check changes nothing");
        }
    }
}

#[test]
fn truncated_files_are_reported_with_the_readable_rest() {
    let victim = victim();
    let whole = victim.bytes();
    let pages = whole.len() / PAGE;
    let mut seen = Vec::new();
    for kept in [1, 2, pages / 4, pages / 2, pages - 1] {
        for more in [0, 1, 700] {
            victim.put(&whole[..kept * PAGE + more]);
            let fault = try_open(victim.folder.path()).err().expect("a refusal");
            assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
            let found = inspect(victim.folder.path()).unwrap();
            assert!(!found.problems.is_empty());
            assert!(fault.message.contains(&format!("{} records", found.readable_records)), "{fault}");
            seen.push(found.readable_records);
        }
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(*seen.last().unwrap() > victim.records() / 2, "{seen:?}");
    // Not even one page.
    victim.put(&whole[..100]);
    assert_eq!(try_open(victim.folder.path()).err().unwrap().kind, FaultKind::Corrupt);
}

/// A record in only one of chunk and group, and a stream row with a wrong end.
#[test]
fn a_record_in_a_chunk_and_in_its_group_has_to_be_in_both() {
    for (change, words) in [
        ("DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)", "is sealed up to"),
        (
            "UPDATE chunks SET first_position = first_position - 1 WHERE id = (SELECT max(id) FROM chunks)",
            "stream long is damaged from",
        ),
    ] {
        let victim = half_sealed_victim();
        let tool = rusqlite::Connection::open(victim.path()).unwrap();
        assert_eq!(tool.execute(change, []), Ok(1), "{change}");
        drop(tool);
        let store = open(victim.folder.path());
        let Integrity { problems, .. } = block_on(store.integrity()).unwrap();
        assert!(problems.iter().any(|problem| problem.contains(words)), "{change}: {problems:?}");
    }
    for change in [
        "UPDATE streams SET next_sequence = next_sequence + 1000 WHERE key = 'long'",
        "DELETE FROM groups WHERE first_position = (SELECT min(first_position) FROM groups)",
    ] {
        let victim = half_sealed_victim();
        let tool = rusqlite::Connection::open(victim.path()).unwrap();
        assert_eq!(tool.execute(change, []), Ok(1), "{change}");
        drop(tool);
        let fault = try_open(victim.folder.path()).err().unwrap();
        assert_eq!(fault.kind, FaultKind::Corrupt, "{change}: {fault}");
    }
}

/// After any flip, damage is reported or every record is unaltered.
#[test]
fn no_damage_passes_for_whole() {
    let (refused, _) = flip(&victim());
    let (refused_sealed, found_out) = flip(&sealed_victim());
    let (refused_half, found_out_half) = flip(&half_sealed_victim());
    assert!(refused > 0 && refused_sealed > 0 && found_out > 0);
    assert!(refused_half > 0 && found_out_half > 0);
}

/// Returns how many flips were refused at open and how many the full check found.
fn flip(victim: &Victim) -> (u32, u32) {
    let whole_bytes = victim.bytes();
    let (mut refused, mut found_out, mut harmless) = (0, 0, 0);
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let mut bytes = whole_bytes.clone();
        for _ in 0..=dice.below(4) {
            let place = dice.below(bytes.len());
            let longest = if dice.coin() { 4 } else { 200 };
            let length = 1 + dice.below(longest);
            for byte in bytes.iter_mut().skip(place).take(length) {
                *byte = dice.roll() as u8;
            }
        }
        victim.put(&bytes);
        for leftover in ["-wal", "-shm"] {
            drop(std::fs::remove_file(victim.folder.path().join(format!("recount.db{leftover}"))));
        }
        // It must not panic or hang.
        drop(inspect(victim.folder.path()));
        match try_open(victim.folder.path()) {
            Err(_) => refused += 1,
            Ok(store) => {
                let Integrity { problems, .. } = block_on(store.integrity()).unwrap();
                if problems.is_empty() {
                    let now = whole(&store);
                    assert_eq!(
                        (&now.feed, &now.tails),
                        (&victim.whole.feed, &victim.whole.tails),
                        "seed {seed}"
                    );
                    harmless += 1;
                } else {
                    found_out += 1;
                }
                // Reads continue as far as possible, and report damage.
                for (key, _) in &victim.whole.tails {
                    drop(block_on(store.read(key, 0, recount_log_conformance::ALL)));
                }
                close(store);
            }
        }
    }
    println!("flips: {refused} refused at open, {found_out} found by the full check, {harmless} harmless");
    (refused, found_out)
}

#[test]
fn a_missing_record_is_never_passed_over() {
    // Records long enough for several chunks.
    let folder = scratch();
    let store = open(folder.path());
    for n in 0..24_u64 {
        append_ok(&store, records("long", n, &[&vec![n as u8; 90_000]]));
    }
    block_on(store.seal_now()).unwrap();
    let last = block_on(store.last_position()).unwrap();
    let tool = rusqlite::Connection::open(folder.path().join("recount.db")).unwrap();
    let sequences: Vec<(u64, u64)> = tool
        .prepare("SELECT first_sequence, first_sequence + records FROM chunks ORDER BY first_sequence")
        .unwrap()
        .query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let (missing, next) = *sequences.iter().find(|(first, next)| *first < 9 && *next > 6).unwrap();
    assert!(missing > 0 && next < 24, "{sequences:?}");
    tool.execute("DELETE FROM chunks WHERE first_sequence = ?1", [missing as i64]).unwrap();
    let long = "long".into();
    let read =
        |from, count| block_on(store.read(&long, from, recount_log::ReadBound { count, bytes: usize::MAX }));
    assert_eq!(read(0, missing as usize).unwrap().len() as u64, missing, "records before it can be read");
    assert_eq!(read(next, 3).unwrap().len(), 3, "and records after it");
    assert_eq!(
        read(0, 20).unwrap().len() as u64,
        missing,
        "records before it are returned, for any requested count"
    );
    for (from, count) in [(missing, 1), (missing, 5)] {
        let fault = read(from, count).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Corrupt);
        assert!(
            fault.message.contains(&format!("stream long has sequence {next}, expected sequence {missing}")),
            "{fault}"
        );
    }
    let before = block_on(store.read_feed(1, ALL)).unwrap();
    assert_eq!(before.len() as u64, missing, "the feed returns records before it too");
    let fault = block_on(store.read_feed(missing + 1, ALL)).unwrap_err();
    assert!(fault.message.contains(&format!("no sequence {missing} for position")), "{fault}");
    let positions = fault.damage.unwrap().positions.unwrap();
    assert_eq!(positions, missing + 1..=next);
    assert_eq!(block_on(store.read_feed(next + 1, ALL)).unwrap().len() as u64, 24 - next);
    let problems = block_on(store.integrity()).unwrap().problems;
    assert!(
        problems.iter().any(|problem| problem.contains(&format!("expected sequence {missing}"))),
        "{problems:?}"
    );

    // The same for the hot part.
    for n in 24..27_u64 {
        append_ok(&store, records("long", n, &[&[n as u8; 90]]));
    }
    let missing = last + 2;
    tool.execute("DELETE FROM groups WHERE first_position = ?1", [missing as i64]).unwrap();
    assert_eq!(read(24, 3).unwrap().len(), 1);
    let fault = read(25, 2).unwrap_err();
    assert!(fault.message.contains(&format!("from position {missing} on are missing")), "{fault}");
    assert_eq!(block_on(store.read_feed(last, ALL)).unwrap().len(), 2);
    let fault = block_on(store.read_feed(missing, ALL)).unwrap_err();
    assert!(fault.message.contains(&format!("positions {missing} to {missing} are missing")), "{fault}");
    let refused = block_on(store.append(records("long", 27, &[b"x"]))).unwrap_err();
    assert!(refused.to_string().contains("expected 26"), "{refused}");
}

#[test]
fn an_emptied_database_is_damage_and_no_new_store() {
    for missing in [false, true] {
        let victim = victim();
        if missing {
            std::fs::remove_file(victim.path()).unwrap();
        } else {
            std::fs::write(victim.path(), b"").unwrap();
        }
        let fault = SqliteStore::open(SqliteOptions::new(victim.folder.path())).err().expect("refused");
        assert_eq!(fault.kind, FaultKind::Corrupt);
        assert!(fault.message.contains("missing or empty"), "{fault}");
        let bytes = std::fs::metadata(victim.path()).map(|database| database.len()).unwrap_or(0);
        assert_eq!(bytes, 0, "nothing is written over it");
    }
}

#[test]
fn a_folder_without_a_store_is_reported() {
    let folder = scratch();
    let missing = inspect(&folder.path().join("nothing")).unwrap_err();
    assert!(missing.message.contains("nothing"), "{missing}");
    assert!(inspect(folder.path()).is_err());
    assert!(!folder.path().join("recount.db").exists(), "the check creates nothing");
}

fn all_of(space: &str, backwards: bool) -> recount_log::RowRange {
    let limit = usize::MAX;
    recount_log::RowRange { space: space.into(), prefix: "".into(), after: None, backwards, limit }
}

/// With any part of a row damaged, other rows are read and written, the damaged one is named, and it can be rewritten.
#[test]
fn a_damaged_row_hides_no_other_and_can_be_rewritten() {
    let victim = victim();
    let sound = victim.bytes();
    let needle = b"spacerun_04";
    let at = sound.windows(needle.len()).position(|window| window == needle).unwrap();
    // In the value; in the key, so that it is another one or no text; and in the name of the space.
    for (place, bit) in [(at + 14, 1), (at + 10, 1), (at + 10, 0x80), (at + 4, 2), (at + 2, 0x80)] {
        let mut bytes = sound.clone();
        bytes[place] ^= bit;
        victim.put(&bytes);
        let store = open(victim.folder.path());
        let flip = format!("byte {place}, bit {bit}");
        let strict = block_on(store.rows(all_of("space", false))).unwrap_err();
        assert_eq!(strict.kind, FaultKind::Corrupt, "{flip}: {strict}");
        let damaged = block_on(store.damaged_rows()).unwrap();
        assert_eq!(damaged.len(), 1, "{flip}: {damaged:?}");
        for backwards in [false, true] {
            let found = block_on(store.whole_rows(all_of("space", backwards))).unwrap();
            assert_eq!(found.damaged, damaged, "{flip}");
            let mut keys: Vec<&str> = found.rows.iter().map(|row| &*row.key).collect();
            keys.sort_unstable();
            assert_eq!(keys, ["run_00", "run_01", "run_02", "run_03"], "{flip}");
        }
        append_ok(&store, super::work::row("run_01", b"other"));

        let lost = victim.whole.rows.iter().find(|row| &*row.key == "run_04").unwrap();
        let (space, key, value) = ("space".into(), lost.key.clone(), lost.value.clone());
        let row = recount_log::RepairedRow { space, key, value, stream: "large".into(), expected_tail: 1 };
        let repair = recount_log::RowRepair { damaged, rows: vec![row] };
        assert!(!block_on(store.repair_rows(repair.clone())).unwrap(), "the stream ends elsewhere");
        let mut repair = repair;
        repair.rows[0].expected_tail = 2;
        assert!(block_on(store.repair_rows(repair)).unwrap(), "{flip}");
        let found = block_on(store.rows(all_of("space", false))).unwrap();
        assert_eq!(found.len(), 5, "{flip}");
        assert_eq!((&found[1].value[..], &found[4].value), (&b"other"[..], &lost.value), "{flip}");
        assert_eq!(block_on(store.integrity()).unwrap().problems, [""; 0], "{flip}");
        close(store);
    }
}

/// Readers map the file, except for its last page: of that, they keep copies until the next commit.
#[test]
fn a_look_for_damaged_rows_reads_the_file_and_not_a_copy() {
    let folder = scratch();
    let store = open(folder.path());
    let (mut count, path) = (0, folder.path().join("recount.db"));
    let (bytes, place) = loop {
        append_ok(&store, super::work::row(&format!("run_{count:03}"), &[7; 900]));
        count += 1;
        // Writes the row to its table.
        assert!(block_on(store.repair_rows(recount_log::RowRepair::default())).unwrap());
        copy_log(&path);
        let bytes = std::fs::read(&path).unwrap();
        let last = places(&bytes, b"spacerun_").pop();
        match last.filter(|at| at / PAGE == bytes.len() / PAGE - 1) {
            Some(at) => break (bytes, at + b"spacerun_000".len() + 3),
            None => assert!(count < 100, "a row reaches the last page"),
        }
    };
    assert_eq!(block_on(store.damaged_rows()).unwrap(), []);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[place] ^ 1], place as u64).unwrap();
    assert_eq!(block_on(store.damaged_rows()).unwrap().len(), 1);
}

/// Copies the write-ahead log to the database.
fn copy_log(database: &Path) {
    let connection = rusqlite::Connection::open(database).unwrap();
    let (pages, copied): (i64, i64) = connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?)))
        .unwrap();
    assert_eq!(pages, copied);
}

/// Where a name is in a file.
fn places(bytes: &[u8], name: &[u8]) -> Vec<usize> {
    let found: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| *at == name).map(|(at, _)| at).collect();
    assert!(!found.is_empty(), "it is in the file");
    found
}

/// A missing row may be a damaged neighbour with another name, unless that name is certainly another one.
#[test]
fn a_missing_row_is_uncertain_only_next_to_matching_damage() {
    let folder = scratch();
    let store = open(folder.path());
    let names = [("record.aaa", "a"), ("record.pins", "run_1"), ("record.tasks", "default/task_1")];
    for (space, key) in names {
        append_ok(&store, recount_log_conformance::row(space, key, Guard::Any, Some(b"a value")));
    }
    close(store);
    let database = folder.path().join("recount.db");
    let sound = std::fs::read(&database).unwrap();
    let read = |change: &dyn Fn(&mut [u8]), more: Option<&str>, (space, key): (&str, &str)| {
        let mut bytes = sound.clone();
        if let Some(key) = more {
            std::fs::write(&database, &bytes).unwrap();
            let store = open(folder.path());
            append_ok(&store, recount_log_conformance::row("record.pins", key, Guard::Any, Some(b"more")));
            close(store);
            bytes = std::fs::read(&database).unwrap();
        }
        change(&mut bytes);
        std::fs::write(&database, bytes).unwrap();
        let store = open(folder.path());
        let found = block_on(store.row(space, key));
        close(store);
        found.map(|row| row.is_some()).map_err(|fault| fault.kind)
    };
    let flip = |name: &'static [u8], at: usize, bit: u8| {
        move |bytes: &mut [u8]| {
            places(bytes, name).into_iter().for_each(|place| bytes[place + at] ^= bit);
        }
    };
    let value = |name: &'static [u8]| flip(name, name.len() + 2, 1);
    let corrupt = Err(FaultKind::Corrupt);
    let (pin, task) = (&b"record.pinsrun_1"[..], &b"record.tasksdefault/task_1"[..]);

    // A record alone in its space is not a missing record of another space.
    assert_eq!(read(&value(task), None, ("record.pins", "run_2")), Ok(false));
    assert_eq!(read(&value(pin), None, ("record.other", "default/task_2")), Ok(false));
    assert_eq!(read(&value(task), None, ("record.tasks", "default/task_1")), corrupt);
    // A record of the same space with a very different name is not either.
    assert_eq!(read(&value(task), None, ("record.tasks", "default/task_2")), corrupt);
    assert_eq!(read(&value(task), None, ("record.tasks", "default/task_01M8F7TV8")), Ok(false));
    assert_eq!(read(&value(task), None, ("record.tasks", "customary/task_1")), Ok(false));
    // The name was changed: in its key, in its space, a little and much.
    assert_eq!(read(&flip(pin, pin.len() - 1, 2), None, ("record.pins", "run_1")), corrupt);
    assert_eq!(read(&flip(pin, 7, 1), None, ("record.pins", "run_1")), corrupt);
    assert_eq!(read(&flip(pin, 7, 1), Some("run_3"), ("record.pins", "run_1")), corrupt);
    assert_eq!(read(&flip(pin, 7, 0x80), None, ("record.pins", "run_1")), corrupt);
    let zeroed = |bytes: &mut [u8]| {
        places(bytes, pin).into_iter().for_each(|place| bytes[place..place + pin.len()].fill(0));
    };
    assert_eq!(read(&zeroed, None, ("record.pins", "run_1")), corrupt);
    // A neighbor with another name that is damaged hides a whole row, where its order is that of a row beyond it.
    let hides = |bytes: &mut [u8]| flip(b"record.pinsrun_0AAAAAAAAAAA", 15, 2)(bytes);
    let far = "run_0AAAAAAAAAAA";
    assert_eq!(read(&|_| (), Some(far), ("record.pins", far)), Ok(true));
    assert_eq!(read(&hides, Some(far), ("record.pins", "run_1")), corrupt);
    // Between two damaged rows, it may be the more distant one.
    let both = |bytes: &mut [u8]| {
        value(task)(bytes);
        flip(pin, 7, 1)(bytes);
    };
    assert_eq!(read(&both, None, ("record.pins", "run_1")), corrupt);
}
