//! Every bound of this face, and what happens at it.

/// Bytes of a request's body; more is refused with `body_too_large`.
pub const BODY_BYTES_MAX: usize = 16 << 20;
