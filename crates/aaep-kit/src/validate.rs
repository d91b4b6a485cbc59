//! Validates files of any length against the rules of the protocol and reports findings as they are found. Entry:
//! [`Validation`]. The caller opens files and outputs the findings: it knows neither paths nor terminals.
//!
//! Memory is bounded: one text at a time, and the session state of [`recount_aaep::session::Checker`]. Findings are
//! not stored, so a file with one on each line needs no more memory than a valid one.

mod report;

use std::io::{ErrorKind, Read};

use recount_aaep::json::Splitter;
use recount_aaep::rule::{Finding, Profile, Severity};
use recount_aaep::session::{Checker, InputKind, Options};
use recount_world::World;

use crate::limits;

pub use self::report::{FindingReport, JsonReport, TextReport};

/// Why an input has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("empty; expected JSON lines, one JSON value or an array of events")]
    Empty,
}

/// The numbers of one input.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub events: u64,
    /// Replies and handshakes, which are checked too.
    pub messages: u64,
    /// Other texts, including broken ones.
    pub others: u64,
    pub errors: u64,
    pub warnings: u64,
    pub notes: u64,
    /// Errors that the profile `compat` does not report as errors.
    pub errors_of_strict_alone: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.events += other.events;
        self.messages += other.messages;
        self.others += other.others;
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.notes += other.notes;
        self.errors_of_strict_alone += other.errors_of_strict_alone;
    }

    fn finding(&mut self, finding: &Finding) {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
        let in_compat = finding.rule.severity(Profile::Compat);
        if finding.severity == Severity::Error && in_compat != Some(Severity::Error) {
            self.errors_of_strict_alone += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.events + self.messages + self.others == 0
    }
}

/// The numbers of all inputs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Total {
    pub files: u64,
    /// Inputs without a verdict.
    pub unusable: u64,
    /// The first of them, and the reason.
    pub first_unusable: Option<String>,
    pub tally: Tally,
}

/// The overall verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Bad,
    /// At least one input was unreadable or empty.
    Unusable,
}

impl Total {
    pub fn verdict(&self, deny_warnings: bool) -> Verdict {
        match &self.tally {
            _ if self.unusable > 0 => Verdict::Unusable,
            Tally { errors: 1.., .. } => Verdict::Bad,
            Tally { warnings: 1.., .. } if deny_warnings => Verdict::Bad,
            _ => Verdict::Good,
        }
    }
}

/// A run over any number of inputs. Inputs are independent: sessions, replies and ids do not carry over to the next.
pub struct Validation<R: FindingReport> {
    options: Options,
    report: R,
    total: Total,
}

impl<R: FindingReport> Validation<R> {
    /// With `events_only`, each event is checked alone and sessions are not followed.
    pub fn new(world: &World, profile: Profile, events_only: bool, report: R) -> Self {
        // The author of a file cannot know the seed.
        let seed = world.entropy.draw() as u64;
        let options = Options { profile, events_only, seed };
        Validation { options, report, total: Total::default() }
    }

    /// Validates one input, named `path` in reports. Problems of the input are reported; returns an error only if the
    /// report fails.
    pub fn input<I: Read>(&mut self, path: &str, input: std::io::Result<I>) -> Result<(), R::Error> {
        self.total.files += 1;
        self.report.begin(path)?;
        let mut tally = Tally::default();
        let read = match input {
            Ok(input) => self.through(path, input, &mut tally)?,
            Err(why) => Err(Unusable::Unreadable(why)),
        };
        let unusable = match read {
            Ok(()) if tally.is_empty() => Some(Unusable::Empty),
            read => read.err(),
        };
        if let Some(why) = &unusable {
            self.total.unusable += 1;
            self.total.first_unusable.get_or_insert_with(|| format!("{path}: {why}"));
        }
        self.total.tally.add(&tally);
        self.report.end(path, &tally, unusable.as_ref())
    }

    /// Ends the run.
    pub fn finish(mut self) -> Result<Total, R::Error> {
        self.report.close(&self.total, self.options.profile)?;
        Ok(self.total)
    }

    fn through(
        &mut self,
        path: &str,
        mut input: impl Read,
        tally: &mut Tally,
    ) -> Result<Result<(), Unusable>, R::Error> {
        let mut checker = Checker::new(self.options);
        let mut splitter = Splitter::new();
        let mut buffer = vec![0; limits::VALIDATE_READ_BYTES];
        let mut reported = Ok(());
        let report = &mut self.report;
        let mut report_findings =
            |checker: &mut Checker, tally: &mut Tally, reported: &mut Result<(), R::Error>| {
                for finding in checker.take() {
                    tally.finding(&finding);
                    if reported.is_ok() {
                        *reported = report.finding(path, &finding);
                    }
                }
            };
        let read = loop {
            let count = match input.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(count) => count,
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) => break Err(Unusable::Unreadable(why)),
            };
            splitter.push(&buffer[..count], |piece| {
                tally.count_input(checker.piece(piece));
                report_findings(&mut checker, tally, &mut reported);
            });
            // The report has no reader: skip the rest of the file.
            if reported.is_err() {
                break Ok(());
            }
        };
        if read.is_ok() && reported.is_ok() {
            splitter.finish(|piece| {
                tally.count_input(checker.piece(piece));
                report_findings(&mut checker, tally, &mut reported);
            });
            checker.finish();
            report_findings(&mut checker, tally, &mut reported);
        }
        reported.map(|()| read)
    }
}

impl Tally {
    fn count_input(&mut self, kind: InputKind) {
        match kind {
            InputKind::Event => self.events += 1,
            InputKind::Message(_) => self.messages += 1,
            InputKind::Nothing => self.others += 1,
        }
    }
}
