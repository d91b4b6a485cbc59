//! Power cuts: writes without a sync may be lost, torn or reordered, and still every acknowledged append exists, whole
//! and in order, and nothing else is damaged. In half of the runs the store appends, removes records and seals in turn,
//! and many cuts come after chunks were written and before their groups were removed.
//!
//! A run of the store is recorded write by write; then the power is cut at many points, and the store is opened from
//! the resulting disk. The same check must find a loss when syncs are ignored.

use std::path::Path;

use bytes::Bytes;
use recount_faulty_disk::{DiskImage, FaultyDisk, Note, Op};
use recount_log::{Append, Guard, MemoryStore, RowPut, Store};
use recount_log_conformance::{ALL, block_on, both, cut, erase};
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};
use recount_tier::times;

use super::work::{Dice, append_ok, is_half_sealed, open, records, scratch};

const SEEDS: u64 = 16;
const CUTS_A_SEED: usize = 16;
const APPENDS: usize = 60;

/// Marks besides the numbers of appends.
const OPENED: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;

/// One run: what was appended, in order, and what reached the disk when.
struct Run {
    durability: Durability,
    appends: Vec<Append>,
    log: Vec<Note>,
    /// How often the sealed part was seen larger than after the group before.
    sealings: usize,
}

impl Run {
    /// How many appends removed earlier records.
    fn removals(&self) -> usize {
        self.appends.iter().filter(|append| !append.cuts.is_empty() || !append.erased.is_empty()).count()
    }
}

/// Each append adds records to one or two of three streams, and rows with the expected state: the number of appends,
/// and the end of each stream. Some appends remove earlier records.
fn draw(dice: &mut Dice) -> Vec<Append> {
    let mut tails = [0_u64; 3];
    let mut appends = Vec::new();
    for count in 1..=APPENDS {
        let mut append = Append::default();
        let first = dice.below(3);
        for stream in [first, (first + 1) % 3].into_iter().take(1 + dice.below(2)) {
            let name = format!("s{stream}");
            let payloads: Vec<Vec<u8>> = (0..=dice.below(3))
                .map(|n| {
                    let mut payload = format!("{name}/{}/", tails[stream] + n as u64).into_bytes();
                    let length = if dice.below(6) == 0 { dice.below(9000) } else { dice.below(300) };
                    payload.extend((0..length).map(|_| dice.roll() as u8));
                    payload
                })
                .collect();
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            append = both(append, records(&name, tails[stream], &payloads));
            tails[stream] += payloads.len() as u64;
            append.rows.push(put(&name, tails[stream]));
        }
        // Only records from before this append are removed.
        let other = (first + 2) % 3;
        let (name, before) = (format!("s{other}"), tails[other]);
        if before > 0 && dice.below(8) == 0 {
            append = both(append, cut(&name, dice.below(before as usize + 1) as u64));
        }
        let once = format!("once{}", count / 6);
        match count % 6 {
            turn @ 1..=3 => append = both(append, records(&once, turn as u64 - 1, &[b"{\"in\":\"short\"}"])),
            5 => append = both(append, erase(&once)),
            _ => {}
        }
        append.rows.push(put("count", count as u64));
        appends.push(append);
    }
    appends
}

fn put(key: &str, value: u64) -> RowPut {
    let value = Some(Bytes::from(value.to_string()));
    RowPut { space: "tail".into(), key: key.into(), guard: Guard::Any, value }
}

fn run(seed: u64, durability: Durability) -> Run {
    let mut dice = Dice(seed);
    let appends = draw(&mut dice);
    let shim = FaultyDisk::recording().unwrap();
    let folder = scratch();
    let options = SqliteOptions {
        durability,
        vfs: Some(shim.name.clone()),
        // So small that the log is copied and restarted several times.
        checkpoint_pages: 8 + dice.below(24) as u32,
        // So small that sealing runs between commits, in half of the runs.
        hot_records_max: if seed.is_multiple_of(2) { 4 + dice.below(20) as u64 } else { u64::MAX },
        ..SqliteOptions::new(folder.path())
    };
    let store = SqliteStore::open(options).unwrap();
    shim.mark(OPENED);
    let (mut next, mut sealings, mut sealed) = (0, 0, 0);
    while next < appends.len() {
        let group = &appends[next..appends.len().min(next + 1 + dice.below(5))];
        let answers: Vec<_> = group.iter().map(|append| store.append(append.clone())).collect();
        for answer in answers {
            block_on(answer).unwrap();
            shim.mark(next as u64);
            next += 1;
        }
        let now = block_on(store.stats()).unwrap().sealed_records;
        sealings += usize::from(now > sealed);
        sealed = now;
    }
    let stats = block_on(store.stats()).unwrap();
    assert_eq!(
        stats.sealed_records > 0,
        seed.is_multiple_of(2),
        "sealing goes on in half of the runs: {stats:?}"
    );
    block_on(store.close()).unwrap();
    shim.mark(CLOSED);
    Run { durability, appends, log: shim.notes(), sealings }
}

