//! Verifies the runs in an export, with nothing but the file and public keys. See [`of_export`].
//!
//! It must not know stores. The file is read twice if there are keys, because its signed heads are in the last line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use recount_api::export::{End, ExportSignatures, Header, RUN_BYTES_MAX};

use super::signed::{PublicKeys, SignedCheck, SignedHead};
use super::survey::Survey;
use super::{Checker, Noted, VerifyReport};
use crate::{StartError, limits};

/// The signed heads of one part of the file, up to its last line. They are not checked yet.
#[derive(Default)]
struct SignedPart {
    /// By run. Each is taken by its run, so those that remain belong to none.
    heads: BTreeMap<String, SignedHead>,
    unreadable: u64,
}

/// Checks each run in a file of `recount export`, against its header, the recorded digests, and with keys against its
/// signed head.
pub fn of_export(file: &Path, noted: &[Noted], keys: Option<&PublicKeys>) -> Result<Survey, StartError> {
    let mut sections = match keys {
        Some(_) => sections(file)?,
        None => Vec::new(),
    };
    let mut lines = Lines::open(file)?;
    let mut survey = Survey { reports: Vec::new(), readable_runs: 0, readable_events: 0 };
    let mut whole = VerifyReport { run_id: None, problems: Vec::new(), ..VerifyReport::missing("") };
    let (mut section, mut since, mut current) = (0, (0, 0), None::<RunCheck>);
    // Whether a problem names that these lines belong to no run.
    let mut is_named = false;
    while let Some(line) = lines.next()? {
        if !Header::is_meant_by(&line) {
            match &mut current {
                Some(run) => run.event(&line),
                None if is_named => {}
                None => whole.problems.push(format!("line {} belongs to no run", lines.number)),
            }
            is_named = true;
            continue;
        }
        if let Some(run) = current.take() {
            since = (since.0 + 1, since.1 + run.read);
            run.finish(&mut survey);
        }
        is_named = false;
        if End::is_meant_by(&line) {
            whole.problems.extend(difference(&line, since));
            whole.problems.extend(sections.get(section).into_iter().flat_map(SignedPart::problems));
            (section, since) = (section + 1, (0, 0));
            continue;
        }
        match Header::parse(&line) {
            Ok(header) => {
                let signed = sections.get_mut(section).and_then(|part| part.heads.remove(&header.run_id));
                let signed = keys.map(|keys| SignedCheck::of(&header.run_id, signed.as_ref(), keys));
                current = Some(RunCheck::new(header, signed, noted));
            }
            Err(why) => {
                is_named = true;
                whole.problems.push(format!("line {}: {why}", lines.number));
            }
        }
        if whole.problems.len() > limits::VERIFY_SENTENCES_MAX {
            whole.problems.push("nothing after this was checked".to_owned());
            break;
        }
    }
    if let Some(run) = current.take() {
        since.0 += 1;
        run.finish(&mut survey);
    }
    if since != (0, 0) || section == 0 {
        let truncated =
            "the file has no last line with its totals: it may be truncated, and runs may be missing";
        whole.problems.push(truncated.to_owned());
    }
    for line in noted {
        if !survey.reports.iter().any(|report| report.run_id.as_deref() == Some(&line.run_id)) {
            survey.reports.push(VerifyReport::missing(&line.run_id));
        }
    }
    if !whole.problems.is_empty() {
        survey.reports.insert(0, whole);
    }
    Ok(survey)
}

/// What a last line states that differs from the runs and events before it, or is missing.
fn difference(line: &[u8], (runs, events): (u64, u64)) -> Vec<String> {
    let end = match End::parse(line) {
        Ok(end) => end,
        Err(why) => return vec![why],
    };
    let mut problems = Vec::new();
    if (end.runs, end.events) != (runs, events) {
        problems.push(format!(
            "the export has {} runs with {} events, but the file contains {runs} with {events}",
            end.runs, end.events
        ));
    }
    if end.left_out > 0 {
        problems.push(format!("the export lacks {} runs that could not be read", end.left_out));
    }
    problems
}

