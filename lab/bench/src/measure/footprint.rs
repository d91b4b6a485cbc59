//! Measures the resources of an idle server, its start time, and the size of its store.

use anyhow::{Context as _, Result};

use super::{Bench, alternate, load};
use crate::client::Plan;
use crate::client::ingest::{IngestFound, IngestPlan};
use crate::process::{Server, anonymous_kib, cpu_seconds, folder_bytes};
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::{clock, scene};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "footprint.idle",
        what: "idle, anonymous memory on an empty store",
        unit: "MiB",
        bar: Bar::AtMost(20.0),
    },
    SheetRow {
        key: "footprint.idle_million",
        what: "idle, anonymous memory on a store of a million events",
        unit: "MiB",
        bar: Bar::AtMost(20.0),
    },
    SheetRow {
        key: "footprint.ready",
        what: "start to listening on a store of a million events",
        unit: "ms",
        bar: Bar::AtMost(100.0),
    },
    SheetRow {
        key: "footprint.hot",
        what: "on disk for each byte of events, just written",
        unit: "×",
        bar: Bar::AtMost(1.2),
    },
    SheetRow {
        key: "footprint.sealed",
        what: "on disk for each byte of events, runs ended and sealed",
        unit: "×",
        bar: Bar::AtMost(1.1),
    },
    SheetRow {
        key: "footprint.cpu",
        what: "processor time an event, one run of 100,000 beside runs of 1,000",
        unit: "µs",
        bar: Bar::RatioAtMost(1.2),
    },
];

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let settle_ms = bench.pick(50, 1_000);
    let scratch = bench.scratch("server")?;
    let server = Server::product(scratch.path())?;
    clock::pause(settle_ms);
    sheet.one("footprint.idle", anonymous_kib(server.pid())? / 1024.0);
    let events = bench.pick(2_000, 1_000_000);
    let found = write(&server, 16, 64, 16, events, true)?;
    // A server that stops checkpoints its write-ahead log first, so only the final size is measured.
    server.stop()?;
    let event_bytes = stored_bytes(&found);
    sheet.one("footprint.hot", folder_bytes(scratch.path())? as f64 / event_bytes);
    let server = Server::product(scratch.path())?;
    sheet.one("footprint.ready", server.ready_ms);
    clock::pause(settle_ms * 3);
    sheet.one("footprint.idle_million", anonymous_kib(server.pid())? / 1024.0);
    super::wait_sealed(&server)?;
    server.stop()?;
    sheet.one("footprint.sealed", folder_bytes(scratch.path())? as f64 / event_bytes);
    drop(scratch);

    let total = bench.pick(2_000, 100_000);
    let (mut long, mut short) = (0.0, 0.0);
    alternate(
        pair,
        &mut [
            &mut || {
                long = cpu_an_event(bench, u64::MAX, total)?;
                Ok(())
            },
            &mut || {
                short = cpu_an_event(bench, 1000 / BATCH as u64, total)?;
                Ok(())
            },
        ],
    )?;
    sheet.pair("footprint.cpu", long, short);
    Ok(())
}

const BATCH: usize = 50;

/// The server's processor time per event in microseconds.
fn cpu_an_event(bench: &Bench, batches_a_run: u64, events: u64) -> Result<f64> {
    let scratch = bench.scratch("server")?;
    let server = Server::product(scratch.path())?;
    let before = cpu_seconds(server.pid())?;
    let found = write(&server, 1, BATCH, batches_a_run, events, false)?;
    Ok((cpu_seconds(server.pid())? - before) * 1e6 / found.events as f64)
}

fn write(
    server: &Server,
    connections: usize,
    batch: usize,
    batches_a_run: u64,
    events: u64,
    end_runs: bool,
) -> Result<IngestFound> {
    let batches_max = events.div_ceil((connections * batch) as u64);
    let plan = IngestPlan {
        address: server.address,
        connections,
        batch,
        batches_a_run,
        seconds: f64::MAX,
        batches_max,
        end_runs,
    };
    load(&Plan::Ingest(plan), || Ok(())).context("filling the store")
}

/// Bytes of the events themselves. The few that start and end a run are counted with the same length.
fn stored_bytes(found: &IngestFound) -> f64 {
    let around = 3 * found.runs.len() as u64;
    ((found.events + around) * scene::STORED_BYTES as u64) as f64
}
