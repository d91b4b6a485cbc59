//! Clocks: the current time from the operating system, or a manual clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds since 1970 in UTC. May step in either direction; order never depends on it.
pub trait Clock: Send + Sync + 'static {
    fn now_ms(&self) -> u64;
}

/// The operating system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
    fn now_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Follows the async runtime's time, which tests and simulations may pause and advance.
pub struct RuntimeClock {
    start_ms: u64,
    origin: std::sync::OnceLock<tokio::time::Instant>,
}

impl RuntimeClock {
    pub fn starting_at(start_ms: u64) -> Self {
        RuntimeClock { start_ms, origin: std::sync::OnceLock::new() }
    }
}

impl Clock for RuntimeClock {
    fn now_ms(&self) -> u64 {
        let origin = self.origin.get_or_init(moment);
        self.start_ms + u64::try_from(origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that only moves when it is set.
#[derive(Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn at(now_ms: u64) -> Self {
        ManualClock(AtomicU64::new(now_ms))
    }

    pub fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The runtime's own moment: it never steps back, and a test may pause it. For measuring how long
/// something waits; never written down.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub fn moment() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// The time since the machine started, or since some later moment. It never steps back. On Linux it also counts while the
/// machine is suspended, which [`moment`] does not: for deadlines that others keep too.
#[cfg(target_os = "linux")]
pub fn uptime() -> std::time::Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // It is never negative, and its nanoseconds are less than a second.
    std::time::Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// The time since its first call. It never steps back.
#[cfg(not(target_os = "linux"))]
pub fn uptime() -> std::time::Duration {
    static START: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(moment).elapsed()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// `/proc/uptime` counts the time in suspension. The difference can be seen only on a machine that was suspended.
    #[test]
    fn the_uptime_is_that_of_the_system_and_never_steps_back() {
        let system = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
        };
        let before = system();
        let (first, second) = (uptime(), uptime());
        let after = system() + Duration::from_millis(20);
        assert!(
            before <= first && first <= second && second <= after,
            "{before:?} {first:?} {second:?} {after:?}"
        );
    }
}
