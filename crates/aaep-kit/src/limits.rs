//! Bounds of this crate, and what happens at them. Those of connections to producers are in `aaep-client`.

use std::time::Duration;

pub use recount_aaep_client::limits::{
    CLOSE_WAIT, MESSAGE_BYTES_MAX, PATIENCE, READ_BYTES, RECONNECT_WAIT_MS, RECONNECT_WAIT_MS_MAX,
};

/// Lines that a check of the conformance suite shows of the conversation; more are left out.
pub const EVIDENCE_LINES_MAX: usize = 12;
/// Bytes of such a line; of a longer one the beginning is shown, with an ellipsis.
pub const EVIDENCE_LINE_BYTES_MAX: usize = 400;

/// Bytes of a file that are read at a time when it is validated; a longer one is read in as many steps as it takes.
pub const VALIDATE_READ_BYTES: usize = 256 * 1024;

/// Bytes the kernel holds for one reader of the scripted producer; beyond that the reader's own queue grows.
pub const SCRIPTED_SEND_BUFFER_BYTES: u32 = 8 * 1024;

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
/// that had not come so far is ended, so that it comes back and is told where things stand. Also the most that a wrong
/// producer holds back; then it lets all of it go.
pub const SCRIPTED_LOG_MAX: usize = 4_096;

/// Milliseconds that a subscription without a reader is kept, so that `Last-Event-ID` finds what was missed; then it is
/// forgotten.
pub const SCRIPTED_RESUME_MS: u64 = 60_000;

/// Milliseconds that a subscription waits for its first reader before it no longer counts as one that can answer,
/// and that a session keeps its events for a stream that is opened after its input. As long as the public suite waits for an event.
pub const SCRIPTED_ATTACH_MS: u64 = 10_000;

/// Bytes of one message to the scripted producer; a larger one is refused (413, or WebSocket code 1009).
pub const SCRIPTED_BODY_BYTES_MAX: usize = 256 * 1024;

/// How far a reply's own time may be off, in milliseconds either way; a reply that is further off has no effect.
pub const SCRIPTED_REPLY_SKEW_MS: i64 = 24 * 60 * 60 * 1_000;

/// How many pauses ([`crate::scripted::Behaviour::pause_ms`]) a tool takes that is given up.
pub const SCRIPTED_SLOW_TOOL_PAUSES: u32 = 10;

/// Prompts with more time than this have a countdown, in milliseconds.
pub const SCRIPTED_COUNTDOWN_ABOVE_MS: u64 = 60_000;

/// How much later than it should a wrong producer applies the default of a prompt, in milliseconds.
pub const SCRIPTED_LATE_MS: u64 = 1_500;

/// How long a wrong producer still hears replies to a prompt that is settled.
pub const SCRIPTED_LINGER: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a wrong producer waits for a reader that does not read.
pub const SCRIPTED_STALL: std::time::Duration = std::time::Duration::from_secs(3);

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

/// Milliseconds that a subscription is kept that nobody ever read; then it is forgotten.
pub const SCRIPTED_UNREAD_MS: u64 = 10_000;

/// Bytes of a capture that are read at a time; a longer file is read in as many steps as it takes.
pub const RECORDING_READ_BYTES: usize = 64 * 1024;

/// Bytes of one line of the file of times beside a capture; with a longer one, times are not told any more.
pub const TIMES_LINE_BYTES_MAX: usize = 16 * 1024;

// The synthetic producer that subscribers are tried on.

