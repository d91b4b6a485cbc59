//! Writes that are slow or fail: how long each takes, and which fails how. The course can be drawn from a seed, so a
//! failure can be repeated.
//!
//! This must not know what is written. Start at [`WriteFaults::next`], which the disk calls with every write.

use std::sync::Mutex;
use std::time::Duration;

use recount_log::{Fault, FaultKind, Retry};
use recount_world::{Entropy as _, SeededEntropy};

use super::lock;

/// How a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFailure {
    /// No space is left: nothing is written.
    Full,
    /// Writing fails: nothing is written.
    Write,
    /// Syncing fails: it is written, but reported as failed.
    Sync,
}

impl WriteFailure {
    pub(crate) fn fault(self) -> Fault {
        match self {
            WriteFailure::Full => {
                Fault::new(FaultKind::Full, Retry::Maybe, "no space is left on the device (28)")
            }
            WriteFailure::Write | WriteFailure::Sync => {
                Fault::new(FaultKind::Io, Retry::Maybe, "input/output error (5)")
            }
        }
    }
}

/// What happens to one write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteOutcome {
    delay: Duration,
    pub(crate) failure: Option<WriteFailure>,
}

impl WriteOutcome {
    /// Whether it is written at once.
    pub(crate) fn is_plain(self) -> bool {
        self.delay.is_zero() && self.failure.is_none()
    }

    /// Waits as long as the disk takes.
    pub(crate) async fn wait(self) {
        tokio::time::sleep(self.delay).await;
    }
}

/// The faults of one disk. It is quick and never fails until a test demands it.
#[derive(Default)]
pub struct WriteFaults(Mutex<Course>);

#[derive(Default)]
struct Course {
    delay: Duration,
    /// Failures at chosen writes, counted from now, from 1.
    chosen: Vec<(usize, WriteFailure)>,
    drawn: Option<Drawn>,
    refuses_blobs: bool,
    writes: usize,
    failures: usize,
}

/// A course that is drawn.
struct Drawn {
    entropy: SeededEntropy,
    delay_max: Duration,
    /// Of a hundred writes, how many fail.
    percent: u64,
    /// Failures that remain; then the disk has recovered.
    failures_left: usize,
}

impl WriteFaults {
    /// Every write takes this long.
    pub fn slow(&self, delay: Duration) {
        lock(&self.0).delay = delay;
    }

    /// The n-th write from now fails, from 1, and so do the `times - 1` after it.
    pub fn fail(&self, at: usize, times: usize, failure: WriteFailure) {
        let mut course = lock(&self.0);
        course.writes = 0;
        course.chosen = (at..at + times).map(|at| (at, failure)).collect();
    }

    /// From now on no blob can be written.
    pub fn refuse_blobs(&self) {
        lock(&self.0).refuses_blobs = true;
    }

    /// Delays and failures by chance, until so many writes have failed.
    pub fn draw(&self, seed: u64, delay_max: Duration, percent: u64, failures: usize) {
        let entropy = SeededEntropy::new(seed);
        lock(&self.0).drawn = Some(Drawn { entropy, delay_max, percent, failures_left: failures });
    }

    /// How many writes have failed so far.
    pub fn failures(&self) -> usize {
        lock(&self.0).failures
    }

    /// How many writes there were since failures were chosen.
    pub fn writes(&self) -> usize {
        lock(&self.0).writes
    }

    /// What happens to the next write of a blob.
    pub(crate) fn next_blob(&self) -> WriteOutcome {
        if lock(&self.0).refuses_blobs {
            return WriteOutcome { delay: Duration::ZERO, failure: Some(WriteFailure::Full) };
        }
        self.next()
    }

    /// What happens to the next write.
    pub(crate) fn next(&self) -> WriteOutcome {
        let mut course = lock(&self.0);
        let course = &mut *course;
        course.writes += 1;
        let chosen = course.chosen.iter().find(|(at, _)| *at == course.writes).map(|(_, failure)| *failure);
        let (delay, drawn) = match &mut course.drawn {
            Some(drawn) => drawn.next(),
            None => (course.delay, None),
        };
        let failure = chosen.or(drawn);
        course.failures += usize::from(failure.is_some());
        WriteOutcome { delay, failure }
    }
}

impl Drawn {
    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.entropy.draw() % u128::from(bound.max(1))).expect("it is below a u64")
    }

    fn next(&mut self) -> (Duration, Option<WriteFailure>) {
        let longest = u64::try_from(self.delay_max.as_micros()).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(self.below(longest));
        let fails = self.failures_left > 0 && self.below(100) < self.percent;
        self.failures_left -= usize::from(fails);
        let kind = match self.below(3) {
            0 => WriteFailure::Full,
            1 => WriteFailure::Write,
            _ => WriteFailure::Sync,
        };
        (delay, fails.then_some(kind))
    }
}
