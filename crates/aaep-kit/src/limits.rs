//! Bounds of this crate, and what happens at them. Those of connections to producers are in `aaep-client`.

use std::time::Duration;

pub use recount_aaep_client::limits::{
    CLOSE_WAIT, MESSAGE_BYTES_MAX, PATIENCE, READ_BYTES, RECONNECT_WAIT_MS, RECONNECT_WAIT_MS_MAX,
};

/// Lines of evidence of a conformance check; further lines are dropped.
pub const EVIDENCE_LINES_MAX: usize = 12;
/// Bytes of one line of evidence; longer lines are cut with an ellipsis.
pub const EVIDENCE_LINE_BYTES_MAX: usize = 400;

/// Bytes read at a time when a file is validated.
pub const VALIDATE_READ_BYTES: usize = 256 * 1024;

/// Kernel send buffer for one reader of the scripted producer; after that, the reader's own queue grows.
pub const SCRIPTED_SEND_BUFFER_BYTES: u32 = 8 * 1024;

/// Connections waiting for the scripted producer to accept them; the kernel refuses further ones.
pub const SCRIPTED_BACKLOG: u32 = 64;

/// How long [`crate::scripted::Scripted::stop`] waits for its connections before it abandons them.
pub const SCRIPTED_STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Subscriptions of the scripted producer at once; one more is rejected with `rate_limit`.
pub const SCRIPTED_SUBSCRIPTIONS_MAX: usize = 32;

/// The `retry_after_seconds` of a rejection at [`SCRIPTED_SUBSCRIPTIONS_MAX`].
pub const SCRIPTED_RETRY_SECONDS: u32 = 5;

/// Sessions that the scripted producer plays at once; one more input is answered with 429.
pub const SCRIPTED_SESSIONS_MAX: usize = 64;

/// Messages kept per subscription for slow or returning readers; the oldest is dropped. The stream of a reader that
/// had not reached it ends, so that it reconnects and gets the current state. Also the most messages that a faulty
/// producer holds back.
pub const SCRIPTED_LOG_MAX: usize = 4_096;

/// Milliseconds that a subscription without a reader is kept, so that `Last-Event-ID` finds missed events.
pub const SCRIPTED_RESUME_MS: u64 = 60_000;

/// Milliseconds that a subscription waits for its first reader before it no longer counts as able to answer, and that
/// events are kept for a stream opened after the input. Matches the wait of the public suite.
pub const SCRIPTED_ATTACH_MS: u64 = 10_000;

/// Bytes of one message to the scripted producer; a larger one is refused (413, or WebSocket code 1009).
pub const SCRIPTED_BODY_BYTES_MAX: usize = 256 * 1024;

/// The largest difference between a reply's timestamp and the clock, in milliseconds; a reply outside it has no
/// effect.
pub const SCRIPTED_REPLY_SKEW_MS: i64 = 24 * 60 * 60 * 1_000;

/// Pauses ([`crate::scripted::Behaviour::pause_ms`]) that a tool takes before it times out.
pub const SCRIPTED_SLOW_TOOL_PAUSES: u32 = 10;

/// Prompts with a longer timeout than this, in milliseconds, have a countdown.
pub const SCRIPTED_COUNTDOWN_ABOVE_MS: u64 = 60_000;

/// How late a faulty producer applies the default of a prompt, in milliseconds.
pub const SCRIPTED_LATE_MS: u64 = 1_500;

/// How long a faulty producer still accepts replies to a settled prompt.
pub const SCRIPTED_LINGER: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a faulty producer waits for a reader that does not read.
pub const SCRIPTED_STALL: std::time::Duration = std::time::Duration::from_secs(3);

/// How far a faulty producer sets its clock back, in milliseconds.
pub const SCRIPTED_BACK_MS: i64 = 1_000;

/// Bytes of an event above which a faulty producer truncates it.
pub const SCRIPTED_CUT_ABOVE_BYTES: usize = 48 * 1024;

/// Bytes of a truncated event.
pub const SCRIPTED_CUT_BYTES: usize = 32 * 1024;

/// How long a faulty producer delays critical events, in milliseconds.
pub const SCRIPTED_CRITICAL_DELAY_MS: u64 = 700;

/// How long before the end of a second a faulty producer sends the events of that second, in milliseconds.
pub const SCRIPTED_WINDOW_EDGE_MS: u64 = 40;

