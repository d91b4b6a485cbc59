//! Bounds of this crate, and what happens at them. The protocol's own soft limits are here too: going past
//! those is reported, never refused.

/// Nesting of JSON that is read; deeper text is refused with `json.depth`.
pub const JSON_DEPTH_MAX: usize = 128;

/// Bytes of one JSON text; longer is refused with `json.syntax`, because places are kept in 32 bits.
pub const JSON_BYTES_MAX: usize = u32::MAX as usize - 1;

/// Integers beyond this in size (2^53) are not read alike by everybody; `number.big` reports them.
pub const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Bytes of an event that every transport carries; `size.event` reports larger ones.
pub const EVENT_BYTES_SOFT: usize = 64 * 1024;

/// Fields of an envelope, extension prefixes counted; `size.fields` reports more.
pub const EVENT_FIELDS_SOFT: usize = 32;

/// Nesting of an event; `size.depth` reports more.
pub const EVENT_DEPTH_SOFT: usize = 8;

/// Bytes of one string; `size.string` reports longer ones.
pub const STRING_BYTES_SOFT: usize = 16 * 1024;

/// Event ids remembered to notice one that comes again; the oldest is forgotten when there are more, so a
/// repetition that is further away is not seen.
pub const EVENT_ID_WINDOW: usize = 1 << 18;

/// Reply tokens remembered to notice one that is used for two prompts, or answered before its prompt; the oldest is
/// forgotten.
pub const REPLY_TOKEN_WINDOW: usize = 1 << 16;

/// Sessions that are followed at the same time; one more, and the one that was silent longest is forgotten,
/// which `limit.sessions` reports.
pub const SESSIONS_OPEN_MAX: usize = 10_000;

/// Ids of sessions that have ended, remembered to notice events behind the ending; the oldest is forgotten.
pub const SESSIONS_ENDED_WINDOW: usize = 1 << 16;

/// Things followed in one session (producers, calls, prompts, outputs: so many of each); one more is not
/// followed, which `limit.session` reports once a session.
pub const SESSION_PARTS_MAX: usize = 4_096;

/// Calls without a recorded reply to their prompt that are held until it is known whether the recording has replies;
/// at it the oldest is judged by what is recorded until then.
pub const PRESUMED_CALLS_MAX: usize = 4_096;

/// Subscriptions whose terms are remembered; the oldest is forgotten.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;

/// Milliseconds a producer has to show what became of a prompt; a prompt that is shown as settled later than
/// this behind its time is taken as settled by its default.
pub const FOLLOW_UP_MS: i64 = 1_000;

/// Seconds of a prompt beyond which its time is to be told while it runs down; `prompt.countdown` looks at these.
pub const COUNTED_DOWN_SECONDS: i64 = 60;

/// Characters of a piece of output that is called small; `output.hint_missing` looks at these.
pub const SMALL_CHUNK_CHARS: usize = 16;

/// Bytes of a finding's message, of its path and of the event id it names; the rest of each is cut off.
pub const FINDING_BYTES_MAX: usize = 512;

/// Bytes of a value quoted in a finding; the rest is cut off.
pub const QUOTE_BYTES_MAX: usize = 80;

/// Bytes of a value that are looked at when it may be a secret; the rest of a longer one is not.
pub const SECRET_BYTES_MAX: usize = 512;

/// Bytes from which a word after `Bearer` is a token even without a digit; shorter ones need a digit, or a header
/// before them, to be reported.
pub const TOKEN_BYTES_LEAST: usize = 24;

/// Bytes after `<`, `[`, `&` or `*` in which markup has its end; what is longer is taken for text.
pub const MARKUP_BYTES_MAX: usize = 512;

/// Embeddings and isolates that may be open in a text, as Unicode says; one more is reported like one that is not
/// closed.
pub const EMBEDDED_DEPTH_MAX: usize = 125;

/// Bytes before a number in which words may say that it is a social security number; words further away are not
/// seen, and only `123-45-6789` is reported then.
pub const NUMBER_NAME_BYTES: usize = 40;

/// Bytes of one piece (a line, an element of an array) that [`crate::json::Splitter`] holds; of a longer one
/// the rest is passed over, and it is reported as too long.
pub const PIECE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Findings on one text, errors before all others; what else is wrong with it is not listed.
pub const FINDINGS_PER_TEXT_MAX: usize = 64;