/// What must survive a cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Everything that was acknowledged.
    Acknowledged,
    /// The remaining appends are a prefix of all appends.
    Beginning,
}

/// The result of opening after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// The number of acknowledged appends.
    acknowledged: usize,
    there: usize,
    /// Some records were in a chunk and in their group still.
    half_sealed: bool,
}

/// Cuts the power after `cut` writes and opens the store. Returns the found appends, or the problem.
fn survive(
    run: &Run,
    cut: usize,
    demand: Demand,
    honours_sync: impl Fn(&str, bool) -> bool,
    dice: &mut Dice,
) -> Result<Found, String> {
    let mut disk = DiskImage::default();
    let mut acknowledged = 0;
    let mut opened = false;
    for note in &run.log[..cut] {
        match note {
            Note::Mark(OPENED) => opened = true,
            Note::Mark(CLOSED) => {}
            Note::Mark(append) => acknowledged = *append as usize + 1,
            Note::Op(file, Op::Sync) if !honours_sync(file, opened) => {}
            Note::Op(file, op) => disk.apply(file, op),
        }
    }
    let folder = scratch();
    disk.write_after_cut(folder.path(), || dice.roll()).unwrap();
    if opened {
        // Created and synced before the first append.
        std::fs::create_dir(folder.path().join("blobs")).unwrap();
    }
    let in_full = |wrong| format!("{acknowledged} appends were acknowledged, and {wrong}");
    let (there, half_sealed) = check(folder.path(), run).map_err(in_full)?;
    if demand == Demand::Acknowledged && there < acknowledged {
        return Err(format!("{acknowledged} appends were acknowledged, {there} are there"));
    }
    Ok(Found { acknowledged, there, half_sealed })
}

/// Opens a store and returns how many of these appends it has, and whether sealing was in progress. Only a whole prefix
/// of them is right.
fn check(folder: &Path, run: &Run) -> Result<(usize, bool), String> {
    let (durability, reserve_bytes) = (run.durability, 4096);
    let options = SqliteOptions { durability, reserve_bytes, ..SqliteOptions::new(folder) };
    let store = SqliteStore::open(options).map_err(|fault| fault.to_string())?;
    let appends = &run.appends;
    let half_sealed = is_half_sealed(folder);
    let stored = |key: &str| -> Result<u64, String> {
        let row = block_on(store.row("tail", key)).map_err(|fault| fault.to_string())?;
        Ok(row.map_or(0, |row| str::from_utf8(&row.value).unwrap().parse().unwrap()))
    };
    let count = stored("count")? as usize;
    let model = MemoryStore::new();
    for append in appends.get(..count).ok_or("the rows count more appends than there were")? {
        append_ok(&model, append.clone());
    }
    let feed = block_on(store.read_feed(1, ALL)).map_err(|fault| fault.to_string())?;
    let expected = block_on(model.read_feed(1, ALL)).unwrap();
    if feed != expected {
        let place = feed.iter().zip(&expected).take_while(|(one, other)| one == other).count();
        return Err(format!(
            "of {count} appends {} records are there where {} belong, and number {place} is wrong",
            feed.len(),
            expected.len()
        ));
    }
    for key in block_on(model.streams(None, usize::MAX)).unwrap() {
        let tail = block_on(store.tail(&key)).map_err(|fault| fault.to_string())?;
        let expected = block_on(model.tail(&key)).unwrap().unwrap();
        let rows_agree = !key.starts_with('s') || stored(&key)? == expected.next_sequence;
        if tail != Some(expected) || !rows_agree {
            return Err(format!("stream {key} ends at {tail:?}, not at {expected:?}"));
        }
        let records = block_on(store.read(&key, 0, ALL)).map_err(|fault| fault.to_string())?;
        if records != block_on(model.read(&key, 0, ALL)).unwrap() {
            return Err(format!("stream {key} differs from the feed"));
        }
    }
    let found = block_on(store.integrity()).map_err(|fault| fault.to_string())?;
    if !found.problems.is_empty() {
        return Err(found.problems.join("; "));
    }
    // The store continues from there.
    append_ok(&store, records("after", 0, &[b"x"]));
    block_on(store.close()).unwrap();
    Ok((count, half_sealed))
}

