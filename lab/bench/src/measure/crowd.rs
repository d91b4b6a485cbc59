//! Measures many concurrent runs, each with a model that emits twenty words per second, with one reader of the feed
//! that measures the gaps between the words of each run.
//!
//! A gap is the time between two deltas of one run at the reader, so it includes the model's own pace of 50 ms, and the
//! batching of deltas.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};

use super::own::{self, OwnRunServer};
use super::{Bench, Sheet};
use crate::clock::{self, seconds_since};
use crate::histogram::Histogram;
use crate::process::{anonymous_kib, cpu_seconds};
use crate::sheet::{Bar, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "crowd.gap_p99",
        what: "500 own runs at once, 20 words/s each: p99 of the time between two deltas at a reader",
        unit: "ms",
        bar: Bar::AtMost(200.0),
    },
    SheetRow {
        key: "crowd.gap_p50",
        what: "500 own runs at once, the same, p50: the model's pace is 50 ms",
        unit: "ms",
        bar: Bar::None,
    },
    SheetRow { key: "crowd.merged", what: "500 own runs at once, words a delta", unit: "", bar: Bar::None },
    SheetRow {
        key: "crowd.memory",
        what: "500 own runs at once, the most anonymous memory of the server",
        unit: "MiB",
        bar: Bar::AtMost(300.0),
    },
    SheetRow {
        key: "crowd.cpu",
        what: "500 own runs at once, processors that the server keeps busy",
        unit: "",
        bar: Bar::None,
    },
];

/// The polling interval of memory.
const LOOK_MS: u64 = 20;

pub(super) fn pair(bench: &Bench, _pair: usize, sheet: &mut Sheet) -> Result<()> {
    let (runs, words) = (bench.pick(5, 500), bench.pick(10, 300));
    let scratch = bench.scratch("own")?;
    let text = "word ".repeat(words);
    let script = format!("[pace]\ntokens_per_second = 20.0\n\n[[turn]]\ntext = {text:?}\n");
    let own = OwnRunServer::start(scratch.path(), &script, "off")?;
    let pid = own.server.pid();
    let (over, before, start) = (AtomicBool::new(false), cpu_seconds(pid)?, clock::now_ns());
    let (found, most_kib) = std::thread::scope(|scope| {
        let memory = scope.spawn(|| {
            let mut most = 0.0_f64;
            while !over.load(Ordering::Relaxed) {
                most = most.max(anonymous_kib(pid).unwrap_or(0.0));
                clock::pause(LOOK_MS);
            }
            most
        });
        let reader = scope.spawn(|| read(&own, runs));
        let ordered = (|| {
            let mut connection = own.connect()?;
            (0..runs).try_for_each(|_| own::order(&mut connection, &own::talk()).map(drop))
        })();
        let found = reader.join().map_err(|_| anyhow!("the reader died"));
        over.store(true, Ordering::Relaxed);
        let most = memory.join().map_err(|_| anyhow!("who looks at memory died"))?;
        ordered.and(found?).map(|found| (found, most))
    })?;
    let (seconds, cpu) = (seconds_since(start), cpu_seconds(pid)? - before);
    sheet.must(found.finished == runs && found.deltas > 0, || {
        format!("{} of {runs} runs finished, with {} deltas", found.finished, found.deltas)
    });
    sheet.one("crowd.gap_p99", found.gaps.p99_ms());
    sheet.one("crowd.gap_p50", found.gaps.p50_ms());
    sheet.one("crowd.merged", (runs * words) as f64 / found.deltas.max(1) as f64);
    sheet.one("crowd.memory", most_kib / 1024.0);
    sheet.one("crowd.cpu", cpu / seconds);
    sheet.note(format!(
        "{} deltas in {seconds:.1} s, all of them at work for {:.1} s; longest gap {:.0} ms",
        found.deltas,
        found.together_ns as f64 / 1e9,
        found.gaps.share_ns(1.0) / 1e6
    ));
    own.server.stop()
}

#[derive(Default)]
struct CrowdFound {
    gaps: Histogram,
    deltas: usize,
    finished: usize,
    /// From the first word of the last run to the first end of a run.
    together_ns: u64,
}

/// Reads the feed from its beginning until all runs have ended.
fn read(own: &OwnRunServer, runs: usize) -> Result<CrowdFound> {
    let mut found = CrowdFound::default();
    let mut last: HashMap<Vec<u8>, u64> = HashMap::new();
    let (mut all_since, mut first_end) = (0, None);
    own.follow("/v1/events", |event, now| {
        if own::is(event, "assistant.text_delta\"") {
            found.deltas += 1;
            let Some(run) = own::run_of(event) else { return false };
            match last.get_mut(run) {
                Some(before) => found.gaps.add(now - std::mem::replace(before, now)),
                None => {
                    last.insert(run.to_vec(), now);
                    all_since = now;
                }
            }
        } else if own::is(event, "run.finished\"") || own::is(event, "run.failed\"") {
            first_end.get_or_insert(now);
            found.finished += usize::from(own::is(event, "run.finished\""));
            return found.finished == runs || own::is(event, "run.failed\"");
        }
        false
    })?;
    found.together_ns = first_end.unwrap_or(0).saturating_sub(all_since);
    Ok(found)
}
