//! Limits of this crate, and what happens when they are reached.

use std::time::Duration;

/// Maximum bytes of one message of a producer; a longer one ends the connection with an error.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Default timeout for connecting, for an HTTP response and for a handshake response. After it, the producer counts as
/// unreachable, or as one that does not support handshakes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum bytes of an HTTP response; a longer one is an error, so that a broken producer cannot fill the memory.
pub const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// Characters of an error response that are shown; the rest is cut.
pub const REFUSAL_CHARS_MAX: usize = 300;

/// Maximum redirects that a request follows; one more is an error.
pub const REDIRECTS_MAX: usize = 5;

/// How long an idle HTTP connection is kept for reuse.
pub const REST_MAX: Duration = Duration::from_secs(10);

/// Idle time before the operating system sends a keepalive probe, and the time between probes.
pub const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

/// Maximum unanswered probes in a row; then the connection counts as broken.
pub const KEEPALIVE_RETRIES: u32 = 3;

/// Maximum messages buffered while waiting for a handshake response; with one more the handshake fails.
pub const HELD_MESSAGES_MAX: usize = 1_000;

/// Maximum bytes of these messages.
pub const HELD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// Buffer space reserved before each read of a command's output.
pub const READ_BYTES: usize = 16 * 1024;

/// Timeout for a clean end of a WebSocket or a command; then the connection is dropped or the command is killed.
pub const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Milliseconds before a subscriber reconnects if the producer sends no `retry`; doubled after each failed attempt.
pub const RECONNECT_WAIT_MS: u64 = 1_000;

/// The longest of these waits, whatever the producer requests.
pub const RECONNECT_WAIT_MS_MAX: u64 = 15_000;