/// Milliseconds that a subscription without any reader so far is kept.
pub const SCRIPTED_UNREAD_MS: u64 = 10_000;

/// Bytes of a capture read at a time.
pub const RECORDING_READ_BYTES: usize = 64 * 1024;

/// Bytes of one line of a times file; after a longer one, times are missing.
pub const TIMES_LINE_BYTES_MAX: usize = 16 * 1024;

// The synthetic producer for tests of subscribers.

/// Messages queued for one stream; if it is full, the sender waits, at most [`SYNTHETIC_STALL`].
pub const SYNTHETIC_QUEUE: usize = 1_024;
/// How long a stream may accept nothing; then the message is skipped, and the check reports that the subscriber does
/// not read.
pub const SYNTHETIC_STALL: Duration = Duration::from_secs(10);
/// The longest silence of a stream before a heartbeat comment.
pub const SYNTHETIC_HEARTBEAT: Duration = Duration::from_secs(10);
/// Pause between the writes of an event that is sent in small pieces.
pub const SYNTHETIC_WRITE_PAUSE: Duration = Duration::from_millis(1);
/// Pause after a failed accept.
pub const SYNTHETIC_ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Recorded actions of a subscriber; later ones are answered but not recorded.
pub const SYNTHETIC_OBSERVATIONS_MAX: usize = 200_000;
/// Remembered subscriptions; the oldest is dropped.
pub const SYNTHETIC_SUBSCRIPTIONS_MAX: usize = 1_024;
/// Responses queued for the next stream; the oldest is dropped.
pub const SYNTHETIC_QUEUED_MAX: usize = 16;
/// Bytes of a message from a subscriber; longer ones are refused.
pub const SYNTHETIC_REPLY_BYTES_MAX: usize = 1024 * 1024;
/// Agreed events per second for a subscriber that sets no limit.
pub const SYNTHETIC_RATE: u64 = 200;
/// The HTTP status while the producer refuses requests.
pub const SYNTHETIC_REFUSAL: u16 = 503;
/// The close code of a clean WebSocket close.
pub const SYNTHETIC_CLOSE_CODE: u16 = 4000;

// Trials of subscribers. The check reports which timeout passed.

/// Until the first connection of the subscriber.
pub const TRIAL_CONNECT: Duration = Duration::from_secs(120);
/// Until an automatic reply.
pub const TRIAL_REPLY: Duration = Duration::from_secs(5);
/// Until a reply of a person.
pub const TRIAL_PERSON: Duration = Duration::from_secs(120);
/// How long to watch for messages that must not arrive.
pub const TRIAL_QUIET: Duration = Duration::from_secs(1);
/// The same as a multiple of the usual reply time, if that is longer.
pub const TRIAL_QUIET_ANSWERS: u32 = 3;
/// Until the subscriber reconnects after a cut.
pub const TRIAL_RECONNECT: Duration = Duration::from_secs(30);
/// How long the producer refuses connections or is unreachable.
pub const TRIAL_DOWN: Duration = Duration::from_secs(4);
/// How long to send events at the agreed rate.
pub const TRIAL_SUSTAIN: Duration = Duration::from_secs(60);
/// Prompts among those events.
pub const TRIAL_PROMPTS: u32 = 6;
/// Events per second sent at most, whatever rate a subscriber requests.
pub const TRIAL_RATE_MAX: u64 = 2_000;
/// Events of a burst.
pub const TRIAL_BURST: u64 = 500;
/// Progress events before the error that a person is asked about.
pub const TRIAL_BACKLOG: u64 = 20;
/// Connection attempts while the producer refuses; more fail the check.
pub const TRIAL_TRIES_MAX: usize = 12;
/// The timeout of the prompts, in seconds.
pub const TRIAL_PROMPT_SECONDS: u32 = 300;
/// The unit of prompt timeouts and rates.
pub const TRIAL_SECOND: Duration = Duration::from_secs(1);
/// How long after a prompt's timeout a reply counts as late; before that it may be in flight.
pub const TRIAL_LATE: Duration = Duration::from_millis(500);
/// A prompt cannot be withdrawn in time from a subscriber that usually replies faster than this.
pub const TRIAL_HASTE: Duration = Duration::from_millis(50);
/// A prompt is withdrawn after this fraction of the usual reply time. A reply counts as wrong after the same time
/// again.
pub const TRIAL_WITHDRAW_PART: u32 = 3;
/// Attempts to withdraw a prompt from a subscriber that still replies; then the check fails.
pub const TRIAL_WITHDRAWALS: usize = 3;
/// The age of a prompt that is sent after its timeout, in milliseconds.
pub const TRIAL_LONG_AGO_MS: u64 = 60_000;
/// The pause that a rejection requests, in seconds.
pub const TRIAL_RETRY_SECONDS: u32 = 1;
/// Bytes of a string that is longer than recommended.
pub const TRIAL_LONG_STRING: usize = 20 * 1024;
/// Bytes of an event that is larger than recommended.
pub const TRIAL_LARGE_EVENT: usize = 70 * 1024;
/// Bytes of an event of about the largest size that should be carried.
pub const TRIAL_HUGE_EVENT: usize = 1023 * 1024;
/// Filler bytes of a prompt of nearly the size that must be carried.
pub const TRIAL_FULL_EVENT: usize = 62 * 1024;
/// Messages kept as evidence of one check; the oldest is dropped.
pub const TRIAL_SPOKEN_MAX: usize = 64;
/// Remembered event ids; the oldest is dropped.
pub const TRIAL_IDS: usize = 4_096;
/// Bytes of a message quoted in a sentence.
pub const TRIAL_QUOTE_BYTES: usize = 160;
/// Bytes kept of the end of a subscriber's stderr.
pub const TRIAL_OUTPUT_BYTES: usize = 4 * 1024;
/// The exit status of a program that panicked.
pub const PANIC_STATUS: i32 = 101;

