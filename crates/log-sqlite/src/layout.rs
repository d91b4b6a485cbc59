//! The tables' language: what is where, in SQL. The rows of spaces, which are no records, have `rows.rs`.
//!
//! What comes next, the hot part: `groups`, one row a commit. What came before, the sealed part: `chunks`,
//! rows of one stream each, with `feed` to say which record is at which position. A row of `streams` tells
//! of the sealed part only. How values are packed is said in `packing.rs`; this file knows neither
//! transactions nor threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::chain::ChainValue;
use recount_log::{End, Fault, StreamKey, Tail};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Result, ToSql, params};

use crate::fault::{Doing as _, altered, corrupt};
pub(crate) use crate::feed::{
    FEED_BY_POSITION, FeedRow, NewFeed, feed_after, feed_from, feed_sum, insert_feed, last_sealed,
    stored_feed,
};
use crate::packing::{self, Joined, Slot};
use crate::sum::Sum;

/// Where a stream ends, where what is left of it begins, and the number that stands for its name.
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
    /// Of a stream that has nothing yet.
    pub(crate) fn fresh(id: i64, key: &str) -> Self {
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

    pub(crate) fn known(&self) -> Known {
        Known {
            id: self.id,
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            first_sequence: self.first_sequence,
            erased: self.erased,
        }
    }

    pub(crate) fn told(self) -> Tail {
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

/// What must be known of a stream to add to it: where it ends, but not what its records add up to. Its
/// chain is worked out when the records are sealed, or when somebody asks, and not for each append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// 0 for a stream that has no name yet.
    pub(crate) id: i64,
    pub(crate) next_sequence: u64,
    pub(crate) last_position: u64,
    pub(crate) first_sequence: u64,
    pub(crate) erased: bool,
}

impl Known {
    pub(crate) fn end(self) -> End {
        End {
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            first_sequence: self.first_sequence,
            erased: self.erased,
        }
    }
}

/// Where the whole store ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ends {
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

impl ToSql for Joined {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let value = if self.text { ValueRef::Text(&self.bytes) } else { ValueRef::Blob(&self.bytes) };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

// ---- what the writer asks and says ----

pub(crate) fn last_stream(connection: &Connection) -> Result<i64> {
    one(connection, "SELECT coalesce(max(id), 0) FROM streams")
}

/// A number that differs from the last one seen if another connection has changed anything since.
pub(crate) fn data_version(connection: &Connection) -> Result<i64> {
    one(connection, "PRAGMA data_version")
}

pub(crate) fn insert_stream(connection: &Connection, key: &str, id: i64) -> Result<()> {
    let sql = "INSERT INTO streams (id, key, next_sequence, last_position, head, sum) VALUES (?1, ?2, 0, 0, ?3, ?4)";
    let fresh = StreamTail::fresh(id, key);
    connection.prepare_cached(sql)?.execute(params![id, key, &fresh.head.0[..], fresh.sum(key)]).map(drop)
}

/// Writes what is sealed, or was taken away, of a stream.
pub(crate) fn update_stream(connection: &Connection, key: &str, tail: &StreamTail) -> Result<()> {
    let sql = "UPDATE streams SET next_sequence = ?2, last_position = ?3, head = ?4, first_sequence = ?5,
        start = ?6, erased = ?7, sum = ?8 WHERE id = ?1";
    let start = (tail.first_sequence > 0 || tail.erased).then_some(&tail.start.0[..]);
    let (next, last, first) = (int(tail.next_sequence), int(tail.last_position), int(tail.first_sequence));
    let values = params![tail.id, next, last, &tail.head.0[..], first, start, tail.erased, tail.sum(key)];
    let changed = connection.prepare_cached(sql)?.execute(values)?;
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

/// A change that says nothing, for a commit that has to write something. Answers the new count.
pub(crate) fn raise_fence(connection: &Connection) -> Result<i64> {
    one(connection, "UPDATE fence SET count = count + 1 RETURNING count")
}

pub(crate) fn fence(connection: &Connection) -> Result<i64> {
    one(connection, "SELECT count FROM fence")
}

// ---- streams ----

/// The last position there was, by what the database says.
pub(crate) fn last_position(connection: &Connection) -> Result<u64> {
    let sql = "SELECT coalesce((SELECT first_position + records - 1 FROM groups ORDER BY first_position DESC LIMIT 1),
        (SELECT last_position FROM feed ORDER BY first_position DESC LIMIT 1), 0)";
    connection.prepare_cached(sql)?.query_row([], |row| number(row, 0))
}

/// What is asked for of a stream, in the order [`stored_tail`] takes it.
macro_rules! stream_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, next_sequence, last_position, head, first_sequence, start, erased, key, sum FROM streams ",
            $rest
        )
    };
}
pub(crate) const STREAMS_BY_ID: &str = stream_columns!("WHERE id >= ?1 ORDER BY id LIMIT ?2");

