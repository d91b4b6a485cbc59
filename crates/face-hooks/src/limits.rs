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

/// Bytes of all queued bodies of hooks; one more is refused with `store_busy`.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Requests with telemetry in the queue of one session, so that its hooks have the rest; one more is refused with 503.
pub const TELEMETRY_QUEUE_MAX: usize = 64;

/// Bytes of all queued events and spans of OTLP; more is refused with 503.
pub const OTLP_QUEUED_BYTES_MAX: usize = 32 << 20;

/// Sessions in memory. One more replaces the least recently used session without a waiting permission; its state is
/// rebuilt from the log. If all have one, `store_busy`.
pub const SESSIONS_MAX: usize = 512;

/// How long a session without hooks stays in memory; then its state is rebuilt from the log.
pub const SESSION_IDLE: Duration = Duration::from_secs(600);

/// How long the end of a prompt waits for outcomes of open calls, since hooks overtake each other. Then the calls are
/// recorded without an outcome.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

/// Pause before another attempt to record the end of a prompt or trace after a failure.
pub const RETRY_WAIT: Duration = Duration::from_secs(5);

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

/// How long the end of a prompt waits for the tokens of its last request, if the agent reports them by OpenTelemetry. Claude
/// Code sends its events every 5 seconds. Then the run ends, and later events become a run of their own.
pub const USAGE_WAIT: Duration = Duration::from_secs(8);

/// The same after the session has ended, as the agent sends the rest when it exits.
pub const USAGE_WAIT_AT_EXIT: Duration = Duration::from_secs(3);

/// How long a run that only has telemetry stays open for more events of its prompt, if the run of its prompt has ended.
pub const LATE_USAGE_WAIT: Duration = Duration::from_secs(10);

/// Keys of telemetry events of a session that are remembered, so that a repeated request adds nothing. At the limit the memory
/// is cleared.
pub const TELEMETRY_REMEMBERED_MAX: usize = 16_384;

/// How long after the end of a run its telemetry events are recognized as repeated.
pub const TELEMETRY_REPEATED_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Newest runs of a tenant that show whether its agents report tokens.
pub const USAGE_RUNS_SEARCHED: usize = 50;

/// Newest runs of a session that are looked at for open ones and for events that are repeated.
pub const NEWEST_RUNS: usize = 4;

/// Bytes of a request of OTLP, uncompressed; more is refused with 413, and the exporter drops it.
pub const OTLP_BYTES_MAX: usize = 8 << 20;

/// Bytes of requests of OTLP that are in work at once; more is refused with 503, and the exporter sends it again.
pub const OTLP_BYTES_AT_ONCE_MAX: usize = 32 << 20;

/// Sessions whose events are in one request of OTLP; events of others are rejected.
pub const OTLP_SESSIONS_MAX: usize = 256;

/// Traces of a tenant with an open run in memory. One more ends the run of the trace that was quiet for the longest time.
pub const TRACES_MAX: usize = 1_024;

/// Traces of all tenants in memory, with those whose runs are ending; spans of one more are refused with 503, and the exporter
/// sends them again.
pub const TRACES_OF_ALL_MAX: usize = 8_192;

/// Newest runs of a tenant among which open runs of traces are searched after a restart; older ones stay open until their next
/// span.
pub const TRACE_RUNS_RESUMED_AMONG: usize = 2_000;

/// Runs of one page of that search.
pub const TRACE_RUNS_PAGE: usize = 200;

/// Requests in the queue of one trace; one more is refused with 503.
pub const TRACE_QUEUE_MAX: usize = 64;

/// How long a trace waits for further spans after its root, since processes export at different times. Then its run ends, and
/// later spans are rejected.
pub const ROOT_WAIT: Duration = Duration::from_secs(5);

/// How long a trace without another span stays open after the first span of a process whose parent is in another process.
pub const LOCAL_ROOT_WAIT: Duration = Duration::from_secs(60);

/// How long a trace without a root waits for its next span. Then its run ends as `end_not_seen`.
pub const TRACE_QUIET: Duration = Duration::from_secs(15 * 60);

/// Spans of one trace that become turns and calls; of more, `ext.recount.gap` has the number.
pub const TRACE_SPANS_MAX: usize = 20_000;

/// Bytes of these spans; likewise.
pub const TRACE_BYTES_MAX: usize = 32 << 20;
