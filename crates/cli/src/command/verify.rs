//! `recount verify`: reads every event's bytes and reports whether the account is complete and unaltered.
//!
//! What is compared with the server's digest detects damage, and edits by a person who did not adjust the
//! digest as well. Against the others helps only a digest noted elsewhere: `--expect` and `--digests`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::problem::Problem;
use recount_client::reply::Digest;
use recount_client::reply::Gap;
use recount_client::{Client, ClientError, Listing};
use recount_server::verify::{Checker, Noted, PublicKeys, SignedCheck, SignedHead, Survey, VerifyReport};
use serde_json::json;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use super::reach;
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::pages::gather_all;
use crate::render::gap::damage_words;
use crate::render::{clean, count};

/// Verify that runs are complete and unaltered
#[derive(Args)]
#[group(id = "verify_subject", required = true, multiple = true)]
pub(super) struct Verify {
    /// Id of the run
    run: Option<String>,
    /// Verify all runs
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Verify all runs of this data folder, which no server may be using
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    data: Option<PathBuf>,
    /// Verify all runs in this PostgreSQL database, which no server may be using
    #[arg(long, value_name = "URL", conflicts_with_all = ["run", "data"])]
    store: Option<String>,
    /// Require the run to begin with the events that this digest head covers; newer events may follow
    #[arg(long, value_name = "HEAD", requires = "run", conflicts_with_all = ["all", "data", "store", "digests"])]
    expect: Option<String>,
    /// Compare with digests saved from recount digest; without other options, verifies the runs in the file
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    digests: Option<PathBuf>,
    /// Verify the runs in a file of recount export, without a server; with --public-key, the file needs export --signed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "all", "data", "store", "expect"])]
    export: Option<PathBuf>,
    /// Compare with the signed heads of the runs, which a key in this file must have signed: JSON from the server's
    /// /.well-known/recount-keys
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
}

impl Verify {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let keys = self.public_key.as_deref().map(public_keys).transpose()?;
        if let Some(file) = &self.export {
            let noted = noted(self.digests.as_deref(), keys.as_ref())?;
            let survey = recount_server::verify::of_export(file, &noted, keys.as_ref())?;
            return print_survey(&survey, invocation.json);
        }
        match (&self.data, &self.store) {
            (Some(data), _) => {
                let noted = noted(self.digests.as_deref(), keys.as_ref())?;
                let survey = recount_server::verify::offline_with_keys(data, &noted, keys.as_ref())?;
                print_survey(&survey, invocation.json)
            }
            (None, Some(url)) => {
                let noted = noted(self.digests.as_deref(), keys.as_ref())?;
                let survey = recount_server::verify::offline_database(url, &noted, keys.as_ref())?;
                print_survey(&survey, invocation.json)
            }
            (None, None) => reach::ask(invocation, |asking| self.ask(asking, keys)),
        }
    }

    async fn ask(mut self, mut asking: Asking, keys: Option<PublicKeys>) -> Result<(), Failure> {
        asking.out.go_on_unread();
        if let Some(run) = &mut self.run {
            *run = ids::full(&asking.client, IdKind::Run, run).await?;
        }
        let mut noted = noted(self.digests.as_deref(), keys.as_ref())?;
        if let (Some(run), Some(head)) = (&self.run, &self.expect) {
            let expected = Noted::head(run, head);
            noted.push(expected.ok_or_else(|| {
                Failure::Usage(format!(
                    "--expect {head:?} is not a head; use the last value that recount digest prints"
                ))
            })?);
        }
        // Rows of the list that are damaged: their runs are not in it.
        let mut damaged_rows = BTreeSet::new();
        let mut runs = match self.run {
            Some(run) => vec![run],
            None if self.all => {
                let fetch = async |listing| asking.client.list_runs(&listing).await;
                let runs = gather_all(fetch, &mut |row| damaged_rows.extend([row])).await?;
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
        let is_many = self.all || self.digests.is_some();
        let mut tally = VerifyTally::default();
        for row in damaged_rows {
            tally.unlisted(&mut asking.out, asking.json, &row)?;
        }
        for run in runs {
            let report = match check(&asking.client, &run, &noted, keys.as_ref()).await {
                Err(ClientError::Problem(why)) if self.digests.is_some() && why.code == "run_not_found" => {
                    VerifyReport::missing(&run)
                }
                // Of many, it may have been erased since they were listed.
                Err(ClientError::Problem(why)) if is_many && why.code == "run_erased" => {
                    VerifyReport::erased(&run, 0, "", &noted)
                }
                // The other runs may be in order, so the check goes on.
                Err(ClientError::Problem(why)) if is_many && !is_of_caller(&why) => {
                    VerifyReport::unchecked(&run, &why.detail)
                }
                checked => checked?,
            };
            tally.print_result(&mut asking.out, asking.json, &report)?;
        }
        tally.verdict()
    }
}

/// Checks all runs of a data folder without a server.
pub(super) fn offline(data: &Path, noted: &[Noted], json: bool) -> Result<(), Failure> {
    print_survey(&recount_server::verify::offline(data, noted)?, json)
}

fn print_survey(survey: &Survey, json: bool) -> Result<(), Failure> {
    let mut out = Output::new();
    out.go_on_unread();
    let mut tally = VerifyTally::default();
    for report in &survey.reports {
        tally.print_result(&mut out, json, report)?;
    }
    if tally.problems > 0 {
        let (runs, events) =
            (count(survey.readable_runs, "complete run"), count(survey.readable_events, "event"));
        note(&format!("readable: {runs}, {events} in total; nothing was changed"));
    }
    tally.verdict()
}

/// Reads what was noted: a line a run, as `recount digest` prints it, signed or not.
fn noted(file: Option<&Path>, keys: Option<&PublicKeys>) -> Result<Vec<Noted>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let name = file.display();
    let text =
        std::fs::read_to_string(file).map_err(|why| Failure::Usage(format!("cannot read {name}: {why}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let noted = lines.map(|(at, line)| {
        let at = at + 1;
        if line.starts_with('{') {
            let Some(keys) = keys else {
                return Err(Failure::Usage(format!("{name}, line {at} is a signed head; add --public-key")));
            };
            let noted = Noted::signed_line(line, keys);
            return noted.map_err(|why| Failure::Damaged(format!("{name}, line {at}: {why}")));
        }
        Noted::line(line).ok_or_else(|| {
            Failure::Usage(format!(
                "{name}, line {at}: {line:?} is not of the form RUN EVENTS HEAD, which recount digest prints"
            ))
        })
    });
    let noted = noted.collect::<Result<Vec<_>, _>>()?;
    if noted.is_empty() {
        return Err(Failure::Usage(format!("{name} is empty; use a file with the output of recount digest")));
    }
    Ok(noted)
}

fn signed_head(digest: &Digest) -> Option<SignedHead> {
    let signed = digest.signed.as_ref()?;
    Some(SignedHead { statement: signed.statement.clone(), signature: signed.signature.clone() })
}

fn public_keys(file: &Path) -> Result<PublicKeys, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|why| Failure::Usage(format!("cannot read {name}: {why}")))?;
    PublicKeys::parse(&text).map_err(|why| {
        Failure::Usage(format!(
            "{name} has no public keys ({why}); save /.well-known/recount-keys of the server in it"
        ))
    })
}

