//! Bounds of this crate, and what happens at them.

use std::time::Duration;

/// Bytes of one message of a producer that are read; a longer one ends the connection with an error that says so.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a producer may take to let itself be reached, to answer a call, and to answer a handshake, where nobody says
/// otherwise; then it counts as unreachable, or as one that does not answer handshakes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of the answer to a call; a longer one is an error, so that a broken producer cannot fill our memory.
pub const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// Characters of a refusal that are told; the rest is left out.
pub const REFUSAL_CHARS_MAX: usize = 300;

/// Redirects that a call follows; one more is an error.
pub const REDIRECTS_MAX: usize = 5;

/// How long a connection for calls may rest before it is not used again.
pub const REST_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be silent before the operating system asks whether the other end lives, and how long
/// between such questions.
pub const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

/// How many such questions in a row may stay unanswered; then the connection counts as broken.
pub const KEEPALIVE_RETRIES: u32 = 3;

/// Messages that are kept while the answer to a handshake is waited for; with one more the handshake has failed.
pub const HELD_MESSAGES_MAX: usize = 1_000;

/// Bytes of the same.
pub const HELD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// Bytes that are made room for before a command's output is read.
pub const READ_BYTES: usize = 16 * 1024;

/// How long the other side may take to end in good order, a WebSocket or a command; then it is left, or killed.
pub const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// The wait before a subscriber connects again, in milliseconds, where the producer names none; it doubles with each
/// connection in vain.
pub const RECONNECT_WAIT_MS: u64 = 1_000;

/// The longest of these waits, whatever the producer asks for.
pub const RECONNECT_WAIT_MS_MAX: u64 = 15_000;