// The scripted subscriber.

/// The first pause before a reconnect; each further one is twice as long.
pub const SCRIPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before a reconnect.
pub const SCRIPT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long to wait for the other side to close a WebSocket.
pub const SCRIPT_PARTING: Duration = Duration::from_secs(1);
/// Events per second that it requests.
pub const SCRIPT_EVENTS_PER_SECOND: u64 = 100;
/// Remembered event ids; the event of a dropped id would be processed again.
pub const SCRIPT_IDS: usize = 4_096;
/// Pending replies; the oldest is dropped.
pub const SCRIPT_PENDING: usize = 256;
/// Bytes of an event above which one of its faults skips it.
pub const SCRIPT_SMALL_BYTES: usize = 32 * 1024;
/// Events per second above which one of its faults drops them.
pub const SCRIPT_RATE: u32 = 200;
/// How long the scripted subscriber with this fault drops everything after more than [`SCRIPT_RATE`] events in a
/// second, in milliseconds of event time. The prompt after a burst is built when the burst has been sent.
pub const SCRIPT_DEAF_MS: i64 = 5_000;
/// Characters of a token that one of its faults keeps.
pub const SCRIPT_TOKEN_CHARS: usize = 40;
/// How often one of its faults requests its terms before it accepts others, so that later checks can run.
pub const SCRIPT_ASKS: u32 = 8;

/// Bytes of the entries of a trace, which is its memory besides the checker's state. Further texts are checked and
/// counted but omitted.
pub const TRACE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Problems that a trace lists; more are counted.
pub const TRACE_PROBLEMS_MAX: usize = 100_000;

/// Problems in the list at the top of an HTML trace; the others appear only at their lines.
pub const TRACE_OVERVIEW_MAX: usize = 500;

/// The same for the text form.
pub const TRACE_OVERVIEW_LINES_MAX: usize = 20;

/// Characters of a text for people in a trace; longer ones are cut and their length is given.
pub const TRACE_TEXT_CHARS_MAX: usize = 400;

/// Characters of a name or an id in a trace; longer ones are cut.
pub const TRACE_NAME_CHARS_MAX: usize = 100;

/// Languages with their directions that a trace distinguishes; texts in further ones are shown without a language.
pub const TRACE_LANGUAGES_MAX: usize = 256;

/// Choices of a question that a trace names; further ones are counted.
pub const TRACE_CHOICES_MAX: usize = 8;

/// Texts on one page (a `details` element) of an HTML session; longer sessions have several pages.
pub const TRACE_PAGE_ENTRIES: usize = 200;

/// Sessions with a drawing in HTML, those with problems first.
pub const TRACE_DRAWINGS_MAX: usize = 500;

/// HTML sessions that are laid out at once; later ones when they are scrolled to.
pub const TRACE_NEAR_SESSIONS: usize = 20;

