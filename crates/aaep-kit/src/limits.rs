//! Bounds of this crate, and what happens at them.

/// Bytes of one message of a producer that are read; a longer one ends the connection with an error that says so.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Lines that a check of the conformance suite shows of the conversation; more are left out.
pub const EVIDENCE_LINES_MAX: usize = 12;
/// Bytes of such a line; of a longer one the beginning is shown, with an ellipsis.
pub const EVIDENCE_LINE_BYTES_MAX: usize = 400;

/// Bytes of a file that are read at a time when it is validated; a longer one is read in as many steps as it takes.
pub const VALIDATE_READ_BYTES: usize = 256 * 1024;
