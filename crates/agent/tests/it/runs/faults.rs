//! A disk that is slow or fails, for the store of these tests: how long each write takes, and which writes fail how.
//!
//! Look at [`Faults::next`], which the store asks with every write. The course is drawn from a seed, so a failure can be
//! repeated. It must not know what is written.

use std::sync::Mutex;
use std::time::Duration;

use recount_log::{Fault, FaultKind, Retry};
use recount_world::{Entropy as _, SeededEntropy};

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No space is left: nothing is written.
    Full,
    /// Writing fails: nothing is written.
    Write,
    /// Syncing fails: it is written, and nobody can know.
    Sync,
}

impl Failure {
    pub(crate) fn fault(self) -> Fault {
        match self {
            Failure::Full => Fault::new(FaultKind::Full, Retry::Maybe, "no space is left on the device (28)"),
            Failure::Write | Failure::Sync => {
                Fault::new(FaultKind::Io, Retry::Maybe, "input/output error (5)")
            }
        }
    }
}

/// Takes as long as the disk does.
pub(crate) async fn take(delay: Duration) {
    // tidy: this is the slow disk itself; no test relies on how long it takes.
    tokio::time::sleep(delay).await;
}

/// How one disk behaves. It is quick and never fails until something else is said.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Course>);

#[derive(Default)]
struct Course {
    delay: Duration,
    /// Failures at chosen writes, counted from now, from 1.
    chosen: Vec<(usize, Failure)>,
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
    /// Failures that are left; then the disk has recovered.
    left: usize,
}

impl Faults {
    /// Every write takes this long.
    pub(crate) fn slow(&self, delay: Duration) {
        self.0.lock().unwrap().delay = delay;
    }

    /// The n-th write from now fails, from 1, and so do the `times - 1` after it.
    pub(crate) fn fail(&self, at: usize, times: usize, failure: Failure) {
        let mut course = self.0.lock().unwrap();
        course.writes = 0;
        course.chosen = (at..at + times).map(|at| (at, failure)).collect();
    }

    /// From now on no blob can be written.
    pub(crate) fn refuse_blobs(&self) {
        self.0.lock().unwrap().refuses_blobs = true;
    }

    /// What becomes of the next write of a blob.
    pub(crate) fn next_blob(&self) -> (Duration, Option<Failure>) {
        if self.0.lock().unwrap().refuses_blobs { (Duration::ZERO, Some(Failure::Full)) } else { self.next() }
    }

    /// Delays and failures by chance, until so many have failed.
    pub(crate) fn draw(&self, seed: u64, delay_max: Duration, percent: u64, failures: usize) {
        let entropy = SeededEntropy::new(seed);
        self.0.lock().unwrap().drawn = Some(Drawn { entropy, delay_max, percent, left: failures });
    }

    /// How many writes have failed so far.
    pub(crate) fn failures(&self) -> usize {
        self.0.lock().unwrap().failures
    }

    /// How many writes there were since failures were chosen.
    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    /// What becomes of the next write, and how long it takes.
    pub(crate) fn next(&self) -> (Duration, Option<Failure>) {
        let mut course = self.0.lock().unwrap();
        let course = &mut *course;
        course.writes += 1;
        let chosen = course.chosen.iter().find(|(at, _)| *at == course.writes).map(|(_, failure)| *failure);
        let (delay, drawn) = match &mut course.drawn {
            Some(drawn) => drawn.next(),
            None => (course.delay, None),
        };
        let failure = chosen.or(drawn);
        course.failures += usize::from(failure.is_some());
        (delay, failure)
    }
}

impl Drawn {
    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.entropy.draw() % u128::from(bound.max(1))).unwrap()
    }

    fn next(&mut self) -> (Duration, Option<Failure>) {
        let longest = u64::try_from(self.delay_max.as_micros()).unwrap();
        let delay = Duration::from_micros(self.below(longest));
        let fails = self.left > 0 && self.below(100) < self.percent;
        self.left -= usize::from(fails);
        let kind = [Failure::Full, Failure::Write, Failure::Sync][usize::try_from(self.below(3)).unwrap()];
        (delay, fails.then_some(kind))
    }
}
