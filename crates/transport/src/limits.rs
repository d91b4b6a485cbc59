//! Limits of the wire, and what happens at each.

use std::time::Duration;

/// The longest an event stream stays silent; then a comment is sent, so that proxies and peers see it live.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// How long a reader is asked to wait before it reconnects, in milliseconds.
pub const RETRY_MS: u64 = 1_000;

/// How long a peer may leave a write without taking a byte; then its connection fails.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// Bytes that a peer sends during a stream and that are kept for later. More is left in the
/// socket, and then only a failed write shows that the peer has left.
pub const SENT_BEHIND_BYTES_MAX: usize = 16 << 10;

/// Bytes of one line of a stream that is read; more ends the stream with an error.
///
/// An envelope is one line: a mebibyte of data and its head must fit.
pub const LINE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of the data lines of one frame that is read; more ends the stream with an error.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;
