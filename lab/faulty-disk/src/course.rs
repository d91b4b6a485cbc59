//! Faults of a disk that are drawn from a seed: how long each call takes, and which calls fail how.
//!
//! After a bounded number of failures the disk works again. Start at [`FaultCourse::draw`].

use std::ffi::c_int;
use std::time::Duration;

use recount_world::{Entropy as _, SeededEntropy};
use rusqlite::ffi;

/// Of a hundred calls, how many fail while failures are left. A commit is several writes and one sync.
const WRITES_FAILING_PERCENT: u64 = 1;
const SYNCS_FAILING_PERCENT: u64 = 5;
/// One write in so many is delayed; every sync is.
const WRITES_DELAYED_DIVISOR: u64 = 16;
/// How many writes in a row at most find the disk full once one does.
const FULL_CALLS_MAX: u64 = 24;
/// How many failures a disk has at most; then it works again.
const FAILURES_MAX: u64 = 4;

/// How many faults of each kind were drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultCounts {
    pub delays: u64,
    pub full: u64,
    pub failed_writes: u64,
    pub failed_syncs: u64,
}

/// A call of SQLite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Write,
    Sync,
}

pub(crate) struct FaultCourse {
    random: SeededEntropy,
    delay_max: Duration,
    failures_left: u64,
    /// Writes that still find the disk full.
    full_left: u64,
}

impl FaultCounts {
    pub(crate) fn add(&mut self, delay: Duration, error: Option<c_int>) {
        self.delays += u64::from(!delay.is_zero());
        match error {
            Some(ffi::SQLITE_FULL) => self.full += 1,
            Some(ffi::SQLITE_IOERR_WRITE) => self.failed_writes += 1,
            Some(_) => self.failed_syncs += 1,
            None => {}
        }
    }
}

impl FaultCourse {
    pub(crate) fn new(seed: u64, delay_max: Duration) -> Self {
        let random = SeededEntropy::new(seed);
        FaultCourse { random, delay_max, failures_left: FAILURES_MAX, full_left: 0 }
    }

    /// How long the next call takes, and the error that it ends with.
    pub(crate) fn draw(&mut self, call: Call) -> (Duration, Option<c_int>) {
        let is_delayed = call == Call::Sync || self.below(WRITES_DELAYED_DIVISOR) == 0;
        let delay = if is_delayed { self.delay() } else { Duration::ZERO };
        (delay, self.error(call))
    }

    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.random.draw() % u128::from(bound.max(1))).unwrap_or(0)
    }

    fn delay(&self) -> Duration {
        Duration::from_micros(self.below(u64::try_from(self.delay_max.as_micros()).unwrap_or(u64::MAX)))
    }

    fn error(&mut self, call: Call) -> Option<c_int> {
        if call == Call::Write && self.full_left > 0 {
            self.full_left -= 1;
            return Some(ffi::SQLITE_FULL);
        }
        let percent = if call == Call::Write { WRITES_FAILING_PERCENT } else { SYNCS_FAILING_PERCENT };
        if self.failures_left == 0 || self.below(100) >= percent {
            return None;
        }
        self.failures_left -= 1;
        match call {
            Call::Sync => Some(ffi::SQLITE_IOERR_FSYNC),
            Call::Write if self.below(2) == 0 => Some(ffi::SQLITE_IOERR_WRITE),
            Call::Write => {
                self.full_left = self.below(FULL_CALLS_MAX);
                Some(ffi::SQLITE_FULL)
            }
        }
    }
}
