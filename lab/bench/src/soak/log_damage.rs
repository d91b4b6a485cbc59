//! Damages the write-ahead log of a killed store repeatedly: flipped bits, cut files, removed files.
//!
//! Each store is created with a seed, copied while it is in use, and damaged in copies of it. An open that succeeds
//! must have every acknowledged event; an open that fails must have named the loss and written nothing.

use std::path::Path;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use recount_log::{Append, ReadBound, Store as _, StreamAppend};
use recount_log_sqlite::{SqliteOptions, SqliteStore, high_water};
use recount_world::{Entropy as _, SeededEntropy};

use crate::clock;

/// Damaged copies of each store.
const COPIES: u64 = 200;
const APPENDS: u64 = 400;
const RUNS: usize = 20;
const WAL: &str = "recount.db-wal";

#[derive(Default)]
struct DamageCounts {
    stores: u64,
    events: u64,
    flips: u64,
    cuts: u64,
    whole: u64,
    named: u64,
}

/// Runs for so many minutes. Returns whether every loss was reported.
pub(super) async fn run(folder: &Path, seed: u64, minutes: f64) -> Result<bool> {
    println!("seed {seed}, {minutes} minutes, damaged write-ahead logs");
    let until = clock::now_ns() + (minutes * 60e9) as u64;
    let random = SeededEntropy::new(seed);
    let below = |bound: u64| u64::try_from(random.draw() % u128::from(bound.max(1))).unwrap_or(0);
    let (mut counts, mut broken) = (DamageCounts::default(), Vec::new());
    while clock::now_ns() < until && broken.is_empty() {
        let (source, killed) = (folder.join("source"), folder.join("killed"));
        // Sometimes small, so that the log restarts and contains frames of earlier rounds.
        let pages = if below(2) == 0 { 4096 } else { 20 + u32::try_from(below(200))? };
        let options = SqliteOptions { checkpoint_pages: pages, ..SqliteOptions::new(&source) };
        let store = SqliteStore::open(options)?;
        let events = fill(&store, &below).await?;
        while high_water(&source)? != Some(events) {
            tokio::task::yield_now().await;
        }
        copy(&source, &killed)?;
        store.close().await?;
        counts.stores += 1;
        counts.events += events;
        for _ in 0..COPIES {
            let damaged = folder.join("damaged");
            copy(&killed, &damaged)?;
            let what = damage(&damaged, &below, &mut counts)?;
            match check(&damaged, events).await? {
                DamageOutcome::Whole => counts.whole += 1,
                DamageOutcome::Named => counts.named += 1,
                DamageOutcome::Broken(why) => broken.push(format!("store {}, {what}: {why}", counts.stores)),
            }
            std::fs::remove_dir_all(&damaged)?;
        }
        std::fs::remove_dir_all(&source)?;
        std::fs::remove_dir_all(&killed)?;
    }
    println!(
        "{} stores with {} acknowledged events; {} flipped bits, {} cuts: {} whole, {} named, {} lost without a word",
        counts.stores,
        counts.events,
        counts.flips,
        counts.cuts,
        counts.whole,
        counts.named,
        broken.len()
    );
    broken.iter().for_each(|broken| println!("broken: {broken}"));
    Ok(broken.is_empty())
}

async fn fill(store: &SqliteStore, below: &impl Fn(u64) -> u64) -> Result<u64> {
    let mut tails = [0_u64; RUNS];
    for _ in 0..APPENDS {
        let run = usize::try_from(below(RUNS as u64))?;
        let text = "x".repeat(usize::try_from(below(3000))?);
        let record = Bytes::from(format!(r#"{{"n":{},"text":"{text}"}}"#, tails[run]));
        let part = StreamAppend {
            stream: format!("run_{run}").into(),
            expected_tail: tails[run],
            records: vec![record],
        };
        store.append(Append { streams: vec![part], ..Append::default() }).await?;
        tails[run] += 1;
    }
    Ok(tails.iter().sum())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.join("blobs"))?;
    for name in ["recount.db", WAL, "high-water"] {
        std::fs::copy(from.join(name), to.join(name)).with_context(|| format!("copying {name}"))?;
    }
    Ok(())
}

/// Damages one file. Returns a description.
fn damage(folder: &Path, below: &impl Fn(u64) -> u64, counts: &mut DamageCounts) -> Result<String> {
    let log = folder.join(WAL);
    let mut bytes = std::fs::read(&log)?;
    let place = usize::try_from(below(bytes.len() as u64))?;
    if below(4) == 0 {
        counts.cuts += 1;
        bytes.truncate(place);
        std::fs::write(&log, bytes)?;
        return Ok(format!("cut at byte {place}"));
    }
    counts.flips += 1;
    let bit = 1 << below(8);
    bytes[place] ^= bit;
    std::fs::write(&log, bytes)?;
    Ok(format!("bit {bit} of byte {place}"))
}

enum DamageOutcome {
    Whole,
    Named,
    Broken(String),
}

async fn check(folder: &Path, events: u64) -> Result<DamageOutcome> {
    let database = std::fs::read(folder.join("recount.db"))?;
    let store = match SqliteStore::open(SqliteOptions::new(folder)) {
        Ok(store) => store,
        Err(_) if std::fs::read(folder.join("recount.db"))? == database => return Ok(DamageOutcome::Named),
        Err(fault) => {
            return Ok(DamageOutcome::Broken(format!("something was written before the refusal: {fault}")));
        }
    };
    let all = ReadBound { count: usize::MAX, bytes: usize::MAX };
    let there = store.read_feed(1, all).await.map(|feed| feed.len() as u64);
    let problems = store.integrity().await?.problems;
    store.close().await?;
    Ok(match there {
        Ok(there) if there == events && problems.is_empty() => DamageOutcome::Whole,
        there => {
            DamageOutcome::Broken(format!("{there:?} of {events} events are there, problems: {problems:?}"))
        }
    })
}
