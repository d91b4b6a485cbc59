//! Limits of a link, and what happens at each.

use std::time::Duration;

/// Bytes that are read before they are forwarded. More wait in the buffers of the operating system.
pub(crate) const CHUNK_BYTES: usize = 16 << 10;

/// How long a test waits for traffic on a link. Then it panics.
pub(crate) const TRAFFIC_PATIENCE: Duration = Duration::from_secs(60);
