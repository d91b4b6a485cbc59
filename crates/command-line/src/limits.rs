//! Bounds of this crate, and what happens at them.

/// Columns of a terminal that does not report its width.
pub const COLUMNS_DEFAULT: usize = 80;

/// Rows of a terminal that does not report its height.
pub const ROWS_DEFAULT: usize = 24;

/// Bytes of a file that an option or a token is read from; a larger one is refused.
pub const VALUE_FILE_BYTES_MAX: u64 = 256 * 1024;
