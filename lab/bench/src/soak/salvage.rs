//! Salvages damaged data folders repeatedly: a run that is reported as whole must be byte for byte unchanged, every
//! other run must be reported, and the damaged folder must be unchanged.
//!
//! Each original has two tenants, runs of producers and own runs with artifacts, a part of it sealed. It is copied
//! twice: while it is in use, with its write-ahead log, and after it was closed. Copies of these are damaged by seed
//! and salvaged as by `recount salvage`. Start at [`run`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use recount_engine::{ArtifactInput, BatchId, Engine, Error, Framing, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{ForeignId, RunId, door};
use recount_log::{ReadBound, Record, Store};
use recount_log_sqlite::{SqliteOptions, SqliteStore, high_water};
use recount_run::Command;
use recount_server::salvage::{Outcome, SalvageReport, StoreReport, salvage};
use recount_server::verify;
use recount_world::{Entropy as _, SeededEntropy, World};
use tokio::sync::oneshot;

use crate::{clock, scene};

/// The number of damaged copies of each original; it is also the minimum, however short the time is.
const COPIES: u64 = 40;
const COPIES_MIN: u64 = 6;
const RUNS_MAX: u64 = 24;
const BATCHES_MAX: u64 = 8;
const BATCH_EVENTS_MAX: u64 = 12;
const TEXT_BYTES_MAX: u64 = 3_000;
/// The maximum number of damages of one copy.
const DAMAGES_MAX: u64 = 3;
const PAGE_BYTES: usize = 4096;
const RESERVE_BYTES: u64 = 4096;
/// The polling interval of the high-water mark.
const LOOK_MS: u64 = 20;
const DATABASE: &str = "recount.db";
const LOG: &str = "recount.db-wal";
/// Tenants by name, each with its folder within the data folder.
const TENANTS: [(&str, &str); 2] = [("default", ""), ("acme", "tenants/acme")];
/// Tables that may be dropped.
const TABLES: [&str; 7] = ["streams", "chunks", "groups", "rows", "feed", "changes", "sealed"];
const WHOLE: ReadBound = ReadBound { count: usize::MAX, bytes: usize::MAX };

/// The content of one tenant's store.
#[derive(Default)]
struct Content {
    runs: BTreeMap<String, Vec<Record>>,
    blobs: BTreeMap<String, Bytes>,
}

/// A data folder in two states, and its content.
struct Original {
    /// Copied while it was open, with the write-ahead log.
    killed: PathBuf,
    closed: PathBuf,
    contents: Vec<Content>,
}

#[derive(Debug, Default)]
struct SalvageCounts {
    stores: u64,
    damaged: u64,
    runs: u64,
    whole: u64,
    part: u64,
    lost: u64,
    unnamed: u64,
    /// Folders of which nothing could be salvaged.
    nothing: u64,
    blobs_lost: u64,
}

pub(super) struct Dice(pub(super) SeededEntropy);

impl Dice {
    pub(super) fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.0.draw() % u128::from(bound.max(1))).unwrap_or(0)
    }

    fn place(&self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }

    pub(super) fn of<'t, T>(&self, things: &'t [T]) -> &'t T {
        &things[self.place(things.len())]
    }
}

struct BareFraming;

impl Framing for BareFraming {
    fn frame(&self, _cursor: u64, record: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(record);
    }
}

