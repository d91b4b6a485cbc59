//! Limits of this crate, and what happens when they are reached. The protocol's soft limits are here too: exceeding
//! them is reported, never rejected.

/// Maximum nesting of JSON; deeper text is rejected with `json.depth`.
pub const JSON_DEPTH_MAX: usize = 128;

/// Maximum bytes of one JSON text; a longer one is rejected with `json.syntax`, because offsets have 32 bits.
pub const JSON_BYTES_MAX: usize = u32::MAX as usize - 1;

/// Parsers disagree about integers beyond this (2^53); `number.big` reports them.
pub const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Bytes of an event that every transport carries; `size.event` reports larger ones.
pub const EVENT_BYTES_SOFT: usize = 64 * 1024;

/// Fields of an envelope, extension prefixes counted; `size.fields` reports more.
pub const EVENT_FIELDS_SOFT: usize = 32;

/// Nesting of an event; `size.depth` reports more.
pub const EVENT_DEPTH_SOFT: usize = 8;

/// Bytes of one string; `size.string` reports longer ones.
pub const STRING_BYTES_SOFT: usize = 16 * 1024;

/// Event ids remembered to detect repetitions. The oldest is dropped first, so a repetition after more events is not
/// detected.
pub const EVENT_ID_WINDOW: usize = 1 << 18;

/// Reply tokens remembered to detect reuse and replies before their prompt; the oldest is dropped.
pub const REPLY_TOKEN_WINDOW: usize = 1 << 16;

/// Maximum open sessions that are checked; with one more, the longest idle one is dropped, which `limit.sessions`
/// reports.
pub const SESSIONS_OPEN_MAX: usize = 10_000;

/// Ids of ended sessions remembered to detect events after the ending; the oldest is dropped.
pub const SESSIONS_ENDED_WINDOW: usize = 1 << 16;

/// Maximum parts checked in one session (producers, calls, prompts and outputs: this many of each). One more is not
/// checked, which `limit.session` reports once per session.
pub const SESSION_PARTS_MAX: usize = 4_096;

/// Maximum calls without a recorded reply that wait until it is known whether the recording has replies. At the limit,
/// the oldest is judged by the recording so far.
pub const PRESUMED_CALLS_MAX: usize = 4_096;

/// Subscriptions whose terms are remembered; the oldest is dropped.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;

/// Milliseconds that a producer has to announce the outcome of a prompt. A prompt announced later than this after its
/// deadline counts as settled by its default.
pub const FOLLOW_UP_MS: i64 = 1_000;

/// Timeout in seconds above which a prompt needs a countdown; `prompt.countdown` checks it.
pub const COUNTED_DOWN_SECONDS: i64 = 60;

/// Maximum characters of a small chunk of output; `output.hint_missing` checks these.
pub const SMALL_CHUNK_CHARS: usize = 16;

/// Maximum bytes of a character (grapheme cluster) at the end of a chunk that is compared with the next chunk; a longer
/// one is not compared.
pub const CHARACTER_BYTES_MAX: usize = 64;

/// Maximum bytes of a finding's message, path and event id; each is truncated.
pub const FINDING_BYTES_MAX: usize = 512;

/// Maximum bytes of a value quoted in a finding; it is truncated.
pub const QUOTE_BYTES_MAX: usize = 80;

/// Bytes of a value that are checked for a secret; the rest is ignored.
pub const SECRET_BYTES_MAX: usize = 512;

/// Minimum bytes of a word after `Bearer` that counts as a token without a digit. A shorter one is reported only with a
/// digit or after a header name.
pub const TOKEN_BYTES_LEAST: usize = 24;

/// Bytes after `<`, `[`, `&` or `*` within which markup must end; anything longer counts as text.
pub const MARKUP_BYTES_MAX: usize = 512;

/// Maximum open embeddings and isolates in a text, from Unicode; one more is reported as unclosed.
pub const EMBEDDED_DEPTH_MAX: usize = 125;

/// Bytes before a number that are searched for the words of a social security number. Without them, only `123-45-6789`
/// is reported.
pub const NUMBER_NAME_BYTES: usize = 40;

