//! A clock that two processes of one machine read alike: the monotonic clock, in nanoseconds.
//!
//! A program that measures reads the clock itself; nothing of the product does.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some moment that all processes share.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Seconds of processor time that the thread has used.
pub(crate) fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds since `start_ns`.
pub(crate) fn seconds_since(start_ns: u64) -> f64 {
    now_ns().saturating_sub(start_ns) as f64 / 1e9
}

/// Waits until the clock shows `at_ns`; a moment that has passed is not waited for.
pub(crate) fn sleep_until_ns(at_ns: u64) {
    let now = now_ns();
    if at_ns > now {
        std::thread::sleep(Duration::from_nanos(at_ns - now));
    }
}

/// Waits a little for another process.
pub(crate) fn pause(ms: u64) {
    sleep_until_ns(now_ns() + ms * 1_000_000);
}