/// Reads a run up to what its digest covers; what comes later is not looked at.
async fn check(
    client: &Client,
    run: &str,
    noted: &[Noted],
    keys: Option<&PublicKeys>,
) -> Result<VerifyReport, ClientError> {
    loop {
        if let Some(report) = check_once(client, run, noted, keys).await? {
            return Ok(report);
        }
    }
}

/// The same; `None` when the run was pruned on the way, which it is at most once an event.
async fn check_once(
    client: &Client,
    run: &str,
    noted: &[Noted],
    keys: Option<&PublicKeys>,
) -> Result<Option<VerifyReport>, ClientError> {
    let (digest, undigested) = match client.get_run_digest(run).await {
        Ok(digest) => (Some(digest), None),
        // A run whose newest events are damaged has no digest; the readable events still locate the damage.
        Err(ClientError::Problem(why)) if why.code == "run_damaged" => (None, Some(why.detail)),
        Err(why) => return Err(why),
    };
    let resumed = digest.as_ref().and_then(|digest| {
        let start = digest.start.as_deref()?;
        Checker::beginning_at(run, digest.first_sequence, start)
    });
    let signed = match (keys, &digest) {
        (Some(keys), Some(digest)) => SignedCheck::of(run, signed_head(digest).as_ref(), keys),
        _ => SignedCheck::default(),
    };
    let mut checker = resumed.unwrap_or_else(|| Checker::new(run)).against(&signed.with(noted));
    let mut left =
        digest.as_ref().map_or(u64::MAX, |digest| digest.events - checker.count().min(digest.events));
    let mut after = checker.count().checked_sub(1);
    // Events that cannot be read: what follows them cannot be added up, and is only looked at for more of the same.
    let mut damaged: Vec<String> = Vec::new();
    // Without a digest a pruned run's events have no beginning to be added up from.
    let mut adds_up = true;
    'pages: while left > 0 {
        let page = match client.read_run_events(run, after, None).await {
            Ok(page) => page,
            // The other runs may be in order.
            Err(ClientError::Problem(why)) if !why.retryable => {
                let from = after.map_or(0, |after| after + 1);
                damaged.push(format!("cannot read from event {from} on: {}", why.detail));
                break;
            }
            Err(why) => return Err(why),
        };
        match &page.gap {
            Some(Gap::Damaged(range)) => {
                if damaged.len() == limits::DAMAGED_NAMED_MAX {
                    let from = after.map_or(0, |after| after + 1);
                    damaged.push(format!("and more after event {from}"));
                    break;
                }
                damaged.push(damage_words(range));
            }
            Some(Gap::Pruned { .. }) if digest.is_none() => adds_up = false,
            Some(Gap::Pruned { .. }) => return Ok(None),
            None => {}
        }
        for envelope in &page.data {
            if left == 0 {
                break 'pages;
            }
            left -= 1;
            if adds_up && damaged.is_empty() {
                // What is wrong is kept for the report.
                drop(checker.event(envelope.get().as_bytes()));
            }
        }
        let next = page.next.as_ref().and_then(serde_json::Value::as_u64);
        if !page.has_more || next.is_none() || next == after {
            break;
        }
        after = next;
    }
    // If events are damaged, a digest mismatch would only repeat that.
    let sum = digest.as_ref().filter(|_| damaged.is_empty()).map(|digest| (digest.events, &*digest.head));
    let ended_at = checker.ended_at();
    let mut report = checker.finish(sum);
    signed.report(ended_at, &mut report);
    if damaged.is_empty() {
        damaged.extend(undigested);
    }
    report.problems.append(&mut damaged);
    match lost_bytes(client, run).await {
        Ok(lost) => report.problems.extend(lost),
        // Its events were checked, whatever becomes of the rest.
        Err(ClientError::Problem(why)) if !is_of_caller(&why) => {
            report.problems.push(format!("cannot check the bytes of its artifacts: {}", why.detail));
        }
        Err(why) => return Err(why),
    }
    Ok(Some(report))
}

