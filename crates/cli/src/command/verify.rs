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
    runs: usize,
    problems: usize,
}

impl Tally {
    /// `subject` is a run, or the store as a whole.
    fn tell(
        &mut self,
        out: &mut Output,
        as_json: bool,
        subject: &str,
        report: &Report,
    ) -> Result<(), Failure> {
        let is_run = subject.starts_with("run_");
        self.runs += usize::from(is_run);
        self.problems += report.problems.len();
        let ok = report.problems.is_empty();
        if as_json {
            return out.value(&json!({
                "run_id": is_run.then_some(subject), "ok": ok, "events": report.events, "head": report.head,
                "problems": report.problems,
            }));
        }
        let subject = clean::line(subject);
        if ok {
            return out.line(&format!("{subject} ok, {} events, head {}", report.events, report.head));
        }
        let wrong = |problem: &String| format!("{subject} wrong: {}", clean::line(problem));
        report.problems.iter().try_for_each(|problem| out.line(&wrong(problem)))
    }

    fn verdict(self) -> Result<(), Failure> {
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        match self.problems {
            0 => note(&format!("{runs} checked, nothing wrong")),
            1 => note(&format!("{runs} checked, 1 problem")),
            problems => note(&format!("{runs} checked, {problems} problems")),
        }
        if self.problems == 0 { Ok(()) } else { Err(Failure::No) }
    }
}
