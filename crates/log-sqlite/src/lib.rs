//! The SQLite store: one database in a folder; the default.
//!
//! ```text
//!   appends ─▶ bounded queue ─▶ writer thread ─▶ one transaction, one sync per group ─▶ observer ─▶ answers
//!                                     │      └ when idle or when much is hot: seals the oldest groups
//!                                     │        ◀─ sealer thread: reads them and packs them by stream
//!                                     │ pages written
//!                                     ▼
//!                              checkpoint thread ─▶ copies the write-ahead log into the database
//!   reads ───▶ bounded queue ─▶ reader threads, one read-only connection each
//!   blobs ───▶ bounded queue ─▶ blob threads ─▶ one file per blob, named by its hash
//! ```
//!
//! The data folder holds `lock`, `recount.db` (with `-wal` and `-shm`), `high-water` and `blobs/`. One
//! process at a time can lock it. Before SQLite opens the database, its end is compared with what was acknowledged
//! (`loss.rs`). The writer takes everything that is queued, checks each append before it writes anything of
//! it, commits all of them at once and answers after the sync. Appends gather while a sync is in flight; only
//! under many concurrent appends the writer waits a little for more of them (`writer_queue.rs`).
//!
//! A commit is one row with its records in order, of any streams (*hot*). An index in memory, rebuilt at open, has the
//! streams of hot records. Later the oldest of these rows are split
//! and their records written to rows of one stream each (*sealed*), so that history is contiguous.
//!
//! Changes of rows are written with their commit as one value, too (*pending*), and written to their table many commits
//! later, each row once; a read of a row gets the newest state from memory.
//!
//! This crate must never know what a record contains. Start reading at [`SqliteStore`]; `schema.rs` defines the tables,
//! `layout.rs` and `rows.rs` have their statements.

mod backup;
mod blobs;
mod changes;
mod checkpoint;
mod connection;
mod cut;
mod examine;
mod fault;
mod folder;
mod gather;
mod group;
mod high_water;
mod hot;
mod layout;
pub mod limits;
mod load;
mod loss;
mod marker;
mod offline;
mod options;
mod packing;
mod page_images;
mod pages;
mod parts;
mod pending_rows;
mod pool;
mod quick;
mod reading;
mod record_format;
mod reserve;
mod restore;
mod rows;
mod schema;
mod seal;
mod seal_plan;
mod sealer;
mod store;
mod sums;
mod tails;
mod wal;
mod write_back;
mod writer;
mod writer_queue;

pub use blobs::{Blobs, BlobsCopied};
pub use folder::{database_in, hold};
pub use marker::BACKUP_MARKER;
pub use offline::{FolderCheck, SCHEMA, copy, glance, high_water, inspect, is_high_water_damaged, kept_logs};
pub use options::{Durability, SqliteOptions};
#[doc(hidden)]
pub use reserve::ReserveGate;
pub use restore::{RecordWriter, RestoredRow, restore};
pub use store::SqliteStore;

/// Decodes the columns of single rows, for programs that read the files without SQLite.
pub mod stored {
    pub use crate::packing::{
        Change, FeedSpan, NO_STREAM, Slot, changes_of, chunk_ranges, group_is_sound, group_slots,
        index_is_sound, position, spans_of_feed,
    };
    pub use crate::record_format::{Column, columns, local_bytes, varint};
    pub use crate::rows::sum as row_sum;
}

/// The version of SQLite that is built in.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
