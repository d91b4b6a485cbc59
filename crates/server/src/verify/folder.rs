//! Verification of a data folder that no server holds, damaged or not. See [`offline`].

use std::collections::BTreeMap;
use std::path::Path;

use recount_log::{Fault, FaultKind, Integrity, ReadBound, Record, Store, StreamKey};
use recount_log_sqlite::{SqliteOptions, SqliteStore, inspect};

use super::{Checker, Noted, VerifyReport};
use crate::boxed;
use crate::tenant_folder::{loss_of_tenants, tenant_folders};
use crate::{StartError, audit, limits};

/// What was found in a data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The store as a whole, if something is wrong with it, then one a run.
    pub reports: Vec<VerifyReport>,
    /// Runs of which everything can be read and adds up, and events that can be read.
    pub readable_runs: u64,
    pub readable_events: u64,
}

/// Checks every run of a data folder that no server holds, those of all its tenants.
pub fn offline(data: &Path, noted: &[Noted]) -> Result<Survey, StartError> {
    let mut survey = one_store(data, noted)?;
    let folders = tenant_folders(data)
        .map_err(|why| StartError::failed(format!("cannot read the folder of tenants: {why}")))?;
    let loss = loss_of_tenants(data).map_err(|why| StartError::failed(why.to_string()))?;
    if let Some(loss) = loss {
        add(&mut survey.reports, None, loss);
    }
    for (name, folder) in folders {
        let mut of_tenant = one_store(&folder, noted)?;
        if name == audit::TENANT {
            of_tenant.keep_problems();
        }
        for whole in of_tenant.reports.iter_mut().filter(|report| report.run_id.is_none()) {
            let sentences = whole.problems.iter_mut().chain(&mut whole.unseen);
            sentences.for_each(|sentence| *sentence = format!("tenant {name}: {sentence}"));
        }
        survey.join(of_tenant, noted);
    }
    Ok(survey)
}

impl Survey {
    /// Leaves sound runs out: of the audit trail only damage is worth a line.
    fn keep_problems(&mut self) {
        self.reports.retain(|report| !report.problems.is_empty());
        self.readable_runs = 0;
        self.readable_events = 0;
    }

    /// Takes in what another store holds. What was noted is missing where no store has it.
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
            let told = self.reports.iter().any(|there| there.run_id == report.run_id);
            if !absent(&report) || !told {
                self.reports.push(report);
            }
        }
        self.readable_runs += other.readable_runs;
        self.readable_events += other.readable_events;
    }
}

/// Checks every run of one store that no server holds. The store stays as it is: a missing one is not
/// created, and one that is damaged or of an older release is only read.
fn one_store(data: &Path, noted: &[Noted]) -> Result<Survey, StartError> {
    if !data.join("recount.db").is_file() {
        return Err(StartError::usage(format!("{} contains no store; name a data folder", data.display())));
    }
    let integrity = inspect(data).map_err(|fault| refused(&fault))?;
    let mut found = Found::sorted(&integrity);
    let may_open = if data.join("blobs").is_dir() {
        // Where no event can be read there may be no tables, and opening would make them.
        integrity.problems.is_empty() || integrity.readable_records > 0
    } else {
        found
            .of_store
            .push("the folder blobs is missing; restore a complete copy of the data folder".to_owned());
        false
    };
    let opened = match may_open.then(|| runs(data, noted)) {
        Some(Ok((reports, astray))) => {
            found.of_store.extend(astray);
            Some(reports)
        }
        // Reported already.
        Some(Err(Unread::Store(fault))) if fault.kind == FaultKind::Corrupt => {
            if integrity.problems.is_empty() {
                found.of_store.push(words(&fault.message));
            }
            None
        }
        Some(Err(Unread::Store(fault))) => return Err(refused(&fault)),
        Some(Err(Unread::Runtime(why))) => return Err(why),
        None => None,
    };
    if opened.is_none() && !noted.is_empty() {
        found.of_store.push("the store cannot be opened, so no recorded digests were compared".to_owned());
    }
    let was_opened = opened.is_some();
    let mut reports = opened.unwrap_or_default();
    for report in &mut reports {
        let told = report.run_id.as_ref().and_then(|run| found.of_runs.remove(run)).unwrap_or_default();
        // Each fault once, in the more precise words.
        if report.problems.is_empty() {
            report.problems = told;
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
    Ok(Survey {
        reports,
        readable_runs: integrity.readable_streams,
        readable_events: integrity.readable_records,
    })
}

/// Seals all that a folder holds, without waiting for its age. For tests of damage to what is sealed.
#[doc(hidden)]
#[boxed]
pub async fn seal(data: &Path) -> Result<(), StartError> {
    let store = SqliteStore::open(SqliteOptions::new(data)).map_err(|fault| refused(&fault))?;
    store.seal_now().await.map_err(|fault| refused(&fault))?;
    store.close().await.map_err(|fault| refused(&fault))
}

/// Why runs were not read.
enum Unread {
    Store(Fault),
    Runtime(StartError),
}

/// Opens the store, which refuses one that is damaged before it changes anything, and reads each run; then
/// the catalogue, where the runs are sound.
fn runs(data: &Path, noted: &[Noted]) -> Result<(Vec<VerifyReport>, Vec<String>), Unread> {
    let store = SqliteStore::open(SqliteOptions::new(data)).map_err(Unread::Store)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| Unread::Runtime(StartError::failed(format!("cannot start the runtime: {why}"))))?;
    runtime.block_on(async {
        let mut reports = Vec::new();
        let mut after = None;
        loop {
            let streams =
                store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await.map_err(Unread::Store)?;
            let Some(last) = streams.last() else {
                missing_blobs(&store, &mut reports).await;
                let sound = reports.iter().all(|report: &VerifyReport| report.problems.is_empty());
                let astray = if sound { catalogue(&store).await } else { Vec::new() };
                return Ok((reports, astray));
            };
            after = Some(last.clone());
            for stream in &streams {
                reports.push(one(&store, stream, noted).await);
            }
        }
    })
}

/// Adds to each run which blobs of its artifacts are missing; the store reports missing blobs that no
/// run has used.
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

fn add(reports: &mut Vec<VerifyReport>, run_id: Option<String>, problem: String) {
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

async fn one(store: &dyn Store, stream: &StreamKey, noted: &[Noted]) -> VerifyReport {
    let tail = store.tail(stream).await;
    let started = match &tail {
        Ok(Some(tail)) if tail.erased => {
            return VerifyReport::erased(stream, tail.next_sequence, &tail.head.to_string(), noted);
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
                    // What is wrong is kept in the report.
                    drop(checker.event(&record.bytes));
                }
            }
            Err(fault) => {
                break Some(fault);
            }
        }
    };
    if let Some(fault) = unreadable {
        let from = checker.count();
        // A check of its end and head would only report the same again.
        let mut report = checker.finish(None);
        report.problems.extend(damages(store, stream, from, fault).await);
        return report;
    }
    match tail {
        Ok(tail) => {
            let tail = tail.map(|tail| (tail.next_sequence, tail.head.to_string()));
            checker.finish(tail.as_ref().map(|(events, head)| (*events, head.as_str())))
        }
        Err(fault) => {
            let mut report = checker.finish(None);
            report.problems.push(format!("cannot read the end of the run: {}", words(&fault.message)));
            report
        }
    }
}

