//! Bounds of this crate, and what happens at them.

/// Sentences on a page of the transcript that a handoff carries, and pages of it: together as much as every transport
/// must carry (64 KiB), and not more.
pub const SCRIPTED_PAGE_SENTENCES: usize = 240;

/// See [`SCRIPTED_PAGE_SENTENCES`].
pub const SCRIPTED_PAGES: usize = 4;
