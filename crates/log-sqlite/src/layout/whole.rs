//! Values of the whole store: its last position, its fence, and how much of it is sealed.
//!
//! It must not know the rows of a stream.

use rusqlite::{Connection, Result};

use super::columns::{int, number, one};

/// Where the whole store ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoreEnd {
    pub(crate) last_position: u64,
    pub(crate) last_stream: i64,
}

/// How many records, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Totals {
    pub(crate) fn one(record: &[u8]) -> Self {
        Totals { records: 1, bytes: record.len() as u64 }
    }

    pub(crate) fn more(&mut self, other: Totals) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    pub(crate) fn less(&mut self, other: Totals) {
        self.records = self.records.saturating_sub(other.records);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// A number that differs from the last one seen if another connection has changed anything since.
pub(crate) fn data_version(connection: &Connection) -> Result<i64> {
    one(connection, "PRAGMA data_version")
}

/// A change without content, for a commit that has to write something. Returns the new count.
pub(crate) fn raise_fence(connection: &Connection) -> Result<i64> {
    one(connection, "UPDATE fence SET count = count + 1 RETURNING count")
}

pub(crate) fn fence(connection: &Connection) -> Result<i64> {
    one(connection, "SELECT count FROM fence")
}

/// The last position ever used, according to the database.
pub(crate) fn last_position(connection: &Connection) -> Result<u64> {
    let sql = "SELECT coalesce((SELECT first_position + records - 1 FROM groups ORDER BY first_position DESC LIMIT 1),
        (SELECT last_position FROM feed ORDER BY first_position DESC LIMIT 1), 0)";
    connection.prepare_cached(sql)?.query_row([], |row| number(row, 0))
}

pub(crate) fn totals(connection: &Connection) -> Result<Totals> {
    let totals = |row: &rusqlite::Row<'_>| Ok(Totals { records: number(row, 0)?, bytes: number(row, 1)? });
    connection.prepare_cached("SELECT records, bytes FROM sealed")?.query_row([], totals)
}

pub(crate) fn set_totals(connection: &Connection, totals: Totals) -> Result<()> {
    let values = [int(totals.records), int(totals.bytes)];
    connection.prepare_cached("UPDATE sealed SET records = ?1, bytes = ?2")?.execute(values).map(drop)
}
