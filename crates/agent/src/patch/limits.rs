//! Limits of patches. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

/// Files of one diff; a larger diff is refused.
pub(crate) const PATCH_FILES_MAX: usize = 1_000;
