//! `recount verify`: reads every event's bytes and says whether the account is whole and unaltered.
//!
//! What is compared with the server's digest detects damage, and edits by somebody who did not adjust the
//! digest as well. Against the others helps only a digest noted elsewhere.

use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::Client;
use recount_server::verify::{Checker, Report};
use serde_json::json;

use super::{Asking, ls};
use crate::exit::Failure;
use crate::output::{Output, note};
use crate::render::clean;

#[derive(Args)]
#[group(id = "verify_subject", required = true, multiple = true)]
pub(super) struct Verify {
    /// The run's id
    run: Option<String>,
    /// All runs
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Read this data folder, while no server uses it; all runs in it
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    pub(super) data: Option<PathBuf>,
}

impl Verify {
    pub(super) async fn run(self, mut asking: Asking) -> Result<(), Failure> {
        let runs = match self.run {
            Some(run) => vec![run],
            None => {
                let client = asking.client.clone();
                let fetch = async |listing| client.list_runs(&listing).await;
                let runs = ls::gather(fetch, usize::MAX, None).await?;
                runs.into_iter().map(|run| run.id).collect()
            }
        };
        let mut tally = Tally::default();
        for run in runs {
            let report = check(&asking.client, &run).await?;
            tally.tell(&mut asking.out, asking.json, &run, &report)?;
        }
        tally.verdict()
    }
}

/// Checks all runs of a data folder without a server.
pub(super) fn offline(data: &Path, json: bool) -> Result<(), Failure> {
    let reports = recount_server::verify::offline(data)?;
    let mut out = Output::new();
    let mut tally = Tally::default();
    for report in &reports {
        tally.tell(&mut out, json, &report.run_id, report)?;
    }
    tally.verdict()
}

/// Reads a run up to what its digest covers; what comes later is not looked at.
async fn check(client: &Client, run: &str) -> Result<Report, Failure> {
    let digest = client.get_run_digest(run).await?;
    let mut checker = Checker::new(run);
    let mut left = digest.events;
    let mut after = None;
    'pages: while left > 0 {
        let page = client.read_run_events(run, after, None).await?;
        for envelope in &page.data {
            if left == 0 {
                break 'pages;
            }
            left -= 1;
            // What is wrong is kept for the report.
            drop(checker.event(envelope.get().as_bytes()));
        }
        let next = page.next.as_ref().and_then(serde_json::Value::as_u64);
        if !page.has_more || next.is_none() || next == after {
            break;
        }
        after = next;
    }
    Ok(checker.finish(Some((digest.events, &digest.head))))
}

#[derive(Default)]
struct Tally {
    runs: u64,
    wrong: u64,
}

impl Tally {
    fn tell(&mut self, out: &mut Output, as_json: bool, run: &str, report: &Report) -> Result<(), Failure> {
        self.runs += 1;
        let ok = report.problems.is_empty();
        if !ok {
            self.wrong += 1;
        }
        if as_json {
            return out.value(&json!({
                "run_id": run, "ok": ok, "events": report.events, "head": report.head, "problems": report.problems,
            }));
        }
        let run = clean::line(run);
        if ok {
            return out.line(&format!("{run} ok, {} events, head {}", report.events, report.head));
        }
        report
            .problems
            .iter()
            .try_for_each(|problem| out.line(&format!("{run} wrong: {}", clean::line(problem))))
    }

    fn verdict(self) -> Result<(), Failure> {
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        if self.wrong == 0 {
            note(&format!("{runs} checked, nothing wrong"));
            return Ok(());
        }
        note(&format!("{runs} checked, {} of them wrong", self.wrong));
        Err(Failure::No)
    }
}
