//! Limits of the world, and what happens at each.

use std::time::Duration;

/// How long a wait on the wall clock sleeps before it checks again: the longest delay after the clock was set
/// forward.
pub const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(30);

/// Pieces of work that block at once, each on a thread of its own; a further one waits for its turn.
pub const BLOCKING_MAX: usize = 64;

/// Pieces of work that go on after their caller has stopped waiting. Beyond it, the work is dropped with its caller.
pub const ABANDONED_MAX: usize = 256;