/// What the row of a stream says: where its sealed part ends.
pub(crate) fn stream_tail(connection: &Connection, key: &str) -> Result<Option<StreamTail>> {
    let sql = stream_columns!("WHERE key = ?1");
    let tail = connection.prepare_cached(sql)?.query_row([key], stored_tail).optional()?;
    Ok(tail.map(|(_, tail)| tail))
}

/// The same for who tells others that a stream does not exist. What was not found may be there under a name that was
/// changed on the disk: it then lies beside the place where it was looked for.
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

/// The same, by number, with the name.
pub(crate) fn stream_of(connection: &Connection, id: i64) -> Result<Option<(StreamKey, StreamTail)>> {
    let sql = stream_columns!("WHERE id = ?1");
    connection.prepare_cached(sql)?.query_row([id], stored_tail).optional()
}

/// The name of a stream and its row, if it is what was written.
pub(crate) fn stored_tail(row: &rusqlite::Row<'_>) -> Result<(StreamKey, StreamTail)> {
    let (key, tail) = told_tail(row)?;
    if row.get::<_, Option<i64>>(8)? != Some(tail.sum(&key)) {
        return Err(altered(&format!("the row of stream {key} (number {})", tail.id)));
    }
    Ok((key, tail))
}

/// The same without a look at the checksum: for rows that have none yet.
pub(crate) fn told_tail(row: &rusqlite::Row<'_>) -> Result<(StreamKey, StreamTail)> {
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
            let found = stream_of(self.connection, id).doing(&format!("reading stream number {id}"))?;
            let found = found.ok_or_else(|| {
                corrupt(format!(
                    "the record at position {position} belongs to stream number {id}, which has no name; look at the store with `recount verify --data`"
                ))
            })?;
            self.known.insert(id, found);
        }
        Ok(self.known.get_mut(&id).expect("it was put there a moment ago"))
    }

    /// The name of one that was looked up, or can be.
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
    // A name lies in an index and in its row. Where both agree it is right, whatever else of the row is damaged.
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

// ---- groups: what is hot ----

/// One group as it is stored, unpacked.
pub(crate) struct StoredGroup<'r> {
    pub(crate) first_position: u64,
    pub(crate) slots: Vec<Slot>,
    index: &'r [u8],
    joined: &'r [u8],
}

impl StoredGroup<'_> {
    pub(crate) fn record(&self, slot: &Slot) -> &[u8] {
        &self.joined[slot.range.clone()]
    }

    /// Of all records, with what joins them.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.joined
    }

    pub(crate) fn last_position(&self) -> u64 {
        self.first_position + self.slots.len() as u64 - 1
    }

    /// Every record that is there, with its position.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, &Slot, &[u8])> {
        let slots = (self.first_position..).zip(&self.slots).filter(|(_, slot)| !slot.is_gone());
        slots.map(|(position, slot)| (position, slot, self.record(slot)))
    }

    /// Whether the bytes are those that were written.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if packing::group_is_sound(self.index, self.joined) {
            return Ok(());
        }
        let (first, last) = (self.first_position, self.last_position());
        Err(corrupt(format!("the records at positions {first} to {last} were changed on the disk")))
    }
}

