//! Compares what is stored with what was acknowledged, received and executed.
//!
//! It must not know the faults. Start at [`compare`].

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use recount_server::verify;
use serde_json::Value;

use super::Sequence;
use super::follower::Follower;
use super::pair::COMMANDS;
use super::stored::StoredLog;
use super::tenant::Tenant;
use crate::soak::salvage::on_thread;

/// Compares everything that is stored with what clients know.
pub(super) fn compare(tenant: &Tenant, stored: &StoredLog, followers: &[Follower]) {
    tenant.ledger.borrow_mut().events = stored.feed.len() as u64;
    let events: BTreeMap<&String, Vec<Value>> = stored
        .runs
        .iter()
        .map(|(run, envelopes)| (run, envelopes.iter().map(|text| parsed(text)).collect()))
        .collect();
    for (run, events) in &events {
        for (index, event) in events.iter().enumerate() {
            if event["sequence"] != index || event["run_id"] != ***run {
                tenant.broke(format!("event {index} of {run} is {event}"));
            }
        }
        check_approvals(tenant, run, events);
    }
    check_feed(tenant, stored);
    check_acknowledged(tenant, stored, &events);
    let own_runs = tenant.ledger.borrow().own_runs.clone();
    for run in &own_runs {
        match events.get(run).map(|events| check_commands(events)) {
            Some(Ok(interrupted)) => tenant.ledger.borrow_mut().interrupted += interrupted,
            Some(Err(problem)) => tenant.broke(format!("{run}: {problem}")),
            None => tenant.broke(format!("{run} was created and is missing")),
        }
    }
    for follower in followers {
        if let Some(at) = follower.first_difference(stored) {
            let (name, count) = (follower.name(), follower.count());
            tenant.broke(format!(
                "{name} received {count} events, and the one at {at} differs from what is stored"
            ));
        }
    }
}

fn parsed(envelope: &str) -> Value {
    serde_json::from_str(envelope).unwrap_or_default()
}

/// The feed has the events of all runs, each in order.
fn check_feed(tenant: &Tenant, stored: &StoredLog) {
    let mut of_runs: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for envelope in &stored.feed {
        let run = parsed(envelope)["run_id"].as_str().unwrap_or_default().to_owned();
        of_runs.entry(run).or_default().push(envelope);
    }
    for (run, envelopes) in &stored.runs {
        let in_feed = of_runs.remove(run).unwrap_or_default();
        // A run may have grown between the two readings.
        let is_same = in_feed.iter().zip(envelopes).all(|(one, other)| *one == other);
        if in_feed.len() < envelopes.len() || !is_same {
            tenant.broke(format!("the feed has other events of {run} than the run: {}", in_feed.len()));
        }
    }
    if let Some(run) = of_runs.keys().next() {
        tenant.broke(format!("the feed has events of {run}, which is in no list"));
    }
}

/// Each acknowledged event and each created run exists once, in order.
fn check_acknowledged(tenant: &Tenant, stored: &StoredLog, events: &BTreeMap<&String, Vec<Value>>) {
    let ledger = tenant.ledger.borrow();
    let mut titles = stored.titles.clone();
    titles.sort_unstable();
    if !titles.iter().eq(&ledger.titles) {
        let problem =
            format!("runs with the titles {:?} were created, and these exist: {titles:?}", ledger.titles);
        drop(ledger);
        return tenant.broke(problem);
    }
    let mut problems = Vec::new();
    for (run, acknowledged) in &ledger.runs {
        let texts: Vec<&str> = events
            .get(run)
            .into_iter()
            .flatten()
            .filter_map(|event| event["data"]["text"].as_str())
            .collect();
        if texts != *acknowledged {
            let same =
                texts.iter().zip(acknowledged).take_while(|(one, other)| **one == other.as_str()).count();
            problems.push(format!(
                "{run} has {} messages, and {} were acknowledged; the first {same} are the same, then come {:?} and {:?}",
                texts.len(),
                acknowledged.len(),
                texts.get(same),
                acknowledged.get(same)
            ));
        }
    }
    drop(ledger);
    problems.into_iter().for_each(|problem| tenant.broke(problem));
}