/// Sessions in the HTML table of contents.
pub const TRACE_CONTENTS_MAX: usize = 100;

/// Producers of one session with a lane in the drawing; the entries name all.
pub const TRACE_PRODUCERS_MAX: usize = 8;

/// Rows of concurrent calls, prompts or outputs in a drawing; further ones share the last row.
pub const TRACE_ROWS_MAX: usize = 6;

/// Units of width of a drawing. A mark is at least a few units wide and close marks are merged, so the number of marks
/// is bounded for any length of session.
pub const TRACE_WIDTH_MAX: usize = 1_080;

/// Remembered parts of one session in a live trace; closed ones are dropped first, so a second reply to such a prompt
/// is reported as unrelated.
pub const TRACE_LIVE_PARTS_MAX: usize = 8_192;
/// Bytes of a recording read at a time.
pub const REPLAY_READ_BYTES: usize = 256 * 1024;
/// Bytes of the lines of a recording that are held for a replay; a larger recording is refused with the advice to cut
/// it.
pub const REPLAY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Warnings about a recording that are listed; further ones are counted.
pub const REPLAY_WARNINGS_MAX: usize = 20;
/// Languages of a recording that its replay offers; later ones are not offered.
pub const REPLAY_LANGUAGES_MAX: usize = 32;
/// Bytes of an event id in a frame; an event with a longer id is sent without one.
pub const REPLAY_ID_BYTES_MAX: usize = 256;
/// The longest pause between two lines; longer ones, which occur only at very low speeds, are cut.
pub const REPLAY_PAUSE_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// The shortest duration of one round of a repeated recording; a pause follows a shorter one.
pub const REPLAY_ROUND_MIN: Duration = Duration::from_millis(100);
/// Rounds that can still be sent; a reader that is further behind continues with the oldest of them.
pub const REPLAY_ROUNDS_KEPT: usize = 4;
/// Concurrent connections of a replay; further ones wait.
pub const REPLAY_CONNECTIONS_MAX: usize = 512;
/// Concurrent listeners of a replay; further ones are refused with 503, or closed with 1013.
pub const REPLAY_LISTENERS_MAX: usize = 256;
/// Subscriptions of a replay. A further one evicts the oldest without an open stream; if all have one, the request is
/// rejected with `rate_limit`.
pub const REPLAY_SUBSCRIPTIONS_MAX: usize = 1_024;
/// The `retry_after_seconds` of that rejection.
pub const REPLAY_FULL_RETRY_SECONDS: u32 = 10;
/// Responses kept for listeners of the shared subscription; the oldest is dropped.
pub const REPLAY_ANSWERS_KEPT: usize = 64;
/// Bytes of a message from a subscriber; a longer one is refused with 413, or the connection is closed.
pub const REPLAY_BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a WebSocket of the specification's surface may stay silent before its handshake.
pub const REPLAY_HANDSHAKE_WAIT: Duration = Duration::from_secs(30);
/// Events held for a subscriber with an agreed rate; the recording waits while there are more.
pub const REPLAY_HELD_EVENTS_MAX: usize = 256;
/// The bytes of those events.
pub const REPLAY_HELD_BYTES_MAX: usize = 256 * 1024;
/// Bytes of available frames that are written at once; one frame may be longer.
pub const REPLAY_CHUNK_BYTES: usize = 64 * 1024;
/// The longest silence of a stream before a heartbeat. Existing subscribers check their timeouts only when bytes
/// arrive.
pub const REPLAY_HEARTBEAT: Duration = Duration::from_secs(8);
/// How long a subscriber may accept no bytes before its connection is cut.
pub const REPLAY_STALL: Duration = Duration::from_secs(30);
/// How long a finished replay waits for a subscriber that left early.
pub const REPLAY_RETURN_WAIT: Duration = Duration::from_secs(10);
/// How long an ending replay waits for its connections before it abandons them.
pub const REPLAY_CLOSING: Duration = Duration::from_secs(5);

