//! Sealing: the oldest groups, taken apart and put into chunks of one stream each, in one transaction.
//!
//! What one stream gets is a chunk of its own at first. Small chunks at the end of a stream are written
//! again as one when together they have a good size. A stream that gets very little at a time would gather
//! too many before that: then those that are not larger than what follows them become one, which at least
//! doubles each, so a record is written again only as often as its chunk can double. This file must not
//! know who decides that it is time.

use std::collections::BTreeMap;

use recount_log::chain::ChainValue;
use recount_log::{Fault, StreamKey};
use rusqlite::Connection;

use crate::fault::{Doing as _, corrupt};
use crate::layout::{self, NewChunk, StreamTail, Totals};
use crate::limits::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, FEED_ROW_RECORDS_MAX, MIGRATION_BATCH_BYTES, SMALL_CHUNKS_MAX,
};
use crate::packing::{NOBODY, Span};

/// Records at positions without a gap, on their way into chunks.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: Vec<Loose>,
}

/// One record of a batch.
struct Loose {
    position: u64,
    /// Or [`NOBODY`].
    stream: i64,
    sequence: u64,
    begin: usize,
    end: usize,
}

/// A chunk that is written anew with what follows it.
struct TakenChunk {
    first_sequence: u64,
    start: ChainValue,
    /// Position and bytes.
    records: Vec<(u64, Vec<u8>)>,
}

/// What was sealed.
pub(crate) struct Sealed {
    pub(crate) last_position: u64,
    pub(crate) totals: Totals,
    pub(crate) streams: Vec<StreamKey>,
}

/// Seals the oldest groups inside an open transaction: up to a position, and no more than about so many
/// records and bytes; `None` when there is none.
pub(crate) fn seal(
    connection: &Connection,
    last_position: u64,
    bound: Totals,
) -> Result<Option<Sealed>, Fault> {
    let mut batch = Batch::default();
    layout::groups_from(connection, 0, &mut |group| {
        if group.first_position > last_position {
            return Ok(false);
        }
        // What was changed on the disk must not get a chain of its own.
        group.check()?;
        for (position, slot) in (group.first_position..).zip(&group.slots) {
            batch.push(position, slot.stream, slot.sequence, group.record(slot));
        }
        Ok((batch.records.len() as u64) < bound.records && (batch.bytes.len() as u64) < bound.bytes)
    })?;
    let Some(last) = batch.records.last() else { return Ok(None) };
    let last_position = last.position;
    let (totals, streams) = batch.write(connection)?;
    layout::delete_groups(connection, last_position).doing("taking sealed groups away")?;
    let mut sealed = layout::totals(connection).doing("counting what is sealed")?;
    sealed.more(totals);
    layout::set_totals(connection, sealed).doing("counting what is sealed")?;
    Ok(Some(Sealed { last_position, totals, streams }))
}

/// Brings a store of one row a record forward, inside an open transaction: everything is sealed.
pub(crate) fn seal_single_rows(connection: &Connection) -> Result<(), Fault> {
    let doing = "sealing rows of one record each";
    let mut streams = Vec::new();
    {
        let sql =
            "SELECT id, next_sequence, last_position, head, first_sequence, start, erased, key FROM streams";
        let mut statement = connection.prepare(sql).doing(doing)?;
        let told = statement.query_map([], layout::stored_tail).doing(doing)?;
        for told in told {
            streams.push(told.doing(doing)?);
        }
    }
    for (key, told) in &streams {
        layout::update_stream(connection, &StreamTail::fresh(told.id, key)).doing(doing)?;
    }
    let mut all = Totals::default();
    let mut land = |batch: &mut Batch| -> Result<(), Fault> {
        let (totals, _) = std::mem::take(batch).write(connection)?;
        all.more(totals);
        Ok(())
    };
    let mut statement = connection
        .prepare("SELECT position, stream, sequence, bytes FROM single ORDER BY position")
        .doing(doing)?;
    let mut rows = statement.query([]).doing(doing)?;
    let mut batch = Batch::default();
    while let Some(row) = rows.next().doing(doing)? {
        let (position, sequence) =
            (layout::number(row, 0).doing(doing)?, layout::number(row, 2).doing(doing)?);
        let bytes = layout::bytes(row, 3).doing(doing)?;
        batch.push(position, row.get(1).doing(doing)?, sequence, &bytes);
        if batch.bytes.len() >= MIGRATION_BATCH_BYTES {
            land(&mut batch)?;
        }
    }
    land(&mut batch)?;
    layout::set_totals(connection, all).doing(doing)?;
    for (key, told) in streams {
        if layout::stream_tail(connection, &key).doing(doing)? != Some(told) {
            return Err(corrupt(format!(
                "the records of stream {key} do not add up to its tail of {} and its head {}; they stay as they are",
                told.next_sequence, told.head
            )));
        }
    }
    Ok(())
}

/// The small chunks at the end of a stream that are written anew with what follows, newest first: all of
/// them when that makes a chunk of good size; when there are many, those that are not larger than what
/// comes after them.
fn absorbed(connection: &Connection, stream: i64, new_bytes: u64) -> rusqlite::Result<Vec<i64>> {
    let most = SMALL_CHUNKS_MAX + CHUNK_BYTES_MIN.ilog2() as usize;
    let small = layout::small_chunks(connection, stream, CHUNK_BYTES_MIN, most)?;
    let all = new_bytes + small.iter().map(|(_, bytes)| bytes).sum::<u64>();
    if all < CHUNK_BYTES_MIN as u64 && small.len() < SMALL_CHUNKS_MAX {
        return Ok(Vec::new());
    }
    let mut after = new_bytes;
    let absorbed = small.into_iter().take_while(|(_, bytes)| {
        let takes = all >= CHUNK_BYTES_MIN as u64 || *bytes <= after;
        after += bytes;
        takes
    });
    Ok(absorbed.map(|(chunk, _)| chunk).collect())
}

