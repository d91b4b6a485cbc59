//! Bounds of the world.

use std::time::Duration;

/// How long a wait on the wall clock sleeps before it looks again: the most that a clock set forward
/// can delay it.
pub const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(30);
