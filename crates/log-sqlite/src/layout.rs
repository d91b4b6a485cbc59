//! The only file that speaks the tables' language: what is where, in SQL.
//!
//! Another layout (commit groups, sealed chunks) replaces this file and adds a step to `schema.rs`; who
//! writes when, and who reads, stays as it is. It knows neither transactions nor threads.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::chain::ChainValue;
use recount_log::{Fault, FeedRecord, ReadBound, Record, Row, RowRange, StreamKey};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Result, params};

use crate::fault::{Doing as _, corrupt};

/// Where a stream ends, and the number that stands for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamTail {
    pub(crate) id: i64,
    pub(crate) next_sequence: u64,
    pub(crate) last_position: u64,
    pub(crate) head: ChainValue,
}

/// Where the whole store ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) last_position: u64,
    pub(crate) last_stream: i64,
}

// ---- what the writer asks and says ----

pub(crate) fn ends(connection: &Connection) -> Result<Ends> {
    Ok(Ends {
        last_position: last_position(connection)?,
        last_stream: one(connection, "SELECT coalesce(max(id), 0) FROM streams")?,
    })
}

/// A number that differs from the last one seen if another connection has changed anything since.
pub(crate) fn data_version(connection: &Connection) -> Result<i64> {
    one(connection, "PRAGMA data_version")
}

pub(crate) fn insert_record(connection: &Connection, stream: i64, record: &Record) -> Result<()> {
    let sql = "INSERT INTO events (position, stream, sequence, bytes) VALUES (?1, ?2, ?3, ?4)";
    let values = params![int(record.position), stream, int(record.sequence), &record.bytes[..]];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

pub(crate) fn insert_stream(connection: &Connection, key: &str, tail: &StreamTail) -> Result<()> {
    let sql = "INSERT INTO streams (id, key, next_sequence, last_position, head) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![tail.id, key, int(tail.next_sequence), int(tail.last_position), &tail.head.0[..]];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

pub(crate) fn update_stream(connection: &Connection, tail: &StreamTail) -> Result<()> {
    let sql = "UPDATE streams SET next_sequence = ?2, last_position = ?3, head = ?4 WHERE id = ?1";
    let values = params![tail.id, int(tail.next_sequence), int(tail.last_position), &tail.head.0[..]];
    let changed = connection.prepare_cached(sql)?.execute(values)?;
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

pub(crate) fn row_version(connection: &Connection, space: &str, key: &str) -> Result<Option<u64>> {
    let sql = r#"SELECT version FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.query_row([space, key], |row| number(row, 0)).optional()
}

pub(crate) fn put_row(
    connection: &Connection,
    space: &str,
    key: &str,
    version: u64,
    value: &[u8],
) -> Result<()> {
    let sql = r#"INSERT INTO "rows" (space, key, version, value) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (space, key) DO UPDATE SET version = excluded.version, value = excluded.value"#;
    connection.prepare_cached(sql)?.execute(params![space, key, int(version), value]).map(drop)
}

pub(crate) fn delete_row(connection: &Connection, space: &str, key: &str) -> Result<()> {
    let sql = r#"DELETE FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.execute([space, key]).map(drop)
}

/// A change that says nothing, for a commit that has to write something. Answers the new count.
pub(crate) fn raise_fence(connection: &Connection) -> Result<i64> {
    one(connection, "UPDATE fence SET count = count + 1 RETURNING count")
}

pub(crate) fn fence(connection: &Connection) -> Result<i64> {
    one(connection, "SELECT count FROM fence")
}

// ---- what both ask ----

pub(crate) fn last_position(connection: &Connection) -> Result<u64> {
    connection
        .prepare_cached("SELECT coalesce(max(position), 0) FROM events")?
        .query_row([], |row| number(row, 0))
}

pub(crate) fn stream_tail(connection: &Connection, key: &str) -> Result<Option<StreamTail>> {
    let sql = "SELECT id, next_sequence, last_position, head FROM streams WHERE key = ?1";
    let tail = |row: &rusqlite::Row<'_>| {
        Ok(StreamTail {
            id: row.get(0)?,
            next_sequence: number(row, 1)?,
            last_position: number(row, 2)?,
            head: ChainValue(row.get(3)?),
        })
    };
    connection.prepare_cached(sql)?.query_row([key], tail).optional()
}

// ---- what readers ask ----

/// Records of one stream. A gap is a fault: what is missing is never passed over in silence.
pub(crate) fn read_stream(
    connection: &Connection,
    key: &StreamKey,
    from: u64,
    bound: ReadBound,
) -> Result<Vec<Record>, Fault> {
    let doing = || format!("reading stream {key} from {from}");
    let Some(tail) = stream_tail(connection, key).doing(&doing())? else { return Ok(Vec::new()) };
    if from >= tail.next_sequence {
        return Ok(Vec::new());
    }
    let sql = "SELECT position, sequence, bytes FROM events
        WHERE stream = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";
    let mut records = Vec::new();
    let mut read = || -> Result<()> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![tail.id, int(from), limit(bound.count.max(1))])?;
        let mut meter = bound.meter();
        while let Some(row) = rows.next()? {
            let bytes = bytes(row, 2)?;
            if !meter.admits(bytes.len()) {
                break;
            }
            let record = Record { position: number(row, 0)?, sequence: number(row, 1)?, bytes };
            records.push(record);
        }
        Ok(())
    };
    read().doing(&doing())?;
    // What stands before a hole is given; whoever asks for the hole itself is told.
    let whole = (from..).zip(&records).take_while(|(expected, record)| record.sequence == *expected).count();
    match records.first() {
        Some(first) if whole == 0 => Err(corrupt(format!(
            "stream {key} has sequence {} where {from} belongs; look at the store with `recount verify --data`",
            first.sequence
        ))),
        None => Err(corrupt(format!(
            "stream {key} ends before sequence {from} though its tail is {}; look at the store with `recount verify --data`",
            tail.next_sequence
        ))),
        Some(_) => {
            records.truncate(whole);
            Ok(records)
        }
    }
}

