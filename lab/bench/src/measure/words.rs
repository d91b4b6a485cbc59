//! Measures the time from the request of a run to its first words: a model without delay, one run after the other, each
//! followed by the client that started it.

use anyhow::Result;

use super::own::{self, OwnRunServer};
use super::{Bench, Sheet};
use crate::clock::now_ns;
use crate::histogram::Histogram;
use crate::sheet::{Bar, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "words.p99",
        what: "own runs, from POST to the first text at a reader, p99",
        unit: "ms",
        bar: Bar::AtMost(15.0),
    },
    SheetRow {
        key: "words.p50",
        what: "own runs, from POST to the first text at a reader, p50",
        unit: "ms",
        bar: Bar::None,
    },
];

const SCRIPT: &str = "[[turn]]\ntext = \"Here I am.\"\n";

pub(super) fn pair(bench: &Bench, _pair: usize, sheet: &mut Sheet) -> Result<()> {
    let scratch = bench.scratch("own")?;
    let own = OwnRunServer::start(scratch.path(), SCRIPT, "off")?;
    let mut connection = own.connect()?;
    let mut late = Histogram::default();
    // The first few run with cold caches of the process and the store.
    for at in 0..bench.pick(5, 520) {
        let start = now_ns();
        let run = own::order(&mut connection, &own::talk())?;
        let mut first = None;
        own.follow(&format!("/v1/runs/{run}/events"), |event, now| {
            if own::is(event, "assistant.text_delta\"") {
                first.get_or_insert(now);
            }
            own::is(event, "run.finished\"") || own::is(event, "run.failed\"")
        })?;
        sheet.must(first.is_some(), || format!("{run} sent no words"));
        if let (Some(first), true) = (first, at >= bench.pick(0, 20)) {
            late.add(first - start);
        }
    }
    sheet.one("words.p99", late.p99_ms());
    sheet.one("words.p50", late.p50_ms());
    own.server.stop()
}
