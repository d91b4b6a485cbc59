//! Limits of a play. A play that exceeds one fails with its seed.

use std::time::Duration;

/// How long a call may take, in simulated time, while its engine lives.
pub const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// How long a whole play may take, in simulated time.
pub const PLAY_TIME: Duration = Duration::from_secs(3600);

/// How long readers may take to catch up when all activity has ended, in simulated time.
pub const LEVEL_WAIT: Duration = Duration::from_secs(30);

/// The maximum timeout of a prompt, in seconds. A play waits this long at its end.
pub const PATIENCE_S: u64 = 40;

/// Failure lines that are kept. More are only counted.
pub const WRONGS_MAX: usize = 20;

/// Seeds of the nodes that the unit tests play.
pub const NODE_SEEDS: u64 = 60;

/// Seeds within which each mutant of the nodes must be found.
pub const SEEDS_PER_MUTANT: u64 = 200;