/// Damages and salvages for so many minutes. `false`: a promise was broken.
pub(super) async fn run(folder: &Path, minutes: f64, seed: u64) -> Result<bool> {
    println!("seed {seed}, {minutes} minutes, salvage of damaged folders");
    let until = clock::now_ns() + (minutes * 60e9) as u64;
    let dice = Dice(SeededEntropy::new(seed));
    let (mut counts, mut broken) = (SalvageCounts::default(), Vec::new());
    let is_over = |counts: &SalvageCounts| clock::now_ns() >= until && counts.damaged >= COPIES_MIN;
    while !is_over(&counts) && broken.is_empty() {
        let original = make(&folder.join("original"), &dice).await?;
        counts.stores += 1;
        for state in [&original.killed, &original.closed] {
            let report = salvaged(state, &folder.join("sound")).await?;
            let report = report.map_err(|why| anyhow!("an undamaged folder cannot be salvaged: {why}"))?;
            ensure!(report.is_whole(), "an undamaged folder is not reported as whole: {report:?}");
            std::fs::remove_dir_all(folder.join("sound"))?;
        }
        for copy in 0..COPIES {
            if is_over(&counts) {
                break;
            }
            let (damaged, to) = (folder.join("damaged"), folder.join("salvaged"));
            let is_killed = dice.below(2) == 0;
            copy_folder(if is_killed { &original.killed } else { &original.closed }, &damaged)?;
            let mut what = Vec::new();
            for _ in 0..=dice.below(DAMAGES_MAX) {
                what.push(damage(&damaged, is_killed, &dice)?);
            }
            let what = what.join(", ");
            counts.damaged += 1;
            if let Err(why) = check(&original, &damaged, &to, &mut counts).await {
                println!("broken: store {}, copy {copy}, {what}: {why:#}", counts.stores);
                broken.push(what);
            }
            std::fs::remove_dir_all(&damaged)?;
            if to.exists() {
                std::fs::remove_dir_all(&to)?;
            }
        }
        std::fs::remove_dir_all(folder.join("original"))?;
    }
    println!("seed {seed}: {counts:?}; {} broken", broken.len());
    Ok(broken.is_empty())
}

// ---- originals -------------------------------------------------------------------------------

