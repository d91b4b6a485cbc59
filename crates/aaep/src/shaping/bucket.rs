//! A token bucket that refills smoothly: no window of one second exceeds the agreed rate. It must not read a
//! clock.

use crate::limits;

/// The cost of one event in thousandths, so that a bucket gains `rate` units per millisecond without rounding.
const EVENT: i64 = 1_000;

#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// Available units; negative after an overdraft.
    level: i64,
    most: i64,
    /// Events per second, which equals thousandths per millisecond.
    refill: i64,
    at: u64,
}

impl Bucket {
    /// A bucket for `rate` events in any second. A twentieth of them may form a burst, because callers poll. The burst
    /// is subtracted from the refill, so that a second that starts with a burst does not exceed the rate.
    pub(super) fn new(rate: u32) -> Self {
        let rate = i64::from(rate.max(1));
        let burst = (rate / 20).max(1);
        Bucket { level: burst * EVENT, most: burst * EVENT, refill: rate - burst + 1, at: 0 }
    }

    /// A bucket whose burst is the rate of a whole second, for rare events.
    pub(super) fn bursting(rate: u32) -> Self {
        let rate = i64::from(rate.max(1));
        Bucket { level: rate * EVENT, most: rate * EVENT, refill: rate, at: 0 }
    }

    fn fill(&mut self, now: u64) {
        let passed = i64::try_from(now.saturating_sub(self.at)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(passed.saturating_mul(self.refill)).min(self.most);
        self.at = self.at.max(now);
    }

    /// Whether an event may be sent.
    pub(super) fn has(&mut self, now: u64) -> bool {
        self.fill(now);
        self.level >= EVENT
    }

    /// Takes one event's units if available.
    pub(super) fn take(&mut self, now: u64) -> bool {
        let has = self.has(now);
        if has {
            self.level -= EVENT;
        }
        has
    }

    /// Takes one event's units even if unavailable. The debt delays later events, up to a limit.
    pub(super) fn overdraw(&mut self, now: u64) {
        self.fill(now);
        let seconds = i64::try_from(limits::SHAPED_DEBT_SECONDS_MAX).unwrap_or(i64::MAX);
        self.level = (self.level - EVENT).max(-self.refill.saturating_mul(EVENT).saturating_mul(seconds));
    }

    /// When the next event may be sent.
    pub(super) fn next(&self) -> u64 {
        let missing = (EVENT - self.level).max(0);
        let wait = missing.div_euclid(self.refill) + i64::from(missing.rem_euclid(self.refill) > 0);
        self.at.saturating_add(u64::try_from(wait).unwrap_or(0))
    }

    /// The same bucket with another rate; the debt remains.
    pub(super) fn changed(&self, rate: u32) -> Self {
        let fresh = Bucket::new(rate);
        Bucket { level: self.level.min(fresh.most), at: self.at, ..fresh }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fullest(times: &[u64]) -> usize {
        let from = |at: usize| times[at..].iter().take_while(|time| **time < times[at] + 1_000).count();
        (0..times.len()).map(from).max().unwrap_or(0)
    }

    #[test]
    fn a_greedy_caller_gets_exactly_the_rate() {
        for rate in [1_u32, 2, 3, 7, 10, 60, 999, 1_000, 5_000] {
            let mut bucket = Bucket::new(rate);
            let mut times = Vec::new();
            for now in 0..10_000 {
                while bucket.take(now) {
                    times.push(now);
                }
            }
            assert!(fullest(&times) <= rate as usize, "{rate}: {}", fullest(&times));
            assert!(times.len() * 20 >= rate as usize * 10 * 18, "{rate}: {} in ten seconds", times.len());
        }
    }

    proptest! {
        /// no second exceeds the rate, wherever it begins and whenever the caller polls.
        #[test]
        fn no_second_exceeds_the_rate(
            rate in 1_u32..200,
            steps in prop::collection::vec((0_u64..1_500, 1_usize..40), 1..200),
        ) {
            let mut bucket = Bucket::new(rate);
            let mut now = 0;
            let mut times = Vec::new();
            for (wait, wanted) in steps {
                now += wait;
                times.extend((0..wanted).filter(|_| bucket.take(now)).map(|_| now));
                prop_assert_eq!(bucket.next() > now, !bucket.has(now));
            }
            prop_assert!(fullest(&times) <= rate as usize);
        }

        #[test]
        fn next_returns_the_earliest_time(rate in 1_u32..3_000, taken in 1_u32..60, owed in 0_u32..9) {
            let mut bucket = Bucket::new(rate);
            (0..taken).for_each(|_| { bucket.take(0); });
            (0..owed).for_each(|_| bucket.overdraw(0));
            let next = bucket.next();
            prop_assert!(bucket.clone().has(next));
            prop_assert!(next == 0 || !bucket.has(next - 1));
        }
    }
}
