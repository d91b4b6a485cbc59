//! The trace of a play: every observation as text, in order, and the failures found.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_world::Clock;

use crate::limits;

/// What is checked. Each is shown to fail by a [`crate::mutant::Mutant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// What was acknowledged is in its place with its bytes.
    Durable,
    /// Each batch landed once, and its producer is never refused for what it did right.
    Once,
    /// Readers get each cursor once, in order, with the stored bytes.
    Readers,
    /// The chain's head is that of the bytes.
    Chain,
    /// A run ends once, and nothing but gaps comes after.
    Endings,
    /// The first answer wins, and no second one is accepted.
    Answers,
    /// The catalogue equals the fold of the log.
    Catalogue,
    /// Every call is answered, and every waiting reader gets its events.
    Live,
    /// An unanswered prompt gets its default in time.
    Timeouts,
    /// Nothing that is handed over is larger than it may be.
    Bounds,
    /// Missing events of a run are those its newest marker names, and readers of them get a gap.
    Gaps,
    /// A deleted task is gone with its runs, for good, and no other is.
    Erased,
    /// Runs are legal by an audit, and the engine never finds itself wrong.
    Grammar,
}

/// What a play went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub runs: u64,
    pub events: u64,
    pub crashes: u64,
    pub shutdowns: u64,
    pub faults: u64,
    pub readers: u64,
    pub deliveries: u64,
    pub batches: u64,
    pub answers: u64,
    pub refusals: u64,
    pub prunes: u64,
    pub pins: u64,
    pub deletions: u64,
    /// Gaps that readers got, and readers that were cut off because their run was erased.
    pub gaps: u64,
    pub cut_off: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.runs += other.runs;
        self.events += other.events;
        self.crashes += other.crashes;
        self.shutdowns += other.shutdowns;
        self.faults += other.faults;
        self.readers += other.readers;
        self.deliveries += other.deliveries;
        self.batches += other.batches;
        self.answers += other.answers;
        self.refusals += other.refusals;
        self.prunes += other.prunes;
        self.pins += other.pins;
        self.deletions += other.deletions;
        self.gaps += other.gaps;
        self.cut_off += other.cut_off;
    }
}

/// Cheap to clone; all clones write the same text.
#[derive(Clone)]
pub struct Trace {
    clock: Arc<dyn Clock>,
    start_ms: u64,
    inner: Arc<Mutex<TraceInner>>,
}

#[derive(Default)]
struct TraceInner {
    text: String,
    wrong: Vec<String>,
    checks: BTreeSet<Check>,
    counts: Counts,
}

impl Trace {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let start_ms = clock.now_ms();
        Trace { clock, start_ms, inner: Arc::default() }
    }

    fn inner(&self) -> MutexGuard<'_, TraceInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the play began.
    pub fn elapsed_ms(&self) -> u64 {
        self.clock.now_ms().saturating_sub(self.start_ms)
    }

    pub fn log(&self, line: impl fmt::Display) {
        let at = self.elapsed_ms();
        let mut inner = self.inner();
        inner.text.push_str(&format!("{at:>8} {line}\n"));
    }

    pub fn wrong(&self, check: Check, what: impl fmt::Display) {
        let line = format!("{check:?}: {what}");
        self.log(format_args!("WRONG {line}"));
        let mut inner = self.inner();
        inner.checks.insert(check);
        if inner.wrong.len() < limits::WRONGS_MAX {
            inner.wrong.push(line);
        }
    }

    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.inner().counts);
    }

    /// What was seen and found, so far.
    pub fn outcome(&self) -> Outcome {
        let inner = self.inner();
        Outcome {
            trace: inner.text.clone(),
            wrong: inner.wrong.clone(),
            checks: inner.checks.clone(),
            counts: inner.counts,
        }
    }
}

/// What came of a play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub trace: String,
    /// Sentences about what is wrong; empty when nothing is.
    pub wrong: Vec<String>,
    /// The checks that failed.
    pub checks: BTreeSet<Check>,
    pub counts: Counts,
}