async fn make(folder: &Path, dice: &Dice) -> Result<Original> {
    let (open, killed, closed) = (folder.join("open"), folder.join("killed"), folder.join("closed"));
    let (mut engines, mut contents) = (Vec::new(), Vec::new());
    for (_, within) in TENANTS {
        let data = open.join(within);
        let (engine, store) = fill(&data, dice).await?;
        contents.push(content(&store).await?);
        // The mark lags; the guarantee about a lost end applies to a mark that has caught up.
        let last = store.last_position().await?;
        while high_water(&data)? != Some(last) {
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
        engines.push(engine);
    }
    copy_folder(&open, &killed)?;
    for engine in engines {
        engine.shutdown().await;
    }
    copy_folder(&open, &closed)?;
    Ok(Original { killed, closed, contents })
}

async fn fill(data: &Path, dice: &Dice) -> Result<(Engine, Arc<SqliteStore>)> {
    let options = SqliteOptions { reserve_bytes: RESERVE_BYTES, ..SqliteOptions::new(data) };
    let store = Arc::new(SqliteStore::open(options)?);
    let engine =
        Engine::open(store.clone(), World::real(), Arc::new(BareFraming)).await.map_err(of_engine)?;
    for _ in 0..=dice.below(RUNS_MAX) {
        run_of_producer(&engine, dice).await?;
    }
    run_of_own(&engine, dice).await?;
    let mut start = Vec::new();
    for _ in 0..=dice.below(RUNS_MAX / 4) {
        let run = new_run(&engine, RunKind::External).await?;
        report(&engine, run, 0, dice, false).await?;
        start.push(run);
    }
    if dice.below(4) > 0 {
        store.seal_now().await?;
    }
    for run in start {
        // The run continues after it was sealed.
        report(&engine, run, 1, dice, false).await?;
    }
    for _ in 0..=dice.below(RUNS_MAX / 2) {
        run_of_producer(&engine, dice).await?;
    }
    run_of_own(&engine, dice).await?;
    Ok((engine, store))
}

async fn new_run(engine: &Engine, kind: RunKind) -> Result<RunId> {
    let new = NewRun { queued: Queued::new(kind), task: None, session: None, resumed_from: None };
    Ok(engine.write().create_run(new).await.map_err(of_engine)?.0)
}

async fn run_of_producer(engine: &Engine, dice: &Dice) -> Result<()> {
    let run = new_run(engine, RunKind::External).await?;
    let batches = 1 + dice.below(BATCHES_MAX);
    let ends = dice.below(3) > 0;
    for seq in 0..batches {
        report(engine, run, seq, dice, ends && seq + 1 == batches).await?;
    }
    Ok(())
}

/// Appends one batch of a run's producer.
async fn report(engine: &Engine, run: RunId, seq: u64, dice: &Dice, ends: bool) -> Result<()> {
    let mut drafts = Vec::new();
    if seq == 0 {
        drafts.push(scene::started()?);
    }
    for _ in 0..=dice.below(BATCH_EVENTS_MAX) {
        let text = "text ".repeat(dice.place(TEXT_BYTES_MAX as usize) / 5);
        let data = format!(r#"{{"provider":"p","retriable":true,"message":"{text}"}}"#);
        drafts.push(door::draft(scene::TYPE, &data).context("the event is legal")?);
    }
    if ends {
        let (name, data) = scene::ending();
        drafts.push(door::draft(name, &data).context("a run may end")?);
    }
    let producer = ForeignId::parse("soak").map_err(|why| anyhow!("{why}"))?;
    engine.write().ingest(run, BatchId { producer, epoch: 0, seq }, drafts).await.map_err(of_engine)?;
    Ok(())
}

/// Creates an own run with an artifact.
async fn run_of_own(engine: &Engine, dice: &Dice) -> Result<()> {
    let run = new_run(engine, RunKind::AgentLoop).await?;
    let progress = |draft| engine.write().submit(run, Command::Progress { drafts: vec![draft] });
    progress(scene::started()?).await.map_err(of_engine)?;
    let bytes = format!("output {} of a command\n", dice.0.draw()).repeat(1 + dice.place(2_000));
    let keep = ArtifactInput {
        kind: "command_output".into(),
        mime: "text/plain".into(),
        summary: None,
        name: None,
        bytes: bytes.into(),
        original_size_bytes: None,
        call: None,
        target: None,
    };
    let kept = engine.write().store_artifact(run, keep).await.map_err(of_engine)?;
    progress(kept.created).await.map_err(of_engine)?;
    Ok(())
}

fn of_engine(error: Error) -> anyhow::Error {
    anyhow!("{error}")
}

async fn content(store: &SqliteStore) -> Result<Content> {
    let mut content = Content::default();
    for key in store.streams(None, usize::MAX).await? {
        content.runs.insert(key.to_string(), store.read(&key, 0, WHOLE).await?);
    }
    for name in store.blobs(None, usize::MAX).await? {
        let bytes = store.blob(&name).await?.context("a blob that is listed can be read")?;
        content.blobs.insert(name, bytes);
    }
    Ok(content)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    let mut entries: Vec<_> = std::fs::read_dir(from)?.collect::<std::io::Result<_>>()?;
    // The database is copied before its log: data that is checkpointed in between is also in the log.
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

// ---- damage ----------------------------------------------------------------------------------

/// Damages one file. Returns a description.
fn damage(folder: &Path, is_killed: bool, dice: &Dice) -> Result<String> {
    let (tenant, within) = dice.of(&TENANTS);
    let data = folder.join(within);
    let database = data.join(DATABASE);
    let log = data.join(LOG);
    let kinds = if is_killed { 9 } else { 6 };
    let what = match dice.below(kinds) {
        0 => flip(&database, dice)?,
        1 => overwrite(&database, dice)?,
        2 if dice.below(3) == 0 => cut(&database, dice)?,
        2 => flip(&database, dice)?,
        3 => overwrite(&database, dice)?,
        4 if !is_killed => drop_table(&database, TABLES[dice.place(TABLES.len())]),
        4 => flip(&log, dice)?,
        5 => damage_blob(&data, dice)?,
        6 => overwrite(&log, dice)?,
        7 => cut(&log, dice)?,
        _ => {
            remove(&log)?;
            "the log removed".to_owned()
        }
    };
    Ok(format!("tenant {tenant}: {what}"))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// An empty or removed file stays unchanged.
fn read(path: &Path) -> Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read?),
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => Ok(removed?),
    }
}

fn flip(path: &Path, dice: &Dice) -> Result<String> {
    let mut bytes = read(path)?;
    if bytes.is_empty() {
        return Ok(format!("nothing, {} is empty", name_of(path)));
    }
    let (place, bit) = (dice.place(bytes.len()), dice.below(8));
    bytes[place] ^= 1 << bit;
    std::fs::write(path, bytes)?;
    Ok(format!("bit {bit} of byte {place} of {}", name_of(path)))
}

fn overwrite(path: &Path, dice: &Dice) -> Result<String> {
    let mut bytes = read(path)?;
    if bytes.is_empty() {
        return Ok(format!("nothing, {} is empty", name_of(path)));
    }
    let page = dice.place(bytes.len().div_ceil(PAGE_BYTES));
    let end = bytes.len().min((page + 1) * PAGE_BYTES);
    let filler = dice.below(3);
    for byte in &mut bytes[page * PAGE_BYTES..end] {
        *byte = match filler {
            0 => 0,
            1 => 0xff,
            _ => dice.0.draw() as u8,
        };
    }
    std::fs::write(path, bytes)?;
    let filler = ["zeros", "ones", "noise"][usize::try_from(filler).unwrap_or(0)];
    Ok(format!("page {page} of {} is {filler}", name_of(path)))
}

fn cut(path: &Path, dice: &Dice) -> Result<String> {
    let mut bytes = read(path)?;
    let mut length = dice.place(bytes.len());
    if dice.below(2) == 0 {
        length = length / PAGE_BYTES * PAGE_BYTES;
    }
    if !bytes.is_empty() {
        bytes.truncate(length);
        std::fs::write(path, bytes)?;
    }
    Ok(format!("{} cut to {length} bytes", name_of(path)))
}

/// Drops a table with SQLite, if it still can.
fn drop_table(database: &Path, table: &str) -> String {
    let dropped = rusqlite::Connection::open(database).and_then(|tool| {
        tool.execute_batch(&format!(
            "DROP VIEW IF EXISTS events; DROP VIEW IF EXISTS log; DROP TABLE IF EXISTS \"{table}\""
        ))
    });
    match dropped {
        Ok(()) => format!("the table {table} dropped"),
        Err(why) => format!("the table {table} could not be dropped ({why})"),
    }
}

fn damage_blob(data: &Path, dice: &Dice) -> Result<String> {
    let mut blobs = Vec::new();
    files(&data.join("blobs"), &mut |path| {
        blobs.push(path.to_owned());
        Ok(())
    })?;
    blobs.sort();
    if blobs.is_empty() {
        return Ok("nothing, there is no blob".to_owned());
    }
    let blob = dice.of(&blobs);
    match dice.below(3) {
        0 => {
            remove(blob)?;
            Ok(format!("blob {} removed", name_of(blob)))
        }
        1 => flip(blob, dice),
        _ => cut(blob, dice),
    }
}

// ---- checks ----------------------------------------------------------------------------------

/// Calls `each` with every file below a folder.
fn files(folder: &Path, each: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files(&entry.path(), each)?;
        } else {
            each(&entry.path())?;
        }
    }
    Ok(())
}

