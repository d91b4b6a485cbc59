//! Limits of paths that are opened. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

/// Attempts to open a path while folders in it are renamed; then the call fails.
pub const OPEN_ATTEMPTS_MAX: u32 = 16;
