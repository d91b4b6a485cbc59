//! Values of columns: numbers, bytes and packed records to and from SQLite.
//!
//! It must not know a table.

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, ToSql};

use crate::packing::PackedRecords;

impl ToSql for PackedRecords {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let value = if self.text { ValueRef::Text(&self.bytes) } else { ValueRef::Blob(&self.bytes) };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

pub(super) fn one(connection: &Connection, sql: &str) -> Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

pub(crate) fn number(row: &rusqlite::Row<'_>, column: usize) -> Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

pub(crate) fn bytes(row: &rusqlite::Row<'_>, column: usize) -> Result<Bytes> {
    let value = row.get_ref(column)?;
    let bytes = value
        .as_blob()
        .map_err(|_| rusqlite::Error::InvalidColumnType(column, "bytes".to_owned(), value.data_type()))?;
    Ok(Bytes::copy_from_slice(bytes))
}

/// Numbers above SQLite's maximum become the maximum, which is also larger than every real record.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
