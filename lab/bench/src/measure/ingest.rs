//! Measures producers over HTTP: 16 connections, batches of 64, strict, each after the previous response.

use anyhow::{Result, anyhow};

use super::{Bench, alternate, load};
use crate::client::Plan;
use crate::client::ingest::{IngestFound, IngestPlan};
use crate::process::{Server, cpu_seconds};
use crate::scene;
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::yardstick::group;
use crate::yardstick::sqlite::Bare;

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "ingest.rate",
        what: "ingest over HTTP, 16 connections × 64 events, beside bare SQLite in process",
        unit: "events/s",
        bar: Bar::AtLeast(100_000.0),
    },
    SheetRow {
        key: "ingest.p99",
        what: "ingest over HTTP, p99 of a batch, beside bare SQLite in process",
        unit: "ms",
        bar: Bar::None,
    },
    SheetRow {
        key: "ingest.cpu",
        what: "ingest over HTTP, the server's processor time an event",
        unit: "µs",
        bar: Bar::None,
    },
];

const BATCH: usize = 64;

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let connections = bench.pick(4, 16);
    let (mut ours, mut bare) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let scratch = bench.scratch("server")?;
                let server = Server::product(scratch.path())?;
                let plan = IngestPlan {
                    address: server.address,
                    connections,
                    batch: BATCH,
                    batches_a_run: 10_000,
                    seconds: bench.seconds,
                    batches_max: u64::MAX,
                    end_runs: false,
                };
                let mut before = 0.0;
                let found: IngestFound = load(&Plan::Ingest(plan), || {
                    before = cpu_seconds(server.pid())?;
                    Ok(())
                })?;
                let cpu = cpu_seconds(server.pid())? - before;
                server.stop()?;
                ours = Some((found, cpu));
                Ok(())
            },
            &mut || {
                let scratch = bench.scratch("sqlite")?;
                let store = Bare::open(scratch.path())?;
                bare = Some(group::run(store, connections, BATCH as u64, bench.short_seconds())?);
                Ok(())
            },
        ],
    )?;
    let ((ours, cpu), bare) = ours.zip(bare).ok_or_else(|| anyhow!("a window is missing"))?;
    sheet.must(ours.events > 0, || "no batch was taken".to_owned());
    sheet.pair("ingest.rate", ours.events as f64 / ours.seconds, bare.events_a_second());
    sheet.pair("ingest.p99", ours.confirmed.p99_ms(), bare.confirmed.p99_ms());
    sheet.one("ingest.cpu", cpu * 1e6 / ours.events.max(1) as f64);
    let raw = bench.raw_syncs(connections * BATCH * scene::STORED_BYTES)?;
    let share = bare.commits as f64 / bare.seconds / raw;
    sheet.share("bare SQLite, groups of 16 × 64: commits".to_owned(), share, 0.10);
    Ok(())
}