/// Maximum bytes of one piece (a line, an element of an array) in [`crate::json::Splitter`]; a longer one is reported
/// as too long.
pub const PIECE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum findings for one text, errors first; further ones are dropped.
pub const FINDINGS_PER_TEXT_MAX: usize = 64;

/// Maximum bytes of a chunk that [`crate::shaping`] sends. Longer text is cut at an agreed boundary, else between
/// words, else between characters.
pub const SHAPED_CHUNK_BYTES: usize = 16 * 1024;

/// Chunks whose ids are remembered while they are held as one text. Of more, only the first, the last and the number
/// are kept.
pub const SHAPED_PIECES_MAX: usize = 8;

/// Growth of a subscription's queue, in events, at which states of each session and the texts between them are merged.
/// Nothing is lost, and fewer events are sent.
pub const SHAPED_MERGE_EVENTS: usize = 8;

/// Maximum events held for one subscription. If merging does not help, the oldest is sent ahead of the agreed rate,
/// which [`crate::shaping::Counts::ahead`] counts. Nothing is lost.
pub const SHAPED_HELD_EVENTS_MAX: usize = 256;

/// Maximum bytes held for one subscription; handled like [`SHAPED_HELD_EVENTS_MAX`].
pub const SHAPED_HELD_BYTES_MAX: usize = 256 * 1024;

/// Capacity that an empty queue keeps; a larger one frees its memory.
pub const SHAPED_IDLE_CAPACITY: usize = 8;

/// Maximum sessions of one subscription whose numbering is remembered. At the limit, the longest idle half without held
/// events is dropped; such a session would be numbered from 0 again.
pub const SHAPED_SESSIONS_MAX: usize = 10_000;

/// Maximum outputs of one session whose length is remembered. At the limit, the oldest is dropped, and its later
/// positions are taken from the producer.
pub const SHAPED_OUTPUTS_MAX: usize = 256;

/// Milliseconds without more text after which the received text is assumed to end with a complete character.
pub const SHAPED_QUIET_MS: u64 = 100;

/// Milliseconds without more text after which text is sent although it ends at no agreed boundary; its end counts as
/// the end of a word. A subscriber to whole outputs waits for the end of the output.
pub const SHAPED_UNFINISHED_MS: u64 = 3_000;

/// Maximum milliseconds that output waits until earlier output is spoken (`pace_wpm`), while more may be joined to it.
pub const SHAPED_SPEECH_MS_MAX: u64 = 5_000;

/// Minimum milliseconds between two progress events for a low `cognitive_load`; later ones replace earlier ones.
pub const SHAPED_PROGRESS_MS_LOW: u64 = 5_000;

/// Milliseconds that a state waits for the next one for a low `cognitive_load`; two in a row become one.
pub const SHAPED_STATE_MS_LOW: u64 = 1_000;

/// Words per minute assumed for a low `cognitive_load` without a `pace_wpm`.
pub const SHAPED_WPM_LOW: u32 = 120;

/// Critical events per second that are sent at once although their type need not be critical. Further ones follow the
/// agreed rate, which [`crate::shaping::Counts::metered`] counts.
pub const SHAPED_CRITICAL_PER_SECOND: u32 = 5;

/// Maximum seconds without events to compensate for exceeding the agreed rate before a critical event.
pub const SHAPED_DEBT_SECONDS_MAX: u64 = 2;

/// Maximum open calls in one [`crate::produce::ProducerSession`]; one more is rejected.
pub const PRODUCED_CALLS_MAX: usize = 256;

/// Maximum open outputs in one [`crate::produce::ProducerSession`]; one more is rejected.
pub const PRODUCED_OUTPUTS_MAX: usize = 256;

/// Maximum accepted prompts of one [`crate::produce::ProducerSession`] whose calls have not started; at the limit,
/// another confirmation is rejected.
pub const PRODUCED_GRANTS_MAX: usize = 256;

/// Tokens of settled prompts that one [`crate::produce::ProducerSession`] remembers. The oldest is dropped; a reply
/// with it is then reported as unknown instead of settled.
pub const PRODUCED_TOKENS_MAX: usize = 1_024;

/// Lines of a code block that [`crate::markdown::SpokenMarkdown`] holds; a longer block is returned in several parts.
pub const SPOKEN_CODE_LINES_MAX: usize = 200;
