//! Holds files against the rules of the protocol, however long they are, and tells findings as they are found.
//! [`Validation`] is the way in; who opens files, and where what is told goes, is the caller's: it knows neither paths
//! nor terminals.
//!
//! Memory is bounded: one text at a time is held, and of sessions what [`recount_aaep::session::Checker`] keeps.
//! Findings are never gathered, so a file with one on each line costs no more than a good one.

mod report;

use std::io::{ErrorKind, Read};

use recount_aaep::json::Splitter;
use recount_aaep::rule::{Finding, Profile, Severity};
use recount_aaep::session::{Checker, Options, Took};
use recount_world::World;

use crate::limits;

pub use self::report::{Json, Report, Text};

/// Why there is no verdict on an input.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("empty; expected JSON lines, one JSON value or an array of events")]
    Empty,
}

/// What was found, in numbers.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub events: u64,
    /// Replies and handshakes: context, and checked themselves.
    pub messages: u64,
    /// Texts that are neither, broken ones among them.
    pub others: u64,
    pub errors: u64,
    pub warnings: u64,
    pub notes: u64,
    /// Errors that the profile `compat` would not call so.
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

/// What all inputs came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Total {
    pub files: u64,
    /// Inputs that there is no verdict on.
    pub unusable: u64,
    /// The first of them, and why.
    pub first_unusable: Option<String>,
    pub tally: Tally,
}

/// The answer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Bad,
    /// At least one input could not be read, or had nothing in it.
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

/// One run over any number of inputs. Each is a world of its own: sessions, replies and ids are followed through one
/// input and not from one into the next.
pub struct Validation<R: Report> {
    options: Options,
    report: R,
    total: Total,
}

impl<R: Report> Validation<R> {
    /// `events_only` looks at each event alone and follows no sessions.
    pub fn new(world: &World, profile: Profile, events_only: bool, report: R) -> Self {
        // Nobody who writes a file can know it.
        let seed = world.entropy.draw() as u64;
        let options = Options { profile, events_only, seed };
        Validation { options, report, total: Total::default() }
    }

    /// Goes through one input. `path` is what it is called in what is told. Gives back what the report fails with; what
    /// is wrong with the input is told.
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

    /// All inputs were given.
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
                tally.took(checker.piece(piece));
                report_findings(&mut checker, tally, &mut reported);
            });
            // Nobody listens any more: the rest of the file is of no use.
            if reported.is_err() {
                break Ok(());
            }
        };
        if read.is_ok() && reported.is_ok() {
            splitter.finish(|piece| {
                tally.took(checker.piece(piece));
                report_findings(&mut checker, tally, &mut reported);
            });
            checker.finish();
            report_findings(&mut checker, tally, &mut reported);
        }
        reported.map(|()| read)
    }
}

impl Tally {
    fn took(&mut self, took: Took) {
        match took {
            Took::Event => self.events += 1,
            Took::Message(_) => self.messages += 1,
            Took::Nothing => self.others += 1,
        }
    }
}
