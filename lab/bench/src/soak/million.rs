//! Runs every operation on one large store: fill, read in every form, seal, back up, verify, prune, restart. Each step
//! reports its time and the server's memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use recount_client::{Client, Source, TailItem, Until};
use recount_server::export::ExportDigest;

use super::watch::page;
use crate::client::{Plan, ingest};
use crate::clock::{now_ns, seconds_since};
use crate::process::{Client as LoadClient, Server, anonymous_kib, folder_bytes};

pub(super) const EVENTS: u64 = 1_000_000;
/// The one long run has a tenth of all events.
const LONG_DIVISOR: u64 = 10;
const BATCH: usize = 64;
const CONNECTIONS: usize = 16;
/// Batches of each other run.
const RUN_BATCHES: u64 = 40;
/// The part of all events that stays when the store is pruned.
const PRUNE_DIVISOR: u64 = 2;
const SECONDS_MAX: f64 = 3600.0;
/// How long sealing may take without other load.
const SEAL_SECONDS_MAX: f64 = 300.0;
const LOOK: Duration = Duration::from_millis(LOOK_MS);
const LOOK_MS: u64 = 200;

/// The digest of each run: events and head.
type Digests = BTreeMap<String, (u64, String)>;

struct Walk {
    data: PathBuf,
    server: Option<Server>,
    rows: Vec<String>,
    start: u64,
}

impl Walk {
    fn client(&self) -> Result<Client> {
        let address = self.server.as_ref().context("the server runs")?.address;
        Ok(Client::new(&format!("http://{address}"), None)?)
    }

    /// Ends a step, with a figure as text.
    fn step(&mut self, name: &str, figure: &str) -> Result<()> {
        let memory = match &self.server {
            Some(server) => anonymous_kib(server.pid())? / 1024.0,
            None => 0.0,
        };
        let bytes = folder_bytes(&self.data)? >> 20;
        let seconds = seconds_since(self.start);
        let row =
            format!("{name:<28} {seconds:>8.2} s {memory:>7.1} MiB held {bytes:>6} MiB on disk   {figure}");
        println!("{row}");
        self.rows.push(row);
        self.start = now_ns();
        Ok(())
    }
}

