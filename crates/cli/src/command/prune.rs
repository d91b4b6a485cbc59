//! `recount prune`: takes away what came before the ending of one run, or by a policy of many.

use clap::Args;
use recount_client::{reply, request};
use recount_server::amounts;

use super::confirm;
use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::render::{clean, count};

/// Remove the oldest events of ended runs
#[derive(Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("prune_subject").required(true).multiple(true).args(["run", "max_age", "max_events", "max_bytes"])))]
pub(super) struct Prune {
    /// Id of the run
    #[arg(conflicts_with_all = ["max_age", "max_events", "max_bytes"])]
    run: Option<String>,
    /// First event to keep; default: the event that ended the run
    #[arg(long, value_name = "SEQUENCE", requires = "run")]
    before: Option<u64>,
    /// Prune runs that ended longer ago than this, such as 30d, 12h or 45m
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    max_age: Option<u64>,
    /// Prune the runs that ended first until the store has at most this many events
    #[arg(long, value_name = "EVENTS")]
    max_events: Option<u64>,
    /// Prune the runs that ended first until the store's events have at most this many bytes, such as 5GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_bytes: Option<u64>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove without asking on a terminal
    #[arg(long, short)]
    yes: bool,
}

fn seconds(text: &str) -> Result<u64, String> {
    amounts::duration(text)
        .map(|time| time.as_secs())
        .ok_or_else(|| "use a duration with its unit, such as 30d, 12h or 45m".into())
}

fn size(text: &str) -> Result<u64, String> {
    amounts::bytes(text).ok_or_else(|| "use a size with its unit, such as 500MiB or 5GiB".into())
}

impl Prune {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let asks = !self.yes && !asking.json && confirm::can_ask();
        let Some(run) = self.run else {
            let policy = request::Prune {
                max_age_seconds: self.max_age,
                max_events: self.max_events,
                max_bytes: self.max_bytes,
                dry_run: None,
            };
            if self.dry_run || asks {
                let plan = request::Prune { dry_run: Some(true), ..policy.clone() };
                let plan = asking.client.prune(&plan).await?;
                print_plan(&mut asking, &plan)?;
                let goes_on = !self.dry_run && plan.runs > 0;
                if !goes_on
                    || !confirm::confirm(&format!("Remove {} permanently?", count(plan.events, "event")))?
                {
                    return if goes_on { Err(Failure::No) } else { Ok(()) };
                }
            }
            return sweep(asking, &policy).await;
        };
        let run = ids::full(&asking.client, IdKind::Run, &run).await?;
        let mut request = request::PruneRun { before: self.before, dry_run: None };
        if self.dry_run || asks {
            let plan = request::PruneRun { dry_run: Some(true), ..request.clone() };
            let plan = asking.client.prune_run(&run, &plan).await?;
            let (run_id, events) = (clean::line(&plan.run_id), count(plan.events, "event"));
            if self.dry_run && asking.json {
                return asking.out.value(&plan);
            }
            let line = format!("{run_id} would be pruned, {events}, first event {}", plan.first_sequence);
            asking.out.line(&line)?;
            if self.dry_run {
                return Ok(());
            }
            if plan.events > 0 && !confirm::confirm(&format!("Remove {events} permanently?"))? {
                return Err(Failure::No);
            }
            request.before = Some(plan.first_sequence);
        }
        let pruned = asking.client.prune_run(&run, &request).await?;
        if asking.json {
            return asking.out.value(&pruned);
        }
        let reply::Pruned { run_id, events, first_sequence } = pruned;
        let line = match events {
            0 => format!("{run_id} has nothing to prune, first event {first_sequence}"),
            _ => {
                let events = count(events, "event");
                format!("{run_id} pruned, {events}, first event {first_sequence}")
            }
        };
        asking.out.line(&clean::line(&line))
    }
}

/// What a policy would prune: one line a run, and the sum.
fn print_plan(asking: &mut Asking, plan: &reply::Swept) -> Result<(), Failure> {
    if asking.json {
        return asking.out.value(plan);
    }
    let lines: Vec<String> =
        plan.run_ids.iter().map(|run| clean::line(&format!("{run} would be pruned"))).collect();
    asking.out.lines(&lines)?;
    let more = plan.runs.saturating_sub(plan.run_ids.len() as u64);
    if more > 0 {
        note(&format!("{} not listed", count(more, "more run")));
    }
    let runs = count(plan.runs, "run");
    asking.out.line(&format!("{runs} would be pruned, {}", count(plan.events, "event")))
}

/// Asks as often as there may be more: one request prunes a bounded number of runs.
async fn sweep(mut asking: Asking, policy: &request::Prune) -> Result<(), Failure> {
    let mut all = reply::Swept { runs: 0, events: 0, has_more: true, damaged: 0, run_ids: Vec::new() };
    while all.has_more {
        let swept = asking.client.prune(policy).await?;
        all = reply::Swept {
            runs: all.runs + swept.runs,
            events: all.events + swept.events,
            has_more: swept.has_more,
            damaged: swept.damaged,
            run_ids: Vec::new(),
        };
        if all.has_more {
            note(&format!("{} so far", count(all.runs, "run")));
        }
    }
    if asking.json {
        return asking.out.value(&all);
    }
    if all.damaged > 0 {
        let runs = count(all.damaged, "run");
        note(&format!("{runs} damaged, not pruned; recount doctor lists them"));
    }
    let runs = count(all.runs, "run");
    asking.out.line(&format!("{runs} pruned, {}", count(all.events, "event")))
}
