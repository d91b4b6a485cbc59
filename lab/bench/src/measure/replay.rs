//! Measures reading a long run from its start over HTTP: directly after it was written, and after it ended and was
//! sealed by age.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::{Bench, alternate, load};
use crate::client::Plan;
use crate::client::ingest::{IngestFound, IngestPlan};
use crate::client::replay::{ReplayFound, ReplayPlan};
use crate::process::{Server, anonymous_kib, cpu_seconds};
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::{clock, http, raw, scene};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "replay.hot",
        what: "replay, 100,000 events just written, against the same bytes from a file",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.5),
    },
    SheetRow {
        key: "replay.sealed",
        what: "replay, 100,000 events of an ended run, sealed, against the same bytes from a file",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.45),
    },
    SheetRow {
        key: "replay.million",
        what: "replay, 1,000,000 events of an ended run, sealed, against the same bytes from a file",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.45),
    },
    SheetRow {
        key: "replay.memory",
        what: "replay, growth of the server's memory while 1,000,000 events are read once more",
        unit: "MiB",
        bar: Bar::AtMost(8.0),
    },
    SheetRow {
        key: "replay.memory_fresh",
        what: "replay, the same since the server was started, caches of the store included",
        unit: "MiB",
        bar: Bar::None,
    },
    SheetRow {
        key: "replay.cpu",
        what: "replay, the server's processor time an event, against the file's server",
        unit: "ns",
        bar: Bar::None,
    },
];

const BATCH: usize = 1000;
const PASSES: usize = 5;

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let raw_bytes = raw::loopback(256 << 10, bench.pick(0.05, 1.0))?.0;
    let events = bench.pick(2_000, 100_000);
    let hot_and_sealed = one(bench, pair, sheet, events, PASSES)?;
    sheet.pair("replay.hot", hot_and_sealed.hot, hot_and_sealed.file);
    sheet.pair("replay.sealed", hot_and_sealed.sealed, hot_and_sealed.file);
    let share = hot_and_sealed.file_bytes / raw_bytes;
    sheet.share("the pre-framed file: bytes of raw loopback".to_owned(), share, 0.3);
    let million = one(bench, pair, sheet, bench.pick(4_000, 1_000_000), 1)?;
    sheet.pair("replay.million", million.sealed, million.file);
    sheet.one("replay.memory", million.growth_kib / 1024.0);
    sheet.one("replay.memory_fresh", million.growth_fresh_kib / 1024.0);
    sheet.pair("replay.cpu", million.cpu_ns, million.file_cpu_ns);
    Ok(())
}

struct Rates {
    hot: f64,
    sealed: f64,
    file: f64,
    file_bytes: f64,
    growth_kib: f64,
    growth_fresh_kib: f64,
    cpu_ns: f64,
    file_cpu_ns: f64,
}

