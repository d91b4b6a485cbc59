//! Every bound this store adds to those of the seam ([`recount_log::limits`]), and what happens at it.

use std::time::Duration;

/// The oldest SQLite this store trusts; an older one is refused at open. (3.53.0)
pub const SQLITE_VERSION_MIN: i32 = 3_053_000;

/// Connections that read, each with a thread. More readers than this wait.
pub const READERS: usize = 4;

/// Reads that wait for a reader; the next one is refused as busy.
pub const READS_WAITING_MAX: usize = 4096;

/// Threads that read and write blobs. More blobs than this wait.
pub const BLOB_WORKERS: usize = 2;

/// Blobs that wait; the next one is refused as busy.
pub const BLOBS_WAITING_MAX: usize = 1024;

/// Bytes of all blobs that wait to be written; the next one is refused as busy, unless nothing else waits.
pub const BLOBS_WAITING_BYTES_MAX: usize = 256 << 20;

/// Tails of streams the writer remembers. The one not used for longest is looked up again when it is
/// needed.
pub const TAILS_KEPT_MAX: usize = 65_536;

/// How long a statement waits for another program that holds the database before it fails as busy.
pub const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Pages of the write-ahead log that are not yet in the database at which a copy is started (16 MiB).
/// The writer goes on meanwhile.
pub const CHECKPOINT_PAGES: u32 = 4096;

/// Multiple of [`CHECKPOINT_PAGES`] at which the write-ahead log is begun again from its start as soon as
/// nearly all of it is copied (64 MiB). The writer stands still for the rest of the copy.
pub const RESTART_FACTOR: u32 = 4;

/// When no more than this fraction of [`CHECKPOINT_PAGES`] is left, nearly all is copied (4 MiB).
pub const RESTART_LEFT_DIVISOR: u32 = 4;

/// Multiple of [`CHECKPOINT_PAGES`] at which the writer stands still however much is left to copy, and the
/// file is cut (256 MiB). It grows past this only while a reader keeps an old state in use (a look at the
/// whole store, a backup); then this is tried again each time [`CHECKPOINT_PAGES`] more were written.
pub const TRUNCATE_FACTOR: u32 = 16;

/// How long beginning the write-ahead log again waits for readers of an old state before it gives up
/// until later. The writer stands still as long.
pub const RESTART_WAIT: Duration = Duration::from_millis(50);

/// Size to which the file of the write-ahead log is cut when it is begun again.
pub const WAL_KEPT_BYTES: u64 = 64 << 20;

/// Memory one connection uses for pages.
pub const CACHE_KIB: u32 = 16 << 10;

/// Prepared statements one connection keeps. There are fewer different ones.
pub const STATEMENTS_KEPT_MAX: usize = 32;

/// A database up to this size is checked page by page at open; a larger one only at its end, so that
/// opening stays quick. `integrity` checks all of it.
pub const OPEN_CHECK_BYTES_MAX: u64 = 64 << 20;

/// How much nicer than others the writer's thread asks to be scheduled. Refusal is ignored.
pub const WRITER_NICENESS: i32 = -10;
