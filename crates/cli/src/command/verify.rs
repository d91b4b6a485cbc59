//! `recount verify`: reads every event's bytes and says whether the account is whole and unaltered.
//!
//! What is compared with the server's digest detects damage, and edits by somebody who did not adjust the
//! digest as well. Against the others helps only a digest noted elsewhere: `--expect` and `--digests`.

use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::reply::Gap;
use recount_client::{Client, ClientError};
use recount_server::verify::{Checker, Noted, Report};
use serde_json::json;

use super::{Asking, ls, tail};
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
    /// The run must begin with what this head was noted for; more may have happened since
    #[arg(long, value_name = "HEAD", requires = "run", conflicts_with_all = ["all", "data", "digests"])]
    expect: Option<String>,
    /// Compare with lines that digest printed, noted elsewhere; alone, checks the runs they name
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    digests: Option<PathBuf>,
}

impl Verify {
    pub(super) async fn run(self, mut asking: Asking) -> Result<(), Failure> {
        let mut noted = noted(self.digests.as_deref())?;
        if let (Some(run), Some(head)) = (&self.run, &self.expect) {
            let expected = Noted::head(run, head);
            noted.push(expected.ok_or_else(|| {
                Failure::Usage(format!(
                    "--expect {head:?} is no head; give the last word of what digest prints"
                ))
            })?);
        }
        let mut runs = match self.run {
            Some(run) => vec![run],
            None if self.all => {
                let client = asking.client.clone();
                let fetch = async |listing| client.list_runs(&listing).await;
                let runs = ls::gather(fetch, usize::MAX, None).await?;
                runs.into_iter().map(|run| run.id).collect()
            }
            None => Vec::new(),
        };
        if self.digests.is_some() {
            for line in &noted {
                if !runs.contains(&line.run_id) {
                    runs.push(line.run_id.clone());
                }
            }
        }
        let mut tally = Tally::default();
        for run in runs {
            let report = match check(&asking.client, &run, &noted).await {
                Err(ClientError::Problem(why)) if self.digests.is_some() && why.code == "run_not_found" => {
                    Report::missing(&run)
                }
                Err(ClientError::Problem(why)) if self.digests.is_some() && why.code == "run_erased" => {
                    Report::erased(&run, 0, "", &noted)
                }
                checked => checked?,
            };
            tally.tell(&mut asking.out, asking.json, &report)?;
        }
        tally.verdict()
    }

    /// Checks all runs of a data folder without a server.
    pub(super) fn offline(&self, data: &Path, json: bool) -> Result<(), Failure> {
        offline(data, &noted(self.digests.as_deref())?, json)
    }
}

/// Checks all runs of a data folder without a server.
pub(super) fn offline(data: &Path, noted: &[Noted], json: bool) -> Result<(), Failure> {
    let survey = recount_server::verify::offline(data, noted)?;
    let mut out = Output::new();
    let mut tally = Tally::default();
    for report in &survey.reports {
        tally.tell(&mut out, json, report)?;
    }
    if tally.problems > 0 {
        let (runs, events) = (survey.readable_runs, survey.readable_events);
        note(&format!("readable: {runs} whole runs, {events} events in all; the account was not changed"));
    }
    tally.verdict()
}

/// Reads what was noted: a line a run, as `recount digest` prints it.
fn noted(file: Option<&Path>) -> Result<Vec<Noted>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|why| Failure::Usage(format!("{name} cannot be read: {why}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let noted = lines.map(|(at, line)| {
        Noted::line(line).ok_or_else(|| {
            let at = at + 1;
            Failure::Usage(format!("{name}, line {at}: {line:?} is not RUN EVENTS HEAD, as digest prints it"))
        })
    });
    let noted = noted.collect::<Result<Vec<_>, _>>()?;
    if noted.is_empty() {
        return Err(Failure::Usage(format!("{name} is empty; it needs lines as digest prints them")));
    }
    Ok(noted)
}

/// Reads a run up to what its digest covers; what comes later is not looked at.
async fn check(client: &Client, run: &str, noted: &[Noted]) -> Result<Report, ClientError> {
    loop {
        if let Some(report) = check_once(client, run, noted).await? {
            return Ok(report);
        }
    }
}

/// The same; `None` when the run was pruned on the way, which it is at most once an event.
async fn check_once(client: &Client, run: &str, noted: &[Noted]) -> Result<Option<Report>, ClientError> {
    let digest = client.get_run_digest(run).await?;
    let first = digest.first_sequence;
    let begun = digest.start.as_deref().and_then(|start| Checker::beginning_at(run, first, start));
    let mut checker = begun.unwrap_or_else(|| Checker::new(run)).against(noted);
    let mut left = digest.events - checker.count().min(digest.events);
    let mut after = checker.count().checked_sub(1);
    'pages: while left > 0 {
        let page = match client.read_run_events(run, after, None).await {
            Ok(page) => page,
            // The other runs may be in order.
            Err(ClientError::Problem(why)) if !why.retryable => {
                let from = checker.count();
                let mut report = checker.finish(None);
                report.problems.push(format!("nothing can be read from event {from} on: {}", why.detail));
                return Ok(Some(report));
            }
            Err(why) => return Err(why),
        };
        match &page.gap {
            Some(Gap::Damaged(damaged)) => {
                // What follows cannot be added up without what is damaged.
                let mut report = checker.finish(None);
                report.problems.push(tail::damage_words(damaged));
                return Ok(Some(report));
            }
            Some(Gap::Pruned { .. }) => return Ok(None),
            None => {}
        }
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
    Ok(Some(checker.finish(Some((digest.events, &digest.head)))))
}

#[derive(Default)]
struct Tally {
    runs: usize,
    problems: usize,
}

impl Tally {
    fn tell(&mut self, out: &mut Output, as_json: bool, report: &Report) -> Result<(), Failure> {
        self.runs += usize::from(report.run_id.is_some());
        self.problems += report.problems.len();
        let ok = report.problems.is_empty();
        if as_json {
            let mut value = json!({
                "run_id": report.run_id, "ok": ok, "events": report.events, "head": report.head,
                "problems": report.problems,
            });
            if !report.unseen.is_empty() {
                value["unseen"] = json!(report.unseen);
            }
            return out.value(&value);
        }
        let subject = clean::line(report.run_id.as_deref().unwrap_or("store"));
        for unseen in &report.unseen {
            note(&format!("{subject}: {unseen}"));
        }
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
