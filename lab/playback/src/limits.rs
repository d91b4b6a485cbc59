//! Limits of a player, and what happens at each.

use std::time::Duration;

/// Bytes of a request. A larger one is refused with 413.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;

/// Requests that are remembered. Beyond it the oldest is dropped.
pub const REQUESTS_REMEMBERED_MAX: usize = 1_000;

/// Bytes of a file of recordings. A larger one is refused.
pub const RECORDING_BYTES_MAX: u64 = 16 << 20;

/// Bytes of filler in a recording. More are refused.
pub const FILLER_BYTES_MAX: usize = 256 << 20;

/// How long the program waits for its connections at shutdown. Then it ends without them.
pub const END_PATIENCE: Duration = Duration::from_secs(2);
