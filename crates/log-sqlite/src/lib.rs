//! The store in one SQLite database: the default, and it needs nothing beside a folder.
//!
//! ```text
//!   appends ─▶ bounded queue ─▶ writer thread ─▶ one transaction, one sync a group ─▶ observer ─▶ answers
//!                                     │      └ when idle or when much is hot: seals the oldest groups
//!                                     │        ◀─ sealer thread: reads them and packs them by stream
//!                                     │ pages written
//!                                     ▼
//!                              checkpoint thread ─▶ copies the write-ahead log into the database
//!   reads ───▶ bounded queue ─▶ reader threads, one read-only connection each
//!   blobs ───▶ bounded queue ─▶ blob threads ─▶ one file a blob, named by its hash
//! ```
//!
//! The data folder holds `lock`, `recount.db` (with `-wal` and `-shm` beside it), `high-water` and `blobs/`. One
//! process at a time has it. Before SQLite opens the database, what lies there is compared with what was acknowledged
//! (`loss.rs`). The writer takes whatever waits, checks each append before it writes anything of
//! it, commits all of them at once and answers after the sync. The sync in flight is the gathering window; only
//! where many append at once it waits a little for more of them (`group_commit.rs`).
//!
//! A commit is one row: its records in the order they came, whoever's they are (*hot*). Which streams have
//! records there is known in memory and read again at open. Later the oldest of these rows are taken apart
//! and their records put into rows of one stream each (*sealed*), so that history is contiguous.
//!
//! Changes of rows are written with their commit as one value, too (*fresh*), and brought into their table many commits
//! later, each row once; who asks for a row is told the newest state from memory.
//!
//! This crate must never know what a record contains. Start reading at [`SqliteStore`]; what the tables
//! look like is said in `schema.rs` and spoken in `layout.rs` and `rows.rs`.

mod backup;
mod blobs;
mod changes;
mod checkpoint;
mod connection;
mod cut;
mod examine;
mod fault;
mod folder;
mod fresh;
mod gather;
mod group;
mod group_commit;
mod high_water;
mod hot;
mod layout;
pub mod limits;
mod load;
mod loss;
mod marker;
mod meters;
mod offline;
mod options;
mod packing;
mod page_images;
mod pages;
mod parts;
mod pool;
mod quick;
mod reading;
mod reserve;
mod rows;
pub mod salvage;
mod schema;
mod seal;
mod seal_plan;
mod sealer;
mod store;
mod sum;
mod sums;
mod tails;
mod wal;
mod write_back;
mod writer;
mod writer_queue;

pub use marker::BACKUP_MARKER;
pub use offline::{Glance, SCHEMA, copy, glance, high_water, inspect, kept_logs};
pub use options::{Durability, SqliteOptions};
#[doc(hidden)]
pub use reserve::ReserveGate;
pub use store::SqliteStore;

/// The version of SQLite that is built in.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
