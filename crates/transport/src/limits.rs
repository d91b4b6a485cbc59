//! Bounds of the wire, and what happens at them.

use std::time::Duration;

/// The longest an event stream stays silent; then a comment is sent, so that proxies and peers see it live.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// What a reader is told to wait before it connects again, in milliseconds.
pub const RETRY_MS: u64 = 1_000;

/// Bytes of ready frames that go into one write; what is left goes into the next.
pub const MERGED_WRITE_BYTES_MAX: usize = 64 * 1024;

/// How long a peer may leave a write without taking a byte; then its connection fails.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// Bytes that a peer sends while it is told a stream and that are kept for later; what is more is left in the
/// socket, and then it is noticed only by writing that the peer has left.
pub const SENT_BEHIND_BYTES_MAX: usize = 16 << 10;

/// Bytes of one line of a stream that is read; more ends the stream with an error.
///
/// An envelope is one line: a mebibyte of data and its head must fit.
pub const LINE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of the data lines of one frame that is read; more ends the stream with an error.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;
