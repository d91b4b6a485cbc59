//! Measures appends through the engine, in process and strict: many writers with one run each, and a single one; with
//! nothing to seal, with concurrent sealing, and with other programs on all processors.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use recount_engine::{Engine, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Draft, RunId};
use recount_face_aep::SseFraming;
use recount_log::Store;
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_run::Command;
use recount_world::World;

use super::{Bench, alternate};
use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::process::{RaisedPriority, Spinners};
use crate::scene;
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::yardstick::group::{self, Window};
use crate::yardstick::segment::Segment;
use crate::yardstick::sqlite::{Bare, SealingSqlite};
use crate::yardstick::sync;

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "append.256x1.sqlite",
        what: "append, 256 writers × 1 event, against bare SQLite",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.75),
    },
    SheetRow {
        key: "append.256x1.segment",
        what: "append, 256 writers × 1 event, against a segment file",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.30),
    },
    SheetRow {
        key: "append.256x1.p99",
        what: "append, 256 writers × 1 event, p99 against bare SQLite",
        unit: "ms",
        bar: Bar::RatioAtMost(2.0),
    },
    SheetRow {
        key: "append.sealing.sqlite",
        what: "append, 256 writers × 1 event, sealing keeps pace, against bare SQLite that writes all twice",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.75),
    },
    SheetRow {
        key: "append.sealing.backlog",
        what: "append, sealing keeps pace: hot at the end against the most in the first sixth",
        unit: "MB",
        bar: Bar::RatioAtMost(1.0),
    },
    SheetRow {
        key: "append.busy.p99",
        what: "append, 256 writers × 1 event, all processors taken, p99 against quiet",
        unit: "ms",
        bar: Bar::RatioAtMost(2.0),
    },
    SheetRow {
        key: "append.256x16.sqlite",
        what: "append, 256 writers × 16 events, against bare SQLite",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.75),
    },
    SheetRow {
        key: "append.1x1.p50",
        what: "append, one writer, p50 against one fdatasync",
        unit: "ms",
        bar: Bar::RatioAtMost(2.5),
    },
];

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    many(bench, pair, sheet, 1, bench.seconds)?;
    many(bench, pair, sheet, 16, bench.short_seconds())?;
    sealing(bench, pair, sheet)?;
    busy(bench, sheet)?;
    alone(bench, pair, sheet)
}

/// With checkpoints, and without sealing.
fn unsealed(folder: &Path) -> SqliteOptions {
    let seal_age = Duration::from_secs(24 * 60 * 60);
    SqliteOptions {
        seal_age,
        hot_records_max: u64::MAX,
        hot_bytes_max: u64::MAX,
        ..SqliteOptions::new(folder)
    }
}

fn many(bench: &Bench, pair: usize, sheet: &mut Sheet, events: u64, seconds: f64) -> Result<()> {
    let writers = bench.pick(16, 256);
    let (mut ours, mut sqlite, mut segment) = (None, None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let scratch = bench.scratch("engine")?;
                ours = Some(engine(unsealed(scratch.path()), writers, events, seconds)?.0);
                Ok(())
            },
            &mut || {
                let scratch = bench.scratch("sqlite")?;
                sqlite = Some(group::run(Bare::open(scratch.path())?, writers, events, seconds)?);
                Ok(())
            },
            &mut || {
                let scratch = bench.scratch("segment")?;
                segment =
                    Some(group::run(Segment::open(scratch.path())?, writers, events, bench.short_seconds())?);
                Ok(())
            },
        ],
    )?;
    let of = |window: Option<Window>| window.ok_or_else(|| anyhow!("a window is missing"));
    let (ours, sqlite, segment) = (of(ours)?, of(sqlite)?, of(segment)?);
    for (name, window) in [("engine", &ours), ("bare SQLite", &sqlite), ("segment file", &segment)] {
        sheet.note(format!(
            "{name}, {writers} × {events}: {:.0} events/s, p50 {:.2} ms, p99 {:.2} ms",
            window.events_a_second(),
            window.confirmed.p50_ms(),
            window.confirmed.p99_ms()
        ));
    }
    let rate = |window: &Window| window.events_a_second();
    match events {
        1 => {
            sheet.pair("append.256x1.sqlite", rate(&ours), rate(&sqlite));
            sheet.pair("append.256x1.segment", rate(&ours), rate(&segment));
            sheet.pair("append.256x1.p99", ours.confirmed.p99_ms(), sqlite.confirmed.p99_ms());
        }
        _ => sheet.pair("append.256x16.sqlite", rate(&ours), rate(&sqlite)),
    }
    let group_bytes = |window: &Window| {
        (window.events as f64 / window.commits.max(1) as f64) as usize * scene::STORED_BYTES
    };
    for (name, window, least) in [("bare SQLite", &sqlite, 0.10), ("segment file", &segment, 0.25)] {
        let raw = bench.raw_syncs(group_bytes(window).clamp(4096, 1 << 20))?;
        let commits = window.commits as f64 / window.seconds;
        sheet.share(format!("{name}, groups of {events} × {writers}: commits"), commits / raw, least);
    }
    Ok(())
}