/// Every stretch of a run that cannot be read, from the first on.
async fn damages(store: &dyn Store, stream: &StreamKey, from: u64, first: Fault) -> Vec<String> {
    let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
    let (mut told, mut next) = (Vec::new(), from);
    let mut found: Result<Vec<Record>, Fault> = Err(first);
    loop {
        next = match found {
            Ok(page) => match page.last() {
                Some(last) => last.sequence + 1,
                None => return told,
            },
            Err(fault) => match fault.damage.as_ref().and_then(|damage| damage.sequences.clone()) {
                Some(range) if told.len() < limits::VERIFY_SENTENCES_MAX && *range.end() >= next => {
                    told.push(format!("events {} to {} are damaged", range.start(), range.end()));
                    range.end() + 1
                }
                Some(_) => {
                    told.push(format!("and more damage from event {next} on"));
                    return told;
                }
                None => {
                    told.push(format!(
                        "no events can be read from event {next} on: {}",
                        words(&fault.message)
                    ));
                    return told;
                }
            },
        };
        found = store.read(stream, next, bound).await;
    }
}

/// What a look at the whole store found, by what it is about.
struct Found {
    of_store: Vec<String>,
    of_runs: BTreeMap<String, Vec<String>>,
}

impl Found {
    fn sorted(integrity: &Integrity) -> Self {
        let mut found = Found { of_store: Vec::new(), of_runs: BTreeMap::new() };
        for problem in &integrity.problems {
            let problem = words(problem);
            match problem.strip_prefix("stream ").and_then(|rest| rest.split_once(' ')) {
                Some((run, rest)) if run.starts_with("run_") => {
                    found.of_runs.entry(run.to_owned()).or_default().push(rest.to_owned());
                }
                _ => found.of_store.push(problem),
            }
        }
        // Numbers of events that cannot be read come up again as positions without a record.
        let unreadable: Vec<String> =
            found.of_store.iter().filter_map(|problem| lost_numbers(problem)).collect();
        found.of_store.retain(|problem| !unreadable.contains(problem));
        found
    }
}

/// How the events that a sentence calls unreadable would be missed.
fn lost_numbers(problem: &str) -> Option<String> {
    let (numbers, _) = problem.strip_prefix("groups: numbers ")?.split_once(" cannot be read")?;
    Some(format!("positions {numbers} have no readable record"))
}

fn refused(fault: &Fault) -> StartError {
    let advice = match fault.kind {
        FaultKind::Io => "; the lock needs a writable folder: use a copy of the folder",
        _ => "",
    };
    StartError::failed(format!("{}{advice}", words(&fault.message)))
}

/// A sentence of the store without its advice to do what is being done.
fn words(message: &str) -> String {
    message.replace("; check the store with `recount verify --data`", "")
}
