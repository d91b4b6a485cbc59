//! Producers that send batch after batch, each after the previous response, as the protocol requires.

use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::{http, scene};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IngestPlan {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) batch: usize,
    /// Batches per run; then the connection creates another run.
    pub(crate) batches_a_run: u64,
    /// Ends after this time…
    pub(crate) seconds: f64,
    /// … or after so many batches on each connection.
    pub(crate) batches_max: u64,
    /// Whether each run is ended with an ending event.
    pub(crate) end_runs: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IngestFound {
    pub(crate) events: u64,
    pub(crate) seconds: f64,
    pub(crate) confirmed: Histogram,
    pub(crate) runs: Vec<String>,
}

pub(super) fn run(plan: &IngestPlan) -> Result<IngestFound> {
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        let mut connection = http::Connection::open(plan.address)?;
        let run = http::create_run(&mut connection)?;
        connections.push((connection, run));
    }
    super::wait_for_start()?;
    let start = now_ns();
    let mut found =
        IngestFound { events: 0, seconds: 0.0, confirmed: Histogram::default(), runs: Vec::new() };
    std::thread::scope(|scope| {
        let producers: Vec<_> = connections
            .into_iter()
            .map(|(connection, run)| scope.spawn(move || produce(plan, connection, run, start)))
            .collect();
        for producer in producers {
            let (events, confirmed, runs) = producer.join().map_err(|_| anyhow!("a producer died"))??;
            found.events += events;
            found.confirmed.merge(&confirmed);
            found.runs.extend(runs);
        }
        anyhow::Ok(())
    })?;
    found.seconds = seconds_since(start);
    Ok(found)
}

fn produce(
    plan: &IngestPlan,
    mut connection: http::Connection,
    mut run: String,
    start: u64,
) -> Result<(u64, Histogram, Vec<String>)> {
    let whole = String::from_utf8(scene::plain_batch(0, plan.batch, start))?;
    let (_, tail) = whole.split_once("},\"events\"").ok_or_else(|| anyhow!("a batch has two parts"))?;
    let mut confirmed = Histogram::default();
    let (mut runs, mut seq, mut sent) = (vec![run.clone()], 1, 0);
    while sent < plan.batches_max && seconds_since(start) < plan.seconds {
        if seq > plan.batches_a_run {
            run = http::create_run(&mut connection)?;
            runs.push(run.clone());
            seq = 1;
        }
        let body = format!(r#"{{"producer":{{"id":"bench","epoch":0,"seq":{seq}}},"events"{tail}"#);
        let start = now_ns();
        http::append(&mut connection, &run, body.as_bytes())?;
        confirmed.add(now_ns() - start);
        seq += 1;
        sent += 1;
        if plan.end_runs && (seq > plan.batches_a_run || sent == plan.batches_max) {
            let ending = scene::batch(0, seq, &[scene::ending()]);
            http::append(&mut connection, &run, &ending)?;
        }
    }
    Ok((sent * plan.batch as u64, confirmed, runs))
}
