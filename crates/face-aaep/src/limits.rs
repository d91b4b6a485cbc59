//! Every bound of this crate, with what happens at it.

use std::time::Duration;

/// Bytes of one piece of output; a longer text of the log is told in several pieces, cut between characters.
pub const PIECE_BYTES: usize = 8 * 1024;

/// Characters of a text that is put into a sentence, such as a request or a reason; the rest is left out, and `…` says so.
pub const QUOTED_CHARS_MAX: usize = 400;

/// Characters of a text that a field of its own carries, such as the action of a prompt; the rest is left out, and `…`
/// says so. The protocol allows 16,384; its events should stay below 64 KiB.
pub const FIELD_CHARS_MAX: usize = 4_000;

/// Seconds that a prompt says when the log names no time: the most that the protocol allows.
pub const PROMPT_SECONDS_MAX: u64 = 86_400;

/// Choices of a question. A question with more of them is projected as one that takes any text, and its context names them.
pub const CHOICES_MAX: usize = 32;

/// Open prompts and handoffs of a run that are emitted again to a listener that joins: as many as a run may have open. Of
/// an imported run with more, the later ones are only counted.
pub const PROMPTS_REPEATED_MAX: usize = 64;

/// Milliseconds, by the times of the log, between two reports of progress of a tool that writes output; the output in
/// between is left out.
pub const TOOL_PROGRESS_EVERY_MS: i64 = 10_000;

/// Subscriptions at a time, of all tenants; one more is rejected with `rate_limit`.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;

/// Of those, the ones that each tenant has to itself: others cannot take them.
pub const SUBSCRIPTIONS_OWN_MAX: usize = 64;

/// When to ask again after that.
pub const SUBSCRIPTIONS_RETRY_SECONDS: u32 = 5;

/// How long a subscription without a stream lives; then its id is unknown.
pub const SUBSCRIPTION_GRACE: Duration = Duration::from_secs(60);

/// How often it is looked for subscriptions whose time is up.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Bytes of a message from a subscriber; a longer one is refused with 413, or its WebSocket is closed.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Bytes of frames that are merged into one write, as far as they are ready; one frame may be longer.
pub const WRITE_BYTES: usize = 32 * 1024;

/// How long a stream is silent before a comment or a ping shows that it is alive.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

/// How long a WebSocket may take to send its handshake; then it is closed.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
