//! The table `chunks`: the sealed part, rows of records of one stream each.
//!
//! It must not know the order of commits. Start at [`StoredChunk`] and [`NewChunk`].

use std::ops::Range;

use recount_log::chain::ChainValue;
use recount_log::{Fault, Sum};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use super::columns::{int, limit, number};
use super::streams::StreamTail;
use super::whole::Totals;
use crate::fault::{FaultContext as _, corrupt};
use crate::packing::{self, PackedRecords};

/// One stored chunk, unpacked.
pub(crate) struct StoredChunk<'r> {
    pub(crate) stream: i64,
    pub(crate) first_sequence: u64,
    /// The chain before the first record.
    pub(crate) start: ChainValue,
    ranges: Vec<Range<usize>>,
    first_position: u64,
    positions: &'r [u8],
    joined: &'r [u8],
    /// Whether the chunk has a sum; chunks from before schema 5 have none.
    has_sum: bool,
}

/// The columns of a chunk, in the order [`stored_chunk`] takes them.
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

    /// Checks a chunk without a sum: its records must lead from the chain value before them to the one after.
    fn check_chain(&self, connection: &Connection, tail: &StreamTail) -> Result<(), Fault> {
        if self.has_sum {
            return Ok(());
        }
        let context = "reading the chain value after a chunk";
        let expected = if self.end() == tail.next_sequence {
            Some(tail.head)
        } else {
            let sql = "SELECT start FROM chunks WHERE stream = ?1 AND first_sequence = ?2";
            let mut next = connection.prepare_cached(sql).context(context)?;
            let next = next.query_row(params![self.stream, int(self.end())], |row| row.get(0)).optional();
            next.context(context)?.map(ChainValue)
        };
        let found = self.records().fold(self.start, |head, (_, _, bytes)| head.then(bytes));
        if expected == Some(found) {
            return Ok(());
        }
        Err(corrupt(format!(
            "the sealed records from sequence {} on do not match their chain",
            self.first_sequence
        )))
    }

    pub(crate) fn record(&self, sequence: u64) -> Option<(u64, &[u8])> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        let range = self.ranges.get(place)?;
        Some((packing::position(self.first_position, self.positions, place)?, &self.joined[range.clone()]))
    }

    /// Bytes of the chunk from a sequence on, including separators.
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
    /// The records were damaged before sealing: the chunk gets a wrong sum, so that they stay damaged.
    pub(crate) damaged: bool,
}

/// The columns of a packed chunk.
pub(crate) struct PackedChunk {
    stream: i64,
    first_sequence: u64,
    records: u64,
    bytes: u64,
    start: ChainValue,
    first_position: u64,
    index: Vec<u8>,
    positions: Vec<u8>,
    events: PackedRecords,
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

/// The columns that the checksum of a chunk covers.
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

/// Reads one chunk of a stream; a fault if it is missing.
pub(crate) fn chunk_at<T>(
    connection: &Connection,
    tail: &StreamTail,
    id: i64,
    look: impl FnOnce(StoredChunk<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let context = "reading a chunk to rewrite it";
    let mut statement = connection.prepare_cached(chunk_columns!("WHERE id = ?1")).context(context)?;
    let mut rows = statement.query([id]).context(context)?;
    let row = rows.next().context(context)?.ok_or_else(|| corrupt(format!("chunk {id} is missing")))?;
    look(chunk_of(connection, tail, row)?)
}

/// The unverified columns of a damaged chunk: stream, first sequence, number of records.
pub(crate) fn claimed_chunk(row: &rusqlite::Row<'_>) -> Result<(i64, u64, u64)> {
    Ok((row.get(1)?, number(row, 2)?, number(row, 3)?))
}

/// A chunk of a stream, if its checksum or chain fits.
fn chunk_of<'r>(
    connection: &Connection,
    tail: &StreamTail,
    row: &'r rusqlite::Row<'_>,
) -> Result<StoredChunk<'r>, Fault> {
    let chunk = stored_chunk(row)?;
    if chunk.stream != tail.id {
        return Err(corrupt(format!(
            "a chunk of stream number {} is stored for stream number {}",
            chunk.stream, tail.id
        )));
    }
    chunk.check_chain(connection, tail)?;
    Ok(chunk)
}