impl Batch {
    fn push(&mut self, position: u64, stream: i64, sequence: u64, bytes: &[u8]) {
        let begin = self.bytes.len();
        if stream != NOBODY {
            self.bytes.extend_from_slice(bytes);
        }
        self.records.push(Loose { position, stream, sequence, begin, end: self.bytes.len() });
    }

    fn write(&self, connection: &Connection) -> Result<(Totals, Vec<StreamKey>), Fault> {
        let mut totals = Totals::default();
        let mut streams: BTreeMap<i64, Vec<&Loose>> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.stream != NOBODY) {
            totals.more(Totals { records: 1, bytes: (record.end - record.begin) as u64 });
            streams.entry(record.stream).or_default().push(record);
        }
        let mut keys = Vec::with_capacity(streams.len());
        for (id, records) in streams {
            keys.push(self.write_stream(connection, id, &records)?);
        }
        self.write_feed(connection)?;
        Ok((totals, keys))
    }

    fn write_stream(&self, connection: &Connection, id: i64, new: &[&Loose]) -> Result<StreamKey, Fault> {
        let doing = format!("sealing records of stream number {id}");
        let (key, mut tail) = layout::stream_of(connection, id)
            .doing(&doing)?
            .ok_or_else(|| corrupt(format!("stream number {id} has records but no name")))?;
        let mut new_bytes = 0;
        for (record, expected) in new.iter().zip(tail.next_sequence..) {
            if record.sequence != expected {
                let (sequence, position) = (record.sequence, record.position);
                return Err(corrupt(format!(
                    "stream {key} has sequence {sequence} at position {position}, where {expected} belongs"
                )));
            }
            new_bytes += (record.end - record.begin) as u64;
        }
        // Newest first.
        let mut taken: Vec<TakenChunk> = Vec::new();
        for chunk in absorbed(connection, id, new_bytes).doing(&doing)? {
            taken.push(layout::take_chunk(connection, chunk, |chunk| {
                let records = chunk.records().map(|(_, position, bytes)| (position, bytes.to_vec()));
                let records = records.collect();
                Ok(TakenChunk { first_sequence: chunk.first_sequence, start: chunk.start, records })
            })?);
        }
        let (first, start) =
            taken.last().map_or((tail.next_sequence, tail.head), |old| (old.first_sequence, old.start));
        let old = taken.iter().rev().flat_map(|old| &old.records);
        let old: Vec<(u64, &[u8])> = old.map(|(position, bytes)| (*position, &bytes[..])).collect();
        if first + old.len() as u64 != tail.next_sequence {
            let next = tail.next_sequence;
            return Err(corrupt(format!("stream {key} is not sealed up to {next} without a gap")));
        }
        let added = new.iter().map(|record| (record.position, &self.bytes[record.begin..record.end]));
        let first_new = old.len();
        let records: Vec<(u64, &[u8])> = old.into_iter().chain(added).collect();

        let insert = |begin: usize, end: usize, start: ChainValue| -> Result<(), Fault> {
            let first_sequence = first + begin as u64;
            let chunk = NewChunk { stream: id, first_sequence, start, records: &records[begin..end] };
            layout::insert_chunk(connection, &chunk).doing(&doing)
        };
        let (mut begin, mut chunk_start, mut chunk_bytes) = (0, start, 0);
        // What was sealed is not hashed again: the chain goes on from where it was. Should the old records
        // have been changed meanwhile, they do not lead there, and a look at the whole store finds it.
        let mut head = tail.head;
        for (place, (position, bytes)) in records.iter().enumerate() {
            let far = u32::try_from(position - records[begin].0).is_err();
            if place > begin && (chunk_bytes + bytes.len() > CHUNK_BYTES_MAX || far) {
                insert(begin, place, chunk_start)?;
                let reached = || records[..place].iter().fold(start, |head, (_, bytes)| head.then(bytes));
                chunk_start = if place < first_new { reached() } else { head };
                (begin, chunk_bytes) = (place, 0);
            }
            chunk_bytes += bytes.len();
            if place >= first_new {
                head = head.then(bytes);
            }
        }
        insert(begin, records.len(), chunk_start)?;
        tail.next_sequence = first + records.len() as u64;
        tail.head = head;
        tail.last_position = records.last().map_or(tail.last_position, |(position, _)| *position);
        layout::update_stream(connection, &tail).doing(&doing)?;
        Ok(key)
    }

    fn write_feed(&self, connection: &Connection) -> Result<(), Fault> {
        for records in self.records.chunks(FEED_ROW_RECORDS_MAX) {
            let mut spans: Vec<Span> = Vec::new();
            for (record, expected) in records.iter().zip(records[0].position..) {
                if record.position != expected {
                    return Err(corrupt(format!("there is no record at position {expected}")));
                }
                match spans.last_mut() {
                    Some(last)
                        if last.stream == record.stream
                            && (record.stream == NOBODY
                                || last.first_sequence + last.count == record.sequence) =>
                    {
                        last.count += 1;
                    }
                    _ => {
                        spans.push(Span { stream: record.stream, first_sequence: record.sequence, count: 1 })
                    }
                }
            }
            let (first, last) = (records[0].position, records[records.len() - 1].position);
            layout::insert_feed(connection, first, last, &spans)
                .doing("writing which record is at which position")?;
        }
        Ok(())
    }
}
