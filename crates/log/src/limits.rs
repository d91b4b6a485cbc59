//! Limits of every store, and what happens at each.

/// Appends waiting for the writer; the next one is refused with [`crate::FaultKind::Busy`].
pub const APPENDS_WAITING_MAX: usize = 4096;

/// Bytes of all appends that wait for the writer; the next one is refused with
/// [`crate::FaultKind::Busy`], unless nothing else waits.
pub const APPENDS_WAITING_BYTES_MAX: usize = 256 << 20;

/// Records and rows of one append; a larger one is refused with [`crate::FaultKind::TooLarge`].
pub const APPEND_ENTRIES_MAX: usize = 65_536;

/// Bytes of one append, keys included; a larger one is refused with [`crate::FaultKind::TooLarge`].
pub const APPEND_BYTES_MAX: usize = 64 << 20;

/// The name of a stream, of a space of rows or of a row; a longer one is refused with
/// [`crate::FaultKind::TooLarge`].
pub const KEY_BYTES_MAX: usize = 1024;

/// Appends one commit takes; the others wait for the next.
pub const GROUP_APPENDS_MAX: usize = 4096;

/// Bytes after which a commit takes no further append.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// One record; a larger one is refused with [`crate::FaultKind::TooLarge`].
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// One row's value; a larger one is refused with [`crate::FaultKind::TooLarge`].
pub const ROW_BYTES_MAX: usize = 4 << 20;

/// One blob; a larger one is refused with [`crate::FaultKind::TooLarge`].
pub const BLOB_BYTES_MAX: usize = 64 << 20;

/// Damaged rows that one look at the table of rows names; the rest is found by the next look, once these are
/// repaired.
pub const DAMAGED_ROWS_MAX: usize = 10_000;

/// Problems that a check of the whole store lists; the rest are counted.
pub const PROBLEMS_MAX: usize = 100;