pub(crate) fn insert_group(
    connection: &Connection,
    first_position: u64,
    records: usize,
    index: &[u8],
    events: &Joined,
) -> Result<()> {
    let sql = r#"INSERT INTO groups (first_position, records, "index", events) VALUES (?1, ?2, ?3, ?4)"#;
    let values = params![int(first_position), int(records as u64), index, events];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

/// Puts another content into a group that is there.
pub(crate) fn update_group(
    connection: &Connection,
    first_position: u64,
    index: &[u8],
    events: &Joined,
) -> Result<()> {
    let sql = r#"UPDATE groups SET "index" = ?2, events = ?3 WHERE first_position = ?1"#;
    connection.prepare_cached(sql)?.execute(params![int(first_position), index, events]).map(drop)
}

pub(crate) fn delete_groups(connection: &Connection, last_position: u64) -> Result<()> {
    let sql = "DELETE FROM groups WHERE first_position <= ?1";
    connection.prepare_cached(sql)?.execute([int(last_position)]).map(drop)
}

/// Shows each group from the one with a position on, until told to stop (`false`).
pub(crate) fn groups_from(
    connection: &Connection,
    position: u64,
    each: &mut dyn FnMut(StoredGroup<'_>) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let sql = r#"SELECT first_position, records, "index", events FROM groups
        WHERE first_position >= coalesce((SELECT max(first_position) FROM groups WHERE first_position <= ?1), 0)
        ORDER BY first_position"#;
    let doing = "reading the newest records";
    let mut statement = connection.prepare_cached(sql).doing(doing)?;
    let mut rows = statement.query([int(position)]).doing(doing)?;
    while let Some(row) = rows.next().doing(doing)? {
        if !each(stored_group(row)?)? {
            break;
        }
    }
    Ok(())
}

/// Shows one group; a fault if it is not there.
pub(crate) fn group_at<T>(
    connection: &Connection,
    first_position: u64,
    look: impl FnOnce(StoredGroup<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let sql = r#"SELECT first_position, records, "index", events FROM groups WHERE first_position = ?1"#;
    let doing = "reading the newest records";
    let mut statement = connection.prepare_cached(sql).doing(doing)?;
    let mut rows = statement.query([int(first_position)]).doing(doing)?;
    match rows.next().doing(doing)? {
        Some(row) => look(stored_group(row)?),
        None => Err(corrupt(format!(
            "the records at positions from {first_position} on are not there; look at the store with `recount verify --data`"
        ))),
    }
}

pub(crate) fn stored_group<'r>(row: &'r rusqlite::Row<'_>) -> Result<StoredGroup<'r>, Fault> {
    let doing = "reading the newest records";
    let first_position = number(row, 0).doing(doing)?;
    let records = number(row, 1).doing(doing)?;
    let index = row.get_ref(2).doing(doing)?.as_bytes();
    let events = row.get_ref(3).doing(doing)?;
    let text = matches!(events, ValueRef::Text(_));
    if let (Ok(index), Ok(joined)) = (index, events.as_bytes())
        && packing::index_is_sound(first_position, text, index, joined)
        && let Some(slots) = packing::group_slots(index, text, joined, records)
        && records > 0
        && first_position > 0
    {
        return Ok(StoredGroup { first_position, slots, index, joined });
    }
    Err(corrupt(format!(
        "the records at positions from {first_position} on do not fit their index; look at the store with `recount verify --data`"
    )))
}

/// The first position that is not sealed yet; `None` when nothing is hot.
pub(crate) fn first_hot(connection: &Connection) -> Result<Option<u64>> {
    let sql = "SELECT min(first_position) FROM groups";
    let first: Option<i64> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(first.map(i64::unsigned_abs))
}

// ---- chunks and the feed: what is sealed ----

/// One chunk as it is stored, unpacked.
pub(crate) struct StoredChunk<'r> {
    pub(crate) stream: i64,
    pub(crate) first_sequence: u64,
    /// The chain before the first record.
    pub(crate) start: ChainValue,
    ranges: Vec<Range<usize>>,
    first_position: u64,
    positions: &'r [u8],
    joined: &'r [u8],
    /// Chunks of before schema 5 have no sum.
    has_sum: bool,
}

/// What is asked for of a chunk, in the order [`stored_chunk`] takes it.
macro_rules! chunk_columns {
    ($rest:literal) => {
        concat!(
            r#"SELECT id, stream, first_sequence, records, start, first_position, "index", positions, events, sum FROM chunks "#,
            $rest
        )
    };
}
pub(crate) const CHUNKS_BY_ID: &str = chunk_columns!("WHERE id >= ?1 ORDER BY id LIMIT ?2");

impl StoredChunk<'_> {
    /// The sequence after the last.
    pub(crate) fn end(&self) -> u64 {
        self.first_sequence + self.ranges.len() as u64
    }

    /// Of a chunk that has no sum: whether its records lead from the chain value before them to the one after.
    fn check_chain(&self, connection: &Connection, tail: &StreamTail) -> Result<(), Fault> {
        if self.has_sum {
            return Ok(());
        }
        let doing = "reading the chain value after a chunk";
        let expected = if self.end() == tail.next_sequence {
            Some(tail.head)
        } else {
            let sql = "SELECT start FROM chunks WHERE stream = ?1 AND first_sequence = ?2";
            let mut next = connection.prepare_cached(sql).doing(doing)?;
            let next = next.query_row(params![self.stream, int(self.end())], |row| row.get(0)).optional();
            next.doing(doing)?.map(ChainValue)
        };
        let found = self.records().fold(self.start, |head, (_, _, bytes)| head.then(bytes));
        if expected == Some(found) {
            return Ok(());
        }
        Err(corrupt(format!(
            "the sealed records from sequence {} on do not fit their chain",
            self.first_sequence
        )))
    }

    pub(crate) fn record(&self, sequence: u64) -> Option<(u64, &[u8])> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        let range = self.ranges.get(place)?;
        Some((packing::position(self.first_position, self.positions, place)?, &self.joined[range.clone()]))
    }

    /// Bytes of the chunk from a sequence on; what joins the records is counted with them.
    pub(crate) fn bytes_from(&self, sequence: u64) -> usize {
        let place = usize::try_from(sequence.saturating_sub(self.first_sequence)).unwrap_or(usize::MAX);
        self.ranges.get(place).map_or(0, |range| self.joined.len() - range.start)
    }

    /// Every record, with sequence and position.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, u64, &[u8])> {
        (self.first_sequence..self.end())
            .filter_map(|sequence| self.record(sequence).map(|(position, bytes)| (sequence, position, bytes)))
    }
}

