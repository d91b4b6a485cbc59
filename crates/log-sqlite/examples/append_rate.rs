//! Measures the rates of appends, opening, sealing and replay: figures for `docs/decisions`.
//!
//! `append_rate appends FOLDER WRITERS EVENTS SECONDS` appends as fast as the store acknowledges; `append_rate open
//! FOLDER` opens a store, `append_rate seal FOLDER` seals it; `append_rate replay FOLDER EVENTS` writes one run and
//! reads it again.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for measuring")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recount_log::{Append, ReadBound, Store, StreamAppend};
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_world::{Kind, moment};

const EVENT_BYTES: usize = 400;
const PAGE: ReadBound = ReadBound { count: 1000, bytes: 1 << 20 };

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| words[place].parse::<usize>().unwrap();
    let folder = Path::new(&words[1]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        match words[0].as_str() {
            "appends" => appends(folder, number(2), number(3), number(4) as u64).await,
            "open" => opening(folder).await,
            "seal" => sealing(folder).await,
            "replay" => replay(folder, number(2) as u64).await,
            other => panic!("unknown measurement {other}"),
        }
    });
}

fn event(run: &str, sequence: u64) -> Bytes {
    let mut text = format!(
        r#"{{"schema_version":"1","event_id":"evt_{sequence:026}","run_id":"{run}","sequence":{sequence},"occurred_at":"2026-01-01T00:00:00.000Z","type":"model.delta","data":{{"text":""#
    );
    while text.len() < EVENT_BYTES - 3 {
        text.push(char::from(b'a' + (text.len() % 26) as u8));
    }
    text.push_str("\"}}");
    Bytes::from(text)
}

fn append(run: &str, from: u64, count: usize) -> Append {
    let records = (from..from + count as u64).map(|sequence| event(run, sequence)).collect();
    let stream = StreamAppend { stream: run.into(), expected_tail: from, records };
    Append { streams: vec![stream], ..Append::default() }
}

fn options(folder: &Path) -> SqliteOptions {
    let mut options = SqliteOptions::new(folder);
    if let Some(most) = std::env::var("RATE_HOT_RECORDS_MAX").ok().and_then(|most| most.parse().ok()) {
        options.hot_records_max = most;
    }
    options
}

async fn appends(folder: &Path, writers: usize, events: usize, seconds: u64) {
    let store = Arc::new(SqliteStore::open(options(folder)).unwrap());
    let start = moment();
    let until = start + Duration::from_secs(seconds);
    let tasks = recount_world::World::real().tasks;
    let (sender, mut receiver) = tokio::sync::mpsc::channel(writers);
    for writer in 0..writers {
        let (store, sender) = (store.clone(), sender.clone());
        tasks.spawn(Kind::Effect, move |_| async move {
            let run = format!("run_{writer:05}");
            let mut times = Vec::new();
            let mut sequence = store.tail(&run.as_str().into()).await.unwrap().map_or(0, |t| t.next_sequence);
            while moment() < until {
                let append = append(&run, sequence, events);
                let started = moment();
                store.append(append).await.unwrap();
                times.push(started.elapsed());
                sequence += events as u64;
            }
            sender.send(times).await.unwrap();
        });
    }
    drop(sender);
    let mut times = Vec::new();
    while let Some(more) = receiver.recv().await {
        times.extend(more);
    }
    let took = start.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{writers} x {events}: {:.0} events/s, ack p50 {:.2} ms, p99 {:.2} ms, most {:.1} ms",
        (times.len() * events) as f64 / took,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let records = store.last_position().await.unwrap();
    let stats = store.stats().await.unwrap();
    println!(
        "{} commits of {:.0} appends, {:.2} ms each to make durable; {} records hot, {} sealed",
        stats.sync_micros.count(),
        stats.group_appends.sum as f64 / stats.group_appends.count() as f64,
        stats.sync_micros.sum as f64 / stats.sync_micros.count() as f64 / 1e3,
        stats.hot_records,
        stats.sealed_records
    );
    let start = moment();
    store.close().await.unwrap();
    let bytes = std::fs::metadata(folder.join("recount.db")).unwrap().len();
    println!(
        "{records} records, closed in {:.0} ms, {:.1} bytes on disk each",
        start.elapsed().as_secs_f64() * 1e3,
        bytes as f64 / records as f64
    );
}

async fn opening(folder: &Path) {
    let start = moment();
    let store = SqliteStore::open(SqliteOptions::new(folder)).unwrap();
    let took = start.elapsed().as_secs_f64() * 1e3;
    println!("opened {} records in {took:.1} ms", store.last_position().await.unwrap());
    store.close().await.unwrap();
}

async fn sealing(folder: &Path) {
    let store = SqliteStore::open(SqliteOptions::new(folder)).unwrap();
    let hot = store.stats().await.unwrap().hot_records;
    let start = moment();
    store.seal_now().await.unwrap();
    let took = start.elapsed().as_secs_f64();
    println!("sealed {hot} records in {:.0} ms, {:.0} events/s", took * 1e3, hot as f64 / took);
    let records = store.last_position().await.unwrap();
    store.close().await.unwrap();
    let bytes = std::fs::metadata(folder.join("recount.db")).unwrap().len();
    println!("{:.1} bytes on disk each", bytes as f64 / records as f64);
}

async fn replay(folder: &Path, events: u64) {
    let store = SqliteStore::open(SqliteOptions::new(folder)).unwrap();
    let run = "run_replayed";
    for from in (0..events).step_by(16) {
        store.append(append(run, from, 16)).await.unwrap();
    }
    read(&store, run, "hot").await;
    let start = moment();
    store.seal_now().await.unwrap();
    let took = start.elapsed().as_secs_f64();
    println!("sealed in {:.0} ms, {:.0} events/s", took * 1e3, events as f64 / took);
    read(&store, run, "sealed").await;
    store.close().await.unwrap();
}

async fn read(store: &SqliteStore, run: &str, what: &str) {
    for _ in 0..3 {
        let start = moment();
        let mut next = 0;
        loop {
            let page = store.read(&run.into(), next, PAGE).await.unwrap();
            let Some(last) = page.last() else { break };
            next = last.sequence + 1;
        }
        let took = start.elapsed().as_secs_f64();
        println!("{what}: {next} events read in {:.0} ms, {:.0} events/s", took * 1e3, next as f64 / took);
    }
}
