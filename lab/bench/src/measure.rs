//! The measures: their list, their parameters, and the bars they must meet.
//!
//! A measure runs once per pair: ours and its yardsticks, one after the other, in reverse order in every
//! second pair, so that neither always has the quieter machine. To add one: its file, its line in
//! [`MEASURES`].

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;

use crate::client::Plan;
use crate::process::{Client, Server};
use crate::sheet::{Sheet, SheetRow};
use crate::{clock, raw};

mod aaep;
mod append;
mod calls;
mod crowd;
mod fanout;
mod footprint;
mod ingest;
mod listeners;
mod nodes;
mod output;
mod own;
mod postgres;
mod project;
mod recorder;
mod replay;
mod turns;
mod wake;
mod words;

pub(crate) use aaep::follow_sessions;
pub(crate) use recorder::agent as acp_agent;

/// One measure.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) lines: &'static [SheetRow],
    /// Runs one pair.
    pub(crate) pair: fn(&Bench, usize, &mut Sheet) -> Result<()>,
}

pub(crate) const MEASURES: &[Measure] = &[
    Measure { name: "append", lines: append::LINES, pair: append::pair },
    Measure { name: "ingest", lines: ingest::LINES, pair: ingest::pair },
    Measure { name: "wake", lines: wake::LINES, pair: wake::pair },
    Measure { name: "replay", lines: replay::LINES, pair: replay::pair },
    Measure { name: "fanout", lines: fanout::LINES, pair: fanout::pair },
    Measure { name: "stalled", lines: fanout::STALLED_LINES, pair: fanout::stalled },
    Measure { name: "footprint", lines: footprint::LINES, pair: footprint::pair },
    Measure { name: "words", lines: words::LINES, pair: words::pair },
    Measure { name: "output", lines: output::LINES, pair: output::pair },
    Measure { name: "crowd", lines: crowd::LINES, pair: crowd::pair },
    Measure { name: "calls", lines: calls::LINES, pair: calls::pair },
    Measure { name: "turns", lines: turns::LINES, pair: turns::pair },
    Measure { name: "aaep", lines: aaep::LINES, pair: aaep::pair },
    Measure { name: "listeners", lines: listeners::LINES, pair: listeners::pair },
    Measure { name: "project", lines: project::LINES, pair: project::pair },
    Measure { name: "nodes", lines: nodes::LINES, pair: nodes::pair },
    Measure { name: "postgres", lines: postgres::LINES, pair: postgres::pair },
    Measure { name: "recorder", lines: recorder::LINES, pair: recorder::pair },
];

/// The parameters of a measure.
pub(crate) struct Bench {
    /// A smoke run: small numbers, short windows, speeds are not evaluated.
    pub(crate) quick: bool,
    /// Length of a window where state matters.
    pub(crate) seconds: f64,
    /// The folder of the stores, on the disk to be measured.
    pub(crate) folder: PathBuf,
}

impl Bench {
    /// Chooses by whether this is a smoke run.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The length of a window for stateless measures.
    fn short_seconds(&self) -> f64 {
        self.seconds.min(self.pick(0.2, 5.0))
    }

    /// A new folder for `what`, deleted on drop.
    fn scratch(&self, what: &str) -> Result<Scratch> {
        let path = self.folder.join(what);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// Synced writes of so many bytes per second on this disk.
    fn raw_syncs(&self, piece: usize) -> Result<f64> {
        let scratch = self.scratch("raw")?;
        raw::synced_writes(scratch.path(), piece, self.pick(0.05, 1.0))
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

/// Runs a client to its end; `between` is called when it is ready.
fn load<T: DeserializeOwned>(plan: &Plan, between: impl FnOnce() -> Result<()>) -> Result<T> {
    let mut client = Client::start(&[serde_json::to_string(plan)?])?;
    client.wait_ready()?;
    between()?;
    client.go()?;
    client.finish()
}

/// A run with its first two events, on a server.
fn new_run(server: &Server) -> Result<String> {
    let mut connection = crate::http::Connection::open(server.address)?;
    crate::http::create_run(&mut connection).context("a run for the bench")
}

/// Waits until nothing of a store is hot any more, according to its server.
fn wait_sealed(server: &Server) -> Result<()> {
    for _ in 0..SEALED_LOOKS_MAX {
        let page = crate::http::get(server.address, "/metrics").context("asking what is hot")?;
        let hot = page.lines().find_map(|line| line.strip_prefix(HOT_RECORDS)?.trim().parse::<f64>().ok());
        if hot.context("/metrics does not report what is hot")? == 0.0 {
            return Ok(());
        }
        clock::pause(SEALED_LOOK_MS);
    }
    anyhow::bail!("the store is not sealed after {} s", SEALED_LOOKS_MAX * SEALED_LOOK_MS / 1000)
}

/// What `/metrics` calls the number of records that are hot.
const HOT_RECORDS: &str = "recount_hot_events ";
const SEALED_LOOK_MS: u64 = 200;
const SEALED_LOOKS_MAX: u64 = 300;

/// Calls the parts in order, or the other way round in every second pair.
fn alternate(pair: usize, parts: &mut [&mut dyn FnMut() -> Result<()>]) -> Result<()> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    if pair % 2 == 1 {
        order.reverse();
    }
    for at in order {
        parts[at]()?;
        // What the one left to be written must not burden the other.
        clock::pause(100);
    }
    Ok(())
}
