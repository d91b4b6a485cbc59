//! Latencies in fixed memory: buckets whose width grows with the value, so that each is known to 3 %.

use serde::{Deserialize, Serialize};

/// Buckets for each doubling.
const STEPS: u64 = 32;
const STEPS_BITS: u32 = 5;
/// Doublings above [`STEPS`]; the last bucket holds whatever is longer (about 20 minutes in nanoseconds).
const DOUBLINGS: usize = 36;
const BUCKETS: usize = (DOUBLINGS + 1) * STEPS as usize;

/// Counts of nanoseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let doubling = ns.ilog2() - STEPS_BITS;
    let within = (ns >> doubling) - STEPS;
    ((u64::from(doubling) + 1) * STEPS + within).min(BUCKETS as u64 - 1) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let (doubling, within) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if doubling == 0 {
        return within as f64;
    }
    let width = 1u64 << (doubling - 1);
    ((STEPS + within) * width) as f64 + width as f64 / 2.0
}

impl Histogram {
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// How many were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The value that this share of all values does not pass, in nanoseconds.
    pub(crate) fn share_ns(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle(at);
            }
        }
        0.0
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.share_ns(0.5) / 1e6
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.share_ns(0.99) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_known_to_three_per_cent() {
        for value in [0, 1, 31, 32, 33, 63, 64, 1000, 65_535, 1_000_000, 123_456_789, 60_000_000_000u64] {
            let mut histogram = Histogram::default();
            histogram.add(value);
            let found = histogram.share_ns(0.5);
            assert!((found - value as f64).abs() <= value as f64 * 0.032, "{value} became {found}");
        }
    }

    #[test]
    fn shares_are_counted_from_below() {
        let mut histogram = Histogram::default();
        for value in 1..=100 {
            histogram.add(value * 1000);
        }
        assert!((histogram.share_ns(0.5) - 50_000.0).abs() < 1600.0);
        assert!((histogram.share_ns(0.99) - 99_000.0).abs() < 3200.0);
        assert_eq!(histogram.total(), 100);
    }
}