/// Deletes a chunk; returns whether it existed.
pub(crate) fn delete_chunk(connection: &Connection, id: i64) -> Result<bool> {
    Ok(connection.prepare_cached("DELETE FROM chunks WHERE id = ?1")?.execute([id])? == 1)
}

/// Reads a chunk, passes it to a closure, and deletes it.
pub(crate) fn take_chunk<T>(
    connection: &Connection,
    tail: &StreamTail,
    id: i64,
    look: impl FnOnce(StoredChunk<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let seen = chunk_at(connection, tail, id, look)?;
    delete_chunk(connection, id).context("removing a chunk to rewrite it")?;
    Ok(seen)
}

/// The number of the chunk with a sequence.
pub(crate) fn chunk_with(connection: &Connection, stream: i64, sequence: u64) -> Result<Option<i64>> {
    let sql = "SELECT id FROM chunks WHERE stream = ?1 AND first_sequence <= ?2 ORDER BY first_sequence DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row(params![stream, int(sequence)], |row| row.get(0)).optional()
}

/// Deletes the chunks of a stream that begin before a sequence. Returns how much that was.
pub(crate) fn delete_chunks(connection: &Connection, stream: i64, before: u64) -> Result<Totals> {
    let sql = "SELECT coalesce(sum(records), 0), coalesce(sum(bytes), 0) FROM chunks
        WHERE stream = ?1 AND first_sequence < ?2";
    let totals = |row: &rusqlite::Row<'_>| Ok(Totals { records: number(row, 0)?, bytes: number(row, 1)? });
    let removed = connection.prepare_cached(sql)?.query_row(params![stream, int(before)], totals)?;
    let sql = "DELETE FROM chunks WHERE stream = ?1 AND first_sequence < ?2";
    connection.prepare_cached(sql)?.execute(params![stream, int(before)])?;
    Ok(removed)
}

/// Passes each chunk of a stream to a closure, from the one with a sequence on, until it returns `false`.
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
    let context = "reading sealed records";
    let mut statement = connection.prepare_cached(sql).context(context)?;
    let mut rows = statement.query(params![tail.id, int(sequence)]).context(context)?;
    while let Some(row) = rows.next().context(context)? {
        if !each(chunk_of(connection, tail, row)?)? {
            break;
        }
    }
    Ok(())
}

/// The first sequence of the next chunk of a stream after a sequence.
pub(crate) fn chunk_after(connection: &Connection, stream: i64, sequence: u64) -> Result<Option<u64>> {
    let sql = "SELECT first_sequence FROM chunks WHERE stream = ?1 AND first_sequence > ?2
        ORDER BY first_sequence LIMIT 1";
    connection.prepare_cached(sql)?.query_row(params![stream, int(sequence)], |row| number(row, 0)).optional()
}

pub(crate) fn stored_chunk<'r>(row: &'r rusqlite::Row<'_>) -> Result<StoredChunk<'r>, Fault> {
    let context = "reading sealed records";
    let id: i64 = row.get(0).context(context)?;
    let (stream, first_sequence) = (row.get(1).context(context)?, number(row, 2).context(context)?);
    let records = number(row, 3).context(context)?;
    let start = ChainValue(row.get(4).context(context)?);
    let first_position = number(row, 5).context(context)?;
    let index = row.get_ref(6).context(context)?.as_bytes().ok();
    let positions = row.get_ref(7).context(context)?.as_bytes().ok();
    let events = row.get_ref(8).context(context)?;
    let text = matches!(events, ValueRef::Text(_));
    let sum: Option<i64> = row.get(9).context(context)?;
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
                "chunk {id} (from sequence {first_sequence} on) does not match its checksum"
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
        "chunk {id} (stream number {stream}, from sequence {first_sequence} on) does not match its index; \
         check the store with `recount verify --data`"
    )))
}