/// Keys of an object that are told apart by comparing each with all; the keys of larger ones are sorted.
pub const KEYS_COMPARED_MAX: usize = 32;

/// Bytes of a piece of output that [`crate::shaping`] sends; longer text is cut, at a boundary that was agreed, else
/// between words, else between characters.
pub const SHAPED_CHUNK_BYTES: usize = 16 * 1024;

/// Pieces of output whose ids are remembered while they are held as one text; of more only the first, the last and
/// the number are.
pub const SHAPED_PIECES_MAX: usize = 8;

/// Events that wait for one subscription, more than at the last time, at which the states of each session become one, and
/// the texts between them too. Nothing is lost, and fewer go out.
pub const SHAPED_MERGE_EVENTS: usize = 8;

/// Events that are held for one subscription. If merging does not make room, the oldest goes out ahead of the agreed rate,
/// which [`crate::shaping::Counts::ahead`] counts. Nothing is lost.
pub const SHAPED_HELD_EVENTS_MAX: usize = 256;

/// Bytes that are held for one subscription; at it the same happens as at [`SHAPED_HELD_EVENTS_MAX`].
pub const SHAPED_HELD_BYTES_MAX: usize = 256 * 1024;

/// Events that a queue without any keeps room for; a longer one gives its memory back.
pub const SHAPED_IDLE_CAPACITY: usize = 8;

/// Sessions of one subscription whose numbering is remembered; at it the half that was silent longest and holds
/// nothing is forgotten, and would be numbered from 0 again.
pub const SHAPED_SESSIONS_MAX: usize = 10_000;

/// Outputs of one session whose length is remembered; at it the oldest is forgotten, and positions of what comes of
/// it are taken as its producer says them.
pub const SHAPED_OUTPUTS_MAX: usize = 256;

/// Milliseconds without more text after which the end of what came is taken as the end of a character.
pub const SHAPED_QUIET_MS: u64 = 100;

/// Milliseconds without more text after which what came goes out although it ends at no agreed boundary; a word is taken
/// to end there. A subscriber that agreed on whole outputs only waits for the end of the output.
pub const SHAPED_UNFINISHED_MS: u64 = 3_000;

/// Milliseconds that output waits at most for what was sent before it to be spoken (`pace_wpm`), while more may still
/// be joined to it.
pub const SHAPED_SPEECH_MS_MAX: u64 = 5_000;

/// Milliseconds between two reports of progress for who asked for a low `cognitive_load`; earlier ones are replaced
/// by later ones.
pub const SHAPED_PROGRESS_MS_LOW: u64 = 5_000;

/// Milliseconds that a state waits for the next for who asked for a low `cognitive_load`; two in a row become one.
pub const SHAPED_STATE_MS_LOW: u64 = 1_000;

/// Words in a minute that are taken for who asked for a low `cognitive_load` and said no `pace_wpm`.
pub const SHAPED_WPM_LOW: u32 = 120;

/// Critical events in a second that go out at once although their type need not be critical; those beyond keep to the
/// agreed rate, which [`crate::shaping::Counts::metered`] counts.
pub const SHAPED_CRITICAL_PER_SECOND: u32 = 5;

/// Seconds for which at most nothing goes out because more than the agreed rate had to go before something critical.
pub const SHAPED_DEBT_SECONDS_MAX: u64 = 2;

/// Calls that may be open in one [`crate::produce::ProducerSession`]; one more is refused.
pub const PRODUCED_CALLS_MAX: usize = 256;

/// Outputs that may be open in one [`crate::produce::ProducerSession`]; one more is refused.
pub const PRODUCED_OUTPUTS_MAX: usize = 256;

/// Accepted prompts of one [`crate::produce::ProducerSession`] whose calls have not started; with so many, another
/// confirmation is refused.
pub const PRODUCED_GRANTS_MAX: usize = 256;

/// Tokens of settled prompts that one [`crate::produce::ProducerSession`] remembers; the oldest is forgotten, and a reply
/// with it is reported as unknown instead of settled.
pub const PRODUCED_TOKENS_MAX: usize = 1_024;