/// A chunk to be written.
pub(crate) struct NewChunk<'b> {
    pub(crate) stream: i64,
    pub(crate) first_sequence: u64,
    pub(crate) start: ChainValue,
    /// Position and bytes of each.
    pub(crate) records: &'b [(u64, &'b [u8])],
    /// The records were damaged before they were sealed: the chunk gets a sum that does not fit, so that they stay so.
    pub(crate) damaged: bool,
}

/// A chunk as its row will be.
pub(crate) struct PackedChunk {
    stream: i64,
    first_sequence: u64,
    records: u64,
    bytes: u64,
    start: ChainValue,
    first_position: u64,
    index: Vec<u8>,
    positions: Vec<u8>,
    events: Joined,
    sum: i64,
}

impl NewChunk<'_> {
    pub(crate) fn pack(&self) -> PackedChunk {
        let first_position = self.records.first().map_or(0, |(position, _)| *position);
        let bytes: usize = self.records.iter().map(|(_, bytes)| bytes.len()).sum();
        let index = packing::chunk_index(self.records.iter().map(|(_, bytes)| bytes.len()));
        let positions =
            packing::positions(first_position, self.records.iter().map(|(position, _)| *position));
        let events = packing::join(self.records.iter().map(|(_, bytes)| Some(*bytes)));
        let columns = ChunkColumns {
            stream: self.stream,
            first_sequence: self.first_sequence,
            records: self.records.len() as u64,
            start: &self.start,
            first_position,
            index: &index,
            positions: &positions,
            text: events.text,
            joined: &events.bytes,
        };
        let sum = columns.sum();
        PackedChunk {
            stream: self.stream,
            first_sequence: self.first_sequence,
            records: self.records.len() as u64,
            bytes: bytes as u64,
            start: self.start,
            first_position,
            sum: if self.damaged { !sum } else { sum },
            index,
            positions,
            events,
        }
    }
}

/// What the checksum of a chunk covers.
struct ChunkColumns<'c> {
    stream: i64,
    first_sequence: u64,
    records: u64,
    start: &'c ChainValue,
    first_position: u64,
    index: &'c [u8],
    positions: &'c [u8],
    text: bool,
    joined: &'c [u8],
}

impl ChunkColumns<'_> {
    fn sum(&self) -> i64 {
        Sum::of("chunks")
            .number(self.stream.cast_unsigned())
            .number(self.first_sequence)
            .number(self.records)
            .bytes(&self.start.0)
            .number(self.first_position)
            .bytes(self.index)
            .bytes(self.positions)
            .number(self.text.into())
            .bytes(self.joined)
            .column()
    }
}

