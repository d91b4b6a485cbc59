//! Observes the server from outside, once a second: memory, files, metrics; a row per minute.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{FILES_BESIDE_MAX, MEMORY_MIB_MAX, SoakCourse};
use crate::clock;
use crate::process::{Server, anonymous_kib};

const LOOK: Duration = Duration::from_millis(LOOK_MS);
const LOOK_MS: u64 = 1000;
const ROW_SECONDS: f64 = 60.0;
/// How long the server may take until it is idle.
const REST_SECONDS: f64 = 60.0;

/// The highest of each figure within a minute.
#[derive(Debug, Clone, Default)]
pub(super) struct Minute {
    events: u64,
    seconds: f64,
    append_p50_ms: f64,
    append_p99_ms: f64,
    pub(super) anonymous_mib: f64,
    files: f64,
    connections: f64,
    readers: f64,
    lag: f64,
    hot: f64,
    wal_mib: f64,
    stalled: f64,
}

#[derive(Default)]
pub(super) struct Watcher {
    minutes: RefCell<Vec<Minute>>,
}

/// Samples by name and labels, as on the page.
type Page = BTreeMap<String, f64>;

impl Watcher {
    pub(super) fn minutes(&self) -> Vec<Minute> {
        self.minutes.borrow().clone()
    }

    pub(super) async fn watch(&self, course: &SoakCourse, server: &RefCell<Option<Server>>) -> Result<()> {
        let (mut row, mut began) = (Minute::default(), clock::now_ns());
        let mut before = course.book.borrow().acknowledged;
        let mut times = Page::new();
        while !course.stop.get() {
            tokio::time::sleep(LOOK).await;
            // The server may be down now.
            if let Ok(page) = page(&course.address).await {
                look(course, server, &page, &mut row);
                times = page;
            }
            row.seconds = clock::seconds_since(began);
            if row.seconds >= ROW_SECONDS || course.stop.get() {
                let now = course.book.borrow().acknowledged;
                row.events = now - before;
                (row.append_p50_ms, row.append_p99_ms) = (share_ms(&times, 0.5), share_ms(&times, 0.99));
                self.minutes.borrow_mut().push(std::mem::take(&mut row));
                (before, began) = (now, clock::now_ns());
            }
        }
        Ok(())
    }

    /// Checks that the server releases its resources when no requests are open.
    pub(super) async fn at_rest(&self, course: &SoakCourse, server: &RefCell<Option<Server>>) -> Result<()> {
        let began = clock::now_ns();
        let mut last = String::new();
        while clock::seconds_since(began) < REST_SECONDS {
            let page = page(&course.address).await.context("the server does not answer at rest")?;
            let figure = |name: &str| page.get(name).copied().unwrap_or(0.0);
            let (hot, files) = (figure("recount_hot_events"), figure("process_open_fds"));
            let readers =
                figure("recount_readers{source=\"live\"}") + figure("recount_readers{source=\"store\"}");
            let mut row = Minute::default();
            look(course, server, &page, &mut row);
            if hot == 0.0 && readers == 0.0 && files <= FILES_BESIDE_MAX {
                println!("at rest: {files} files open, {:.1} MiB of memory, all sealed", row.anonymous_mib);
                return Ok(());
            }
            last = format!("{hot} events hot, {readers} readers, {files} files open");
            tokio::time::sleep(LOOK).await;
        }
        course.broke(format!("the server does not come to rest: {last}"));
        Ok(())
    }
}

fn look(course: &SoakCourse, server: &RefCell<Option<Server>>, page: &Page, row: &mut Minute) {
    let figure = |name: &str| page.get(name).copied().unwrap_or(0.0);
    let highest = |there: &mut f64, now: f64| *there = there.max(now);
    let memory =
        server.borrow().as_ref().and_then(|server| anonymous_kib(server.pid()).ok()).unwrap_or(0.0) / 1024.0;
    let (files, connections) = (figure("process_open_fds"), figure("recount_connections"));
    highest(&mut row.anonymous_mib, memory);
    highest(&mut row.files, files);
    highest(&mut row.connections, connections);
    let readers = figure("recount_readers{source=\"live\"}") + figure("recount_readers{source=\"store\"}");
    highest(&mut row.readers, readers);
    highest(&mut row.lag, figure("recount_reader_lag_events"));
    highest(&mut row.hot, figure("recount_hot_events"));
    highest(&mut row.wal_mib, figure("recount_wal_bytes") / f64::from(1 << 20));
    highest(&mut row.stalled, figure("recount_connections_stalled_total"));
    if memory > MEMORY_MIB_MAX {
        course.broke(format!("the server holds {memory:.0} MiB, more than {MEMORY_MIB_MAX}"));
    }
    if files > connections + FILES_BESIDE_MAX {
        course.broke(format!("{files} files are open for {connections} connections"));
    }
    if figure("recount_hot_events") > recount_log_sqlite::limits::HOT_RECORDS_MAX as f64 {
        course.broke(format!("{} events are hot", figure("recount_hot_events")));
    }
}

/// Reads the metrics of a server.
pub(super) async fn page(address: &str) -> Result<Page> {
    let mut socket = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    socket.read_to_string(&mut text).await?;
    let (_, body) = text.split_once("\r\n\r\n").context("an answer without a body")?;
    let samples = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    Ok(samples.collect())
}

/// The upper bound of the bucket for this share of all appends since the server started.
fn share_ms(page: &Page, share: f64) -> f64 {
    let mut buckets: Vec<(f64, f64)> = page
        .iter()
        .filter_map(|(name, count)| {
            let bound = name.strip_prefix("recount_append_seconds_bucket{le=\"")?.strip_suffix("\"}")?;
            Some((bound.parse().unwrap_or(f64::INFINITY), *count))
        })
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = buckets.last().map_or(0.0, |(_, count)| count * share);
    buckets.iter().find(|(_, count)| *count >= wanted).map_or(0.0, |(bound, _)| bound * 1e3)
}

pub(super) fn table(minutes: &[Minute]) -> String {
    let mut text = String::from(
        "minute   events/s   p50 ≤ ms   p99 ≤ ms   MiB   files   connections   readers   lag   hot   WAL MiB   cut\n",
    );
    for (at, minute) in (1..).zip(minutes) {
        writeln!(
            text,
            "{at:>6} {:>10.0} {:>10.2} {:>10.2} {:>5.0} {:>7} {:>13} {:>9} {:>5} {:>5} {:>9.1} {:>5}",
            minute.events as f64 / minute.seconds.max(1e-9),
            minute.append_p50_ms,
            minute.append_p99_ms,
            minute.anonymous_mib,
            minute.files,
            minute.connections,
            minute.readers,
            minute.lag,
            minute.hot,
            minute.wal_mib,
            minute.stalled,
        )
        .expect("strings take what is written");
    }
    text
}