/// As the product is configured: hot records are sealed as fast as they are appended, once there are many.
fn sealing(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let writers = bench.pick(16, 256);
    let (mut ours, mut twice) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let scratch = bench.scratch("engine")?;
                ours = Some(engine(SqliteOptions::new(scratch.path()), writers, 1, bench.seconds)?);
                Ok(())
            },
            &mut || {
                let scratch = bench.scratch("sqlite")?;
                twice = Some(group::run(SealingSqlite::open(scratch.path())?, writers, 1, bench.seconds)?);
                Ok(())
            },
        ],
    )?;
    let ((ours, hot), twice) = ours.zip(twice).ok_or_else(|| anyhow!("a window is missing"))?;
    for (name, window) in [("engine that seals", &ours), ("bare SQLite that writes all twice", &twice)] {
        sheet.note(format!(
            "{name}: {:.0} events/s, p50 {:.2} ms, p99 {:.2} ms",
            window.events_a_second(),
            window.confirmed.p50_ms(),
            window.confirmed.p99_ms()
        ));
    }
    sheet.pair("append.sealing.sqlite", ours.events_a_second(), twice.events_a_second());
    // A megabyte at least, so that a smoke run has something to divide by.
    let megabytes = |bytes: u64| bytes.max(1_000_000) as f64 / 1e6;
    sheet.pair("append.sealing.backlog", megabytes(hot.at_end), megabytes(hot.most_at_first));
    Ok(())
}

/// With and without a loop on each processor, at the priority that a server may be given.
fn busy(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let window = |what: &str| -> Result<Window> {
        let scratch = bench.scratch(what)?;
        Ok(engine(unsealed(scratch.path()), bench.pick(16, 256), 1, bench.short_seconds())?.0)
    };
    // They start before the priority is raised, or they would inherit it.
    let spinners = Spinners::prepare()?;
    let Some(raised) = RaisedPriority::raise() else {
        sheet.note("no priority is to be had here, so a busy machine is not measured".to_owned());
        return Ok(());
    };
    let quiet = window("quiet")?;
    spinners.go()?;
    let busy = window("busy")?;
    drop((spinners, raised));
    sheet.note(format!(
        "all processors taken: {:.0} events/s, quiet {:.0}",
        busy.events_a_second(),
        quiet.events_a_second()
    ));
    sheet.pair("append.busy.p99", busy.confirmed.p99_ms(), quiet.confirmed.p99_ms());
    Ok(())
}

fn alone(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let seconds = bench.short_seconds();
    let (mut ours, mut once) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let scratch = bench.scratch("engine")?;
                ours = Some(engine(unsealed(scratch.path()), 1, 1, seconds)?.0);
                Ok(())
            },
            &mut || {
                let scratch = bench.scratch("sync")?;
                once = Some(sync::run(scratch.path(), seconds)?);
                Ok(())
            },
        ],
    )?;
    let (ours, once) = ours.zip(once).ok_or_else(|| anyhow!("a window is missing"))?;
    sheet.pair("append.1x1.p50", ours.confirmed.p50_ms(), once.p50_ms());
    sync_share(bench, sheet)
}