/// Messages that wait to be written to one stream; when it is full, the sender waits, at most [`STAGE_STALL`].
pub const STAGE_QUEUE: usize = 1_024;
/// How long a stream may take nothing; then what is said is not put on it, and the check says that nobody reads.
pub const STAGE_STALL: Duration = Duration::from_secs(10);
/// The longest a stream is silent; then a comment shows that it lives.
pub const STAGE_HEARTBEAT: Duration = Duration::from_secs(10);
/// Between the writes of an event that is sent in small pieces.
pub const STAGE_WRITE_PAUSE: Duration = Duration::from_millis(1);
/// Behind a connection that could not be accepted, before the next is.
pub const STAGE_ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Things that are remembered of what a subscriber did; what comes later is answered but not remembered.
pub const STAGE_SEEN_MAX: usize = 200_000;
/// Subscriptions that are remembered; the oldest is forgotten and has to be asked for anew.
pub const STAGE_SUBSCRIPTIONS_MAX: usize = 1_024;
/// Answers that wait for a stream to be told on; the oldest is forgotten.
pub const STAGE_OWED_MAX: usize = 16;
/// Bytes of a message of a subscriber's; a longer one is refused.
pub const STAGE_REPLY_BYTES_MAX: usize = 1024 * 1024;
/// Events a second that are agreed with a subscriber that sets no limit.
pub const STAGE_RATE: u64 = 200;
/// What is answered while the producer refuses.
pub const STAGE_REFUSAL: u16 = 503;
/// How a WebSocket is closed: clean.
pub const STAGE_CLOSE_CODE: u16 = 4000;

// Trials of subscribers. Where a time is up, the check says so.

/// Until the subscriber has come.
pub const TRIAL_COMES: Duration = Duration::from_secs(120);
/// For a reply that comes by itself.
pub const TRIAL_REPLY: Duration = Duration::from_secs(5);
/// For a reply of a person.
pub const TRIAL_PERSON: Duration = Duration::from_secs(120);
/// How long it is watched when nothing is to happen.
pub const TRIAL_QUIET: Duration = Duration::from_secs(1);
/// The same, as a multiple of the time in which it usually answers, when that is longer.
pub const TRIAL_QUIET_ANSWERS: u32 = 3;
/// Until it is back after its connection was cut.
pub const TRIAL_RETURNS: Duration = Duration::from_secs(30);
/// How long the producer refuses or is away.
pub const TRIAL_DOWN: Duration = Duration::from_secs(4);
/// How long events come at the agreed rate.
pub const TRIAL_SUSTAIN: Duration = Duration::from_secs(60);
/// Prompts among these.
pub const TRIAL_PROMPTS: u32 = 6;
/// Events a second that are sent at most, whatever a subscriber says that it bears.
pub const TRIAL_RATE_MAX: u64 = 2_000;
/// Events of a burst.
pub const TRIAL_BURST: u64 = 500;
/// Steps in front of an error that people are asked about.
pub const TRIAL_BACKLOG: u64 = 20;
/// Tries to connect while the producer refuses; more are a storm.
pub const TRIAL_TRIES_MAX: usize = 12;
/// Seconds of the prompts that are sent.
pub const TRIAL_PROMPT_SECONDS: u32 = 300;
/// The unit of prompts and rates.
pub const TRIAL_SECOND: Duration = Duration::from_secs(1);
/// Behind the end of a prompt's time, until a reply counts as late: it may have been on its way.
pub const TRIAL_LATE: Duration = Duration::from_millis(500);
/// Who usually answers sooner cannot have a prompt withdrawn in time.
pub const TRIAL_HASTE: Duration = Duration::from_millis(50);
/// A prompt is withdrawn after this part of the time in which it is usually answered, and from as long after that a
/// reply is wrong.
pub const TRIAL_WITHDRAW_PART: u32 = 3;
/// How often a prompt is withdrawn from a subscriber that answers all the same; then it fails.
pub const TRIAL_WITHDRAWALS: usize = 3;
/// How old a prompt is that comes when its time is up, in milliseconds.
pub const TRIAL_LONG_AGO_MS: u64 = 60_000;
/// The pause that a refusal asks for, in seconds.
pub const TRIAL_RETRY_SECONDS: u32 = 1;
/// Bytes of a string that is longer than advised.
pub const TRIAL_LONG_STRING: usize = 20 * 1024;
/// Bytes in an event that is larger than advised.
pub const TRIAL_LARGE_EVENT: usize = 70 * 1024;
/// Bytes in an event of about the largest size that should be carried.
pub const TRIAL_HUGE_EVENT: usize = 1023 * 1024;
/// Bytes of filler in a prompt that is of nearly the size that has to be carried.
pub const TRIAL_FULL_EVENT: usize = 62 * 1024;
/// Lines that are kept of what is said during one check; the oldest is forgotten.
pub const TRIAL_SPOKEN_MAX: usize = 64;
/// Ids of events that are kept to know one again; the oldest is forgotten.
pub const TRIAL_IDS: usize = 4_096;
/// Bytes that are quoted of a message in a sentence.
pub const TRIAL_QUOTE_BYTES: usize = 160;
/// Bytes that are kept of the end of what a subscriber writes to stderr.
pub const TRIAL_WORDS_BYTES: usize = 4 * 1024;
/// The exit status of a program that panicked.
pub const PANIC_STATUS: i32 = 101;

