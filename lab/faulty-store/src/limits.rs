//! Limits of a queued store.

use std::time::Duration;

/// Appends that are written together; the others wait for the next group.
pub const GROUP_MAX: usize = 8;

/// When a caller may try again after a fault by chance.
pub const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a commit takes to be written that was observed before.
pub const EARLY_WRITE_DELAY: Duration = Duration::from_millis(300);
