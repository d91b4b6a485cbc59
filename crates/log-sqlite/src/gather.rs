//! Prepares sealing without changing anything: reads the oldest groups, sorts them by stream
//! and packs them into chunks.
//!
//! A *window* of groups is long enough for its streams to have a chunk of good size each, within a
//! bound. So nearly all chunks are written once. Streams that have ended get nothing more, however
//! long the window: when nearly all have ended, it ends sooner, because all of it is held in memory.
//!
//! Small pieces of a stream are written again together with what follows: small chunks at its end are merged when
//! together they have a good size. When there are many, those that are not larger than what comes after them are
//! merged, so sizes at least double. An interrupted round may have sealed some records of a window already; they are
//! skipped. This file must not know threads or when sealing starts.

use std::ops::Range;

use recount_log::chain::ChainValue;
use recount_log::{Fault, FaultKind, StreamKey};
use rusqlite::Connection;

use crate::fault::{FaultContext as _, corrupt};
use crate::layout::{self, Names, NewChunk, NewFeed, PackedChunk, StreamTail, Totals};
use crate::limits::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, FEED_ROW_RECORDS_MAX, SEAL_GOING_ON_DIVISOR, SEAL_READ_BYTES,
    SEAL_STREAM_BYTES, SEAL_UNIT_BYTES, SMALL_CHUNKS_MAX,
};
use crate::packing::{self, FeedSpan, NO_STREAM};
use crate::quick::QuickMap;

/// The bounds of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowBounds {
    pub(crate) from: u64,
    /// Groups that begin after this are excluded.
    pub(crate) last_position: u64,
    pub(crate) least_bytes: u64,
    pub(crate) most: Totals,
}

/// Records at contiguous positions that are being packed into chunks.
pub(crate) struct Window<'c> {
    connection: &'c Connection,
    names: Names<'c>,
    /// The bytes of each push or group, in order.
    bytes: Vec<Vec<u8>>,
    records: Vec<WindowRecord>,
    /// For each group, the index after its last record, and its bytes.
    groups: Vec<(usize, u64)>,
    /// Bytes of all groups, including sealed records.
    read: u64,
    /// The unsealed records by stream.
    stretches: QuickMap<i64, StreamExtent>,
    /// At how many bytes the check for continuing streams is repeated.
    check_at: u64,
    /// Whether nearly all streams have ended.
    ended: bool,
}

/// The extent of the unsealed records of a stream in a window.
struct StreamExtent {
    /// Bytes read before the first of them, and before the last.
    first: u64,
    last: u64,
    bytes: u64,
}

/// One record of a window.
struct WindowRecord {
    position: u64,
    /// The stream, or [`NO_STREAM`] for a removed record.
    stream: i64,
    sequence: u64,
    /// The buffer of the window, and the range in it.
    place: usize,
    range: Range<usize>,
    /// It is already in a chunk.
    sealed: bool,
    /// Its bytes were altered.
    damaged: bool,
}

/// A chunk that is written again together with what follows it.
struct TakenChunk {
    first_sequence: u64,
    start: ChainValue,
    /// Position and bytes.
    records: Vec<(u64, Vec<u8>)>,
}

/// The change of one stream's sealed part by one transaction.
pub(crate) struct SealedPiece {
    pub(crate) key: StreamKey,
    pub(crate) before: StreamTail,
    /// Old chunks that the new ones include.
    pub(crate) replaced: Vec<i64>,
    pub(crate) chunks: Vec<PackedChunk>,
    pub(crate) after: StreamTail,
    /// The newly sealed records.
    pub(crate) new: Totals,
}

/// Groups that can be removed when all their records are sealed, and the rows of the feed that replace them.
pub(crate) struct Unit {
    pub(crate) last_position: u64,
    pub(crate) bytes: u64,
    pub(crate) feed: Vec<NewFeed>,
    pub(crate) streams: Vec<StreamKey>,
}

