//! The accessibility event protocol: checking files of events, both layers and profile strict, on one core, against
//! plain typed deserialisation of the same texts; and the memory of a checker that follows many sessions at once.
//!
//! Times are processor time of the one thread that works, so that other load does not count.

mod talk;

use std::convert::Infallible;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use recount_aaep::rule::Profile;
use recount_aaep::session::{Checker, Options};
use recount_aaep_kit::World;
use recount_aaep_kit::trace::{self, Format};
use recount_aaep_kit::validate::{TextReport, Validation, Verdict};

use super::Bench;
use crate::clock::thread_seconds;
use crate::process::anonymous_kib;
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::yardstick::plain;

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "aaep.validate",
        what: "AAEP, sessions and events checked, strict, one core, against plain typed deserialisation",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.6),
    },
    SheetRow {
        key: "aaep.bytes",
        what: "AAEP, the same in bytes of files",
        unit: "MB/s",
        bar: Bar::RatioAtLeast(0.6),
    },
    SheetRow {
        key: "aaep.sessions",
        what: "AAEP, memory of a checker that follows 10,000 open sessions, behind 2,000,000 events beside 1,000,000",
        unit: "MiB",
        bar: Bar::RatioAtMost(1.1),
    },
    SheetRow {
        key: "aaep.text",
        what: "AAEP, 100,000 events rendered as a linear account",
        unit: "s",
        bar: Bar::AtMost(1.0),
    },
    SheetRow { key: "aaep.html", what: "AAEP, the same drawn as a page", unit: "s", bar: Bar::AtMost(1.0) },
    SheetRow { key: "aaep.json", what: "AAEP, the same given as data", unit: "s", bar: Bar::AtMost(1.0) },
];

/// Sessions that are open at once when memory is looked at: as many as are followed.
const OPEN_SESSIONS: usize = recount_aaep::limits::SESSIONS_OPEN_MAX;

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    speed(bench, pair, sheet)?;
    traces(bench, sheet)?;
    let (events, sessions) = bench.pick((4_000, 100), (1_000_000, OPEN_SESSIONS));
    sheet.pair("aaep.sessions", crowd_mib(sessions, 2 * events)?, crowd_mib(sessions, events)?);
    Ok(())
}

fn speed(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let text = talk::sessions(bench.pick(500, 100_000));
    let count = text.lines().count() as f64;
    let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
    let (mut ours, mut theirs, mut skipped) = (f64::MAX, f64::MAX, f64::MAX);
    // The best pass of each counts: what comes on top of it is other programs in the caches.
    let start = thread_seconds();
    let mut passes = 0;
    while thread_seconds() - start < bench.short_seconds() || passes < 2 {
        let mut parts: [&mut dyn FnMut() -> Result<()>; 3] = [
            &mut || best(&mut ours, || validated(&text)),
            &mut || best(&mut theirs, || plain::read(&lines)),
            &mut || best(&mut skipped, || plain::skip(&lines)),
        ];
        if (pair + passes) % 2 == 1 {
            parts.reverse();
        }
        for part in parts {
            part()?;
        }
        passes += 1;
    }
    sheet.pair("aaep.validate", count / ours, count / theirs);
    let megabytes = text.len() as f64 / 1e6;
    sheet.pair("aaep.bytes", megabytes / ours, megabytes / theirs);
    sheet.share("plain typed deserialisation: of skipping the same texts".to_owned(), skipped / theirs, 0.15);
    Ok(())
}

fn traces(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let text = talk::sessions(bench.pick(500, 100_000));
    let forms = [("aaep.text", Format::Text), ("aaep.html", Format::Html), ("aaep.json", Format::Json)];
    for (key, format) in forms {
        let start = thread_seconds();
        let mut page = Vec::new();
        let totals = trace::write(text.as_bytes(), format, &mut page, &trace::Options::default())?;
        sheet.one(key, thread_seconds() - start);
        sheet.must(totals.errors == 0 && !page.is_empty(), || format!("{key} is not a good trace"));
    }
    Ok(())
}

/// Does a piece of work, and keeps its seconds of this thread when there were never fewer.
fn best(least: &mut f64, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = thread_seconds();
    work()?;
    *least = least.min(thread_seconds() - start);
    Ok(())
}

/// Validates a file, from its bytes to the verdict.
fn validated(text: &str) -> Result<()> {
    let mut found = Vec::new();
    let report = TextReport::new(|line: &str| {
        found.push(line.to_owned());
        Ok::<(), Infallible>(())
    });
    let mut validation = Validation::new(&World::real(), Profile::Strict, false, report);
    validation.input("talk", Ok(text.as_bytes()))?;
    let total = validation.finish()?;
    ensure!(total.verdict(true) == Verdict::Good, "what is measured is not right: {:?}", found.first());
    Ok(())
}

/// The memory growth in MiB of a separate process that follows so many sessions through so many events.
fn crowd_mib(sessions: usize, events: usize) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["sessions", &sessions.to_string(), &events.to_string()]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    printed.trim().parse().with_context(|| format!("{printed:?} is no number of mebibytes"))
}

/// The separate process: prints its memory growth.
pub(crate) fn follow_sessions(words: &[String]) -> Result<()> {
    let [sessions, events] = words else { anyhow::bail!("`sessions` takes two numbers") };
    let own = std::process::id();
    let before = anonymous_kib(own)?;
    let mut checker = Checker::new(Options::default());
    let (mut line, mut findings) = (0, 0);
    talk::crowd(sessions.parse()?, events.parse()?, |text| {
        line += 1;
        checker.text(line, text);
        findings += checker.take().len();
    });
    ensure!(findings == 0, "{findings} findings in what is right");
    println!("{}", (anonymous_kib(own)? - before) / 1024.0);
    Ok(())
}
