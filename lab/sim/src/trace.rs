//! The trace of a play: every observation as text, in order, and the failures.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_world::Clock;

use crate::limits;

/// The checks. Each is proved by a [`crate::mutant::Mutant`], those of nodes by a [`crate::nodes::NodeMutant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Acknowledged events are stored at their position with their bytes.
    Durable,
    /// Each batch is stored once, and its producer is never refused for a correct batch. What a node acknowledges is in the log
    /// once and in order, and what it refuses is not.
    Once,
    /// Readers receive each cursor once, in order, with the stored bytes.
    Readers,
    /// The chain's head is that of the bytes.
    Chain,
    /// A run ends once, and only gaps follow.
    Endings,
    /// The first resolution wins, and no second one is accepted.
    Answers,
    /// The catalogue equals the fold of the log.
    Catalogue,
    /// Every call returns, and every waiting reader gets its events.
    Live,
    /// An unresolved prompt gets its default in time.
    Timeouts,
    /// Nothing that is delivered exceeds its limit.
    Bounds,
    /// Missing events of a run are those that its newest marker names, and readers of them get a gap.
    Gaps,
    /// A deleted task is removed permanently with its runs, and no other is.
    Erased,
    /// Runs are legal by an audit, and the engine reports no bug of its own.
    Grammar,
    /// In each epoch, only the commits of the node succeed that took the store.
    Fence,
    /// Positions and sequences have no holes.
    Dense,
    /// No effect begins on a node after another node took the store.
    Effects,
    /// A node reads the log only after it has taken the store.
    Opening,
    /// A store is taken only when the lease of its owner has expired or it was given back.
    TakeOver,
    /// A node without faults owns the store in time, and commits.
    Owned,
    /// No node finds the database other than it left it.
    Sound,
}

/// The coverage of a play.
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
    /// Gaps that readers received, and readers that were ended because their run was erased.
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

    /// The observations and failures so far.
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

/// The result of a play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub trace: String,
    /// Descriptions of failures; empty if there are none.
    pub wrong: Vec<String>,
    /// The checks that failed.
    pub checks: BTreeSet<Check>,
    pub counts: Counts,
}