// The scripted subscriber.

/// The first pause before it comes again; each further one is twice as long.
pub const SCRIPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before it comes again.
pub const SCRIPT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long it waits for the other side of a WebSocket that it closes; then it goes without.
pub const SCRIPT_PARTING: Duration = Duration::from_secs(1);
/// Events a second that it asks for at most.
pub const SCRIPT_EVENTS_PER_SECOND: u64 = 100;
/// Ids of events that it remembers; the oldest is forgotten, and its event would be used again.
pub const SCRIPT_IDS: usize = 4_096;
/// Prompts that it thinks about at a time; the oldest is let go of.
pub const SCRIPT_PENDING: usize = 256;
/// Bytes of an event beyond which one of its faults passes it over.
pub const SCRIPT_SMALL_BYTES: usize = 32 * 1024;
/// Events a second beyond which one of its faults drops them.
pub const SCRIPT_RATE: u32 = 200;
/// How long the scripted subscriber with this fault takes nothing after more than [`SCRIPT_RATE`] events in a second, in
/// milliseconds between the times that events carry. The prompt after a burst is made when the burst has been sent.
pub const SCRIPT_DEAF_MS: i64 = 5_000;
/// Characters of a token that one of its faults keeps.
pub const SCRIPT_TOKEN_CHARS: usize = 40;
/// How often one of its faults asks for its terms; then it makes do, so that other things can be tried.
pub const SCRIPT_ASKS: u32 = 8;

/// Bytes that the account of a trace holds, which is what a trace needs of memory beside what the checker follows;
/// texts behind that are checked and counted, and the account says how many are not told.
pub const TRACE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Problems that a trace lists; more are counted.
pub const TRACE_PROBLEMS_MAX: usize = 100_000;

/// Problems that a trace lists once more, together, at its top in HTML; the others stand at their lines alone.
pub const TRACE_OVERVIEW_MAX: usize = 500;

/// The same for the text form, whose top is to be short.
pub const TRACE_OVERVIEW_LINES_MAX: usize = 20;

/// Characters of a text for people that a trace shows; of a longer one the beginning, and how long it is.
pub const TRACE_TEXT_CHARS_MAX: usize = 400;

/// Characters of a name or an id that a trace shows; a longer one is cut.
pub const TRACE_NAME_CHARS_MAX: usize = 100;

/// Languages with their directions that a trace tells apart; a text in one more is shown as one of which nothing
/// is known.
pub const TRACE_TONGUES_MAX: usize = 256;

/// Choices of a question that a trace names; of more it says how many there are.
pub const TRACE_CHOICES_MAX: usize = 8;

/// Texts on one page (a `details` element) of the HTML account of a session; a session with more has pages.
pub const TRACE_PAGE_ENTRIES: usize = 200;

/// Sessions of which the HTML has a drawing, those with problems first; the others have their account alone.
pub const TRACE_DRAWINGS_MAX: usize = 500;

/// Sessions of the HTML that are laid out at once; those behind them when they are reached.
pub const TRACE_NEAR_SESSIONS: usize = 20;

/// Sessions in the table of contents of the HTML; more are reached by reading on.
pub const TRACE_CONTENTS_MAX: usize = 100;

/// Producers of one session that the drawing gives a lane each; the account names all.
pub const TRACE_PRODUCERS_MAX: usize = 8;

/// Rows of calls, prompts or outputs at the same time in a drawing; more share the last row.
pub const TRACE_ROWS_MAX: usize = 6;

/// Units of width of a drawing. A mark is at least a few units wide and nearer neighbours are drawn as one, so a
/// drawing has a bounded number of marks however long the session is.
pub const TRACE_WIDTH_MAX: usize = 1_080;