impl PackedChunk {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

pub(crate) fn insert_chunk(connection: &Connection, chunk: &NewChunk<'_>) -> Result<()> {
    insert_packed(connection, &chunk.pack())
}

pub(crate) fn insert_packed(connection: &Connection, chunk: &PackedChunk) -> Result<()> {
    let sql = r#"INSERT INTO chunks (stream, first_sequence, records, bytes, start, first_position, "index", positions, events, sum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"#;
    connection
        .prepare_cached(sql)?
        .execute(params![
            chunk.stream,
            int(chunk.first_sequence),
            int(chunk.records),
            int(chunk.bytes),
            &chunk.start.0[..],
            int(chunk.first_position),
            chunk.index,
            chunk.positions,
            chunk.events,
            chunk.sum,
        ])
        .map(drop)
}

/// Number and bytes of the chunks at a stream's end that have fewer bytes than this, newest first, at most
/// `max` of them.
pub(crate) fn small_chunks(
    connection: &Connection,
    stream: i64,
    less_than: usize,
    max: usize,
) -> Result<Vec<(i64, u64)>> {
    let sql = "SELECT id, bytes FROM chunks WHERE stream = ?1 ORDER BY first_sequence DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![stream, limit(max)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes = number(row, 1)?;
        if bytes >= less_than as u64 {
            break;
        }
        found.push((row.get(0)?, bytes));
    }
    Ok(found)
}

/// Shows one chunk of a stream; a fault if it is not there.
pub(crate) fn chunk_at<T>(
    connection: &Connection,
    tail: &StreamTail,
    id: i64,
    look: impl FnOnce(StoredChunk<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let doing = "reading a chunk to write it anew";
    let mut statement = connection.prepare_cached(chunk_columns!("WHERE id = ?1")).doing(doing)?;
    let mut rows = statement.query([id]).doing(doing)?;
    let row = rows.next().doing(doing)?.ok_or_else(|| corrupt(format!("chunk {id} is not there")))?;
    look(chunk_of(connection, tail, row)?)
}

/// Where a chunk that is damaged says that it is: stream, first sequence, how many records.
pub(crate) fn told_chunk(row: &rusqlite::Row<'_>) -> Result<(i64, u64, u64)> {
    Ok((row.get(1)?, number(row, 2)?, number(row, 3)?))
}

/// A chunk of a stream, if it is what was written.
fn chunk_of<'r>(
    connection: &Connection,
    tail: &StreamTail,
    row: &'r rusqlite::Row<'_>,
) -> Result<StoredChunk<'r>, Fault> {
    let chunk = stored_chunk(row)?;
    if chunk.stream != tail.id {
        return Err(corrupt(format!(
            "a chunk of stream number {} is found as one of number {}",
            chunk.stream, tail.id
        )));
    }
    chunk.check_chain(connection, tail)?;
    Ok(chunk)
}

/// `false`: it was not there.
pub(crate) fn delete_chunk(connection: &Connection, id: i64) -> Result<bool> {
    Ok(connection.prepare_cached("DELETE FROM chunks WHERE id = ?1")?.execute([id])? == 1)
}

/// Takes a chunk out and shows it as it was.
pub(crate) fn take_chunk<T>(
    connection: &Connection,
    tail: &StreamTail,
    id: i64,
    look: impl FnOnce(StoredChunk<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let seen = chunk_at(connection, tail, id, look)?;
    delete_chunk(connection, id).doing("taking a chunk away to write it anew")?;
    Ok(seen)
}

/// The chunk of a stream that has a sequence, by number.
pub(crate) fn chunk_with(connection: &Connection, stream: i64, sequence: u64) -> Result<Option<i64>> {
    let sql = "SELECT id FROM chunks WHERE stream = ?1 AND first_sequence <= ?2 ORDER BY first_sequence DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row(params![stream, int(sequence)], |row| row.get(0)).optional()
}

/// Takes away the chunks of a stream that begin before a sequence. Answers how much that was.
pub(crate) fn delete_chunks(connection: &Connection, stream: i64, before: u64) -> Result<Totals> {
    let sql = "SELECT coalesce(sum(records), 0), coalesce(sum(bytes), 0) FROM chunks
        WHERE stream = ?1 AND first_sequence < ?2";
    let totals = |row: &rusqlite::Row<'_>| Ok(Totals { records: number(row, 0)?, bytes: number(row, 1)? });
    let gone = connection.prepare_cached(sql)?.query_row(params![stream, int(before)], totals)?;
    let sql = "DELETE FROM chunks WHERE stream = ?1 AND first_sequence < ?2";
    connection.prepare_cached(sql)?.execute(params![stream, int(before)])?;
    Ok(gone)
}

/// Shows each chunk of a stream from the one with a sequence on, until told to stop (`false`).
pub(crate) fn chunks_from(
    connection: &Connection,
    tail: &StreamTail,
    sequence: u64,
    each: &mut dyn FnMut(StoredChunk<'_>) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let sql = chunk_columns!(
        "WHERE stream = ?1 AND first_sequence >= coalesce((SELECT max(first_sequence) FROM chunks
            WHERE stream = ?1 AND first_sequence <= ?2), 0)
        ORDER BY first_sequence"
    );
    let doing = "reading sealed records";
    let mut statement = connection.prepare_cached(sql).doing(doing)?;
    let mut rows = statement.query(params![tail.id, int(sequence)]).doing(doing)?;
    while let Some(row) = rows.next().doing(doing)? {
        if !each(chunk_of(connection, tail, row)?)? {
            break;
        }
    }
    Ok(())
}

