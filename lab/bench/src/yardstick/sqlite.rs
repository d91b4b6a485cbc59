//! Bare SQLite: one row per group, in commit order, write-ahead log, synced before the response.
//!
//! No streams, no index, no rules, no other rows: the minimal durable log in SQLite. Checkpoints are large enough to be
//! rare.

use std::path::Path;

use anyhow::Result;
use rusqlite::Connection;

use super::group::Commit;

/// Pages of the write-ahead log after which it is copied into the database.
const CHECKPOINT_PAGES: u32 = 4096;

pub(crate) struct Bare {
    connection: Connection,
}

impl Bare {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let connection = Connection::open(folder.join("bare.db"))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", 2)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.execute_batch("CREATE TABLE log (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT")?;
        Ok(Bare { connection })
    }
}

/// Bare SQLite that also copies its data like sealing: a second time into rows of another table, deleted from the
/// first, a megabyte at a time.
pub(crate) struct SealingSqlite {
    bare: Bare,
    bytes: usize,
}

/// Bytes that are moved at once.
const MOVED_BYTES: usize = 1 << 20;

impl SealingSqlite {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let bare = Bare::open(folder)?;
        bare.connection
            .execute_batch("CREATE TABLE chunks (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT")?;
        Ok(SealingSqlite { bare, bytes: 0 })
    }
}

impl Commit for SealingSqlite {
    fn commit(&mut self, group: &[u8]) -> Result<()> {
        self.bare.commit(group)?;
        self.bytes += group.len();
        if self.bytes >= MOVED_BYTES {
            self.bytes = 0;
            let moving = self.bare.connection.transaction()?;
            moving.prepare_cached("INSERT INTO chunks (bytes) SELECT bytes FROM log")?.execute([])?;
            moving.prepare_cached("DELETE FROM log")?.execute([])?;
            moving.commit()?;
        }
        Ok(())
    }
}

impl Commit for Bare {
    fn commit(&mut self, group: &[u8]) -> Result<()> {
        self.connection.prepare_cached("INSERT INTO log (bytes) VALUES (?1)")?.execute([group])?;
        Ok(())
    }
}
