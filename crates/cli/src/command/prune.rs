//! `recount prune`: takes away what came before the ending of one run, or by a policy of many.

use clap::Args;
use recount_client::{reply, request};
use recount_server::amounts;

use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::render::{clean, count};

/// Remove the oldest events of ended runs
#[derive(Args)]
#[group(id = "prune_subject", required = true, multiple = true)]
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
}

fn seconds(text: &str) -> Result<u64, String> {
    amounts::duration(text)
        .map(|time| time.as_secs())
        .ok_or_else(|| "use a duration such as 30d, 12h or 45m".into())
}

fn size(text: &str) -> Result<u64, String> {
    amounts::bytes(text).ok_or_else(|| "use a size such as 500MiB or 5GiB".into())
}

impl Prune {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let Some(run) = self.run else {
            let policy = request::Prune {
                max_age_seconds: self.max_age,
                max_events: self.max_events,
                max_bytes: self.max_bytes,
            };
            return sweep(asking, &policy).await;
        };
        let pruned = asking.client.prune_run(&run, &request::PruneRun { before: self.before }).await?;
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

/// Asks as often as there may be more: one request prunes a bounded number of runs.
async fn sweep(mut asking: Asking, policy: &request::Prune) -> Result<(), Failure> {
    let mut all = reply::Swept { runs: 0, events: 0, has_more: true, damaged: 0 };
    while all.has_more {
        let swept = asking.client.prune(policy).await?;
        all = reply::Swept {
            runs: all.runs + swept.runs,
            events: all.events + swept.events,
            has_more: swept.has_more,
            damaged: swept.damaged,
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
