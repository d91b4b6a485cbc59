//! Measures one run with many readers, with the client in a second process; events arrive over HTTP and are durable
//! first.

use anyhow::{Result, anyhow};

use super::{Bench, alternate, load, new_run};
use crate::client::Plan;
use crate::client::read::{ReadFound, ReadPlan, Source};
use crate::process::{Server, anonymous_kib, cpu_seconds};
use crate::raw;
use crate::sheet::{Bar, Sheet, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "fanout.1000x1000.p99",
        what: "fan-out, 1,000 readers × 1,000 events/s, p99 against a loop by hand",
        unit: "ms",
        bar: Bar::RatioAtMost(2.5),
    },
    SheetRow {
        key: "fanout.1000x1000.delivered",
        what: "fan-out, 1,000 readers × 1,000 events/s, share delivered",
        unit: "",
        bar: Bar::AtLeast(1.0),
    },
    SheetRow {
        key: "fanout.5000x1000.p99",
        what: "fan-out, 5,000 readers × 1,000 events/s, p99 against a loop by hand",
        unit: "ms",
        bar: Bar::RatioAtMost(2.5),
    },
    SheetRow {
        key: "fanout.5000x1000.delivered",
        what: "fan-out, 5,000 readers × 1,000 events/s, share delivered",
        unit: "",
        bar: Bar::AtLeast(1.0),
    },
    SheetRow {
        key: "fanout.1000x10000.rate",
        what: "fan-out, 1,000 readers × 10,000 events/s, against axum Sse over broadcast",
        unit: "messages/s",
        bar: Bar::RatioAtLeast(6.0),
    },
    SheetRow {
        key: "fanout.1000x10000.delivered",
        what: "fan-out, 1,000 readers × 10,000 events/s, share delivered, beside axum",
        unit: "",
        bar: Bar::AtLeast(1.0),
    },
    SheetRow {
        key: "fanout.1000x10000.cpu",
        what: "fan-out, 1,000 readers × 10,000 events/s, the server's processor time a message, against a loop by hand",
        unit: "ns",
        bar: Bar::None,
    },
    SheetRow {
        key: "fanout.idle",
        what: "fan-out, the server's memory for an idle reader",
        unit: "KiB",
        bar: Bar::AtMost(14.0),
    },
];

/// Separate, because a difference that should be zero needs its own windows.
pub(super) const STALLED_LINES: &[SheetRow] = &[
    SheetRow {
        key: "stalled.p99",
        what: "fan-out, 200 readers × 2,000 events/s, p99 with 5 stalled readers beside none",
        unit: "ms",
        bar: Bar::RatioAtMost(1.25),
    },
    SheetRow {
        key: "stalled.p50",
        what: "fan-out, 200 readers × 2,000 events/s, p50 with 5 stalled readers beside none",
        unit: "ms",
        bar: Bar::None,
    },
    SheetRow {
        key: "stalled.cpu",
        what: "fan-out, the same, the server's processor time a message",
        unit: "ns",
        bar: Bar::RatioAtMost(1.25),
    },
];

#[derive(Clone, Copy)]
struct Scene {
    readers: usize,
    stalled: usize,
    rate: u64,
    events: u64,
}

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let raw_bytes = raw::loopback(64 << 10, bench.pick(0.05, 1.0))?.0;
    let seconds = bench.pick(0.2, bench.short_seconds().min(3.0));
    let scene = |readers, rate: u64| Scene {
        readers: bench.pick(20, readers),
        stalled: 0,
        rate,
        events: (rate as f64 * seconds) as u64,
    };
    for (readers, p99, delivered) in [
        (1000, "fanout.1000x1000.p99", "fanout.1000x1000.delivered"),
        (5000, "fanout.5000x1000.p99", "fanout.5000x1000.delivered"),
    ] {
        let scene = scene(readers, 1000);
        let (ours, by_hand, _, _) = both(bench, pair, sheet, scene, "fanout")?;
        sheet.pair(p99, ours.late.p99_ms(), by_hand.late.p99_ms());
        sheet.one(delivered, share(&ours, scene));
        sheet.curve(format!("{readers} readers, ours"), &ours.late);
        sheet.curve(format!("{readers} readers, by hand"), &by_hand.late);
        sheet.share(
            format!("loop by hand, {readers} × 1,000: of what was offered"),
            share(&by_hand, scene),
            0.99,
        );
    }
    let fast = scene(1000, 10_000);
    let (ours, broadcast, idle, cpu) = both(bench, pair, sheet, fast, "broadcast")?;
    let rate = |found: &ReadFound| found.delivered as f64 / found.seconds;
    sheet.pair("fanout.1000x10000.rate", rate(&ours), rate(&broadcast));
    sheet.pair("fanout.1000x10000.delivered", share(&ours, fast), share(&broadcast, fast));
    sheet.one("fanout.idle", idle);
    // axum does not merge writes, but its sockets must be as busy as small writes allow.
    let small_writes = raw::loopback(500, bench.pick(0.05, 0.5))?.1;
    sheet.share(
        "axum Sse, messages a second: of raw 500-byte writes".to_owned(),
        rate(&broadcast) / small_writes,
        0.5,
    );
    let (by_hand, by_hand_cpu) = yardstick("fanout", fast)?;
    sheet.pair("fanout.1000x10000.cpu", cpu, by_hand_cpu);
    let bytes = rate(&by_hand) * (crate::scene::STORED_BYTES + 20) as f64;
    sheet.share("loop by hand, 1,000 × 10,000: bytes of raw loopback".to_owned(), bytes / raw_bytes, 0.3);
    sheet.note(format!("loop by hand, 1,000 × 10,000: {:.0} messages/s", rate(&by_hand)));
    Ok(())
}

