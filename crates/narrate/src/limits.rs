//! Bounds of this crate, and what happens at them.

use std::time::Duration;

/// Utterances that wait to be spoken; of more, the oldest of the lowest priority is discarded and counted.
pub const SPEECH_WAITING_MAX: usize = 64;

/// Characters of one utterance; the rest is left out, and `…` stands for it.
pub const UTTERANCE_CHARS_MAX: usize = 2_000;

/// Bytes of output that are held until they may be spoken; longer output is spoken as it is.
pub const HELD_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Milliseconds without a further piece after which text that ends nowhere is spoken all the same: its producer has
/// fallen silent within a sentence.
pub const HELD_TEXT_MS_MAX: u64 = 3_000;

/// Utterances that can be repeated; of more, the oldest are forgotten.
pub const NARRATED_HISTORY_MAX: usize = 50;

/// Ids of events that a narrator knows again; of more, the oldest are forgotten and would be spoken twice.
pub const NARRATED_IDS_MAX: usize = 10_000;

/// Sessions that a narrator remembers; of more, the oldest that has ended is forgotten, or the oldest.
pub const NARRATED_SESSIONS_MAX: usize = 1_024;

/// Sessions that "where am I" names, the newest ones.
pub const WHERE_SESSIONS_MAX: usize = 5;

/// Open prompts that a narrator remembers; of more, the oldest is forgotten.
pub const NARRATED_PROMPTS_MAX: usize = 256;

/// For so long after another prompt took the place of one, keys that answer are refused: they were meant for the one
/// before.
pub const PROMPT_SWITCH_MS: u64 = 700;

/// Characters of an answer that is typed; more are not taken.
pub const TYPED_ANSWER_CHARS_MAX: usize = 4_096;

/// Digits before a key; one more begins the number anew.
pub const KEY_DIGITS_MAX: usize = 3;

/// Bytes of one line from speech-dispatcher; a longer one ends the connection.
pub const SSIP_LINE_BYTES_MAX: usize = 16 * 1024;

/// Lines of one reply from speech-dispatcher; one more ends the connection.
pub const SSIP_REPLY_LINES_MAX: usize = 1_000;

/// Characters of a parameter such as a language; the rest is left out.
pub const SSIP_WORD_CHARS_MAX: usize = 64;

/// Bytes that are read from speech-dispatcher at a time.
pub const SSIP_READ_BYTES: usize = 4 * 1024;

/// Notifications that wait to be taken; of more, the oldest are dropped.
pub const SSIP_EVENTS_MAX: usize = 256;

/// How long speech-dispatcher may take to accept a connection or to answer a command; then it counts as gone.
pub const SSIP_WAIT: Duration = Duration::from_secs(5);

/// Reports of a listener that wait to be taken; then it reads no further.
pub const LISTENER_REPORTS_MAX: usize = 64;

/// Messages that wait to be sent; one more is not taken.
pub const LISTENER_MESSAGES_MAX: usize = 16;

/// Attempts in a row to connect again that bring nothing, over about an hour; then a listener ends.
pub const LISTENER_RECONNECTS_MAX: u32 = 240;

/// How long speech-dispatcher may take to start; then there is no speech.
pub const SSIP_START_WAIT: Duration = Duration::from_secs(10);

/// Seconds that a listener asks for with one key; the producer decides.
pub const EXTENSION_SECONDS: u64 = 600;