/// Short turns of either kind of sync, so that disk load of other programs affects both.
const SYNC_TURNS: usize = 7;

/// The single sync is itself a raw limit: it must be about as fast as the fastest sync loop. The speed of disks changes
/// from second to second, so the two alternate, and the median counts.
pub(super) fn sync_share(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut shares = Vec::new();
    for _ in 0..SYNC_TURNS {
        let seconds = bench.pick(0.02, 0.2);
        let scratch = bench.scratch("sync")?;
        let single = sync::run(scratch.path(), seconds)?.total() as f64 / seconds;
        shares.push(single / crate::raw::synced_writes(scratch.path(), 512, seconds)?);
    }
    shares.sort_by(f64::total_cmp);
    sheet.share("one fdatasync: speed".to_owned(), shares[SYNC_TURNS / 2], 0.4);
    Ok(())
}

/// Bytes that were not sealed.
pub(super) struct UnsealedBytes {
    /// The maximum in the first sixth of the window.
    most_at_first: u64,
    at_end: u64,
}

fn engine(
    options: SqliteOptions,
    writers: usize,
    events: u64,
    seconds: f64,
) -> Result<(Window, UnsealedBytes)> {
    engine_on(Arc::new(SqliteStore::open(options)?), writers, events, seconds)
}

/// The same loop through the engine: every writer has its own run.
pub(super) fn engine_on(
    store: Arc<dyn Store>,
    writers: usize,
    events: u64,
    seconds: f64,
) -> Result<(Window, UnsealedBytes)> {
    let runtime = group::runtime()?;
    runtime.block_on(async {
        let engine = Engine::open(store.clone(), World::real(), Arc::new(SseFraming)).await?;
        let before = store.last_position().await?;
        let mut runs = Vec::new();
        for _ in 0..writers {
            let new = NewRun {
                queued: Queued::new(RunKind::External),
                task: None,
                session: None,
                resumed_from: None,
            };
            let (run, _) = engine.write().create_run(new).await?;
            append(&engine, run, vec![scene::started()?]).await?;
            runs.push(run);
        }
        let draft = scene::draft(now_ns())?;
        let over = Arc::new(AtomicBool::new(false));
        let start = now_ns();
        let tasks: Vec<_> = runs
            .into_iter()
            .map(|run| {
                let (engine, draft, over) = (engine.clone(), draft.clone(), over.clone());
                runtime.spawn(async move {
                    let (mut count, mut confirmed) = (0u64, Histogram::default());
                    while !over.load(Ordering::Relaxed) {
                        let start = now_ns();
                        let drafts = (0..events).map(|_| draft.clone()).collect();
                        append(&engine, run, drafts).await?;
                        confirmed.add(now_ns() - start);
                        count += events;
                    }
                    anyhow::Ok((count, confirmed))
                })
            })
            .collect();
        let mut hot = UnsealedBytes { most_at_first: 0, at_end: 0 };
        while seconds_since(start) < seconds {
            tokio::time::sleep(Duration::from_secs_f64((seconds / 24.0).min(1.0))).await;
            hot.at_end = store.stats().await?.hot_bytes;
            if seconds_since(start) <= seconds / 6.0 {
                hot.most_at_first = hot.most_at_first.max(hot.at_end);
            }
        }
        over.store(true, Ordering::Relaxed);
        let (mut count, mut confirmed) = (0, Histogram::default());
        for task in tasks {
            let (mine, times) = task.await??;
            count += mine;
            confirmed.merge(&times);
        }
        let seconds = seconds_since(start);
        // Two events of each run came before the window.
        let stored = store.last_position().await? - before - 2 * writers as u64;
        anyhow::ensure!(stored == count, "{count} events were confirmed and {stored} are stored");
        engine.shutdown().await;
        Ok((Window { events: count, commits: 0, seconds, confirmed }, hot))
    })
}

async fn append(engine: &Engine, run: RunId, drafts: Vec<Draft>) -> Result<()> {
    engine.write().submit(run, Command::Append { drafts }).await?;
    Ok(())
}
