//! Measures one writer and one reader: from sending an event to its arrival, durable in between.

use anyhow::{Result, anyhow};

use super::{Bench, alternate, load, new_run};
use crate::client::Plan;
use crate::client::read::{ReadFound, ReadPlan, Source};
use crate::process::Server;
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::yardstick::sync;

pub(super) const LINES: &[SheetRow] = &[SheetRow {
    key: "wake.p50",
    what: "one writer, one reader, sent to read, p50 against one fdatasync",
    unit: "ms",
    bar: Bar::RatioAtMost(3.0),
}];

const RATE: u64 = 500;

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let (mut ours, mut once) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let scratch = bench.scratch("server")?;
                let server = Server::product(scratch.path())?;
                let found = one_reader(bench, sheet, &server, &server, RATE)?;
                ours = Some(found.late);
                Ok(())
            },
            &mut || {
                let scratch = bench.scratch("sync")?;
                once = Some(sync::run(scratch.path(), bench.short_seconds())?);
                Ok(())
            },
        ],
    )?;
    let (ours, once) = ours.zip(once).ok_or_else(|| anyhow!("a window is missing"))?;
    sheet.pair("wake.p50", ours.p50_ms(), once.p50_ms());
    super::append::sync_share(bench, sheet)
}

/// One writer and one reader of a new run, each at its server.
pub(super) fn one_reader(
    bench: &Bench,
    sheet: &mut Sheet,
    written_at: &Server,
    read_at: &Server,
    rate: u64,
) -> Result<ReadFound> {
    let run = new_run(written_at)?;
    let plan = ReadPlan {
        address: read_at.address,
        written_at: Some(written_at.address),
        path: format!("/v1/runs/{run}/events"),
        readers: 1,
        stalled: 0,
        rate,
        events: (rate as f64 * bench.short_seconds()) as u64,
        stamped_when_sent: true,
        source: Source::Run(run),
    };
    let events = plan.events;
    let found: ReadFound = load(&Plan::Read(plan), || Ok(()))?;
    sheet.must(found.delivered == events && found.missing == 0, || {
        format!("one reader got {} of {events} events", found.delivered)
    });
    Ok(found)
}