/// How often the write-ahead log was restarted after it had been copied.
fn restarts(run: &Run) -> usize {
    run.log[opened_at(run)..].iter().filter(|note| header(note).is_some()).count()
}

/// The file and the bytes of a header of the write-ahead log, where one is written.
fn header(note: &Note) -> Option<(&str, &[u8])> {
    match note {
        Note::Op(file, Op::Write { offset: 0, bytes }) if file.ends_with("-wal") => Some((file, bytes)),
        _ => None,
    }
}

fn opened_at(run: &Run) -> usize {
    run.log.iter().position(|note| matches!(note, Note::Mark(OPENED))).unwrap()
}

/// Cuts every run many times; answers each outcome.
fn cuts(
    durability: Durability,
    seeds: std::ops::Range<u64>,
    demand: Demand,
    honours_sync: impl Fn(&str, bool) -> bool + Copy,
) -> Vec<Result<Found, String>> {
    let mut outcomes = Vec::new();
    for seed in seeds {
        let run = run(seed, durability);
        let mut dice = Dice(seed ^ 0xc0ff_ee00);
        for _ in 0..CUTS_A_SEED {
            let cut = dice.below(run.log.len() + 1);
            let outcome = survive(&run, cut, demand, honours_sync, &mut dice);
            outcomes.push(outcome.map_err(|wrong| format!("seed {seed}, cut after {cut}: {wrong}")));
        }
    }
    outcomes
}

#[test]
#[ignore = "full: power cuts by chance"]
fn every_acknowledged_append_survives_a_power_cut() {
    let outcomes = cuts(Durability::Strict, 0..times(SEEDS), Demand::Acknowledged, |_, _| true);
    let (mut acknowledged, mut unacknowledged, mut half_sealed) = (0, 0, 0);
    for outcome in &outcomes {
        let found = outcome.as_ref().unwrap();
        acknowledged += found.acknowledged;
        unacknowledged += found.there - found.acknowledged;
        half_sealed += usize::from(found.half_sealed);
    }
    report(format_args!(
        "{} power cuts of {} seeds from 0 on: {acknowledged} acknowledged appends, all there; {unacknowledged} more existed without an acknowledgement; {half_sealed} came between chunks and their groups",
        outcomes.len(),
        times(SEEDS),
    ));
    assert!(outcomes.len() >= 200);
    assert!(half_sealed > 20, "the cuts come between chunks and their groups");
    assert!(acknowledged > outcomes.len() * 10, "the cuts come in the middle of work");
}

#[test]
#[ignore = "full: power cuts by chance"]
fn the_runs_restart_the_log_and_half_of_them_seal_and_remove() {
    let runs: Vec<Run> = (0..SEEDS).map(|seed| run(seed, Durability::Strict)).collect();
    let restarts: usize = runs.iter().map(restarts).sum();
    report(format_args!("{restarts} restarts of the log in {SEEDS} runs"));
    assert!(restarts as u64 > SEEDS, "cuts around a copy are among those tried");
    let all_three: Vec<&Run> = runs.iter().filter(|run| run.sealings > 0 && run.removals() > 0).collect();
    let sum = |count: fn(&Run) -> usize| all_three.iter().map(|run| count(run)).sum::<usize>();
    let (appends, takings, sealings) =
        (sum(|run| run.appends.len()), sum(Run::removals), sum(|run| run.sealings));
    report(format_args!(
        "{} of these runs have it all: {appends} appends, {takings} that take records away, {sealings} groups after which more was sealed",
        all_three.len()
    ));
    assert_eq!(all_three.len() as u64, SEEDS / 2, "cuts of the power meet all three together");
    assert!(sealings > all_three.len() * 4, "sealing goes on among the appends, not only at one place");
}

