//! Bounds of this crate, and what happens at them.

/// Bytes of one message of a producer that are read; a longer one ends the connection with an error that says so.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
