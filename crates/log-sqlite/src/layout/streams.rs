//! The table `streams`: one row per stream, with the end of its sealed part.
//!
//! It must not know records. Start at [`StreamTail`] and [`Names`].

use std::collections::HashMap;
use std::sync::Arc;

use recount_log::chain::ChainValue;
use recount_log::{End, Fault, StreamKey, Sum, Tail};
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use super::columns::{int, limit, number, one};
use crate::fault::{FaultContext as _, altered, corrupt};

/// The number of a stream, its end, and the beginning of its remaining records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamTail {
    pub(crate) id: i64,
    pub(crate) next_sequence: u64,
    pub(crate) last_position: u64,
    pub(crate) head: ChainValue,
    pub(crate) first_sequence: u64,
    pub(crate) start: ChainValue,
    pub(crate) erased: bool,
}

impl StreamTail {
    /// The tail of a stream without records.
    pub(crate) fn empty(id: i64, key: &str) -> Self {
        let start = ChainValue::start(key);
        StreamTail {
            id,
            next_sequence: 0,
            last_position: 0,
            head: start,
            first_sequence: 0,
            start,
            erased: false,
        }
    }

    /// The checksum of the stream's row.
    pub(crate) fn sum(&self, key: &str) -> i64 {
        Sum::of("streams")
            .bytes(key.as_bytes())
            .number(self.id.cast_unsigned())
            .number(self.next_sequence)
            .number(self.last_position)
            .bytes(&self.head.0)
            .number(self.first_sequence)
            .bytes(&self.start.0)
            .number(self.erased.into())
            .column()
    }

    pub(crate) fn known(&self) -> KnownTail {
        KnownTail {
            id: self.id,
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            first_sequence: self.first_sequence,
            erased: self.erased,
        }
    }

    pub(crate) fn to_tail(self) -> Tail {
        Tail {
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            head: self.head,
            first_sequence: self.first_sequence,
            start: self.start,
            erased: self.erased,
        }
    }
}

/// The part of a tail that appends need: where the stream ends, without its chain value. The chain is computed when
/// records are sealed or the tail is read, and not for each append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KnownTail {
    /// 0 for a stream that does not exist yet.
    pub(crate) id: i64,
    pub(crate) next_sequence: u64,
    pub(crate) last_position: u64,
    pub(crate) first_sequence: u64,
    pub(crate) erased: bool,
}

impl KnownTail {
    pub(crate) fn end(self) -> End {
        End {
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            first_sequence: self.first_sequence,
            erased: self.erased,
        }
    }
}

pub(crate) fn last_stream(connection: &Connection) -> Result<i64> {
    one(connection, "SELECT coalesce(max(id), 0) FROM streams")
}

pub(crate) fn insert_stream(connection: &Connection, key: &str, id: i64) -> Result<()> {
    let sql = "INSERT INTO streams (id, key, next_sequence, last_position, head, sum) VALUES (?1, ?2, 0, 0, ?3, ?4)";
    let empty = StreamTail::empty(id, key);
    connection.prepare_cached(sql)?.execute(params![id, key, &empty.head.0[..], empty.sum(key)]).map(drop)
}

/// Updates the row of a stream after sealing or a removal.
pub(crate) fn update_stream(connection: &Connection, key: &str, tail: &StreamTail) -> Result<()> {
    let sql = "UPDATE streams SET next_sequence = ?2, last_position = ?3, head = ?4, first_sequence = ?5,
        start = ?6, erased = ?7, sum = ?8 WHERE id = ?1";
    let start = (tail.first_sequence > 0 || tail.erased).then_some(&tail.start.0[..]);
    let (next, last, first) = (int(tail.next_sequence), int(tail.last_position), int(tail.first_sequence));
    let values = params![tail.id, next, last, &tail.head.0[..], first, start, tail.erased, tail.sum(key)];
    let changed = connection.prepare_cached(sql)?.execute(values)?;
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

/// The columns of a stream, in the order [`stored_tail`] takes them.
macro_rules! stream_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, next_sequence, last_position, head, first_sequence, start, erased, key, sum FROM streams ",
            $rest
        )
    };
}
pub(crate) const STREAMS_BY_ID: &str = stream_columns!("WHERE id >= ?1 ORDER BY id LIMIT ?2");

/// The row of a stream: where its sealed part ends.
pub(crate) fn stream_tail(connection: &Connection, key: &str) -> Result<Option<StreamTail>> {
    let sql = stream_columns!("WHERE key = ?1");
    let tail = connection.prepare_cached(sql)?.query_row([key], stored_tail).optional()?;
    Ok(tail.map(|(_, tail)| tail))
}

