//! Limits of this crate, and what happens at each.

use std::time::Duration;

/// Utterances that wait to be spoken; of more, the oldest of the lowest priority is discarded and counted.
pub const SPEECH_WAITING_MAX: usize = 64;

/// Blanks in a row that are spoken as a pause; of more, their number is spoken.
pub const BLANKS_SILENT_MAX: usize = 40;

/// Utterances that wait while a session is read that has ended; at the limit no further event is taken until one is
/// spoken, so that nothing is discarded.
pub const SPEECH_HISTORY_WAITING_MAX: usize = 16;

/// Characters of one utterance; a longer text is spoken in several.
pub const UTTERANCE_CHARS_MAX: usize = 2_000;

/// Bytes of output that are held until a boundary; longer output is spoken without one.
pub const HELD_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Milliseconds without a further piece after which held text without a boundary is spoken, because its producer has
/// stopped within a sentence.
pub const HELD_TEXT_MS_MAX: u64 = 3_000;

/// Bytes of an answer that is held until the run ends; the narrator reports that the rest is missing.
pub const HELD_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Utterances that can be repeated; older ones are removed.
pub const NARRATED_HISTORY_MAX: usize = 50;

/// Ids of events that a narrator remembers; older events would be spoken twice.
pub const NARRATED_IDS_MAX: usize = 10_000;

/// Sessions that a narrator remembers; the oldest ended session is removed first, otherwise the oldest.
pub const NARRATED_SESSIONS_MAX: usize = 1_024;

/// Sessions in the reply to "where am I", the newest ones.
pub const WHERE_SESSIONS_MAX: usize = 5;

/// Open prompts that a narrator remembers; the oldest is removed.
pub const NARRATED_PROMPTS_MAX: usize = 256;

/// How long after a reply an event may take that settles its prompt; then the reply had no effect, and the prompt can be
/// answered again.
pub const REPLY_EFFECT_WAIT_MS: u64 = 5_000;

/// How long answer keys are refused after another prompt became current: they were meant for the previous one.
pub const PROMPT_SWITCH_MS: u64 = 700;

/// Characters of a typed answer; more are ignored.
pub const TYPED_ANSWER_CHARS_MAX: usize = 4_096;

/// Digits before a key; one more restarts the number.
pub const KEY_DIGITS_MAX: usize = 3;

/// Bytes of one line from speech-dispatcher; a longer one ends the connection.
pub const SSIP_LINE_BYTES_MAX: usize = 16 * 1024;

/// Lines of one reply from speech-dispatcher; one more ends the connection.
pub const SSIP_REPLY_LINES_MAX: usize = 1_000;

/// Characters of a parameter such as a language; the rest is cut.
pub const SSIP_WORD_CHARS_MAX: usize = 64;

/// Bytes that are read from speech-dispatcher at a time.
pub const SSIP_READ_BYTES: usize = 4 * 1024;

/// Notifications that wait to be taken; the oldest are dropped.
pub const SSIP_EVENTS_MAX: usize = 256;

/// How long speech-dispatcher may take to accept a connection or to reply to a command; then the connection is lost.
pub const SSIP_WAIT: Duration = Duration::from_secs(5);

/// Reports of a listener that wait to be taken; at the limit it stops reading.
pub const LISTENER_REPORTS_MAX: usize = 64;

/// Messages that wait to be sent; one more is refused.
pub const LISTENER_MESSAGES_MAX: usize = 16;

/// Failed attempts in a row to reconnect, over about an hour; then the listener ends.
pub const LISTENER_RECONNECTS_MAX: u32 = 240;

/// How long speech-dispatcher may take to start; then speech is not available.
pub const SSIP_START_WAIT: Duration = Duration::from_secs(10);

/// Seconds that one key press requests; the producer decides.
pub const EXTENSION_SECONDS: u64 = 600;