/// Whether a problem is about the client, so that every other request would fail, too.
fn is_of_caller(why: &Problem) -> bool {
    matches!(why.status, 400 | 401 | 403 | 429)
}

/// Which artifacts of a run have bytes that the server kept and has no more, or not as they were: each is asked for.
async fn lost_bytes(client: &Client, run: &str) -> Result<Vec<String>, ClientError> {
    let mut lost = Vec::new();
    let mut listing = Listing::default();
    loop {
        let page = client.list_run_artifacts(run, &listing).await?;
        lost.extend(page.damaged.iter().map(|row| {
            format!("a row of its artifact list is damaged, and its bytes were not checked: {row}")
        }));
        for artifact in page.data.iter().filter(|artifact| artifact.hash.is_some()) {
            match client.read_artifact(&artifact.id).await {
                Ok(_) => {}
                Err(ClientError::Problem(why)) if is_of_caller(&why) => {
                    return Err(ClientError::Problem(why));
                }
                Err(ClientError::Problem(why)) => match &*why.code {
                    "artifact_bytes_lost" => lost.push(why.detail.clone()),
                    // Others keep them, or the artifact went with its run or the run's beginning.
                    "artifact_bytes_missing" | "artifact_pruned" | "artifact_not_found" | "run_erased" => {}
                    _ => lost
                        .push(format!("cannot read the bytes of artifact {}: {}", artifact.id, why.detail)),
                },
                Err(why) => return Err(why),
            }
        }
        if !page.has_more || page.next.is_none() || page.next == listing.after {
            return Ok(lost);
        }
        listing.after = page.next;
    }
}

#[derive(Default)]
struct VerifyTally {
    runs: usize,
    problems: usize,
}

impl VerifyTally {
    /// A row that is damaged, so that its run cannot be checked.
    fn unlisted(&mut self, out: &mut Output, as_json: bool, row: &str) -> Result<(), Failure> {
        self.problems += 1;
        let problem = format!("a row of the run list is damaged, and its run was not checked: {row}");
        if as_json {
            let value =
                json!({ "run_id": null, "ok": false, "events": 0, "head": "", "problems": [problem] });
            return out.value(&value);
        }
        out.line(&format!("store wrong: {}", clean::line(&problem)))
    }

    fn print_result(
        &mut self,
        out: &mut Output,
        as_json: bool,
        report: &VerifyReport,
    ) -> Result<(), Failure> {
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
        if ok && report.run_id.is_none() {
            return Ok(());
        }
        if ok {
            let events = count(report.events, "event");
            return out.line(&format!("{subject} ok, {events}, head {}", report.head));
        }
        let wrong = |problem: &String| format!("{subject} wrong: {}", clean::line(problem));
        report.problems.iter().try_for_each(|problem| out.line(&wrong(problem)))
    }

    fn verdict(self) -> Result<(), Failure> {
        let runs = count(self.runs as u64, "run");
        match self.problems {
            0 => note(&format!("{runs} checked, no problems")),
            problems => note(&format!("{runs} checked, {}", count(problems as u64, "problem"))),
        }
        if self.problems == 0 { Ok(()) } else { Err(Failure::No) }
    }
}