pub(crate) fn read_feed(
    connection: &Connection,
    from: u64,
    bound: ReadBound,
) -> Result<Vec<FeedRecord>, Fault> {
    let sql = "SELECT events.position, events.sequence, events.bytes, events.stream FROM events
        WHERE events.position >= ?1 ORDER BY events.position LIMIT ?2";
    let doing = || format!("reading the feed from {from}");
    let mut found = Vec::new();
    let mut read = || -> Result<()> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![int(from), limit(bound.count.max(1))])?;
        let mut meter = bound.meter();
        while let Some(row) = rows.next()? {
            let bytes = bytes(row, 2)?;
            if !meter.admits(bytes.len()) {
                break;
            }
            let record = Record { position: number(row, 0)?, sequence: number(row, 1)?, bytes };
            found.push((row.get::<_, i64>(3)?, record));
        }
        Ok(())
    };
    read().doing(&doing())?;
    let mut names: HashMap<i64, StreamKey> = HashMap::new();
    let mut feed = Vec::with_capacity(found.len());
    for (id, record) in found {
        let stream = match names.get(&id) {
            Some(name) => name.clone(),
            None => {
                let name = stream_name(connection, id).doing(&doing())?.ok_or_else(|| {
                    corrupt(format!(
                        "the record at position {} belongs to stream number {id}, which has no name; look at the store with `recount verify --data`",
                        record.position
                    ))
                })?;
                names.insert(id, name.clone());
                name
            }
        };
        feed.push(FeedRecord { stream, record });
    }
    Ok(feed)
}

fn stream_name(connection: &Connection, id: i64) -> Result<Option<StreamKey>> {
    let sql = "SELECT key FROM streams WHERE id = ?1";
    connection.prepare_cached(sql)?.query_row([id], |row| row.get::<_, Arc<str>>(0)).optional()
}

pub(crate) fn list_streams(
    connection: &Connection,
    after: Option<&str>,
    max: usize,
) -> Result<Vec<StreamKey>> {
    let sql = match after {
        Some(_) => "SELECT key FROM streams WHERE key > ?1 ORDER BY key LIMIT ?2",
        None => "SELECT key FROM streams WHERE ?1 IS NULL ORDER BY key LIMIT ?2",
    };
    let mut statement = connection.prepare_cached(sql)?;
    let keys = statement.query_map(params![after, limit(max)], |row| row.get::<_, Arc<str>>(0))?;
    keys.collect()
}