/// Parts that are remembered of one session told as it happens; those that are closed are forgotten then, and a
/// second answer to such a prompt is told as one to nothing.
pub const TRACE_LIVE_PARTS_MAX: usize = 8_192;
/// Bytes of a recording that are read at a time.
pub const REPLAY_READ_BYTES: usize = 256 * 1024;
/// Bytes of a recording that are held to be said again; one that says more is refused, with the advice to cut it.
pub const REPLAY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Odd things about a recording that are told one by one; of the others the count is.
pub const REPLAY_WARNINGS_MAX: usize = 20;
/// Languages of a recording that its replay offers; later ones are not offered.
pub const REPLAY_LANGUAGES_MAX: usize = 32;
/// Bytes of an event's id that stand in a frame; the frame of an event with a longer one has no id.
pub const REPLAY_ID_BYTES_MAX: usize = 256;
/// The longest pause between two lines; a longer one, which only a very slow replay has, is cut to this.
pub const REPLAY_PAUSE_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// How long one time through a repeated recording takes at least; a shorter one is followed by a pause.
pub const REPLAY_ROUND_MIN: Duration = Duration::from_millis(100);
/// Times through a recording that can still be said again; who is further behind goes on with the oldest of them.
pub const REPLAY_ROUNDS_KEPT: usize = 4;
/// Connections of a replay at a time; a further one waits until one ends.
pub const REPLAY_CONNECTIONS_MAX: usize = 512;
/// Subscribers that listen to a replay at a time; a further one is refused with 503, or closed with 1013.
pub const REPLAY_LISTENERS_MAX: usize = 256;
/// Subscriptions that a replay remembers; for a further one the oldest without an open stream is forgotten, and where
/// all have one, the request is rejected with `rate_limit`.
pub const REPLAY_SUBSCRIPTIONS_MAX: usize = 1_024;
/// After how many seconds a subscriber that was rejected so may ask again.
pub const REPLAY_FULL_RETRY_SECONDS: u32 = 10;
/// Answers to handshakes that are kept for who listens in the room; the oldest is forgotten.
pub const REPLAY_ANSWERS_KEPT: usize = 64;
/// Bytes of a message of a subscriber; a longer one is refused with 413, or the connection is closed.
pub const REPLAY_BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a WebSocket of the specification's surface may say nothing before its handshake; then it is closed.
pub const REPLAY_HANDSHAKE_WAIT: Duration = Duration::from_secs(30);
/// Events held for a subscriber that was promised a rate, and their bytes; the recording waits while there are more.
pub const REPLAY_HELD_EVENTS_MAX: usize = 256;
/// See [`REPLAY_HELD_EVENTS_MAX`].
pub const REPLAY_HELD_BYTES_MAX: usize = 256 * 1024;
/// Bytes of frames that are written in one go, as far as they are there; one frame may be longer.
pub const REPLAY_CHUNK_BYTES: usize = 64 * 1024;
/// How long a stream rests before it is said that it lives. Subscribers in use look at their own clocks only then.
pub const REPLAY_HEARTBEAT: Duration = Duration::from_secs(8);
/// How long a subscriber may take no byte of what is written; then its connection is cut.
pub const REPLAY_STALL: Duration = Duration::from_secs(30);
/// How long a replay that has said all waits for a subscriber that left before it had all; then it ends.
pub const REPLAY_RETURN_WAIT: Duration = Duration::from_secs(10);
/// How long a replay that ends waits for its connections; then it leaves them.
pub const REPLAY_CLOSING: Duration = Duration::from_secs(5);

