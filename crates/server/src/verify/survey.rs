//! Checks the runs of any open store, and puts what was found into a [`Survey`].
//!
//! It must not know how a store is opened. Start at [`runs_of`] and [`assemble`].

use std::collections::{BTreeMap, BTreeSet};

use recount_log::{Fault, Integrity, ReadBound, Record, Store, StreamKey};

use super::signed::{PublicKeys, SignedCheck};
use super::{Checker, Noted, VerifyReport};
use crate::{audit, limits};

/// The result of checking all stores of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// One report of the store as a whole, if it has problems, then one per run.
    pub reports: Vec<VerifyReport>,
    /// Runs that are whole, and events that can be read.
    pub readable_runs: u64,
    pub readable_events: u64,
}

impl Survey {
    /// Adds the result of a tenant's store, or of the audit trail.
    pub(super) fn join_tenant(&mut self, name: &str, mut other: Survey, noted: &[Noted]) {
        if name == audit::TENANT {
            other.keep_problems();
        }
        for whole in other.reports.iter_mut().filter(|report| report.run_id.is_none()) {
            let sentences = whole.problems.iter_mut().chain(&mut whole.unseen);
            sentences.for_each(|sentence| *sentence = format!("tenant {name}: {sentence}"));
        }
        self.join(other, noted);
    }

    /// Omits runs without problems: of the audit trail only damage is reported.
    fn keep_problems(&mut self) {
        self.reports.retain(|report| !report.problems.is_empty());
        self.readable_runs = 0;
        self.readable_events = 0;
    }

    /// Adds the result of another store. A recorded run is missing only if no store has it.
    fn join(&mut self, other: Survey, noted: &[Noted]) {
        let absent = |report: &VerifyReport| {
            let is_noted = |line: &Noted| *report == VerifyReport::missing(&line.run_id);
            noted.iter().any(is_noted)
        };
        let has = |reports: &[VerifyReport], wanted: &VerifyReport| {
            reports.iter().any(|report| report.run_id == wanted.run_id && !absent(report))
        };
        let other_reports = other.reports;
        self.reports.retain(|report| !absent(report) || !has(&other_reports, report));
        for report in other_reports {
            let is_reported = self.reports.iter().any(|there| there.run_id == report.run_id);
            if !absent(&report) || !is_reported {
                self.reports.push(report);
            }
        }
        self.readable_runs += other.readable_runs;
        self.readable_events += other.readable_events;
    }
}

/// One report of the store as a whole, if it has problems, then one per run. `opened` has the reports of the runs, if
/// they could be read.
pub(super) fn assemble(
    mut found: ProblemsByRun,
    opened: Option<Vec<VerifyReport>>,
    integrity: Integrity,
    noted: &[Noted],
) -> Survey {
    let was_opened = opened.is_some();
    let mut reports = opened.unwrap_or_default();
    for report in &mut reports {
        let found_problems =
            report.run_id.as_ref().and_then(|run| found.of_runs.remove(run)).unwrap_or_default();
        // Each fault is reported once, by the more precise check.
        if report.problems.is_empty() {
            report.problems = found_problems;
        }
    }
    let unread = |(run, problems)| {
        let (run_id, head) = (Some(run), String::new());
        VerifyReport { run_id, events: 0, head, problems, unseen: Vec::new() }
    };
    reports.extend(found.of_runs.into_iter().map(unread));
    for line in noted.iter().filter(|_| was_opened) {
        if !reports.iter().any(|report| report.run_id.as_deref() == Some(&line.run_id)) {
            reports.push(VerifyReport::missing(&line.run_id));
        }
    }
    if !found.of_store.is_empty() || !integrity.notes.is_empty() {
        let whole = VerifyReport {
            run_id: None,
            events: integrity.readable_records,
            head: String::new(),
            problems: found.of_store,
            unseen: integrity.notes,
        };
        reports.insert(0, whole);
    }
    Survey { reports, readable_runs: integrity.readable_streams, readable_events: integrity.readable_records }
}