fn one(bench: &Bench, pair: usize, sheet: &mut Sheet, events: u64, passes: usize) -> Result<Rates> {
    let scratch = bench.scratch("server")?;
    let file = bench.scratch("framed")?;
    let framed = file.path().join("framed");
    write_framed(&framed, events)?;
    let server = Server::product(scratch.path())?;
    let run = write(&server, events)?;
    let path = format!("/v1/runs/{run}/events");
    // Two events come before those of the client.
    let checked = check(&server, &path, events + 2, sheet)?;
    let hot = timed(&server, &path, checked, passes)?;
    let mut connection = http::Connection::open(server.address)?;
    let seq = events.div_ceil(BATCH as u64) + 1;
    http::append(&mut connection, &run, &scene::batch(0, seq, &[scene::ending()]))?;
    drop(connection);
    super::wait_sealed(&server)?;
    // Restarted, so that its memory growth is separate from that of writing.
    server.stop()?;
    let server = Server::product(scratch.path())?;
    let fresh = anonymous_kib(server.pid())?;
    let checked_again = check(&server, &path, events + 3, sheet)?;
    let (mut sealed, mut from_file, mut growth_kib, mut growth_fresh_kib) =
        (Vec::new(), Vec::new(), 0.0, 0.0);
    let (mut cpu_ns, mut file_cpu_ns) = (0.0, 0.0);
    let an_event = 1e9 / (events * passes as u64) as f64;
    alternate(
        pair,
        &mut [
            &mut || {
                let before = anonymous_kib(server.pid())?;
                let cpu = cpu_seconds(server.pid())?;
                let (seconds, most) = watched(server.pid(), || timed(&server, &path, checked_again, passes))?;
                cpu_ns = (cpu_seconds(server.pid())? - cpu) * an_event;
                sealed = seconds;
                growth_kib = (most - before).max(0.0);
                growth_fresh_kib = (most - fresh).max(0.0);
                Ok(())
            },
            &mut || {
                let words = ["yardstick", "file", framed.to_str().context("the path is text")?];
                let yardstick = Server::start(&words)?;
                let bytes = std::fs::metadata(&framed)?.len();
                let cpu = cpu_seconds(yardstick.pid())?;
                from_file = timed(&yardstick, "/", bytes, passes)?;
                file_cpu_ns = (cpu_seconds(yardstick.pid())? - cpu) * an_event;
                Ok(())
            },
        ],
    )?;
    let file_seconds = median(&mut from_file)?;
    Ok(Rates {
        hot: events as f64 / median(&mut hot.clone())?,
        sealed: events as f64 / median(&mut sealed)?,
        file: events as f64 / file_seconds,
        file_bytes: std::fs::metadata(&framed)?.len() as f64 / file_seconds,
        growth_kib,
        growth_fresh_kib,
        cpu_ns,
        file_cpu_ns,
    })
}

/// Creates one run with so many events.
fn write(server: &Server, events: u64) -> Result<String> {
    let plan = IngestPlan {
        address: server.address,
        connections: 1,
        batch: BATCH,
        batches_a_run: u64::MAX,
        seconds: f64::MAX,
        batches_max: events.div_ceil(BATCH as u64),
        end_runs: false,
    };
    let written: IngestFound = load(&Plan::Ingest(plan), || Ok(()))?;
    written.runs.into_iter().next().context("a run was written")
}

/// Reads everything once and checks each id. Returns the number of bytes.
fn check(server: &Server, path: &str, messages: u64, sheet: &mut Sheet) -> Result<u64> {
    let plan =
        ReplayPlan { address: server.address, path: path.to_owned(), messages, bytes: None, passes: 1 };
    let found: ReplayFound = load(&Plan::Replay(plan), || Ok(()))?;
    sheet.must(found.messages == messages && found.missing == 0 && found.repeated == 0, || {
        format!("a replay of {messages} events brought {} ({} missing)", found.messages, found.missing)
    });
    Ok(found.bytes)
}

/// Seconds of each pass. The last kilobytes are not read, so that the final mark is not awaited.
fn timed(server: &Server, path: &str, bytes: u64, passes: usize) -> Result<Vec<f64>> {
    let bytes = bytes - bytes.min(64 << 10).min(bytes / 10);
    let plan = ReplayPlan {
        address: server.address,
        path: path.to_owned(),
        messages: 0,
        bytes: Some(bytes),
        passes,
    };
    let found: ReplayFound = load(&Plan::Replay(plan), || Ok(()))?;
    ensure!(found.seconds.len() == passes, "{} passes of {passes}", found.seconds.len());
    Ok(found.seconds)
}

/// Runs `body`. Returns its result and the peak memory of the server in KiB.
fn watched<T>(pid: u32, body: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0.0f64;
            while !over.load(Ordering::Relaxed) {
                most = most.max(anonymous_kib(pid).unwrap_or(0.0));
                clock::pause(5);
            }
            most
        });
        let outcome = body();
        over.store(true, Ordering::Relaxed);
        let most = watcher.join().map_err(|_| anyhow!("the watcher died"))?;
        Ok((outcome?, most))
    })
}

fn median(seconds: &mut [f64]) -> Result<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().ok_or_else(|| anyhow!("no pass was timed"))
}

fn write_framed(path: &Path, events: u64) -> Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for sequence in 0..events {
        write!(file, "id: {sequence}\ndata: ")?;
        file.write_all(&scene::stored(sequence, 1))?;
        file.write_all(b"\n\n")?;
    }
    file.flush()?;
    Ok(())
}