/// Messages of one conversation of the conformance suite. At the limit it stops reading, and checks that wait for a
/// line report that.
pub const CONVERSATION_LINES_MAX: usize = 50_000;
/// Queued commands of a conversation; a further one waits.
pub const CONVERSATION_COMMANDS_MAX: usize = 256;
/// The shortest timeout of a command that drives a producer; after the timeout it is killed and the part ends.
pub const DRIVE_WAIT: std::time::Duration = std::time::Duration::from_secs(30);
/// The wait after each reply that must have no effect.
pub const EFFECT_WAIT: std::time::Duration = std::time::Duration::from_millis(60);
/// Replies sent to one confirmation at once, of which one must take effect.
pub const RACE_REPLIES: usize = 100;
/// How many of them are in flight at a time.
pub const RACE_AT_ONCE: usize = 16;
/// The largest difference between two clocks before only the local one is used, in milliseconds.
pub const CLOCK_SKEW_MS: u64 = 5_000;
/// How early a default may be applied, in milliseconds.
pub const DEFAULT_EARLY_MS: u64 = 100;
/// How late a default may be applied; later fails the check. The suite waits at most three times as long.
pub const DEFAULT_LATE: std::time::Duration = std::time::Duration::from_millis(700);
/// Prompts of one session that the suite answers when the check is about the first; the rest time out.
pub const PROMPTS_ANSWERED_MAX: usize = 8;
/// How long a prompt may stay open after the last subscriber that can reply closed its subscription.
pub const CLOSE_GRACE: std::time::Duration = std::time::Duration::from_millis(1_500);
/// The same after a connection broke, from which the subscriber may still return.
pub const BREAK_GRACE: std::time::Duration = std::time::Duration::from_secs(11);
/// Scenarios without a session or without an end of it before the suite stops trying more.
pub const SILENT_SCENARIOS_MAX: usize = 2;
/// The largest difference between a timestamp and the arrival of its event, in milliseconds: clocks of two machines
/// differ.
pub const TIMESTAMP_SKEW_MS: u64 = 60_000;
/// Subscriptions opened to check the refusal of one too many; a producer that allows more is not tested.
pub const SUBSCRIPTIONS_TRIED_MAX: u64 = 128;
/// The events per second of a subscription that tests whether the rate is kept.
pub const RATE_TRIED: u32 = 10;
/// The tolerance of a rate within one second, in percent, plus one event: a network does not preserve intervals.
pub const RATE_SLACK_PERCENT: usize = 20;
/// How often a rate that looks too high is measured; the check fails if it is too high each time.
pub const RATE_TRIES: usize = 3;
/// How late a critical event may arrive when the rate is exhausted.
pub const CRITICAL_LATE: std::time::Duration = std::time::Duration::from_millis(400);
/// How long events in flight may still follow terms that were changed or ended.
pub const IN_FLIGHT: std::time::Duration = std::time::Duration::from_millis(150);
/// Connections broken one after another to test that the producer survives.
pub const BREAKS_TRIED: usize = 8;
/// How long a stream must stay silent before a message counts as absent, by default.
pub const SILENCE: std::time::Duration = std::time::Duration::from_millis(500);
/// The longest prompt timeout that is waited out, by default; checks of longer ones are not shown.
pub const OUTLAST: std::time::Duration = std::time::Duration::from_secs(60);
/// How long to listen to an idle stream, by default.
pub const QUIET: std::time::Duration = std::time::Duration::from_secs(35);
/// Characters of a piece of output from which it needs no boundary hint.
pub const SMALL_PIECE_CHARS: usize = 200;
/// Bytes of an event from which it counts as large: slightly less than the 64 KiB that every transport must carry,
/// because that includes the framing.
pub const LARGE_EVENT_BYTES: usize = 60_000;
/// Events per second of the subscription in the burst check.
pub const BURST_RATE: u32 = 10;
/// Sessions started at once to exceed it.
pub const BURST_SESSIONS: usize = 4;
/// Handoffs (large events for many producers) that fill the buffers to a reader that does not read.
pub const STALL_HANDOFFS: usize = 8;

/// Consecutive connections without a new message after which a capture ends.
pub const RECONNECTS_IN_VAIN_MAX: u32 = 5;

/// Remembered events of a capture, to skip repetitions; a repetition of a dropped one is stored twice.
pub const SEEN_EVENTS_MAX: usize = 100_000;

/// Remembered prompts that a capture has answered; the oldest are dropped.
pub const ANSWERED_PROMPTS_MAX: usize = 10_000;

/// How often a capture reports its progress while messages arrive.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The longest silence of `aaep stdio` before an `aaep.ping`.
pub const STDIO_PING_EVERY: Duration = Duration::from_secs(10);