pub(super) fn stalled(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let seconds = bench.short_seconds();
    let (mut with, mut without) = (None, None);
    let scene = |stalled| Scene {
        readers: bench.pick(10, 200),
        stalled,
        rate: 2000,
        events: (2000.0 * seconds) as u64,
    };
    let mut measure = |stalled| -> Result<_> { product(bench, sheet, scene(stalled)) };
    let measure = std::cell::RefCell::new(&mut measure);
    alternate(
        pair,
        &mut [
            &mut || {
                with = Some((measure.borrow_mut())(5)?);
                Ok(())
            },
            &mut || {
                without = Some((measure.borrow_mut())(0)?);
                Ok(())
            },
        ],
    )?;
    let ((with, _, cpu_with), (without, _, cpu_without)) =
        with.zip(without).ok_or_else(|| anyhow!("a window is missing"))?;
    sheet.pair("stalled.p99", with.late.p99_ms(), without.late.p99_ms());
    sheet.pair("stalled.p50", with.late.p50_ms(), without.late.p50_ms());
    sheet.pair("stalled.cpu", cpu_with, cpu_without);
    Ok(())
}

fn share(found: &ReadFound, scene: Scene) -> f64 {
    found.delivered as f64 / (scene.readers as u64 * scene.events) as f64
}

fn both(
    bench: &Bench,
    pair: usize,
    sheet: &mut Sheet,
    scene: Scene,
    other: &str,
) -> Result<(ReadFound, ReadFound, f64, f64)> {
    let (mut ours, mut theirs) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                ours = Some(product(bench, sheet, scene)?);
                Ok(())
            },
            &mut || {
                theirs = Some(yardstick(other, scene)?);
                Ok(())
            },
        ],
    )?;
    let ((ours, idle, cpu), (theirs, _)) = ours.zip(theirs).ok_or_else(|| anyhow!("a window is missing"))?;
    for (name, found) in [("ours", &ours), (other, &theirs)] {
        sheet.note(format!(
            "{name}, {} × {}: {:.0} messages/s, p50 {:.1} ms, p99 {:.1} ms, {} missing",
            scene.readers,
            scene.rate,
            found.delivered as f64 / found.seconds,
            found.late.p50_ms(),
            found.late.p99_ms(),
            found.missing
        ));
    }
    Ok((ours, theirs, idle, cpu))
}

/// Returns the client's results, the server's memory per idle reader in KiB, and its processor time per message in
/// nanoseconds.
fn product(bench: &Bench, sheet: &mut Sheet, scene: Scene) -> Result<(ReadFound, f64, f64)> {
    let scratch = bench.scratch("server")?;
    let server = Server::product(scratch.path())?;
    let run = new_run(&server)?;
    let before = anonymous_kib(server.pid())?;
    let path = format!("/v1/runs/{run}/events");
    let (mut idle, mut cpu) = (0.0, 0.0);
    let plan = plan(&server, path, scene, Source::Run(run));
    let found: ReadFound = load(&plan, || {
        idle = (anonymous_kib(server.pid())? - before) / scene.readers as f64;
        cpu = cpu_seconds(server.pid())?;
        Ok(())
    })?;
    let cpu = (cpu_seconds(server.pid())? - cpu) * 1e9 / found.delivered.max(1) as f64;
    let offered = scene.readers as u64 * scene.events;
    sheet.must(
        found.missing + found.repeated + found.closed_early == 0 && found.delivered == offered,
        || {
            format!(
                "{} readers at {} events/s got {} messages of {offered}: {} missing, {} twice, {} cut off",
                scene.readers, scene.rate, found.delivered, found.missing, found.repeated, found.closed_early
            )
        },
    );
    Ok((found, idle, cpu))
}

fn yardstick(name: &str, scene: Scene) -> Result<(ReadFound, f64)> {
    let server = Server::start(&["yardstick", name, &scene.rate.to_string(), &scene.events.to_string()])?;
    let plan = plan(&server, "/events".to_owned(), scene, Source::Server);
    let mut cpu = 0.0;
    let found: ReadFound = load(&plan, || {
        cpu = cpu_seconds(server.pid())?;
        Ok(())
    })?;
    let cpu = (cpu_seconds(server.pid())? - cpu) * 1e9 / found.delivered.max(1) as f64;
    Ok((found, cpu))
}

fn plan(server: &Server, path: String, scene: Scene, source: Source) -> Plan {
    Plan::Read(ReadPlan {
        address: server.address,
        written_at: None,
        path,
        readers: scene.readers,
        stalled: scene.stalled,
        rate: scene.rate,
        events: scene.events,
        stamped_when_sent: false,
        source,
    })
}