/// Checks each run of an open store; then the catalogue, if the runs are sound.
pub(super) async fn runs_of(
    store: &dyn Store,
    noted: &[Noted],
    keys: Option<&PublicKeys>,
) -> Result<(Vec<VerifyReport>, Vec<String>), Fault> {
    let mut reports = Vec::new();
    let mut after = None;
    loop {
        let streams = store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await?;
        let Some(last) = streams.last() else {
            let sound = reports.iter().all(|report: &VerifyReport| report.problems.is_empty());
            if let Some(keys) = keys {
                missing_runs(store, keys, &mut reports).await;
            }
            missing_blobs(store, &mut reports).await;
            let astray = if sound { catalogue(store).await } else { Vec::new() };
            return Ok((reports, astray));
        };
        after = Some(last.clone());
        for stream in &streams {
            let signed = SignedCheck::of_store(store, stream, keys).await;
            let (mut report, ended_at) = one(store, stream, &signed.with(noted)).await;
            signed.report(ended_at, &mut report);
            reports.push(report);
        }
    }
}

/// Adds the missing blobs of artifacts to the reports of their runs; unused blobs go to the report of the store.
async fn missing_blobs(store: &dyn Store, reports: &mut Vec<VerifyReport>) {
    let missing = match recount_engine::missing_blobs(store).await {
        Ok(missing) => missing,
        Err(error) => {
            let sentence = format!("cannot check for missing blobs: {error}");
            return add(reports, None, sentence);
        }
    };
    for blob in missing {
        add(reports, blob.run_id.clone(), blob.to_string());
    }
}

/// Adds a report for each run that has a stored signed head and no events, not even a tombstone. `reports` must have
/// those of all streams, and no others.
async fn missing_runs(store: &dyn Store, keys: &PublicKeys, reports: &mut Vec<VerifyReport>) {
    let signed = match recount_engine::signed_runs(store).await {
        Ok(signed) => signed,
        Err(error) => return add(reports, None, format!("cannot list the signed heads: {error}")),
    };
    let found: BTreeSet<&String> = reports.iter().filter_map(|report| report.run_id.as_ref()).collect();
    let missing: Vec<String> = signed.into_iter().filter(|run| !found.contains(run)).collect();
    for run in missing {
        let problem = SignedCheck::of_store(store, &run, Some(keys)).await.of_missing_run();
        reports.push(VerifyReport { problems: vec![problem], ..VerifyReport::missing(&run) });
    }
}

pub(super) fn add(reports: &mut Vec<VerifyReport>, run_id: Option<String>, problem: String) {
    match reports.iter_mut().find(|report| report.run_id == run_id) {
        Some(report) => report.problems.push(problem),
        None => {
            let problems = vec![problem];
            reports.push(VerifyReport {
                run_id,
                events: 0,
                head: String::new(),
                problems,
                unseen: Vec::new(),
            });
        }
    }
}

/// Catalogue rows that the log does not support.
async fn catalogue(store: &dyn Store) -> Vec<String> {
    let mut astray = match recount_engine::check_catalogue(store).await {
        Ok(astray) => astray,
        Err(error) => vec![format!("cannot read the catalogue: {error}")],
    };
    let more = astray.len().saturating_sub(limits::VERIFY_SENTENCES_MAX);
    if more > 0 {
        astray.truncate(limits::VERIFY_SENTENCES_MAX);
        astray.push(format!("and {more} more rows; a missing catalogue is rebuilt by `serve`"));
    }
    astray
}

