//! Limits of paths that are opened. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

/// Attempts at opening a path while folders on its way are renamed; then the call fails.
pub const OPEN_ATTEMPTS_MAX: u32 = 16;
