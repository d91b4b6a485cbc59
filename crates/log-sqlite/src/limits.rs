//! Limits of this store in addition to those of every store ([`recount_log::limits`]), and what happens at each.

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
pub const TAILS_KEPT_MAX: usize = 16_384;

/// How long a statement waits for another program that holds the database before it fails as busy.
pub const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Pages of the write-ahead log that are not yet in the database at which a copy is started (16 MiB).
/// The writer goes on meanwhile.
pub const CHECKPOINT_PAGES: u32 = 4096;

/// Multiple of [`CHECKPOINT_PAGES`] at which the write-ahead log is restarted as soon as
/// nearly all of it is copied (64 MiB). The writer waits for the rest of the copy.
pub const RESTART_FACTOR: u32 = 4;

/// When no more than this fraction of [`CHECKPOINT_PAGES`] remains, nearly all is copied (1 MiB).
pub const RESTART_LEFT_DIVISOR: u32 = 16;

/// Multiple of [`CHECKPOINT_PAGES`] at which the writer waits for any remaining copy, and the
/// file is cut (256 MiB). It grows past this only while a reader holds an old snapshot (a check of the
/// whole store, a backup); then this is tried again each time [`CHECKPOINT_PAGES`] more were written.
pub const TRUNCATE_FACTOR: u32 = 16;

/// Requested copies that have not started. A further ordinary one is not requested; one that the writer
/// waits for waits.
pub const CHECKPOINTS_WAITING_MAX: usize = 1;

/// Each copy that the writer waits for has one reply, sent without blocking.
pub const CHECKPOINT_ANSWERS_MAX: usize = 1;

/// No message is sent here: the channel closes when the other threads end.
pub const SIGNS_OF_LIFE_MAX: usize = 0;

/// How long a restart of the write-ahead log waits for readers of an old snapshot before it gives up until
/// [`CHECKPOINT_PAGES`] more were written. The writer waits as long.
pub const RESTART_WAIT: Duration = Duration::from_millis(5);

/// The same when the file is cut.
pub const TRUNCATE_WAIT: Duration = Duration::from_millis(50);

/// Size to which the file of the write-ahead log is cut when it is restarted.
pub const WAL_KEPT_BYTES: u64 = 64 << 20;

/// Memory the connection that writes uses for pages.
pub const CACHE_KIB: u32 = 8 << 10;

/// Memory one connection that reads uses for pages. They read the file where it is mapped, and what they keep of the
/// write-ahead log is of no use after the next commit.
pub const READER_CACHE_KIB: u32 = 2 << 10;

/// Bytes of the database file that a reading connection may map; the rest is read. Mapped pages belong to the operating
/// system. (`docs/decisions/0011`)
pub const MAPPED_BYTES_MAX: u64 = 1 << 30;

/// Prepared statements one connection keeps. There are fewer different ones.
pub const STATEMENTS_KEPT_MAX: usize = 32;

/// A database up to this size is checked page by page at open; a larger one only at its end, so that
/// opening stays quick. `integrity` checks all of it.
pub const OPEN_CHECK_BYTES_MAX: u64 = 64 << 20;

/// The niceness that the writer's thread requests, relative to the process. A refusal is ignored, and the operating
/// system applies its own bound.
pub const WRITER_NICENESS: i32 = -10;

/// The writer starts a commit when the queue has this fraction of the estimated number of concurrent appends.
/// (`writer_queue.rs`, `docs/decisions/0022`)
pub const GROUP_WAIT_DIVISOR: usize = 3;

/// The writer waits for them no longer than so many commits take.
pub const GROUP_WAIT_COMMITS: u32 = 5;

/// And no longer than this.
pub const GROUP_WAIT_MAX: Duration = Duration::from_millis(2);

/// After a wait in vain, the estimate of concurrent appends falls by this fraction.
pub const GROUP_WAIT_LESS_DIVISOR: usize = 4;

/// Records in the hot part; when there are more, sealing is forced before the next commit.
pub const HOT_RECORDS_MAX: u64 = 512 << 10;

/// Bytes in the hot part; when there are more, sealing is forced before the next commit. Opening reads
/// as much.
pub const HOT_BYTES_MAX: u64 = 256 << 20;

/// The fraction of [`HOT_RECORDS_MAX`] or [`HOT_BYTES_MAX`] from which on as much is sealed between
/// commits as is appended.
pub const HOT_LEVEL_DIVISOR: u64 = 2;

/// Rows whose newest state is not in their table yet; at this many, the next commit that changes a row writes
/// them to the table.
pub const FRESH_ROWS_MAX: usize = 2048;

/// Bytes of such rows at which that happens too.
pub const FRESH_BYTES_MAX: usize = 1 << 20;

/// How long a row stays out of its table when nothing is waiting.
pub const FRESH_AGE: Duration = Duration::from_secs(1);

/// Bytes that a data folder reserves for deletions. On a full disk, as much can be pruned or erased in one append;
/// prune a larger run in steps. (`reserve.rs`, `docs/decisions/0032`)
pub const RESERVE_BYTES: u64 = 32 << 20;

/// Bytes of the reserve that are written at a time where a file system cannot allocate them.
pub const RESERVE_PIECE_BYTES: usize = 64 << 10;

/// Free bytes of the file system below which a store reports no space, whether or not an append has failed.
pub const FREE_BYTES_MIN: u64 = 1 << 20;

/// The retry delay after a failed write of rows to their table.
pub const FOLD_RETRY: Duration = Duration::from_secs(5);

