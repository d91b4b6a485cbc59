//! Bounds of this crate, and what happens at them.

use std::time::Duration;

/// Bytes of one message of a producer that are read; a longer one ends the connection with an error that says so.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Lines that a check of the conformance suite shows of the conversation; more are left out.
pub const EVIDENCE_LINES_MAX: usize = 12;
/// Bytes of such a line; of a longer one the beginning is shown, with an ellipsis.
pub const EVIDENCE_LINE_BYTES_MAX: usize = 400;

/// Bytes of a file that are read at a time when it is validated; a longer one is read in as many steps as it takes.
pub const VALIDATE_READ_BYTES: usize = 256 * 1024;

/// Bytes the kernel holds for one reader of the scripted producer; beyond that the reader's own queue grows.
pub const SCRIPTED_SEND_BUFFER_BYTES: u32 = 32 * 1024;

/// Connections that wait to be taken in by the scripted producer; the kernel refuses further ones.
pub const SCRIPTED_BACKLOG: u32 = 64;

/// How long [`crate::scripted::Scripted::stop`] waits for its connections; then it leaves them.
pub const SCRIPTED_STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Subscriptions of the scripted producer at once; one more is rejected with `rate_limit`.
pub const SCRIPTED_SUBSCRIPTIONS_MAX: usize = 32;

/// What a subscriber that is over [`SCRIPTED_SUBSCRIPTIONS_MAX`] is told to wait, in seconds.
pub const SCRIPTED_RETRY_SECONDS: u32 = 5;

/// Sessions that the scripted producer plays at once; one more input is answered with 429.
pub const SCRIPTED_SESSIONS_MAX: usize = 64;

/// Messages kept for one subscription, for readers that are slow or come back; the oldest is forgotten, and a reader
/// that had not come so far is told where things stand instead.
pub const SCRIPTED_LOG_MAX: usize = 4_096;

/// Milliseconds that a subscription without a reader is kept, so that `Last-Event-ID` finds what was missed; then it is
/// forgotten.
pub const SCRIPTED_RESUME_MS: u64 = 60_000;

/// Milliseconds that a subscription waits for its first reader before it no longer counts as somebody who can answer,
/// and that a session waits for a stream that is opened behind its input.
pub const SCRIPTED_ATTACH_MS: u64 = 2_000;

/// Bytes of one message to the scripted producer; a larger one is refused (413, or WebSocket code 1009).
pub const SCRIPTED_BODY_BYTES_MAX: usize = 256 * 1024;

/// How far a reply's own time may be off, in milliseconds either way; a reply that is further off has no effect.
pub const SCRIPTED_REPLY_SKEW_MS: i64 = 24 * 60 * 60 * 1_000;

/// How many pauses ([`crate::scripted::Behaviour::pause_ms`]) a tool takes that is given up.
pub const SCRIPTED_SLOW_TOOL_PAUSES: u32 = 10;

/// Prompts with more time than this have a countdown, in milliseconds.
pub const SCRIPTED_COUNTDOWN_ABOVE_MS: u64 = 60_000;

/// Sentences on a page of the transcript that a handoff carries, and pages of it: together as much as every transport
/// must carry (64 KiB), and not more.
pub const SCRIPTED_PAGE_SENTENCES: usize = 240;

/// See [`SCRIPTED_PAGE_SENTENCES`].
pub const SCRIPTED_PAGES: usize = 4;

/// How much later than it should a wrong producer applies the default of a prompt, in milliseconds.
pub const SCRIPTED_LATE_MS: u64 = 1_500;

/// How long a wrong producer still hears replies to a prompt that is settled.
pub const SCRIPTED_LINGER: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a wrong producer waits for a reader that does not read.
pub const SCRIPTED_STALL: std::time::Duration = std::time::Duration::from_secs(3);

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

/// How far back a wrong producer sets its clock, in milliseconds.
pub const SCRIPTED_BACK_MS: i64 = 1_000;

/// Bytes of an event above which a wrong producer cuts it.
pub const SCRIPTED_CUT_ABOVE_BYTES: usize = 48 * 1024;

/// Bytes that it leaves of it.
pub const SCRIPTED_CUT_BYTES: usize = 32 * 1024;

/// How long a wrong producer holds critical events back, in milliseconds.
pub const SCRIPTED_CRITICAL_DELAY_MS: u64 = 700;

/// How long before a second ends a wrong producer sends what it may send in it, in milliseconds.
pub const SCRIPTED_WINDOW_EDGE_MS: u64 = 40;

/// How long a wrong producer that says nothing on quiet streams says nothing, in milliseconds: longer than anybody waits.
pub const SCRIPTED_NO_BEAT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Milliseconds that a subscription is kept that nobody ever read; then it is forgotten.
pub const SCRIPTED_UNREAD_MS: u64 = 10_000;

/// Bytes of a capture that are read at a time; a longer file is read in as many steps as it takes.
pub const RECORDING_READ_BYTES: usize = 64 * 1024;

/// Bytes of one line of the file of times beside a capture; with a longer one, times are not told any more.
pub const TIMES_LINE_BYTES_MAX: usize = 16 * 1024;