impl<'c> Window<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Window {
            connection,
            names: Names::new(connection),
            bytes: Vec::new(),
            records: Vec::new(),
            groups: Vec::new(),
            read: 0,
            stretches: QuickMap::default(),
            check_at: 0,
            ended: false,
        }
    }

    /// Reads groups, some at a time, so that no snapshot of the database is held for long: groups do not
    /// change, unless records are removed, and then this window is no longer needed. Ends early
    /// when `is_cancelled` returns true.
    pub(crate) fn gather(
        &mut self,
        bounds: &WindowBounds,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), Fault> {
        let mut next = bounds.from;
        loop {
            let mut remaining = SEAL_READ_BYTES;
            let mut more = false;
            layout::groups_from(self.connection, next, &mut |group| {
                // The one with the position before.
                if group.first_position < next {
                    return Ok(true);
                }
                if group.first_position > bounds.last_position || self.is_full(bounds) || is_cancelled() {
                    return Ok(false);
                }
                if remaining == 0 {
                    more = true;
                    return Ok(false);
                }
                // A group with damaged bytes gets a chunk of its own that keeps the damage detectable.
                let damaged = group.check().is_err();
                let mut bytes = 0;
                let mut has_new = false;
                for (position, slot) in (group.first_position..).zip(&group.slots) {
                    bytes += slot.range.len() as u64;
                    has_new |=
                        self.note(position, slot.stream, slot.sequence, slot.range.clone(), damaged)?;
                }
                self.bytes.push(if has_new { group.bytes().to_vec() } else { Vec::new() });
                self.read += bytes;
                self.groups.push((self.records.len(), bytes));
                remaining = remaining.saturating_sub(bytes.max(1));
                next = group.last_position() + 1;
                Ok(true)
            })?;
            if !more {
                return Ok(());
            }
        }
    }

    fn is_full(&mut self, bounds: &WindowBounds) -> bool {
        // The interval doubles, so that the checks stay cheap.
        if self.read >= self.check_at.max(bounds.least_bytes) {
            self.check_at = 2 * self.read;
            self.ended = self.nearly_all_have_ended();
        }
        let target = bounds.least_bytes.max(self.names.count() as u64 * SEAL_STREAM_BYTES);
        let enough = if self.ended { bounds.least_bytes } else { target.min(bounds.most.bytes) };
        self.read >= enough || self.records.len() as u64 >= bounds.most.records
    }

    /// Whether the streams of the first half of the window have few records in the second.
    fn nearly_all_have_ended(&self) -> bool {
        let half = self.read / 2;
        let going_on = self.stretches.values().filter(|one| one.first < half && one.last >= half);
        let (streams, bytes) =
            going_on.fold((0, 0), |(streams, bytes), one| (streams + 1, bytes + one.bytes));
        streams * SEAL_GOING_ON_DIVISOR < self.stretches.len() as u64
            && bytes * SEAL_GOING_ON_DIVISOR < self.read
    }

    /// Adds one record that is in no group.
    pub(crate) fn push(
        &mut self,
        position: u64,
        stream: i64,
        sequence: u64,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        self.note(position, stream, sequence, 0..bytes.len(), false)?;
        self.bytes.push(bytes.to_vec());
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Adds a record of the bytes that are pushed next; returns whether the bytes are needed.
    fn note(
        &mut self,
        position: u64,
        stream: i64,
        sequence: u64,
        range: Range<usize>,
        damaged: bool,
    ) -> Result<bool, Fault> {
        let sealed = stream == NO_STREAM || sequence < self.names.get(stream, position)?.1.next_sequence;
        if !sealed {
            let (read, bytes) = (self.read, range.len() as u64);
            let new = StreamExtent { first: read, last: read, bytes: 0 };
            let stretch = self.stretches.entry(stream).or_insert(new);
            stretch.last = read;
            stretch.bytes += bytes;
        }
        let place = self.bytes.len();
        self.records.push(WindowRecord { position, stream, sequence, place, range, sealed, damaged });
        Ok(!sealed)
    }

    /// How much was read.
    pub(crate) fn bytes(&self) -> u64 {
        self.read
    }

    // ---- chunks ----

    /// Passes the pieces of one stream to a closure, until it returns `false`.
    pub(crate) fn pieces(
        &mut self,
        each: &mut dyn FnMut(SealedPiece) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut order: Vec<&WindowRecord> = self.records.iter().filter(|record| !record.sealed).collect();
        order.sort_by_key(|record| record.stream);
        for new in order.chunk_by(|one, other| one.stream == other.stream) {
            let (key, tail) = self.names.get(new[0].stream, new[0].position)?;
            for piece in pieces_of(self.connection, key, *tail, new, &self.bytes)? {
                if !each(piece)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    // ---- the feed ----

    /// The groups, in order, some together.
    pub(crate) fn units(&mut self) -> Result<Vec<Unit>, Fault> {
        let mut units = Vec::new();
        let mut begin = 0;
        let mut bytes = 0;
        for (place, (end, group_bytes)) in self.groups.iter().enumerate() {
            bytes += group_bytes;
            let last = place + 1 == self.groups.len();
            if end - begin < FEED_ROW_RECORDS_MAX && bytes < SEAL_UNIT_BYTES && !last {
                continue;
            }
            let records = &self.records[begin..*end];
            let mut ids: Vec<(i64, u64)> = records.iter().map(|one| (one.stream, one.position)).collect();
            ids.sort_unstable();
            ids.dedup_by_key(|(stream, _)| *stream);
            let mut streams = Vec::with_capacity(ids.len());
            for (stream, position) in ids.into_iter().filter(|(stream, _)| *stream != NO_STREAM) {
                streams.push(self.names.get(stream, position)?.0.clone());
            }
            let last_position = records.last().map_or(0, |record| record.position);
            units.push(Unit { last_position, bytes, feed: feed_of(records)?, streams });
            (begin, bytes) = (*end, 0);
        }
        Ok(units)
    }

    /// The rows of the feed for all records.
    pub(crate) fn feed(&self) -> Result<Vec<NewFeed>, Fault> {
        feed_of(&self.records)
    }
}

fn feed_of(records: &[WindowRecord]) -> Result<Vec<NewFeed>, Fault> {
    let mut rows = Vec::new();
    for records in records.chunks(FEED_ROW_RECORDS_MAX) {
        let mut spans: Vec<FeedSpan> = Vec::new();
        for (record, expected) in records.iter().zip(records[0].position..) {
            if record.position != expected {
                return Err(corrupt(format!("no record at position {expected}")));
            }
            match spans.last_mut() {
                Some(last)
                    if last.stream == record.stream
                        && (record.stream == NO_STREAM
                            || last.first_sequence + last.count == record.sequence) =>
                {
                    last.count += 1;
                }
                _ => {
                    spans.push(FeedSpan { stream: record.stream, first_sequence: record.sequence, count: 1 })
                }
            }
        }
        let (first, last) = (records[0].position, records[records.len() - 1].position);
        rows.push(NewFeed { first, last, spans: packing::feed_spans(&spans) });
    }
    Ok(rows)
}

/// The small chunks at the end of a stream that are written again with what follows, newest first: all of
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

/// The bytes of new records, which must follow the tail of their stream without a gap.
fn contiguous_bytes(key: &StreamKey, tail: &StreamTail, new: &[&WindowRecord]) -> Result<u64, Fault> {
    let mut bytes = 0;
    for (record, expected) in new.iter().zip(tail.next_sequence..) {
        if record.sequence != expected {
            let (sequence, position) = (record.sequence, record.position);
            return Err(corrupt(format!(
                "stream {key} has sequence {sequence} at position {position}, expected sequence {expected}"
            )));
        }
        bytes += record.range.len() as u64;
    }
    Ok(bytes)
}

/// The chunks that are written again together with what follows, newest first, and their rows.
fn taken_chunks(
    connection: &Connection,
    key: &StreamKey,
    tail: &StreamTail,
    new_bytes: u64,
) -> Result<(Vec<TakenChunk>, Vec<i64>), Fault> {
    let context = format!("sealing records of stream {key}");
    let mut replaced = absorbed(connection, tail.id, new_bytes).context(&context)?;
    let mut taken: Vec<TakenChunk> = Vec::with_capacity(replaced.len());
    for chunk in &replaced {
        let read = layout::chunk_at(connection, tail, *chunk, |chunk| {
            let records = chunk.records().map(|(_, position, bytes)| (position, bytes.to_vec()));
            let records = records.collect();
            Ok(TakenChunk { first_sequence: chunk.first_sequence, start: chunk.start, records })
        });
        match read {
            Ok(chunk) => taken.push(chunk),
            // A damaged chunk is not rewritten: it would then count as whole.
            Err(fault) if fault.kind == FaultKind::Corrupt => break,
            Err(fault) => return Err(fault),
        }
    }
    replaced.truncate(taken.len());
    Ok((taken, replaced))
}

/// Packs the new records of one stream into chunks, step by step.
fn pieces_of(
    connection: &Connection,
    key: &StreamKey,
    tail: StreamTail,
    new: &[&WindowRecord],
    joined: &[Vec<u8>],
) -> Result<Vec<SealedPiece>, Fault> {
    let new_bytes = contiguous_bytes(key, &tail, new)?;
    let (taken, replaced) = taken_chunks(connection, key, &tail, new_bytes)?;
    let (first, start) =
        taken.last().map_or((tail.next_sequence, tail.head), |old| (old.first_sequence, old.start));
    let old = taken.iter().rev().flat_map(|old| &old.records);
    let old: Vec<(u64, &[u8])> = old.map(|(position, bytes)| (*position, &bytes[..])).collect();
    if first + old.len() as u64 != tail.next_sequence {
        let next = tail.next_sequence;
        return Err(corrupt(format!("stream {key} has a gap in its sealed records before {next}")));
    }
    let added = new.iter().map(|record| (record.position, &joined[record.place][record.range.clone()]));
    let first_new = old.len();
    let is_damaged = |place: usize| place >= first_new && new[place - first_new].damaged;
    let records: Vec<(u64, &[u8])> = old.into_iter().chain(added).collect();

    let mut pieces = Vec::new();
    let fresh = |before: StreamTail, replaced: Vec<i64>| SealedPiece {
        key: key.clone(),
        before,
        replaced,
        chunks: Vec::new(),
        after: before,
        new: Totals::default(),
    };
    let mut piece = fresh(tail, replaced);
    let (mut begin, mut chunk_start, mut chunk_bytes) = (0, start, 0);
    // Sealed records are not hashed again: the chain continues from its value. A check of the whole store detects old
    // records that were altered.
    let mut head = tail.head;
    for place in 0..=records.len() {
        let bytes = records.get(place).map_or(0, |(_, bytes)| bytes.len());
        let ends = records.get(place).is_none_or(|(position, _)| {
            let far = u32::try_from(position - records[begin].0).is_err();
            chunk_bytes + bytes > CHUNK_BYTES_MAX || far || is_damaged(place) != is_damaged(begin)
        });
        if place > begin && ends {
            let first_sequence = first + begin as u64;
            let chunk = NewChunk {
                stream: tail.id,
                first_sequence,
                start: chunk_start,
                records: &records[begin..place],
                damaged: is_damaged(begin),
            };
            piece.chunks.push(chunk.pack());
            let reached = || records[..place].iter().fold(start, |head, (_, bytes)| head.then(bytes));
            chunk_start = if place < first_new { reached() } else { head };
            (begin, chunk_bytes) = (place, 0);
            // Replaced chunks are in one piece with everything that replaces them.
            if place > first_new {
                piece.after.next_sequence = first + place as u64;
                piece.after.head = head;
                piece.after.last_position = records[place - 1].0;
                let next = fresh(piece.after, Vec::new());
                pieces.push(std::mem::replace(&mut piece, next));
            }
        }
        if let Some((_, bytes)) = records.get(place) {
            chunk_bytes += bytes.len();
            if place >= first_new {
                head = head.then(bytes);
                piece.new.more(Totals::one(bytes));
            }
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window in which streams start one after the other, and each continues for so long.
    fn window(connection: &Connection, streams: u64, each: u64, for_long: u64) -> Window<'_> {
        let mut window = Window::new(connection);
        window.read = streams * each;
        for stream in 0..streams {
            let first = stream * each;
            let last = (first + for_long).min(window.read - 1);
            window.stretches.insert(stream.cast_signed() + 1, StreamExtent { first, last, bytes: each });
        }
        window
    }

    #[test]
    fn a_window_of_streams_that_have_ended_is_long_enough_and_one_of_streams_that_go_on_is_not() {
        let connection = Connection::open_in_memory().unwrap();
        // The number of streams, and the length of each as a multiple of its bytes.
        for (streams, for_long, ended) in
            [(1000, 0, true), (1000, 100, true), (1000, 130, false), (100, 100, false), (10_000, 1000, true)]
        {
            let window = window(&connection, streams, 3_000, for_long * 3_000);
            assert_eq!(window.nearly_all_have_ended(), ended, "{streams} streams, {for_long}");
        }
        assert!(!Window::new(&connection).nearly_all_have_ended());
    }

    #[test]
    fn few_streams_that_go_on_and_have_much_keep_a_window_open() {
        let connection = Connection::open_in_memory().unwrap();
        let mut window = window(&connection, 1000, 3_000, 0);
        assert!(window.nearly_all_have_ended());
        window.read *= 2;
        let (first, last, bytes) = (0, window.read - 1, window.read / 2);
        window.stretches.insert(2000, StreamExtent { first, last, bytes });
        assert!(!window.nearly_all_have_ended());
    }
}