impl SignedPart {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.unreadable > 0 {
            problems.push(format!("{} signed heads are unreadable", self.unreadable));
        }
        if let Some(first) = self.heads.keys().next() {
            let count = self.heads.len();
            problems
                .push(format!("the file lacks {count} runs that it has signed heads of, such as {first}"));
        }
        problems
    }
}

/// The signed heads of each part of the file.
fn sections(file: &Path) -> Result<Vec<SignedPart>, StartError> {
    let mut lines = Lines::open(file)?;
    let mut sections = Vec::new();
    while let Some(line) = lines.next()? {
        if !End::is_meant_by(&line) {
            continue;
        }
        let found = ExportSignatures::parse(&line).map_err(|why| {
            StartError::damaged(format!("{}, line {}: {why}", file.display(), lines.number))
        })?;
        let mut part = SignedPart::default();
        for signed in found.signed {
            let head = SignedHead { statement: signed.statement, signature: signed.signature };
            match head.unchecked() {
                Ok(statement) => drop(part.heads.insert(statement.run_id, head)),
                Err(_) => part.unreadable += 1,
            }
        }
        sections.push(part);
    }
    Ok(sections)
}

/// The check of one run, while its lines are read.
struct RunCheck {
    header: Header,
    checker: Option<Checker>,
    /// `None` without keys.
    signed: Option<SignedCheck>,
    /// Lines after the header.
    read: u64,
}

impl RunCheck {
    fn new(header: Header, signed: Option<SignedCheck>, noted: &[Noted]) -> Self {
        let checker = match (header.first_sequence, &header.start) {
            (Some(first), Some(start)) => Checker::beginning_at(&header.run_id, first, start),
            (None, None) => Some(Checker::new(&header.run_id)),
            _ => None,
        };
        let noted = signed.as_ref().map_or_else(|| noted.to_vec(), |signed| signed.with(noted));
        let checker = checker.map(|checker| checker.against(&noted));
        RunCheck { header, checker, signed, read: 0 }
    }

    fn event(&mut self, line: &[u8]) {
        self.read += 1;
        if let Some(checker) = &mut self.checker {
            // The checker keeps the problem for the report.
            drop(checker.event(line));
        }
    }

    fn finish(self, survey: &mut Survey) {
        let RunCheck { header, checker, signed, read } = self;
        let Some(checker) = checker else {
            let why = "the start of its chain in the header is unreadable";
            survey.reports.push(VerifyReport::unchecked(&header.run_id, why));
            return;
        };
        let ended_at = checker.ended_at();
        let mut report = checker.finish(Some((header.events, &header.head)));
        if let Some(signed) = signed {
            signed.report_in_file(ended_at, header.events, &mut report);
        }
        survey.readable_runs += u64::from(report.problems.is_empty());
        survey.readable_events += read;
        survey.reports.push(report);
    }
}

/// The lines of a file, without their ends, in bounded memory.
struct Lines {
    input: BufReader<File>,
    name: String,
    /// Of the line that was read last, from 1.
    number: u64,
}

impl Lines {
    fn open(file: &Path) -> Result<Self, StartError> {
        let name = file.display().to_string();
        let cannot = |why: std::io::Error| StartError::usage(format!("cannot read {name}: {why}"));
        let opened = File::open(file).map_err(cannot)?;
        if !opened.metadata().map_err(cannot)?.is_file() {
            return Err(StartError::usage(format!("{name} is not a file; it is read twice")));
        }
        Ok(Lines { input: BufReader::new(opened), name, number: 0 })
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, StartError> {
        let mut line = Vec::new();
        let most = RUN_BYTES_MAX as u64 + 1;
        let read = (&mut self.input).take(most).read_until(b'\n', &mut line);
        self.number += 1;
        match read {
            Ok(0) => return Ok(None),
            Ok(_) if line.len() > RUN_BYTES_MAX => {
                let (name, number) = (&self.name, self.number);
                let message = format!("{name}, line {number} is longer than {RUN_BYTES_MAX} bytes");
                return Err(StartError::damaged(message));
            }
            Ok(_) => {}
            Err(why) => return Err(StartError::failed(format!("cannot read {}: {why}", self.name))),
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        Ok(Some(line))
    }
}
