//! Draws the faults of connections from a seed. The module must not depend on sockets.
//!
//! Start at [`FaultCourse`].

use std::ops::Range;
use std::time::Duration;

use recount_world::{Entropy as _, SeededEntropy};

use crate::Direction;

/// Faults of connections, as drawn from a seed: each direction of each connection gets one after a number of bytes.
#[derive(Debug, Clone)]
pub struct FaultCourse {
    pub seed: u64,
    /// How many bytes pass before a fault.
    pub bytes: Range<u64>,
    /// How long a delay lasts at most, and how long a connection stalls or swallows before it is reset.
    pub pause_max: Duration,
}

/// One drawn fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The chunk waits.
    Delay,
    Reset,
    Finish,
    /// Both directions stall, then the connection is reset.
    HalfOpen,
    /// This direction stalls, then the connection is reset.
    OneWay,
    /// The server gets everything, and its next response is lost. Then the connection is reset.
    Swallow,
}

const FAULTS: [Fault; 6] =
    [Fault::Delay, Fault::Reset, Fault::Finish, Fault::HalfOpen, Fault::OneWay, Fault::Swallow];

/// How many faults of each kind happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    pub delays: u64,
    pub resets: u64,
    pub finishes: u64,
    pub half_open: u64,
    pub one_way: u64,
    pub swallowed: u64,
}

impl FaultCounts {
    pub(crate) fn add(&mut self, fault: Fault) {
        let count = match fault {
            Fault::Delay => &mut self.delays,
            Fault::Reset => &mut self.resets,
            Fault::Finish => &mut self.finishes,
            Fault::HalfOpen => &mut self.half_open,
            Fault::OneWay => &mut self.one_way,
            Fault::Swallow => &mut self.swallowed,
        };
        *count += 1;
    }

    /// How many kinds of faults happened.
    pub fn kinds(&self) -> usize {
        let counts = [self.delays, self.resets, self.finishes, self.half_open, self.one_way, self.swallowed];
        counts.iter().filter(|count| **count > 0).count()
    }
}

/// The faults of one direction of a connection.
pub(crate) struct Draws {
    entropy: SeededEntropy,
    bytes: Range<u64>,
    pause_max: Duration,
    /// Bytes that still pass before the next fault.
    left: u64,
}

impl FaultCourse {
    /// The faults of the connection with this number.
    pub(crate) fn draws(&self, number: u64) -> [Draws; 2] {
        [Direction::ToServer, Direction::ToClient].map(|direction| {
            let part = number * 2 + u64::from(direction == Direction::ToClient);
            let entropy = SeededEntropy::new(self.seed ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut draws = Draws { entropy, bytes: self.bytes.clone(), pause_max: self.pause_max, left: 0 };
            draws.left = draws.below(&self.bytes);
            draws
        })
    }
}

impl Draws {
    /// Whether a fault happens within the next bytes; if so, after how many of them, and which.
    pub(crate) fn draw(&mut self, bytes: usize) -> Option<(usize, Fault)> {
        let before = usize::try_from(self.left).ok().filter(|left| *left < bytes);
        let Some(before) = before else {
            self.left -= bytes as u64;
            return None;
        };
        let bytes = self.bytes.clone();
        self.left = self.below(&bytes);
        let fault = self.below(&(0..FAULTS.len() as u64));
        Some((before, FAULTS[fault as usize]))
    }

    pub(crate) fn pause(&mut self) -> Duration {
        let most = u64::try_from(self.pause_max.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(&(0..most.saturating_add(1))))
    }

    fn below(&mut self, range: &Range<u64>) -> u64 {
        let count = u128::from(range.end.saturating_sub(range.start).max(1));
        range.start + u64::try_from(self.entropy.draw() % count).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(seed: u64) -> FaultCourse {
        FaultCourse { seed, bytes: 10..200, pause_max: Duration::from_millis(5) }
    }

    fn faults(seed: u64, number: u64) -> Vec<Option<(usize, Fault)>> {
        let [mut draws, _] = course(seed).draws(number);
        (0..100).map(|_| draws.draw(40)).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        assert_eq!(faults(7, 3), faults(7, 3));
        assert_ne!(faults(7, 3), faults(8, 3));
        assert_ne!(faults(7, 3), faults(7, 4));
    }

    #[test]
    fn faults_are_of_every_kind_and_within_the_chunk() {
        let mut counts = FaultCounts::default();
        for number in 0..10 {
            for (before, fault) in faults(1, number).into_iter().flatten() {
                assert!(before < 40);
                counts.add(fault);
            }
        }
        assert_eq!(counts.kinds(), FAULTS.len(), "{counts:?}");
    }
}
