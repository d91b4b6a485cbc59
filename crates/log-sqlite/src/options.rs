//! Options of the store for operators.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits;
use crate::reserve::ReserveGate;

/// The folder of the store and its durability. Start at [`SqliteOptions::new`].
#[derive(Clone)]
pub struct SqliteOptions {
    /// The data folder; created, private to its owner, if it is missing.
    pub data_dir: PathBuf,
    pub durability: Durability,
    /// Accepts a store without its acknowledged end, if it ends at one of these positions.
    pub accept_loss_after: Vec<u64>,
    /// The name of another registered VFS. For tests with power cuts.
    #[doc(hidden)]
    pub vfs: Option<String>,
    /// See [`limits::CHECKPOINT_PAGES`]. For tests that need many checkpoints.
    #[doc(hidden)]
    pub checkpoint_pages: u32,
    /// See [`limits::HOT_RECORDS_MAX`]. For tests that need frequent sealing.
    #[doc(hidden)]
    pub hot_records_max: u64,
    /// See [`limits::HOT_BYTES_MAX`]. For measuring what appends cost while nothing is sealed.
    #[doc(hidden)]
    pub hot_bytes_max: u64,
    /// See [`limits::FRESH_ROWS_MAX`]. For tests that need rows written to their table often.
    #[doc(hidden)]
    pub fresh_rows_max: usize,
    /// See [`limits::SEAL_AGE`]. For tests that must not wait.
    #[doc(hidden)]
    pub seal_age: Duration,
    /// See [`limits::RESERVE_BYTES`]. For tests with a small disk.
    #[doc(hidden)]
    pub reserve_bytes: u64,
    /// For tests with a simulated disk.
    #[doc(hidden)]
    pub reserve_gate: Option<ReserveGate>,
}

impl std::fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteOptions").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// The failures that an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A killed process and a power cut: every commit is synced before it is answered.
    #[default]
    Strict,
    /// A killed process. A power cut may take the last appends, though never part of one and never one
    /// from the middle.
    Relaxed,
}

impl SqliteOptions {
    /// Strict, in this folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            data_dir: data_dir.into(),
            durability: Durability::Strict,
            accept_loss_after: Vec::new(),
            vfs: None,
            checkpoint_pages: limits::CHECKPOINT_PAGES,
            hot_records_max: limits::HOT_RECORDS_MAX,
            hot_bytes_max: limits::HOT_BYTES_MAX,
            fresh_rows_max: limits::FRESH_ROWS_MAX,
            seal_age: limits::SEAL_AGE,
            reserve_bytes: limits::RESERVE_BYTES,
            reserve_gate: None,
        }
    }
}
