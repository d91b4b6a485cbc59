//! Every bound of this crate, with what happens at it.

use std::time::Duration;

/// Bytes of one piece of output; a longer text of the log is sent in several pieces, cut between characters.
pub const PIECE_BYTES: usize = 8 * 1024;

/// Characters of a text that is put into a sentence, such as a request or a reason; the rest is replaced by `…`.
pub const QUOTED_CHARS_MAX: usize = 400;

/// Characters of a text in a field of its own, such as the action of a prompt; the rest is replaced by `…`. The
/// protocol allows 16,384; its events should stay below 64 KiB.
pub const FIELD_CHARS_MAX: usize = 4_000;

/// Bytes of the texts and the packaged context of a handoff together; a larger context is omitted. The protocol
/// requires events of at most 64 KiB, including everything around these.
pub const HANDOFF_BYTES_MAX: usize = 62_000;

/// Seconds of a prompt for which the log has no timeout: the most that the protocol allows.
pub const PROMPT_SECONDS_MAX: u64 = 86_400;

/// Choices of a question. A question with more of them is projected as one that takes any text, and its context names
/// them.
pub const CHOICES_MAX: usize = 32;

/// Open prompts and handoffs of a run that are emitted again to a listener that joins: as many as a run may have open.
/// Of an imported run with more, the later ones are only counted.
pub const PROMPTS_REPEATED_MAX: usize = 64;

/// Calls of one turn whose questions are prompts already, so that the calls are not projected; of more of them both
/// are.
pub const ASKING_CALLS_MAX: usize = 256;

/// Milliseconds, by the times of the log, between two reports of progress of a tool that writes output; the output in
/// between is left out.
pub const TOOL_PROGRESS_EVERY_MS: i64 = 10_000;

/// How long a body may take to arrive; a slower one is refused with 408.
pub const BODY_WAIT: Duration = Duration::from_secs(30);

/// Subscriptions at a time, of all tenants; one more is rejected with `rate_limit`.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;

/// Of those, the ones that each tenant has to itself: others cannot take them.
pub const SUBSCRIPTIONS_OWN_MAX: usize = 64;

/// The retry time after that.
pub const SUBSCRIPTIONS_RETRY_SECONDS: u32 = 5;

/// How long a subscription without a stream lives; then its id is unknown.
pub const SUBSCRIPTION_GRACE: Duration = Duration::from_secs(60);

/// How long a stream waits for the one before it to give up its place in the runs; after that it joins them anew.
pub const HANDOVER_WAIT: Duration = Duration::from_secs(1);

/// How often it is looked for subscriptions whose time is up.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Prompts that a subscription can reply to, as many as a run may have open; when it is shown one more, it can no
/// longer reply to the first of them.
pub const PROMPTS_SHOWN_MAX: usize = 64;

/// Of those, the ones with a countdown; with one more, the oldest loses its countdown.
pub const COUNTDOWNS_MAX: usize = 16;

/// Messages of a subscription that wait to be handled; one more is dropped and counted.
pub const REPLIES_WAITING_MAX: usize = 16;

/// Attempts without effect of one subscription that are recorded each by itself; later ones are only counted.
pub const REPLIES_REFUSED_RECORDED_MAX: u64 = 16;

/// Replies for subscriptions that are not the sender's, of all senders, that are recorded each by itself; later ones
/// are only counted.
pub const FOREIGN_REPLIES_RECORDED_MAX: u64 = 1_000;

/// How far the time that a reply names may be from the server's; a reply that is further off has no effect. Whether it
/// is late is decided by the server's time alone.
pub const REPLY_CLOCK_SKEW_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Prompts with more seconds than this report their remaining time when a half and a tenth remain.
pub const COUNTED_DOWN_SECONDS: u32 = 60;

/// Bytes of a message from a subscriber; a longer one is refused with 413, or its WebSocket is closed.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Bytes of frames that are merged into one write, as far as they are ready; one frame may be longer.
pub const WRITE_BYTES: usize = 32 * 1024;

/// How long a stream is silent before a comment or a ping shows that it is alive.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

/// How long a WebSocket may take to send its handshake; then it is closed.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Bytes of projected events that are kept of one run; readers before them have the run projected again.
pub const RUN_WINDOW_BYTES_MAX: usize = 512 * 1024;

/// Bytes of projected events that are kept of all runs of a tenant; readers before them join the live runs anew.
pub const TENANT_WINDOW_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of projected events in the whole process; beyond, a window keeps only its newest event.
pub const PROJECTED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes that a projected event counts at least.
pub const PROJECTED_BYTES_LEAST: usize = 1024;

/// Events that a reader takes from a window at a time.
pub const BATCH_EVENTS_MAX: usize = 64;

/// The number of projections at which those without readers are removed from their table.
pub const PROJECTIONS_SWEPT_MIN: usize = 64;

/// Live runs of a tenant whose events are on streams of all runs; one more is only on streams of its own, and the log
/// reports it.
pub const LIVE_RUNS_MAX: usize = 4_096;

/// Live runs whose state a subscription to all runs receives when it joins: those that wait for a reply, then the newest.
/// The others are received from their next event on.
pub const RUNS_JOINED_MAX: usize = 64;

/// Runs in one page of the list that is looked through for live ones.
pub const RUNS_PAGE: usize = 200;

/// The newest runs that are looked at for live ones of external producers when the first subscription to all runs
/// comes; those before them are on streams of their own only.
pub const RUNS_LOOKED_AT_MAX: usize = 5_000;

/// Characters of a text whose pieces share one mark; a longer text has several marks.
pub const MARKED_CHARACTERS_MAX: u64 = 1_000_000;

/// Bytes of frames that went out last on a stream of all runs, so that it can be resumed after one of them; after an
/// older one the live runs are joined anew.
pub const SENT_FRAMES_BYTES_MAX: usize = 8 * 1024;

/// Prompts that wait on a stream of a room until the one that is shown is settled; one more is sent as a sentence, and
/// can be answered elsewhere.
pub const ROOM_PROMPTS_HELD_MAX: usize = 64;

/// Open prompts that a stream of a room reads at a time to find out whether the one that it shows is settled.
pub const ROOM_PROMPTS_PAGE: usize = 200;

/// Answers to handshakes that a reader of a room has not read; with one more its stream ends.
pub const ROOM_MESSAGES_MAX: usize = 16;

/// How long the first input of a room waits for a reader of it; then its run begins all the same.
pub const ROOM_READER_WAIT: Duration = Duration::from_secs(1);