/// Where the first chunk of a stream begins that begins after a sequence.
pub(crate) fn chunk_after(connection: &Connection, stream: i64, sequence: u64) -> Result<Option<u64>> {
    let sql = "SELECT first_sequence FROM chunks WHERE stream = ?1 AND first_sequence > ?2
        ORDER BY first_sequence LIMIT 1";
    connection.prepare_cached(sql)?.query_row(params![stream, int(sequence)], |row| number(row, 0)).optional()
}

pub(crate) fn stored_chunk<'r>(row: &'r rusqlite::Row<'_>) -> Result<StoredChunk<'r>, Fault> {
    let doing = "reading sealed records";
    let id: i64 = row.get(0).doing(doing)?;
    let (stream, first_sequence) = (row.get(1).doing(doing)?, number(row, 2).doing(doing)?);
    let records = number(row, 3).doing(doing)?;
    let start = ChainValue(row.get(4).doing(doing)?);
    let first_position = number(row, 5).doing(doing)?;
    let index = row.get_ref(6).doing(doing)?.as_bytes().ok();
    let positions = row.get_ref(7).doing(doing)?.as_bytes().ok();
    let events = row.get_ref(8).doing(doing)?;
    let text = matches!(events, ValueRef::Text(_));
    let sum: Option<i64> = row.get(9).doing(doing)?;
    if let (Some(index), Some(positions), Ok(joined)) = (index, positions, events.as_bytes()) {
        let columns = ChunkColumns {
            stream,
            first_sequence,
            records,
            start: &start,
            first_position,
            index,
            positions,
            text,
            joined,
        };
        if sum.is_some_and(|sum| sum != columns.sum()) {
            return Err(corrupt(format!(
                "chunk {id} (from sequence {first_sequence} on) does not fit its checksum"
            )));
        }
    }
    if let (Some(index), Some(positions), Ok(joined)) = (index, positions, events.as_bytes())
        && let Some(ranges) = packing::chunk_ranges(index, text, joined)
        && ranges.len() as u64 == records
        && positions.len() == ranges.len() * 4
        && first_sequence.checked_add(records).is_some()
    {
        let has_sum = sum.is_some();
        return Ok(StoredChunk {
            stream,
            first_sequence,
            start,
            ranges,
            first_position,
            positions,
            joined,
            has_sum,
        });
    }
    Err(corrupt(format!(
        "chunk {id} (stream number {stream}, from sequence {first_sequence} on) does not fit its index; look at the store with `recount verify --data`"
    )))
}

pub(crate) fn totals(connection: &Connection) -> Result<Totals> {
    let totals = |row: &rusqlite::Row<'_>| Ok(Totals { records: number(row, 0)?, bytes: number(row, 1)? });
    connection.prepare_cached("SELECT records, bytes FROM sealed")?.query_row([], totals)
}

pub(crate) fn set_totals(connection: &Connection, totals: Totals) -> Result<()> {
    let values = [int(totals.records), int(totals.bytes)];
    connection.prepare_cached("UPDATE sealed SET records = ?1, bytes = ?2")?.execute(values).map(drop)
}

// ---- columns ----

fn one(connection: &Connection, sql: &str) -> Result<i64> {
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

/// Numbers above SQLite's largest are beyond every record there can be, as the largest itself is.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
