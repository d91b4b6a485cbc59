//! Every bound of this crate, with what happens at it.

/// Bytes of one piece of output; a longer text of the log is told in several pieces, cut between characters.
pub const PIECE_BYTES: usize = 8 * 1024;

/// Characters of a text that is put into a sentence, such as a request or a reason; the rest is left out, and `…` says so.
pub const QUOTED_CHARS_MAX: usize = 400;

/// Characters of a text that a field of its own carries, such as the action of a prompt; the rest is left out, and `…`
/// says so. The protocol allows 16,384; its events should stay below 64 KiB.
pub const FIELD_CHARS_MAX: usize = 4_000;

/// Seconds that a prompt says when the log names no time: the most that the protocol allows.
pub const PROMPT_SECONDS_MAX: u64 = 86_400;

/// Choices of a question; a question with more of them is told as one that takes any text, and names them in its context.
pub const CHOICES_MAX: usize = 32;

/// Open prompts and handoffs of a run that are emitted again to a listener that joins: as many as a run may have open. Of
/// an imported run with more, the later ones are only counted.
pub const PROMPTS_REPEATED_MAX: usize = 64;
