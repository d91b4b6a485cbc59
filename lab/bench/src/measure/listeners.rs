//! Measures listeners of the accessibility face: many subscriptions to many runs with more output than the listeners
//! allow, with the client in a second process, compared with readers of the native face under the same load.

use anyhow::{Result, anyhow};

use super::{Bench, alternate};
use crate::client::Plan;
use crate::client::listen::{Face, ListenFound, ListenPlan};
use crate::process::{Client, Server, anonymous_kib, cpu_seconds};
use crate::sheet::{Bar, Sheet, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "listeners.p99",
        what: "1,000 AAEP subscriptions over 50 runs at 20 events/s, rate used up: a question from due to the listener, p99, beside native readers",
        unit: "ms",
        bar: Bar::AtMost(50.0),
    },
    SheetRow {
        key: "listeners.p50",
        what: "the same, p50, beside native readers",
        unit: "ms",
        bar: Bar::None,
    },
    SheetRow {
        key: "listeners.confirmed",
        what: "the same, an event from due to the confirmed append, p99, beside the same with native readers",
        unit: "ms",
        bar: Bar::None,
    },
    SheetRow {
        key: "listeners.memory",
        what: "the server's memory for an AAEP subscription that has joined, beside a native reader",
        unit: "KiB",
        bar: Bar::AtMost(24.0),
    },
    SheetRow {
        key: "listeners.loaded",
        what: "the same at the end of the load, what the runs themselves take included",
        unit: "KiB",
        bar: Bar::None,
    },
    SheetRow {
        key: "listeners.cpu",
        what: "processors that the server keeps busy with 1,000 AAEP subscriptions, beside native readers",
        unit: "",
        bar: Bar::None,
    },
    SheetRow {
        key: "listeners.messages",
        what: "messages a second to all AAEP subscriptions, beside native readers",
        unit: "messages/s",
        bar: Bar::None,
    },
];

const RATE: u64 = 20;

/// The results of one window.
struct ListenerWindow {
    found: ListenFound,
    joined_kib: f64,
    loaded_kib: f64,
    processors: f64,
    messages: f64,
}

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let (mut ours, mut native) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                ours = Some(window(bench, Face::Accessibility)?);
                Ok(())
            },
            &mut || {
                native = Some(window(bench, Face::Native)?);
                Ok(())
            },
        ],
    )?;
    let (ours, native) = ours.zip(native).ok_or_else(|| anyhow!("a window is missing"))?;
    for (name, ListenerWindow { found, .. }) in [("AAEP", &ours), ("native", &native)] {
        sheet.must(found.received == found.expected && found.closed_early == 0, || {
            format!(
                "{name}: {} questions of {} reached their listeners, {} streams ended early",
                found.received, found.expected, found.closed_early
            )
        });
        sheet.note(format!(
            "{name}: {} messages, {:.0} bytes each, questions p50 {:.1} ms, p99 {:.1} ms, appends p50 {:.1} ms, p99 {:.1} ms",
            found.messages,
            found.bytes as f64 / found.messages.max(1) as f64,
            found.late.p50_ms(),
            found.late.p99_ms(),
            found.confirmed.p50_ms(),
            found.confirmed.p99_ms()
        ));
    }
    sheet.pair("listeners.p99", ours.found.late.p99_ms(), native.found.late.p99_ms());
    sheet.pair("listeners.p50", ours.found.late.p50_ms(), native.found.late.p50_ms());
    sheet.pair("listeners.confirmed", ours.found.confirmed.p99_ms(), native.found.confirmed.p99_ms());
    sheet.pair("listeners.memory", ours.joined_kib, native.joined_kib);
    sheet.pair("listeners.loaded", ours.loaded_kib, native.loaded_kib);
    sheet.pair("listeners.cpu", ours.processors, native.processors);
    sheet.pair("listeners.messages", ours.messages, native.messages);
    Ok(())
}

fn window(bench: &Bench, face: Face) -> Result<ListenerWindow> {
    let scratch = bench.scratch("server")?;
    let server = Server::product(scratch.path())?;
    let (runs, listeners_a_run) = bench.pick((5, 4), (50, 20));
    let seconds = bench.pick(2, (bench.seconds as u64).clamp(2, 10));
    let plan = ListenPlan {
        address: server.address,
        face,
        runs,
        listeners_a_run,
        rate: RATE,
        events: seconds * RATE,
    };
    let listeners = (runs * listeners_a_run) as f64;
    let mut client = Client::start(&[serde_json::to_string(&Plan::Listen(plan))?])?;
    client.wait_ready()?;
    let before = anonymous_kib(server.pid())?;
    client.go_on()?;
    client.wait_ready()?;
    let joined_kib = (anonymous_kib(server.pid())? - before) / listeners;
    let cpu = cpu_seconds(server.pid())?;
    client.go()?;
    let found: ListenFound = client.finish()?;
    let cpu = cpu_seconds(server.pid())? - cpu;
    let loaded_kib = (anonymous_kib(server.pid())? - before) / listeners;
    server.stop()?;
    let (processors, messages) = (cpu / seconds as f64, found.messages as f64 / seconds as f64);
    Ok(ListenerWindow { found, joined_kib, loaded_kib, processors, messages })
}
