//! Limits of this face, and what happens at each.

use std::time::Duration;

/// Bytes of a hook's body; more is refused with `body_too_large`, and the agent continues.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// How long a body may take to arrive; then `body_timeout`.
pub const BODY_WAIT: Duration = Duration::from_secs(10);

/// How long a hook waits until it is durable. Then it is answered anyway, and the append continues.
pub const RECORD_WAIT: Duration = Duration::from_secs(5);

/// Hooks in the queue of one session; one more is refused with `store_busy`.
pub const QUEUE_MAX: usize = 256;

/// Bytes of all queued bodies; one more is refused with `store_busy`.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Sessions in memory. One more replaces the least recently used session without a waiting permission; its state is
/// rebuilt from the log. If all have one, `store_busy`.
pub const SESSIONS_MAX: usize = 512;

/// How long a session without hooks stays in memory; then its state is rebuilt from the log.
pub const SESSION_IDLE: Duration = Duration::from_secs(600);

/// How long the end of a prompt waits for outcomes of open calls, since hooks overtake each other. Then the calls are
/// recorded without an outcome.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

/// Hooks outside of a run that wait for the next run; one more drops the oldest, which a gap event reports.
pub const HELD_MAX: usize = 32;

/// Prompts of a session that are remembered, so that a repeated prompt opens no second run; the oldest is removed.
pub const PROMPTS_REMEMBERED_MAX: usize = 256;

/// Sessions that are remembered as seen by this process, so that only a restart is recorded as a gap. At the limit the
/// memory is cleared.
pub const SEEN_MAX: usize = 65_536;

/// How long a permission may be held open; a longer `wait_seconds` is shortened to it.
pub const ASK_SECONDS_MAX: u64 = 86_400;

/// How long a permission is held open without `wait_seconds`.
pub const ASK_SECONDS_DEFAULT: u64 = 300;

/// How long after its deadline an approval is waited for to be withdrawn by the server's timer. Then this face withdraws it.
pub const WITHDRAW_WAIT: Duration = Duration::from_secs(2);

/// Permissions held open at once, of all sessions; for one more the agent's own dialog decides.
pub const ASKING_MAX: usize = 1_000;

/// Events of one append; more are split into several appends.
pub const APPEND_EVENTS_MAX: usize = 500;

/// Tries of one hook, if the run changes at the same time; then the hook is recorded in the next run.
pub const TRIES_MAX: usize = 4;

/// Milliseconds by which the epoch of a producer is raised for each try, if the clock of an earlier instance was ahead.
pub const EPOCH_STEP_MS: u64 = 86_400_000;