/// Messages of one conversation of the conformance suite; with one more it is not read any further, and checks that wait
/// for something there are told so.
pub const TALK_LINES_MAX: usize = 50_000;
/// Orders to such a conversation that wait; who gives one more waits too.
pub const TALK_ORDERS_MAX: usize = 256;
/// How long a command that drives a producer may take at least; then it is killed and the part of the run is over.
pub const DRIVE_WAIT: std::time::Duration = std::time::Duration::from_secs(30);
/// How long a reply that must have no effect is given to have one before the next is sent.
pub const EFFECT_WAIT: std::time::Duration = std::time::Duration::from_millis(60);
/// Replies that are sent to one confirmation at once, to see that one of them takes effect.
pub const RACE_REPLIES: usize = 100;
/// How many of them are on their way at a time; the next waits for the answer to one of these.
pub const RACE_AT_ONCE: usize = 16;
/// How far two clocks may be apart before ours alone is believed, in milliseconds.
pub const CLOCK_SKEW_MS: u64 = 5_000;
/// How much sooner than its time a default may be applied, in milliseconds.
pub const DEFAULT_EARLY_MS: u64 = 100;
/// How much later than its time a default may be seen to be applied; the check fails beyond that, and nobody waits longer
/// than three times as much.
pub const DEFAULT_LATE: std::time::Duration = std::time::Duration::from_millis(700);
/// Prompts of one session that are answered when the check is about the first of them; the rest are left to time out.
pub const PROMPTS_ANSWERED_MAX: usize = 8;
/// How long a prompt may stay open after the last one who could answer has closed the subscription.
pub const CLOSE_GRACE: std::time::Duration = std::time::Duration::from_millis(1_500);
/// The same after a connection broke: who was cut off may come back so long.
pub const BREAK_GRACE: std::time::Duration = std::time::Duration::from_secs(11);
/// Scenarios that may bring no session, or one without an end; then no more of them are tried.
pub const SILENT_SCENARIOS_MAX: usize = 2;
/// How far a timestamp may be from the moment at which its event comes, in milliseconds: clocks of two machines differ.
pub const TIMESTAMP_SKEW_MS: u64 = 60_000;
/// Subscriptions that are opened at most to see that one too many is refused; a producer that bears more is not tried.
pub const SUBSCRIPTIONS_TRIED_MAX: u64 = 128;
/// Events a second that a subscription asks for, to see whether it gets more.
pub const RATE_TRIED: u32 = 10;
/// How many more may come within one second, in percent, and one: a network does not keep distances.
pub const RATE_SLACK_PERCENT: usize = 20;
/// How often a rate that looks too high is looked at; it counts when it was too high each time.
pub const RATE_TRIES: usize = 3;
/// How much later a critical event may come to a subscription whose bucket is empty.
pub const CRITICAL_LATE: std::time::Duration = std::time::Duration::from_millis(400);
/// How long events that were on their way may still follow terms that were changed or ended.
pub const IN_FLIGHT: std::time::Duration = std::time::Duration::from_millis(150);
/// Connections that are broken off one after another to see that the producer goes on.
pub const BREAKS_TRIED: usize = 8;
/// How long nothing must come before the conformance suite takes it for nothing coming, where nobody says otherwise.
pub const SILENCE: std::time::Duration = std::time::Duration::from_millis(500);
/// The longest time of a prompt that is waited out, where nobody says otherwise; checks of longer ones are not shown.
pub const OUTLAST: std::time::Duration = std::time::Duration::from_secs(60);
/// How long a quiet stream is listened to, where nobody says otherwise.
pub const QUIET: std::time::Duration = std::time::Duration::from_secs(35);
/// Characters of a piece of output from which on it is large, and need not say where it ends.
pub const SMALL_PIECE_CHARS: usize = 200;
/// Bytes of an event from which on it counts as large: a little less than the 64 KiB that every transport must carry,
/// because those include what is around it.
pub const LARGE_EVENT_BYTES: usize = 60_000;
/// Events a second of the subscription on which bursts are looked for, and sessions that are started at once to fill it.
pub const BURST_RATE: u32 = 10;
/// See [`BURST_RATE`].
pub const BURST_SESSIONS: usize = 4;
/// Handoffs, each of them large where a producer packs much into them, that fill the way to a reader that does not read.
pub const STALL_HANDOFFS: usize = 8;

/// Connections in a row that bring a capture nothing new; then it ends with what it has.
pub const RECONNECTS_IN_VAIN_MAX: u32 = 5;

/// Events that a capture knows again when they are told twice; of more, the oldest are forgotten and would be kept twice.
pub const SEEN_EVENTS_MAX: usize = 100_000;

/// Prompts that a capture that answers remembers to have answered; of more, the oldest are forgotten.
pub const ANSWERED_PROMPTS_MAX: usize = 10_000;

/// How often a capture tells how far it is, while something comes.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// How long `aaep stdio` writes nothing before it shows with an `aaep.ping` that it lives.
pub const STDIO_PING_EVERY: Duration = Duration::from_secs(10);