/// Commits whose changes of rows are kept outside the table; at this many they are written to it. A later commit
/// overwrites the one that is as many before it.
pub const CHANGES_KEPT_MAX: u64 = 128;

/// Bytes of kept changes, also of those in the table by now; above it they are removed when the table is updated.
pub const CHANGES_KEPT_BYTES_MAX: u64 = 4 << 20;

/// The age of the oldest hot record at which everything hot is sealed.
pub const SEAL_AGE: Duration = Duration::from_secs(10);

/// The retry delay after a failed sealing.
pub const SEAL_RETRY: Duration = Duration::from_secs(5);

/// Records after which one sealing transaction takes no further chunk. Appends wait as long.
pub const SEAL_BATCH_RECORDS: u64 = 4096;

/// Bytes after which one sealing transaction takes no further chunk. Appends wait as long.
pub const SEAL_BATCH_BYTES: u64 = 512 << 10;

/// Target bytes per stream of a window of groups that are sealed together: then nearly all chunks have a good size
/// when they are first written.
pub const SEAL_STREAM_BYTES: u64 = 96 << 10;

/// A window ends when fewer than one in so many of its streams continue through it, with less than this share of its
/// bytes: a longer one would save hardly any chunk.
pub const SEAL_GOING_ON_DIVISOR: u64 = 8;

/// Bytes after which a window takes no further group. So much is held in memory while it is sealed.
pub const SEAL_WINDOW_BYTES_MAX: u64 = 32 << 20;

/// Records after which a window takes no further group.
pub const SEAL_WINDOW_RECORDS_MAX: u64 = 128 << 10;

/// Bytes of groups that are read in one snapshot of the database.
pub const SEAL_READ_BYTES: u64 = 4 << 20;

/// Bytes of groups that are removed together, at least.
pub const SEAL_UNIT_BYTES: u64 = 128 << 10;

/// Transactions' worth of chunks that are ready and wait to be written.
pub const SEAL_PORTIONS_WAITING_MAX: usize = 2;

/// Requested windows that have not started. A further request waits.
pub const SEAL_WINDOWS_WAITING_MAX: usize = 1;

/// While much is hot, more is sealed than is appended: by the appended amount divided by this.
pub const SEAL_MORE_DIVISOR: u64 = 8;

/// A chunk with fewer bytes is small: when those at the end of a stream have as much together, they are
/// written again as one.
pub const CHUNK_BYTES_MIN: usize = 64 << 10;

/// Small chunks at the end of a stream at which some of them are written again as one, however little
/// they have.
pub const SMALL_CHUNKS_MAX: usize = 8;

/// Bytes after which a chunk takes no further record. A record that is larger has a chunk of its own.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Positions in one row of the feed.
pub const FEED_ROW_RECORDS_MAX: usize = 1024;

/// Bytes of chunks that one page of the feed caches; beyond it chunks are read again.
pub const FEED_CHUNKS_BYTES_MAX: usize = 16 << 20;

/// Bytes of records sealed at once while an older schema is migrated, or a store is restored.
pub const MIGRATION_BATCH_BYTES: u64 = 4 << 20;

/// Records written at once while a store is restored; what follows is written next.
pub const RESTORE_BATCH_RECORDS: u64 = 64 << 10;

/// Pages that a backup copies between checks whether the store is closing.
pub const BACKUP_STEP_PAGES: i32 = 1024;

/// A page of history with fewer bytes gets a buffer of its own, which is not kept.
pub const PAGE_KEPT_BYTES_MIN: usize = 64 << 10;

/// A larger buffer is freed after its page.
pub const PAGE_KEPT_BYTES_MAX: usize = 1 << 20;

/// Buffers of pages that are kept for reuse; more are freed.
pub const PAGES_KEPT_MAX: usize = 16;

/// Rows that get their checksum per step while an older schema is migrated. They are held
/// in memory meanwhile.
pub const SUMS_BATCH_ROWS: i64 = 1024;
/// Bytes of the write-ahead log that are read at a time in the check before SQLite opens it.
pub const WAL_READ_BYTES: usize = 256 << 10;

/// The pause between writes of the high-water mark. If the process is killed, what was acknowledged meanwhile is
/// not in it.
pub const HIGH_WATER_EVERY: Duration = Duration::from_millis(100);

/// How long a written high-water mark waits to be synced. After a power failure, what was acknowledged meanwhile is
/// not in it.
pub const HIGH_WATER_SYNC_EVERY: Duration = Duration::from_secs(1);

/// Signals that wait for the thread of the high-water mark; one is enough.
pub const HIGH_WATER_NEWS_MAX: usize = 1;

/// Commits, and streams, in the pages of a damaged write-ahead log that are remembered to count what is missing;
/// further ones are not counted.
pub const LOST_GROUPS_MAX: usize = 64 << 10;

/// Runs that a report of missing events names; the rest are counted.
pub const LOST_RUNS_NAMED: usize = 5;

/// Bytes of a backup's marker that are read; what follows makes it unreadable, and the folder is refused.
pub const MARKER_BYTES_MAX: u64 = 4096;

/// Copies of damaged write-ahead logs that are kept in the data folder. With as many, no further one is created, and no
/// start gives up missing commits until some copies were moved elsewhere.
pub const WAL_COPIES_MAX: usize = 4;

/// Damaged rows that one statement removes; each statement reads every row once.
pub const REMOVED_AT_A_TIME: usize = 50;

/// Differing bytes from which a damaged row's name counts as another name than a missing one, if it has only valid
/// characters: damage is assumed not to change so many bytes of a name.
pub const NAME_BYTES_CHANGED: usize = 8;
