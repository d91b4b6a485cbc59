//! Limits of this face, and what happens at each.

use std::time::Duration;

/// Bytes of a hook's body; more is refused with `body_too_large`, and the agent goes on.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// How long a body may take to arrive; then `body_timeout`.
pub const BODY_WAIT: Duration = Duration::from_secs(10);

/// How long a hook waits until what it says is durable. Then it is answered all the same, and the append goes on.
pub const RECORD_WAIT: Duration = Duration::from_secs(5);

/// Hooks of one session that wait for their turn; one more is refused with `store_busy`.
pub const QUEUE_MAX: usize = 256;

/// Bytes of the bodies that wait, of all sessions together; one more is refused with `store_busy`.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Sessions whose state is in memory. For one more, the one without a waiting permission that was used longest ago
/// leaves memory; its state is rebuilt from the log. If all wait, `store_busy`.
pub const SESSIONS_MAX: usize = 512;

/// How long a session without hooks stays in memory; then its state is rebuilt from the log.
pub const SESSION_IDLE: Duration = Duration::from_secs(600);

/// How long the end of a prompt waits for outcomes of calls that are still open, since hooks overtake each other. Then
/// the calls are recorded as without an outcome.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

/// Bodies outside of a run that wait for the next one; one more and the oldest is dropped, which a gap event says.
pub const HELD_MAX: usize = 32;

/// Prompts of a session that are remembered, so that a repeated one opens no second run; the oldest is forgotten.
pub const PROMPTS_REMEMBERED_MAX: usize = 256;

/// Sessions that are remembered as seen by this process, so that only a restart is recorded as a gap. Beyond it the
/// memory begins anew.
pub const SEEN_MAX: usize = 65_536;

/// How long a permission may be held open; a longer `wait_seconds` is shortened to it.
pub const ASK_SECONDS_MAX: u64 = 86_400;

/// How long a permission is held open if the address does not say.
pub const ASK_SECONDS_DEFAULT: u64 = 300;

/// What the server is given beyond that, so that the agent's own dialog, and not the server's default, decides.
pub const ASK_SECONDS_MORE: u64 = 60;

/// Permissions held open at once, of all sessions; for one more the agent's own dialog decides.
pub const ASKING_MAX: usize = 1_000;

/// Events of one append; more become several appends.
pub const APPEND_EVENTS_MAX: usize = 500;

/// Tries of one hook, when the run changes in the same moment; then the hook is recorded in the next run.
pub const TRIES_MAX: usize = 4;
