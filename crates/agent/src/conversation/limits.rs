//! Limits of conversations that are shortened for a model. Each constant says what happens at the limit.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

/// Bytes of the summary that replaces the older part of a conversation; its oldest lines are left out beyond that.
pub const SUMMARY_BYTES_MAX: usize = 64 << 10;

/// Characters of a message in its line of a summary; the rest is left out.
pub const SUMMARY_LINE_CHARS: usize = 200;

/// Bytes of a result of a call that is never shortened further for the model; a shorter result stays as it is.
pub const TRIMMED_BYTES_MIN: u64 = 512;

/// Bytes of an old result from which its beginning and end are kept when it is shortened; a smaller result is replaced
/// by the note.
pub const TRIMMED_ENDS_BYTES_MIN: u64 = 4 * 1024;

/// Bytes that are kept of such a result: half from its beginning and half from its end.
pub const TRIMMED_ENDS_BYTES: u64 = 512;

/// Results that one event shortens; newer ones stay until the conversation is too long again.
pub const TRIMMED_RESULTS_MAX: usize = 1_000;