fn snapshot(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    files(folder, &mut |path| {
        found.insert(path.to_owned(), std::fs::read(path)?);
        Ok(())
    })?;
    Ok(found)
}

/// Salvages on a separate thread, because it blocks. The inner error: nothing was salvaged.
async fn salvaged(from: &Path, to: &Path) -> Result<Result<SalvageReport, String>> {
    let (from, to) = (from.to_owned(), to.to_owned());
    on_thread(move || salvage(&from, &to).map_err(|why| why.to_string())).await
}

pub(super) async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    let thread = recount_world::thread("soak-salvage", move || drop(sender.send(work())));
    let result = receiver.await.context("the thread died");
    thread.join().map_err(|_| anyhow!("the thread died"))?;
    result
}

/// Salvages a damaged folder and compares the result with the original. An error is a broken promise.
async fn check(original: &Original, damaged: &Path, to: &Path, counts: &mut SalvageCounts) -> Result<()> {
    let before = snapshot(damaged)?;
    let outcome = salvaged(damaged, to).await?;
    ensure!(snapshot(damaged)? == before, "the damaged folder was changed");
    let report = match outcome {
        Ok(report) => report,
        Err(why) => {
            ensure!(!to.exists(), "nothing was salvaged ({why}), but {} exists", to.display());
            let is_readable =
                before.iter().any(|(path, bytes)| path.ends_with(DATABASE) && !bytes.is_empty());
            ensure!(!is_readable || why.contains("no part of a store can be read"), "it gave up: {why}");
            counts.nothing += 1;
            return Ok(());
        }
    };
    ensure!(report.stores.len() == TENANTS.len(), "{} stores are reported", report.stores.len());
    let (mut all_whole, mut blobs_lost) = (true, 0);
    for ((store, content), (tenant, within)) in report.stores.iter().zip(&original.contents).zip(TENANTS) {
        let checked = check_store(store, content, &to.join(within), counts).await;
        let (is_whole, lost) = checked.with_context(|| format!("tenant {tenant}"))?;
        all_whole &= is_whole;
        blobs_lost += lost;
    }
    ensure!(all_whole || !report.is_whole(), "something is missing, and it is not reported");
    counts.blobs_lost += blobs_lost;
    let folder = to.to_owned();
    let survey = on_thread(move || verify::offline(&folder, &[])).await?;
    let survey = survey.map_err(|why| anyhow!("what was salvaged cannot be verified: {why}"))?;
    let problems: Vec<String> = survey.reports.into_iter().flat_map(|report| report.problems).collect();
    let lost = |problem: &&String| {
        let mut blobs =
            report.stores.iter().flat_map(|store| store.blobs_damaged.iter().chain(&store.blobs_missing));
        blobs.any(|blob| problem.contains(blob.as_str()))
    };
    let other = problems.iter().find(|problem| !lost(problem));
    ensure!(other.is_none(), "what was salvaged has a problem: {}", other.map_or("", String::as_str));
    Ok(())
}