pub(super) async fn run(folder: &Path, events: u64) -> Result<bool> {
    let data = folder.join("data");
    let server = Server::product(&data)?;
    let mut walk = Walk { data: data.clone(), server: Some(server), rows: Vec::new(), start: now_ns() };
    let rate = |events: u64, start: u64| format!("{:.0} events/s", events as f64 / seconds_since(start));

    let long = make(&walk, 1, events / LONG_DIVISOR, u64::MAX)?;
    let long_run = long.first().context("the long run has an id")?.clone();
    walk.step("one long run made", &rate(events / LONG_DIVISOR, walk.start))?;
    let others = make(&walk, CONNECTIONS, events - events / LONG_DIVISOR, RUN_BATCHES)?;
    walk.step(
        &format!("{} other runs made", others.len()),
        &rate(events - events / LONG_DIVISOR, walk.start),
    )?;

    let runs: Vec<String> = long.into_iter().chain(others).collect();
    let client = walk.client()?;
    let mut digests = Digests::new();
    for run in &runs {
        let digest = client.get_run_digest(run).await?;
        digests.insert(run.clone(), (digest.events, digest.head));
    }
    let all: u64 = digests.values().map(|(events, _)| events).sum();
    ensure!(all >= events, "{all} events are there, {events} were wanted");
    walk.start = now_ns();
    for (run, digest) in &digests {
        read_pages(&client, run, digest).await?;
    }
    walk.step("read in pages, hot", &rate(all, walk.start))?;
    seal(&walk).await?;
    walk.step("all sealed", "")?;
    for (run, digest) in &digests {
        read_pages(&client, run, digest).await?;
    }
    walk.step("read in pages, sealed", &rate(all, walk.start))?;
    for (run, digest) in &digests {
        read_stream(&client, run, digest).await?;
    }
    walk.step("read as streams", &rate(all, walk.start))?;
    read_feed(&client, &digests, all).await?;
    walk.step("read as one feed", &rate(all, walk.start))?;

    let made = client.make_backup(&recount_client::admin::MakeBackup::default()).await?;
    let copy = PathBuf::from(made.path);
    walk.step("backed up", &format!("{} MiB", folder_bytes(&copy)? >> 20))?;
    verify(&copy, &digests)?;
    walk.step("backup verified", &rate(all, walk.start))?;
    let restored = Server::product(&copy)?;
    let there = Client::new(&format!("http://{}", restored.address), None)?;
    read_pages(&there, &long_run, digests.get(&long_run).context("it was noted")?).await?;
    walk.step("backup started and read", &format!("ready in {:.0} ms", restored.ready_ms))?;
    restored.stop()?;
    std::fs::remove_dir_all(&copy)?;

    if let Some(server) = walk.server.take() {
        server.stop()?;
    }
    verify(&data, &digests)?;
    walk.step("store verified", &rate(all, walk.start))?;
    let server = Server::product(&data)?;
    let ready = format!("ready in {:.0} ms", server.ready_ms);
    walk.server = Some(server);
    walk.step("started again", &ready)?;
    let client = walk.client()?;
    for (run, digest) in &digests {
        let now = client.get_run_digest(run).await?;
        ensure!((now.events, &now.head) == (digest.0, &digest.1), "{run} has changed: {now:?}");
    }
    read_feed(&client, &digests, all).await?;
    walk.step("read as one feed again", &rate(all, walk.start))?;
    let taken = prune(&client, all / PRUNE_DIVISOR).await?;
    let page = page(&walk.server.as_ref().context("the server runs")?.address.to_string()).await?;
    let figure = |name: &str| page.get(name).copied().unwrap_or(0.0);
    let left = figure("recount_sealed_events") + figure("recount_hot_events");
    walk.step("pruned by policy", &format!("{taken} events taken, {left} left"))?;
    ensure!(taken + all / PRUNE_DIVISOR >= all, "only {taken} of {all} events were taken");
    let mut pruned = Digests::new();
    for run in digests.keys() {
        let now = client.get_run_digest(run).await?;
        pruned.insert(run.clone(), (now.events, now.head));
    }
    if let Some(server) = walk.server.take() {
        server.stop()?;
    }
    verify(&data, &pruned)?;
    walk.step("pruned store verified", "")?;
    println!(
        "\n{}\n\n{} runs, {all} events, every digest the same at each step",
        walk.rows.join("\n"),
        runs.len()
    );
    Ok(true)
}

/// Prunes ended runs, oldest first, until at most so many events remain. Returns how many were removed.
async fn prune(client: &Client, left_max: u64) -> Result<u64> {
    let policy = recount_client::request::Prune { max_events: Some(left_max), ..Default::default() };
    let mut taken = 0;
    loop {
        let swept = client.prune(&policy).await?;
        taken += swept.events;
        if swept.events == 0 {
            return Ok(taken);
        }
    }
}

/// Ingests over HTTP from a separate process, as the bench does. Returns the runs.
fn make(walk: &Walk, connections: usize, events: u64, batches_a_run: u64) -> Result<Vec<String>> {
    let address = walk.server.as_ref().context("the server runs")?.address;
    let batches = events.div_ceil(BATCH as u64 * connections as u64);
    let plan = Plan::Ingest(ingest::IngestPlan {
        address,
        connections,
        batch: BATCH,
        batches_a_run,
        seconds: SECONDS_MAX,
        batches_max: batches,
        end_runs: true,
    });
    let mut client = LoadClient::start(&[serde_json::to_string(&plan)?])?;
    client.wait_ready()?;
    client.go()?;
    let found: ingest::IngestFound = client.finish()?;
    Ok(found.runs)
}