/// Like [`stream_tail`], for a caller that reports a missing stream. A missing row may exist under a name that damage
/// changed: then a neighbour in the index is damaged, which this reports.
pub(crate) fn stream_tail_for_sure(connection: &Connection, key: &str) -> Result<Option<StreamTail>> {
    let tail = stream_tail(connection, key)?;
    if tail.is_none() {
        for sql in [
            stream_columns!("WHERE key < ?1 ORDER BY key DESC LIMIT 1"),
            stream_columns!("WHERE key > ?1 ORDER BY key LIMIT 1"),
        ] {
            connection.prepare_cached(sql)?.query_row([key], stored_tail).optional()?;
        }
    }
    Ok(tail)
}

/// The row of a stream by number, with its name.
pub(crate) fn stream_of(connection: &Connection, id: i64) -> Result<Option<(StreamKey, StreamTail)>> {
    let sql = stream_columns!("WHERE id = ?1");
    connection.prepare_cached(sql)?.query_row([id], stored_tail).optional()
}

/// The name of a stream and its row, if the checksum fits.
pub(crate) fn stored_tail(row: &rusqlite::Row<'_>) -> Result<(StreamKey, StreamTail)> {
    let (key, tail) = claimed_tail(row)?;
    if row.get::<_, Option<i64>>(8)? != Some(tail.sum(&key)) {
        return Err(altered(&format!("the row of stream {key} (number {})", tail.id)));
    }
    Ok((key, tail))
}

/// The name and row without a check of the checksum, for rows that have none yet.
pub(crate) fn claimed_tail(row: &rusqlite::Row<'_>) -> Result<(StreamKey, StreamTail)> {
    let key: Arc<str> = row.get(7)?;
    let start = row.get::<_, Option<[u8; 32]>>(5)?.map_or_else(|| ChainValue::start(&key), ChainValue);
    let tail = StreamTail {
        id: row.get(0)?,
        next_sequence: number(row, 1)?,
        last_position: number(row, 2)?,
        head: ChainValue(row.get(3)?),
        first_sequence: number(row, 4)?,
        start,
        erased: row.get(6)?,
    };
    Ok((key, tail))
}

/// Streams by number, each looked up once.
pub(crate) struct Names<'c> {
    connection: &'c Connection,
    known: HashMap<i64, (StreamKey, StreamTail)>,
}

impl<'c> Names<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Names { connection, known: HashMap::new() }
    }

    pub(crate) fn get(&mut self, id: i64, position: u64) -> Result<&mut (StreamKey, StreamTail), Fault> {
        if !self.known.contains_key(&id) {
            let found = stream_of(self.connection, id).context(&format!("reading stream number {id}"))?;
            let found = found.ok_or_else(|| {
                corrupt(format!(
                    "the record at position {position} belongs to stream number {id}, which has no name; check the store with `recount verify --data`"
                ))
            })?;
            self.known.insert(id, found);
        }
        Ok(self.known.get_mut(&id).expect("inserted above"))
    }

    /// The name of a stream, looked up if necessary.
    pub(crate) fn name(&self, id: i64) -> Option<StreamKey> {
        self.known.get(&id).map(|(key, _)| key.clone())
    }

    /// How many were looked up.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }
}

pub(crate) fn list_streams(
    connection: &Connection,
    after: Option<&str>,
    max: usize,
) -> Result<Vec<StreamKey>> {
    // A name is in an index and in its row. If both agree, it is right, even if the rest of the row is damaged.
    let sql = match after {
        Some(_) => "SELECT key, id FROM streams WHERE key > ?1 ORDER BY key LIMIT ?2",
        None => "SELECT key, id FROM streams WHERE ?1 IS NULL ORDER BY key LIMIT ?2",
    };
    let mut own = connection.prepare_cached("SELECT key FROM streams WHERE id = ?1")?;
    let mut statement = connection.prepare_cached(sql)?;
    let keys = statement.query_map(params![after, limit(max)], |row| {
        let (key, id): (Arc<str>, i64) = (row.get(0)?, row.get(1)?);
        let own: Option<String> = own.query_row([id], |row| row.get(0)).optional()?;
        if own.as_deref() == Some(&*key) {
            Ok(key)
        } else {
            Err(altered(&format!("the name of stream {key}")))
        }
    })?;
    keys.collect()
}
