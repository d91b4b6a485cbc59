//! Measures turns of applications: a scripted model without delay, deltas, 2,000 sessions in sequence, open
//! connections; and the same server with a store in memory, which shows the cost of the disk.

use anyhow::Result;

use super::own::OwnRunServer;
use super::{Bench, Sheet, alternate, load};
use crate::client::{Plan, turns};
use crate::process::{anonymous_kib, cpu_seconds};
use crate::sheet::{Bar, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "turns.16",
        what: "AAP turns, 16 connections, against the same server with a store in memory",
        unit: "turns/s",
        bar: Bar::RatioAtLeast(0.5),
    },
    SheetRow {
        key: "turns.128",
        what: "AAP turns, 128 connections, against the same server with a store in memory",
        unit: "turns/s",
        bar: Bar::RatioAtLeast(0.8),
    },
    SheetRow {
        key: "turns.16.rate",
        what: "AAP turns, 16 connections",
        unit: "turns/s",
        bar: Bar::AtLeast(2_250.0),
    },
    SheetRow {
        key: "turns.128.rate",
        what: "AAP turns, 128 connections",
        unit: "turns/s",
        bar: Bar::AtLeast(2_250.0),
    },
    SheetRow {
        key: "turns.16.p99",
        what: "AAP turns, 16 connections, p99 of a turn",
        unit: "ms",
        bar: Bar::AtMost(20.0),
    },
    SheetRow {
        key: "turns.first",
        what: "AAP turns, 16 connections, p50 from the request to the first byte of the stream",
        unit: "ms",
        bar: Bar::AtMost(2.0),
    },
    SheetRow {
        key: "turns.memory",
        what: "AAP turns, 2,000 sessions, the most anonymous memory of the server",
        unit: "MiB",
        bar: Bar::AtMost(100.0),
    },
    SheetRow {
        key: "turns.cpu",
        what: "AAP turns, 128 connections, processor time a turn",
        unit: "ms",
        bar: Bar::None,
    },
];

/// Two deltas and the end: a short model response.
const SCRIPT: &str =
    "[pace]\nwords = 4\n\n[[scene]]\nwhen = \"then\"\nend = \"And then they lived happily ever after.\"\n";

/// The agent of the application: a plain conversation.
const AGENTS: &str = "[agents.teller]\nversion = \"1.0.0\"\nmodel = \"play/it\"\n";

struct TurnsWindow {
    found: turns::TurnsFound,
    memory_mib: f64,
    cpu_ms: f64,
}

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    for (connections, key) in [(16, "turns.16"), (128, "turns.128")] {
        let connections = bench.pick(connections / 8, connections);
        let (mut ours, mut memory) = (None, None);
        alternate(
            pair,
            &mut [
                &mut || {
                    ours = Some(window(bench, connections, false)?);
                    Ok(())
                },
                &mut || {
                    memory = Some(window(bench, connections, true)?);
                    Ok(())
                },
            ],
        )?;
        let (Some(ours), Some(memory)) = (ours, memory) else { anyhow::bail!("a window is missing") };
        for (name, window) in [("strict", &ours), ("in memory", &memory)] {
            sheet.must(window.found.odd == 0 && window.found.turns > 0, || {
                format!("{} of {} turns, {name}, did not end well", window.found.odd, window.found.turns)
            });
            sheet.note(format!(
                "{connections} connections, {name}: {:.0} turns/s, p50 {:.2} ms, p99 {:.2} ms, first byte p50 {:.2} \
                 ms, {:.2} ms of processor a turn, {:.0} MiB",
                rate(window),
                window.found.whole.p50_ms(),
                window.found.whole.p99_ms(),
                window.found.first.p50_ms(),
                window.cpu_ms,
                window.memory_mib
            ));
        }
        sheet.pair(key, rate(&ours), rate(&memory));
        if key == "turns.16" {
            sheet.one("turns.16.rate", rate(&ours));
            sheet.one("turns.16.p99", ours.found.whole.p99_ms());
            sheet.one("turns.first", ours.found.first.p50_ms());
        } else {
            sheet.one("turns.128.rate", rate(&ours));
            sheet.one("turns.memory", ours.memory_mib);
            sheet.one("turns.cpu", ours.cpu_ms);
        }
    }
    Ok(())
}

fn rate(window: &TurnsWindow) -> f64 {
    window.found.turns as f64 / window.found.seconds
}

fn window(bench: &Bench, connections: usize, in_memory: bool) -> Result<TurnsWindow> {
    let scratch = bench.scratch("turns")?;
    let own = OwnRunServer::talking(scratch.path(), SCRIPT, AGENTS, in_memory)?;
    let pid = own.server.pid();
    let plan = Plan::Turns(turns::TurnsPlan {
        address: own.server.address,
        agent: "teller".to_owned(),
        connections,
        sessions: bench.pick(20, 2_000),
        seconds: bench.short_seconds() * bench.pick(1.0, 4.0),
    });
    let mut before = 0.0;
    let found: turns::TurnsFound = load(&plan, || {
        before = cpu_seconds(pid)?;
        Ok(())
    })?;
    let cpu_ms = (cpu_seconds(pid)? - before) * 1e3 / found.turns.max(1) as f64;
    let memory_mib = anonymous_kib(pid)? / 1024.0;
    own.server.stop()?;
    Ok(TurnsWindow { found, memory_mib, cpu_ms })
}