/// Compares one tenant's new store with the old content. Returns whether all of it is present, and how many blobs are
/// missing.
async fn check_store(
    report: &StoreReport,
    content: &Content,
    to: &Path,
    counts: &mut SalvageCounts,
) -> Result<(bool, u64)> {
    let store = SqliteStore::open(SqliteOptions { reserve_bytes: RESERVE_BYTES, ..SqliteOptions::new(to) })?;
    let (mut is_whole, mut blobs_lost) = (true, 0);
    let admits_loss = report.damage != Default::default() || report.unreadable.is_some();
    let mut reported = BTreeSet::new();
    for run in &report.runs {
        ensure!(reported.insert(&run.run_id), "{} is reported twice", run.run_id);
        ensure!(
            content.runs.contains_key(&run.run_id),
            "{} is reported, and there was no such run",
            run.run_id
        );
    }
    for (run, records) in &content.runs {
        counts.runs += 1;
        let found = store.read(&run.as_str().into(), 0, WHOLE).await?;
        let Some(reported) = report.runs.iter().find(|reported| reported.run_id == *run) else {
            ensure!(admits_loss, "{run} is not reported, nor any loss that could be it");
            ensure!(
                found.is_empty(),
                "{run} is not reported, and {} events of it were salvaged",
                found.len()
            );
            counts.unnamed += 1;
            is_whole = false;
            continue;
        };
        match &reported.outcome {
            Outcome::Whole => {
                ensure!(
                    found == *records,
                    "{run} is reported as whole with {} events; it had {}, the first {} are the same",
                    found.len(),
                    records.len(),
                    found.iter().zip(records).take_while(|(one, other)| one == other).count()
                );
                counts.whole += 1;
            }
            Outcome::Part(damage) => {
                // Nothing was pruned here.
                let begins = found.first().is_some_and(|record| record.sequence == 0);
                ensure!(begins, "{run} is kept in part, and not from its beginning on");
                let proven = found.iter().filter(|record| record.sequence < damage.first);
                for record in proven {
                    let place = usize::try_from(record.sequence)?;
                    ensure!(
                        records.get(place) == Some(record),
                        "{run}: event {place} is reported as proven, and it is not what was written"
                    );
                }
                let last = found.last().map_or(&[][..], |record| &record.bytes);
                let is_marked = memchr::memmem::find(last, br#""type":"gap.events_damaged""#).is_some();
                ensure!(is_marked, "{run} is kept in part, but its last event has no mark");
                counts.part += 1;
                is_whole = false;
            }
            Outcome::Lost { .. } => {
                ensure!(found.is_empty(), "{run} is reported as lost, and {} events are there", found.len());
                counts.lost += 1;
                is_whole = false;
            }
            Outcome::Erased => bail!("{run} is reported as erased, and it was not"),
        }
    }
    for (name, bytes) in &content.blobs {
        match store.blob(name).await {
            Ok(Some(found)) if found == *bytes => {}
            Ok(Some(_)) => bail!("blob {name} was salvaged with other bytes"),
            Ok(None) | Err(_) => {
                // A missing blob is known from the events that name it.
                let is_named = report.blobs_damaged.contains(name) || report.blobs_missing.contains(name);
                ensure!(is_named || !is_whole, "blob {name} is missing, and the report does not name it");
                blobs_lost += 1;
            }
        }
    }
    store.close().await?;
    Ok((is_whole && blobs_lost == 0, blobs_lost))
}
