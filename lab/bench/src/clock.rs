//! A clock that is the same in all processes of a machine: the monotonic clock, in nanoseconds.
//!
//! Only measurements read this clock; the product does not.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since a moment that all processes share.
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

/// Waits until the clock shows `at_ns`. Returns at once if that has passed.
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
