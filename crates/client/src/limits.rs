//! Limits of the client, and what happens at each.

use std::time::Duration;

/// How long a connection may take to be made; then the server counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a call may take from request to the last byte, and a stream until its head is there; then the
/// server counts as unreachable.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The same for a call that reads or copies the whole store.
pub const LONG_CALL_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

/// The same for a delivery of a webhook, in which a mail server may take a minute.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of one reply; more is an error, so that a broken server cannot fill our memory.
pub const REPLY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long a stream may be silent (three heartbeats); then it counts as lost and is connected again.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);

/// The longest wait before connecting again, whatever the server requested.
pub const RECONNECT_WAIT_MS_MAX: u64 = 15_000;

/// Failed connects in a row after which a tail that ends when caught up returns the error. A following tail keeps
/// trying.
pub const ATTEMPTS_MAX: u32 = 5;

/// How long a connection may be idle before it is closed: less than the server waits for the head of a request,
/// so that no request is sent into a connection that the server just closed.
pub const REST_MAX: Duration = Duration::from_secs(10);

/// Characters shown of a refusal in an unknown form; the rest is left out.
pub const REFUSAL_CHARS_MAX: usize = 1_000;

/// How long a turn may be silent, without even a heartbeat, where the server has sent none so far: its tools may be
/// at work. Then it counts as broken off.
pub const TURN_SILENCE_MAX: Duration = Duration::from_secs(30 * 60);

/// How long a server may take to answer a turn at all; longer than any tool should take, because some servers work
/// before they answer. Then it counts as unreachable.
pub const TURN_HEAD_MAX: Duration = TURN_SILENCE_MAX;

/// Bytes of all events of one turn; more breaks it off, so that a broken server cannot fill our memory.
pub const TURN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Failed attempts in a row to resume an interrupted turn, over about a minute; then it counts as broken off.
pub const TURN_ATTEMPTS_MAX: u32 = 8;

/// The wait before an interrupted turn is resumed; it doubles with each failed attempt.
pub const TURN_RETRY_MS: u64 = 500;