pub(crate) fn row(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let sql = r#"SELECT key, version, value FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional()
}

pub(crate) fn rows(connection: &Connection, range: &RowRange) -> Result<Vec<Row>> {
    let first = &*range.prefix;
    let end = beyond(&range.prefix);
    let after = range.after.as_deref();
    // The bounds in SQL are one closed, one open; the caller's place moves whichever it lies beyond.
    let mut statement = if range.backwards {
        let end = match (after, end.as_deref()) {
            (Some(after), Some(end)) => Some(after.min(end)),
            (one, other) => one.or(other),
        };
        backwards(connection, &range.space, first, end, range.limit)?
    } else {
        forwards(connection, &range.space, first, after, end.as_deref(), range.limit)?
    };
    statement.raw_query().mapped(stored_row).collect()
}

fn backwards<'c>(
    connection: &'c Connection,
    space: &str,
    first: &str,
    end: Option<&str>,
    max: usize,
) -> Result<CachedStatement<'c>> {
    let mut statement = connection.prepare_cached(match end {
        Some(_) => {
            r#"SELECT key, version, value FROM "rows"
            WHERE space = ?1 AND key >= ?2 AND key < ?3 ORDER BY key DESC LIMIT ?4"#
        }
        None => {
            r#"SELECT key, version, value FROM "rows"
            WHERE space = ?1 AND key >= ?2 AND ?3 IS NULL ORDER BY key DESC LIMIT ?4"#
        }
    })?;
    statement.raw_bind_parameter(1, space)?;
    statement.raw_bind_parameter(2, first)?;
    statement.raw_bind_parameter(3, end)?;
    statement.raw_bind_parameter(4, limit(max))?;
    Ok(statement)
}

fn forwards<'c>(
    connection: &'c Connection,
    space: &str,
    first: &str,
    after: Option<&str>,
    end: Option<&str>,
    max: usize,
) -> Result<CachedStatement<'c>> {
    // A place before the prefix says nothing more than the prefix does.
    let after = after.filter(|after| *after >= first);
    let (from, comparison) = after.map_or((first, ">="), |after| (after, ">"));
    let below = if end.is_some() { "key < ?3" } else { "?3 IS NULL" };
    let mut statement = connection.prepare_cached(&format!(
        r#"SELECT key, version, value FROM "rows"
        WHERE space = ?1 AND key {comparison} ?2 AND {below} ORDER BY key LIMIT ?4"#
    ))?;
    statement.raw_bind_parameter(1, space)?;
    statement.raw_bind_parameter(2, from)?;
    statement.raw_bind_parameter(3, end)?;
    statement.raw_bind_parameter(4, limit(max))?;
    Ok(statement)
}

/// The least string greater than all that begin with `prefix`; `None` when there is none.
fn beyond(prefix: &str) -> Option<String> {
    let mut left = prefix.to_owned();
    while let Some(last) = left.pop() {
        // Order of UTF-8 bytes is order of characters, so the next character is the next place.
        if let Some(next) = (last..=char::MAX).nth(1) {
            left.push(next);
            return Some(left);
        }
    }
    None
}

// ---- columns ----

fn one(connection: &Connection, sql: &str) -> Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

fn stored_row(row: &rusqlite::Row<'_>) -> Result<Row> {
    Ok(Row { key: row.get(0)?, version: number(row, 1)?, value: bytes(row, 2)? })
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

/// Numbers above SQLite's largest are beyond every record there can be, as the largest itself is.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_a_prefix_is_the_next_character() {
        let cases = [
            ("", None),
            ("a", Some("b")),
            ("a/", Some("a0")),
            ("\u{7f}", Some("\u{80}")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}\u{10ffff}", None),
        ];
        for (prefix, expected) in cases {
            assert_eq!(beyond(prefix).as_deref(), expected, "{prefix:?}");
        }
    }
}