/// Checks a run, and returns the sequence of its ending as far as it can be read.
async fn one(store: &dyn Store, stream: &StreamKey, noted: &[Noted]) -> (VerifyReport, Option<u64>) {
    let tail = store.tail(stream).await;
    let started = match &tail {
        Ok(Some(tail)) if tail.erased => {
            return (VerifyReport::erased(stream, tail.next_sequence, &tail.head.to_string(), noted), None);
        }
        Ok(Some(tail)) if tail.first_sequence > 0 => {
            Checker::beginning_at(stream, tail.first_sequence, &tail.start.to_string())
        }
        _ => None,
    };
    let mut checker = started.unwrap_or_else(|| Checker::new(stream)).against(noted);
    let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
    let unreadable = loop {
        let from = checker.count();
        match store.read(stream, from, bound).await {
            Ok(page) if page.is_empty() => break None,
            Ok(page) => {
                for record in page {
                    // The checker keeps the problem for the report.
                    drop(checker.event(&record.bytes));
                }
            }
            Err(fault) => {
                break Some(fault);
            }
        }
    };
    if let Some(fault) = unreadable {
        let (from, ended_at) = (checker.count(), checker.ended_at());
        // A check of its end and head would only repeat the problem.
        let mut report = checker.finish(None);
        report.problems.extend(unreadable_ranges(store, stream, from, fault).await);
        return (report, ended_at);
    }
    let ended_at = checker.ended_at();
    let report = match tail {
        Ok(tail) => {
            let tail = tail.map(|tail| (tail.next_sequence, tail.head.to_string()));
            checker.finish(tail.as_ref().map(|(events, head)| (*events, head.as_str())))
        }
        Err(fault) => {
            let mut report = checker.finish(None);
            report
                .problems
                .push(format!("cannot read the end of the run: {}", without_advice(&fault.message)));
            report
        }
    };
    (report, ended_at)
}

/// Describes every unreadable range of a run, from the first on.
async fn unreadable_ranges(store: &dyn Store, stream: &StreamKey, from: u64, first: Fault) -> Vec<String> {
    let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
    let (mut problems, mut next) = (Vec::new(), from);
    let mut found: Result<Vec<Record>, Fault> = Err(first);
    loop {
        next = match found {
            Ok(page) => match page.last() {
                Some(last) => last.sequence + 1,
                None => return problems,
            },
            Err(fault) => match fault.damage.as_ref().and_then(|damage| damage.sequences.clone()) {
                Some(range) if problems.len() < limits::VERIFY_SENTENCES_MAX && *range.end() >= next => {
                    problems.push(format!("events {} to {} are damaged", range.start(), range.end()));
                    range.end() + 1
                }
                Some(_) => {
                    problems.push(format!("and more damage from event {next} on"));
                    return problems;
                }
                None => {
                    problems.push(format!(
                        "no events can be read from event {next} on: {}",
                        without_advice(&fault.message)
                    ));
                    return problems;
                }
            },
        };
        found = store.read(stream, next, bound).await;
    }
}

/// Problems of the store check, grouped by store and run.
pub(super) struct ProblemsByRun {
    pub(super) of_store: Vec<String>,
    of_runs: BTreeMap<String, Vec<String>>,
}

impl ProblemsByRun {
    pub(super) fn group(integrity: &Integrity) -> Self {
        let mut found = ProblemsByRun { of_store: Vec::new(), of_runs: BTreeMap::new() };
        for problem in &integrity.problems {
            let problem = without_advice(problem);
            match problem.strip_prefix("stream ").and_then(|rest| rest.split_once(' ')) {
                Some((run, rest)) if run.starts_with("run_") => {
                    found.of_runs.entry(run.to_owned()).or_default().push(rest.to_owned());
                }
                _ => found.of_store.push(problem),
            }
        }
        // Unreadable events appear again as positions without a record.
        let unreadable: Vec<String> =
            found.of_store.iter().filter_map(|problem| missing_positions(problem)).collect();
        found.of_store.retain(|problem| !unreadable.contains(problem));
        found
    }
}

/// The problem about missing positions that follows from a problem about unreadable rows.
fn missing_positions(problem: &str) -> Option<String> {
    let (numbers, _) = problem.strip_prefix("groups: numbers ")?.split_once(" cannot be read")?;
    Some(format!("positions {numbers} have no readable record"))
}

/// The message without the advice to run `recount verify`, which is running already.
pub(super) fn without_advice(message: &str) -> String {
    message.replace("; check the store with `recount verify --data`", "")
}
