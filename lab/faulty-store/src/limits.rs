//! Limits of a queued store.

use std::time::Duration;

/// Appends that are written together. The others wait for the next group.
pub const GROUP_MAX: usize = 8;

/// When a caller may retry after a random fault.
pub const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long the write of a commit takes that was observed before.
pub const EARLY_WRITE_DELAY: Duration = Duration::from_millis(300);
