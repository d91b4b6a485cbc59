//! `recount salvage`: makes a new data folder of what can be read of a damaged one, and reports what was saved.

use std::path::PathBuf;

use clap::Args;
use recount_server::salvage::{Outcome, RunReport, SalvageReport, StoreReport, salvage};
use serde_json::json;

use super::Invocation;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{self, clean};

/// Recover the readable parts of a damaged data folder
#[derive(Args)]
pub(super) struct Salvage {
    /// Damaged data folder, which no server may be using; it is not changed
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// New data folder for the recovered data
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

impl Salvage {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let report = salvage(&self.data, &self.to)?;
        let mut out = Output::new();
        for store in &report.stores {
            if invocation.json {
                store.runs.iter().try_for_each(|run| out.value(&run_as_json(&store.tenant, run)))?;
                out.value(&store_as_json(store))?;
            } else {
                let lines = store.runs.iter().filter_map(run_line);
                let lines: Vec<String> = lines.chain(store_lines(store)).collect();
                lines.iter().try_for_each(|line| out.line(&clean::line(line)))?;
            }
        }
        note(&format!("recovered into {}; recount serve --data serves it", self.to.display()));
        note("workspaces and backups are not copied");
        verdict(&report)
    }
}

fn verdict(report: &SalvageReport) -> Result<(), Failure> {
    if report.is_whole() { Ok(()) } else { Err(Failure::No) }
}

/// Runs by outcome: whole, in part, lost, erased before.
fn counts(store: &StoreReport) -> [usize; 4] {
    let count = |is: fn(&Outcome) -> bool| store.runs.iter().filter(|run| is(&run.outcome)).count();
    [
        count(|outcome| *outcome == Outcome::Whole),
        count(|outcome| matches!(outcome, Outcome::Part(_))),
        count(|outcome| matches!(outcome, Outcome::Lost { .. })),
        count(|outcome| *outcome == Outcome::Erased),
    ]
}

/// What became of a run that is not whole.
fn run_line(run: &RunReport) -> Option<String> {
    let aside = run.aside.as_ref().map_or(String::new(), |(file, events)| {
        format!("; {} readable in {}", render::count(*events, "other event"), file.display())
    });
    match &run.outcome {
        Outcome::Whole | Outcome::Erased => None,
        Outcome::Part(damage) => {
            let last = damage.last.map_or(" on".to_owned(), |last| format!(" to {last}"));
            let (run_id, first) = (&run.run_id, damage.first);
            let events = render::count(run.events, "event");
            let reason = damage.reason.as_str().replace('_', " ");
            Some(format!("{run_id} partly saved: {events}; from event {first}{last}: {reason}{aside}"))
        }
        Outcome::Lost { events, why } => {
            let known =
                events.map_or(String::new(), |events| format!(" ({})", render::count(events, "event")));
            Some(format!("{}{known} lost: {why}{aside}", run.run_id))
        }
    }
}

fn store_lines(store: &StoreReport) -> Vec<String> {
    let tenant = &store.tenant;
    if let Some(why) = &store.unreadable {
        return vec![format!("tenant {tenant}: nothing saved: {why}")];
    }
    let [whole, part, lost, erased] = counts(store);
    let events: u64 = store.runs.iter().map(|run| run.events).sum();
    let records = store.records.iter().map(|(kind, count)| format!("{count} {}", kind.replace('_', " ")));
    let records: Vec<String> = records.collect();
    let records = if records.is_empty() { "none".to_owned() } else { records.join(", ") };
    let (damaged, missing) = (store.blobs_damaged.len(), store.blobs_missing.len());
    let mut lines = vec![
        format!(
            "tenant {tenant}: runs: {whole} complete, {part} partly saved, {lost} lost, {erased} already erased; \
             events saved: {events}"
        ),
        format!("tenant {tenant}: records saved: {records}"),
        format!("tenant {tenant}: blobs: {} saved, {damaged} damaged, {missing} missing", store.blobs),
    ];
    let found = &store.damage;
    if *found != Default::default() {
        let newest = if found.commits { "; the newest commits may be missing" } else { "" };
        lines.push(format!(
            "tenant {tenant}: unreadable: pages: {}, rows: {}, frames of the write-ahead log: {}, \
             events of unknown runs: {}{newest}",
            found.pages, found.rows, found.frames, found.nameless_records
        ));
    }
    let blobs = store.blobs_damaged.iter().map(|name| (name, "damaged"));
    let blobs = blobs.chain(store.blobs_missing.iter().map(|name| (name, "missing")));
    lines.extend(blobs.map(|(name, what)| format!("tenant {tenant}: blob {name} {what}")));
    lines
}

fn run_as_json(tenant: &str, run: &RunReport) -> serde_json::Value {
    let mut value = json!({
        "object": "run", "tenant": tenant, "run_id": run.run_id, "events": run.events,
    });
    let outcome = match &run.outcome {
        Outcome::Whole => "whole",
        Outcome::Erased => "erased",
        Outcome::Part(damage) => {
            value["first_damaged_sequence"] = json!(damage.first);
            value["last_damaged_sequence"] = json!(damage.last);
            value["reason"] = json!(damage.reason.as_str());
            "part"
        }
        Outcome::Lost { events, why } => {
            value["events_known"] = json!(events);
            value["reason"] = json!(why);
            "lost"
        }
    };
    value["outcome"] = json!(outcome);
    if let Some(head) = &run.head {
        value["head"] = json!(head);
    }
    if let Some((file, events)) = &run.aside {
        value["aside"] = json!({ "file": file, "events": events });
    }
    value
}

fn store_as_json(store: &StoreReport) -> serde_json::Value {
    let [whole, part, lost, erased] = counts(store);
    let events: u64 = store.runs.iter().map(|run| run.events).sum();
    let found = &store.damage;
    json!({
        "object": "store", "tenant": store.tenant,
        "runs": { "whole": whole, "part": part, "lost": lost, "erased": erased },
        "events": events, "records": store.records,
        "blobs": { "saved": store.blobs, "damaged": store.blobs_damaged, "missing": store.blobs_missing },
        "unreadable": {
            "pages": found.pages, "rows": found.rows, "frames": found.frames,
            "nameless_events": found.nameless_records, "newest_commits": found.commits,
        },
        "nothing_saved": store.unreadable,
    })
}
