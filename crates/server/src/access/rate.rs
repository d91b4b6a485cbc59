//! The rate limit of a token: a bucket that fills evenly and holds the requests of one second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

pub(super) struct Bucket(Mutex<Level>);

struct Level {
    available: f64,
    at: Instant,
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn new(now: Instant) -> Self {
        Bucket(Mutex::new(Level { available: f64::INFINITY, at: now }))
    }

    /// Takes one request, or returns how long it takes until one is available.
    pub(super) fn take(&self, per_second: u32, now: Instant) -> Result<(), Duration> {
        let rate = f64::from(per_second.max(1));
        let mut level = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = level.available + now.saturating_duration_since(level.at).as_secs_f64() * rate;
        level.available = filled.min(rate);
        level.at = now;
        if level.available < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - level.available) / rate));
        }
        level.available -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_worth_at_once_and_then_evenly() {
        let start = recount_world::moment();
        let bucket = Bucket::new(start);
        let after = |ms| start + Duration::from_millis(ms);
        for _ in 0..10 {
            assert_eq!(bucket.take(10, start), Ok(()));
        }
        let wait = bucket.take(10, start).unwrap_err();
        assert!(wait > Duration::from_millis(99) && wait <= Duration::from_millis(100), "{wait:?}");
        assert!(bucket.take(10, after(50)).is_err());
        assert_eq!(bucket.take(10, after(101)), Ok(()));
        assert!(bucket.take(10, after(102)).is_err());
        for _ in 0..10 {
            assert_eq!(bucket.take(10, after(60_000)), Ok(()), "no more than a second's worth is saved up");
        }
        assert!(bucket.take(10, after(60_000)).is_err());
    }
}