/// Each approval is resolved at most once, and those whose resolution was acknowledged are approved.
fn check_approvals(tenant: &Tenant, run: &str, events: &[Value]) {
    let mut resolutions: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events {
        let approval = event["data"]["approval_id"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("approval.requested") => drop(resolutions.entry(approval).or_default()),
            Some("approval.resolved" | "approval.timed_out") => {
                resolutions.entry(approval).or_default().push(&event["data"]["decision"]);
            }
            _ => {}
        }
    }
    for (approval, decisions) in resolutions {
        let was_acknowledged = tenant.ledger.borrow().approved.contains(approval);
        let is_good = match decisions[..] {
            [] => !was_acknowledged,
            [decision] => !was_acknowledged || decision == "approved",
            _ => false,
        };
        if !is_good {
            tenant.broke(format!(
                "approval {approval} of {run}: acknowledged {was_acknowledged}, and its resolutions are {decisions:?}"
            ));
        }
    }
}

/// Compares the commands that an own run executed with its events. Returns how many calls were interrupted.
fn check_commands(events: &[Value]) -> Result<u64, String> {
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let workspace = of("run.queued").first().and_then(|queued| queued["data"]["workspace_path"].as_str());
    let path = Path::new(workspace.ok_or("it has no workspace")?).join("happened");
    let happened = std::fs::read_to_string(&path).unwrap_or_default();
    for name in COMMANDS {
        let times = happened.lines().filter(|line| *line == name).count();
        if times > 1 {
            return Err(format!("the {name} command was executed {times} times"));
        }
    }
    for proposed in of("assistant.tool_call_proposed") {
        let id = &proposed["data"]["tool_call_id"];
        let command = proposed["data"]["input"]["command"].as_str().unwrap_or_default();
        let name = COMMANDS.into_iter().find(|name| command.contains(&format!("echo {name} ")));
        let name = name.ok_or_else(|| format!("an unknown command: {command}"))?;
        let count = |names: &[&str]| {
            let is_of = |event: &&Value| {
                event["data"]["tool_call_id"] == *id && names.iter().any(|name| event["type"] == *name)
            };
            events.iter().filter(is_of).count()
        };
        let executed = happened.lines().filter(|line| *line == name).count();
        let invoked = count(&["tool.invoked"]);
        let outcomes =
            count(&["tool.completed", "tool.failed", "tool.cancelled", "tool.timed_out", "tool.refused"]);
        if outcomes > 1 || invoked > 1 {
            return Err(format!("the {name} call was invoked {invoked} times and has {outcomes} outcomes"));
        }
        if executed > invoked {
            return Err(format!("the {name} command was executed, and its call was not invoked"));
        }
        if count(&["tool.completed"]) == 1 && executed == 0 {
            return Err(format!("the {name} call is completed, and its command was not executed"));
        }
    }
    Ok(events.iter().filter(|event| event["data"]["code"] == "interrupted").count() as u64)
}

/// Verifies the whole database after both servers have stopped, as `recount verify --store` does.
pub(super) async fn verify(sequence: &Sequence) -> Result<()> {
    let url = sequence.pair.url();
    let survey = on_thread(move || verify::offline_database(&url, &[], None)).await?;
    match survey {
        Ok(survey) => {
            for report in survey.reports.iter().filter(|report| !report.problems.is_empty()) {
                let run = report.run_id.as_deref().unwrap_or("the store");
                sequence.course.broke(format!("verify of {run}: {}", report.problems.join("; ")));
            }
        }
        Err(why) => sequence.course.broke(format!("the database cannot be verified: {why}")),
    }
    Ok(())
}
