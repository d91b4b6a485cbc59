//! Limits of a play: beyond one, it fails with its seed.

use std::time::Duration;

/// How long a call may go unanswered, in simulated time, while the engine that was asked lives.
pub const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// How long a whole play may take, in simulated time.
pub const PLAY_TIME: Duration = Duration::from_secs(3600);

/// How long readers may take to be level when nothing happens any more, in simulated time.
pub const LEVEL_WAIT: Duration = Duration::from_secs(30);

/// The longest time that a person is given, in seconds. A play waits this long at its end.
pub const PATIENCE_S: u64 = 40;

/// Kept lines of what went wrong; more are only counted.
pub const WRONGS_MAX: usize = 20;
