//! Flips bits of a store as long as requested: each time one bit of the database is changed, and everything is read
//! over the store. Nothing altered may be returned: each record and each row is what was written, or reported as
//! damaged, or the store refuses to open. The short form is a test of the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use recount_log::{
    Append, Fault, FaultKind, Guard, ReadBound, RowPut, RowRange, Store, StreamAppend, StreamKey,
};
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_world::{Entropy as _, SeededEntropy};

use crate::clock;

const RUNS: u64 = 40;
const APPENDS: u64 = 60;
/// The last of these appends are still in commit order when the store is closed.
const APPENDS_SEALED: u64 = 50;
const SPACE: &str = "space";
const PAGE: ReadBound = ReadBound { count: 100, bytes: 1 << 20 };
/// Flips between two progress lines.
const FLIPS_REPORTED: u64 = 500;

/// What was written.
struct Written {
    /// Position and bytes, by stream and sequence.
    records: BTreeMap<(StreamKey, u64), (u64, Bytes)>,
    rows: BTreeMap<Arc<str>, Bytes>,
}

#[derive(Debug, Default)]
struct BitCounts {
    flips: u64,
    refused: u64,
    reported: u64,
    unnoticed: u64,
}

/// Flips bits for so many minutes. `false`: altered data was returned, or data was missing without a report.
pub(super) async fn run(folder: &Path, minutes: f64, seed: u64) -> Result<bool> {
    let data = folder.join("bits");
    let written = fill(&data).await?;
    let database = data.join("recount.db");
    let bytes = std::fs::read(&database)?;
    println!("seed {seed}, {minutes} minutes, {} records, {} bytes", written.records.len(), bytes.len());
    let random = SeededEntropy::new(seed);
    let (until, mut counts) = (clock::now_ns() + (minutes * 60e9) as u64, BitCounts::default());
    let mut sound = true;
    while clock::now_ns() < until {
        let bit = usize::try_from(random.draw() % (bytes.len() as u128 * 8)).unwrap_or(0);
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        for leftover in ["recount.db-wal", "recount.db-shm"] {
            drop(std::fs::remove_file(data.join(leftover)));
        }
        std::fs::write(&database, changed)?;
        counts.flips += 1;
        match SqliteStore::open(SqliteOptions::new(&data)) {
            Err(fault) if matches!(fault.kind, FaultKind::Corrupt | FaultKind::Newer) => counts.refused += 1,
            Err(fault) => return Err(fault).context("a store that could not be opened for another reason"),
            Ok(store) => {
                match read(&store, &written).await {
                    Ok(true) => counts.reported += 1,
                    Ok(false) => counts.unnoticed += 1,
                    Err(wrong) => {
                        println!("broken: byte {}, bit {}: {wrong:#}", bit / 8, bit % 8);
                        sound = false;
                    }
                }
                store.close().await?;
            }
        }
        if counts.flips % FLIPS_REPORTED == 0 {
            println!("{counts:?}");
        }
    }
    println!("seed {seed}: {counts:?}");
    Ok(sound)
}

async fn fill(data: &Path) -> Result<Written> {
    let store = SqliteStore::open(SqliteOptions::new(data))?;
    let mut written = Written { records: BTreeMap::new(), rows: BTreeMap::new() };
    for n in 0..APPENDS {
        if n == APPENDS_SEALED {
            store.seal_now().await?;
        }
        for run in 0..RUNS {
            let stream: StreamKey = format!("run_{run:02}").into();
            let bytes = Bytes::from(format!(
                r#"{{"run_id":"{stream}","sequence":{n},"data":"{}"}}"#,
                "words ".repeat(30)
            ));
            let key: Arc<str> = format!("{stream}/{:02}", n % 10).into();
            let append = Append {
                streams: vec![StreamAppend {
                    stream: stream.clone(),
                    expected_tail: n,
                    records: vec![bytes.clone()],
                }],
                rows: vec![RowPut {
                    space: SPACE.into(),
                    key: key.clone(),
                    guard: Guard::Any,
                    value: Some(bytes.clone()),
                }],
                ..Append::default()
            };
            let landed = store.append(append).await?;
            let position = landed.streams.first().context("one stream was given")?.first_position;
            written.records.insert((stream, n), (position, bytes.clone()));
            written.rows.insert(key, bytes);
        }
    }
    store.close().await?;
    Ok(written)
}

/// Reads everything. Returns whether damage was reported.
async fn read(store: &SqliteStore, written: &Written) -> Result<bool> {
    let mut reported = false;
    for run in 0..RUNS {
        let stream: StreamKey = format!("run_{run:02}").into();
        let mut next = 0;
        while next < APPENDS {
            match store.read(&stream, next, PAGE).await {
                Ok(page) => {
                    anyhow::ensure!(!page.is_empty(), "{stream} has nothing at {next}");
                    for record in page {
                        let expected = written.records.get(&(stream.clone(), next));
                        let same =
                            expected == Some(&(record.position, record.bytes)) && record.sequence == next;
                        anyhow::ensure!(same, "{stream} has another record at {next}");
                        next += 1;
                    }
                }
                Err(fault) => {
                    reported = true;
                    let damage = damaged(fault)?.context("damage without a range")?;
                    // If the row of a stream is damaged, the whole stream is.
                    next = damage.sequences.map_or(APPENDS, |range| range.end() + 1);
                }
            }
        }
    }
    let by_position: BTreeMap<u64, (&StreamKey, u64, &Bytes)> = written
        .records
        .iter()
        .map(|((stream, sequence), (position, bytes))| (*position, (stream, *sequence, bytes)))
        .collect();
    let (mut next, last) = (1, by_position.len() as u64);
    while next <= last {
        match store.read_feed(next, PAGE).await {
            Ok(page) => {
                anyhow::ensure!(!page.is_empty(), "the feed has nothing at {next}");
                for found in page {
                    let there = (&found.stream, found.record.sequence, &found.record.bytes);
                    let same = by_position.get(&next) == Some(&there) && found.record.position == next;
                    anyhow::ensure!(same, "the feed has another record at {next}");
                    next += 1;
                }
            }
            Err(fault) => {
                reported = true;
                let range =
                    damaged(fault)?.and_then(|damage| damage.positions).context("damage without a range")?;
                next = range.end() + 1;
            }
        }
    }
    let range = RowRange::first(SPACE, "", usize::MAX);
    match store.rows(range).await {
        Ok(rows) => {
            let same = rows.iter().map(|row| (&row.key, &row.value)).eq(&written.rows);
            anyhow::ensure!(same, "the rows are not those that were written");
        }
        Err(fault) => {
            damaged(fault)?;
            reported = true;
        }
    }
    Ok(reported)
}

fn damaged(fault: Fault) -> Result<Option<recount_log::Damage>> {
    anyhow::ensure!(fault.kind == FaultKind::Corrupt, "another fault: {fault}");
    Ok(fault.damage.map(|damage| *damage))
}