/// By then, every page of the log is in the database.
#[test]
fn a_cut_that_tears_the_header_of_a_restarted_log_loses_nothing() {
    // After the size of a page, in the count, in the salts, and in the sum.
    let mut lengths = [13, 17, 22, 30].into_iter().cycle();
    let mut torn = 0;
    for seed in 0..SEEDS {
        let run = run(seed, Durability::Strict);
        for at in opened_at(&run)..run.log.len() {
            let Some((file, header)) = header(&run.log[at]) else { continue };
            let kept = lengths.next().unwrap();
            let written = Op::Write { offset: 0, bytes: header[..kept].to_vec() };
            let mut log = run.log[..at].to_vec();
            log.extend([written, Op::Sync].map(|op| Note::Op(file.to_owned(), op)));
            let cut = Run { appends: run.appends.clone(), log, ..run };
            let outcome = survive(&cut, cut.log.len(), Demand::Acknowledged, |_, _| true, &mut Dice(seed));
            assert!(outcome.is_ok(), "seed {seed}, {kept} bytes of the header written at {at}: {outcome:?}");
            torn += 1;
        }
    }
    report(format_args!("{torn} headers of restarted logs torn"));
    assert!(torn > SEEDS);
}

#[test]
fn a_cut_while_the_store_is_created_leaves_one_that_opens() {
    let run = run(99, Durability::Strict);
    let mut dice = Dice(99);
    let end = opened_at(&run);
    for cut in 0..=end {
        for _ in 0..3 {
            let outcome = survive(&run, cut, Demand::Acknowledged, |_, _| true, &mut dice);
            let nothing = Found { acknowledged: 0, there: 0, half_sealed: false };
            assert_eq!(outcome, Ok(nothing), "cut after {cut}");
        }
    }
    report(format_args!("{} cuts while the store was created", (end + 1) * 3));
}

#[test]
fn without_syncs_the_same_check_finds_losses() {
    // The disk ignores every sync after the store was created.
    let outcomes = cuts(Durability::Strict, 0..4, Demand::Acknowledged, |_, opened| !opened);
    let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    report(format_args!("syncs ignored: {lost} of {} cuts found out", outcomes.len()));
    assert!(lost > outcomes.len() / 4);
    assert!(
        outcomes.iter().any(|outcome| matches!(outcome, Err(wrong) if wrong.contains("were acknowledged")))
    );

    // Only syncs of the write-ahead log are ignored.
    let outcomes = cuts(Durability::Strict, 4..8, Demand::Acknowledged, |file, _| !file.ends_with("-wal"));
    let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    report(format_args!("syncs of the log ignored: {lost} of {} cuts found out", outcomes.len()));
    assert!(lost > outcomes.len() / 4);
}

#[test]
fn relaxed_loses_the_last_appends_and_nothing_else() {
    let outcomes = cuts(Durability::Relaxed, 0..6, Demand::Beginning, |_, _| true);
    let mut shorter = 0;
    for outcome in &outcomes {
        let found = outcome.as_ref().unwrap();
        shorter += usize::from(found.there < found.acknowledged);
    }
    report(format_args!(
        "relaxed: {shorter} of {} cuts lost acknowledged appends, none left a part of one",
        outcomes.len()
    ));
    assert!(shorter > 0, "otherwise strict would be for nothing");
}

#[test]
fn an_append_whose_sync_failed_does_not_come_back() {
    for seed in 0..8 {
        let shim = FaultyDisk::recording().unwrap();
        let folder = scratch();
        let options = SqliteOptions { vfs: Some(shim.name.clone()), ..SqliteOptions::new(folder.path()) };
        let store = SqliteStore::open(options).unwrap();
        append_ok(&store, records("s0", 0, &[b"kept"]));
        shim.fail_wal_syncs(1);
        let refused = block_on(store.append(records("s0", 1, &[b"refused"])));
        assert!(refused.is_err(), "{refused:?}");
        let answered = shim.notes().len();
        assert_eq!(block_on(store.last_position()), Ok(1), "it is not visible");

        // Every write up to the answer may have reached the disk, synced or not.
        let mut disk = DiskImage::default();
        for note in &shim.notes()[..answered] {
            if let Note::Op(file, op) = note {
                disk.apply(file, op);
            }
        }
        let found = scratch();
        let mut dice = Dice(seed);
        disk.write_after_cut(found.path(), || dice.roll()).unwrap();
        std::fs::create_dir(found.path().join("blobs")).unwrap();
        let reopened = open(found.path());
        let feed = block_on(reopened.read_feed(1, ALL)).unwrap();
        assert_eq!(feed.iter().map(|feed| &feed.record.bytes[..]).collect::<Vec<_>>(), [b"kept"]);

        append_ok(&store, records("s0", 1, &[b"next"]));
        assert_eq!(block_on(store.last_position()), Ok(2));
        block_on(store.close()).unwrap();
    }
}

/// Prints counts past the capture of the test runner.
fn report(counts: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{counts}").expect("standard error is writable");
}