async fn seal(walk: &Walk) -> Result<()> {
    let address = walk.server.as_ref().context("the server runs")?.address.to_string();
    let start = now_ns();
    while seconds_since(start) < SEAL_SECONDS_MAX {
        if page(&address).await?.get("recount_hot_events") == Some(&0.0) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("events are hot still after {SEAL_SECONDS_MAX} s")
}

fn compare(sum: ExportDigest, (events, head): &(u64, String)) -> Result<()> {
    sum.finish(*events, head).map_err(|why| anyhow!(why))
}

async fn read_pages(client: &Client, run: &str, digest: &(u64, String)) -> Result<()> {
    let mut sum = ExportDigest::new(run);
    let mut after = None;
    loop {
        let page = client.read_run_events(run, after, Some(1000)).await?;
        for envelope in &page.data {
            sum.event(envelope.get().as_bytes()).map_err(|why| anyhow!(why))?;
        }
        after = page.next.as_ref().and_then(serde_json::Value::as_u64);
        if !page.has_more {
            return compare(sum, digest);
        }
    }
}

async fn read_stream(client: &Client, run: &str, digest: &(u64, String)) -> Result<()> {
    let mut sum = ExportDigest::new(run);
    let mut tail = client.tail(Source::Run(run.to_owned()), None, Until::Ended);
    while let Some(message) = tail.next().await {
        match message? {
            TailItem::Event { envelope, .. } => sum.event(envelope.as_bytes()).map_err(|why| anyhow!(why))?,
            TailItem::CaughtUp { .. } => {}
            TailItem::Gap(gap) => bail!("a stream lacks {gap:?}"),
            TailItem::Disconnected { reason, .. } => bail!("a stream broke: {reason}"),
        }
    }
    compare(sum, digest)
}

/// Checks that the feed has every event once, with the exact bytes of each run in order.
async fn read_feed(client: &Client, digests: &Digests, all: u64) -> Result<()> {
    let mut sums: BTreeMap<&str, ExportDigest> =
        digests.keys().map(|run| (run.as_str(), ExportDigest::new(run))).collect();
    let mut tail = client.tail(Source::Feed, None, Until::CaughtUp);
    let mut count = 0;
    while let Some(message) = tail.next().await {
        match message? {
            TailItem::Event { envelope, .. } => {
                count += 1;
                let at = envelope.find("\"run_id\":\"").context("an envelope names its run")? + 10;
                let run = envelope.get(at..at + 30).context("a run's id has thirty characters")?;
                let sum = sums.get_mut(run).with_context(|| format!("the feed contains {run}"))?;
                sum.event(envelope.as_bytes()).map_err(|why| anyhow!(why))?;
            }
            TailItem::CaughtUp { .. } => {}
            TailItem::Gap(gap) => bail!("the feed lacks {gap:?}"),
            TailItem::Disconnected { reason, .. } => bail!("the feed broke: {reason}"),
        }
    }
    ensure!(count == all, "the feed has {count} events of {all}");
    for (run, sum) in sums {
        compare(sum, digests.get(run).context("it was noted")?)?;
    }
    Ok(())
}

/// Verifies a folder and compares each run with its digest.
fn verify(data: &Path, digests: &Digests) -> Result<()> {
    let folder = data.to_owned();
    let reader = std::thread::spawn(move || recount_server::verify::offline(&folder, &[]));
    let survey = reader.join().map_err(|_| anyhow!("verify died"))?.map_err(|why| anyhow!("{why}"))?;
    ensure!(survey.reports.len() == digests.len(), "{} runs are there", survey.reports.len());
    for report in survey.reports {
        let run = report.run_id.context("the store as a whole is not sound")?;
        ensure!(report.problems.is_empty(), "{run}: {}", report.problems.join("; "));
        let noted = digests.get(&run).with_context(|| format!("{run} was never made"))?;
        ensure!((report.events, &report.head) == (noted.0, &noted.1), "{run} is not as it was noted");
    }
    Ok(())
}
