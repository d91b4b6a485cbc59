//! Reads the feed: records of all streams in order of position, across the border between sealed and hot.
//!
//! It must not know how a page of one stream is filled. Entry point: [`feed`].

use std::collections::HashMap;

use bytes::Bytes;
use recount_log::{Damage, Fault, FeedRecord, Meter, ReadBound, Record, StreamKey};
use rusqlite::Connection;

use super::snapshot;
use crate::fault::{FaultContext as _, corrupt, with_damage};
use crate::layout::{self, FeedRow, Names, StoredGroup, StreamTail};
use crate::limits::FEED_CHUNKS_BYTES_MAX;
use crate::packing::{FeedSpan, Slot};

/// Records of all streams, in order of position.
pub(crate) fn feed(connection: &Connection, from: u64, bound: ReadBound) -> Result<Vec<FeedRecord>, Fault> {
    let snapshot = snapshot(connection)?;
    let from = from.max(1);
    let first_hot = layout::first_hot(&snapshot).context("finding the start of the hot part")?;
    let mut feed = Feed {
        next: from,
        meter: bound.meter(),
        full: false,
        names: Names::new(&snapshot),
        chunks: ChunkCache::default(),
        records: Vec::new(),
    };
    match feed.fill(&snapshot, first_hot) {
        // Records before damage are returned; a read that begins at the damage fails.
        Err(fault) if feed.records.is_empty() => Err(feed.with_damage(&snapshot, first_hot, fault)),
        _ => Ok(feed.records),
    }
}

/// A page of the feed that is being filled.
struct Feed<'c> {
    /// The next expected position.
    next: u64,
    meter: Meter,
    full: bool,
    names: Names<'c>,
    chunks: ChunkCache,
    records: Vec<FeedRecord>,
}

impl Feed<'_> {
    fn fill(&mut self, connection: &Connection, first_hot: Option<u64>) -> Result<(), Fault> {
        if first_hot.is_none_or(|first| self.next < first) {
            self.sealed(connection)?;
        }
        let Some(first_hot) = first_hot else { return Ok(()) };
        if !self.full && self.next < first_hot {
            return Err(self.missing(first_hot));
        }
        self.hot(connection)
    }

    /// Adds the range to a fault of damage, if it is not known yet: up to where the feed continues.
    fn with_damage(&self, connection: &Connection, first_hot: Option<u64>, fault: Fault) -> Fault {
        if fault.damage.as_ref().is_some_and(|damage| damage.positions.is_some()) {
            return fault;
        }
        let next = match layout::feed_after(connection, self.next) {
            Ok(Some(next)) => Some(next),
            Ok(None) | Err(_) => first_hot.filter(|first| *first > self.next),
        };
        let last = next.map(|next| next - 1).or_else(|| layout::last_position(connection).ok());
        let positions = last.filter(|last| *last >= self.next).map(|last| self.next..=last);
        with_damage(fault, || Damage { positions, ..Damage::default() })
    }

    /// Adds the stream to damage of sealed records of one span.
    fn with_span_damage(
        &self,
        connection: &Connection,
        position: u64,
        span: FeedSpan,
        done: u64,
        fault: Fault,
    ) -> Fault {
        let sequence = span.first_sequence + done;
        let remaining = span.count - done;
        let stream = self.names.name(span.stream);
        let end = match layout::chunk_after(connection, span.stream, sequence) {
            Ok(Some(end)) if stream.is_some() => remaining.min(end - sequence),
            _ => remaining,
        };
        let fault = Fault { damage: None, ..fault };
        with_damage(fault, || Damage {
            sequences: stream.is_some().then_some(sequence..=sequence + end - 1),
            stream,
            positions: Some(position..=position + end - 1),
        })
    }

    fn sealed(&mut self, connection: &Connection) -> Result<(), Fault> {
        layout::feed_from(connection, self.next, &mut |FeedRow { first, last, spans }| {
            if last < self.next {
                return Ok(true);
            }
            if first > self.next {
                return Err(self.missing(first));
            }
            let mut position = first;
            for span in spans {
                for done in 0..span.count {
                    if position >= self.next {
                        let sequence = span.first_sequence + done;
                        let taken = self.sealed_one(connection, position, span.stream, sequence);
                        let taken = taken.map_err(|fault| {
                            self.with_span_damage(connection, position, span, done, fault)
                        })?;
                        if !taken {
                            self.full = true;
                            return Ok(false);
                        }
                    }
                    position += 1;
                }
            }
            self.next = position;
            Ok(true)
        })
    }

    /// Returns `false` when the page is full.
    fn sealed_one(
        &mut self,
        connection: &Connection,
        position: u64,
        stream: i64,
        sequence: u64,
    ) -> Result<bool, Fault> {
        if stream == crate::packing::NO_STREAM {
            return Ok(true);
        }
        let (key, tail) = self.names.get(stream, position)?;
        if sequence < tail.first_sequence {
            return Ok(true);
        }
        let (key, tail) = (key.clone(), *tail);
        let found = self.chunks.find(connection, &tail, sequence)?;
        let Some(bytes) = found.filter(|(there, _)| *there == position).map(|(_, bytes)| bytes) else {
            return Err(corrupt(format!(
                "stream {key} has no sequence {sequence} for position {position}; check the store with `recount verify --data`"
            )));
        };
        Ok(self.take(key, position, sequence, bytes))
    }

    fn hot(&mut self, connection: &Connection) -> Result<(), Fault> {
        if self.full {
            return Ok(());
        }
        layout::groups_from(connection, self.next, &mut |group| {
            if group.last_position() < self.next {
                return Ok(true);
            }
            if group.first_position > self.next {
                return Err(self.missing(group.first_position));
            }
            let sound = group.check();
            for (position, slot, bytes) in group.records() {
                if position < self.next {
                    continue;
                }
                let sealed = self.names.get(slot.stream, position)?.1.next_sequence;
                if let (Err(_), true) = (&sound, slot.sequence < sealed) {
                    // It is in a chunk too, and already read there.
                    if !self.sealed_one(connection, position, slot.stream, slot.sequence)? {
                        return Ok(false);
                    }
                    continue;
                }
                if let Err(fault) = &sound {
                    return Err(self.with_slot_damage(&group, position, slot, fault.clone()));
                }
                let key = self.names.get(slot.stream, position)?.0.clone();
                if !self.take(key, position, slot.sequence, Bytes::copy_from_slice(bytes)) {
                    return Ok(false);
                }
            }
            self.next = group.last_position() + 1;
            Ok(true)
        })
    }

    /// Adds the stream to damage of hot records: those of one stream that follow each other.
    fn with_slot_damage(
        &mut self,
        group: &StoredGroup<'_>,
        position: u64,
        slot: &Slot,
        fault: Fault,
    ) -> Fault {
        let following = (position..).zip(slot.sequence..);
        let mut records = group.records().skip_while(|(there, ..)| *there < position).zip(following);
        let same = |((there, other, _), (position, sequence)): &((u64, &Slot, &[u8]), (u64, u64))| {
            there == position && other.stream == slot.stream && other.sequence == *sequence
        };
        let more = records.by_ref().take_while(same).count().saturating_sub(1) as u64;
        let stream = self.names.get(slot.stream, position).ok().map(|(key, _)| key.clone());
        with_damage(fault, || Damage {
            sequences: stream.is_some().then_some(slot.sequence..=slot.sequence + more),
            stream,
            positions: Some(position..=position + more),
        })
    }

    fn take(&mut self, stream: StreamKey, position: u64, sequence: u64, bytes: Bytes) -> bool {
        if !self.meter.admits(bytes.len()) {
            return false;
        }
        self.records.push(FeedRecord { stream, record: Record { position, sequence, bytes } });
        true
    }

    fn missing(&self, found: u64) -> Fault {
        let (first, last) = (self.next, found.saturating_sub(1));
        corrupt(format!(
            "the records at positions {first} to {last} are missing; check the store with `recount verify --data`"
        ))
    }
}

/// The chunks that one page of the feed needs again: the last one of each stream.
#[derive(Default)]
struct ChunkCache {
    chunks: HashMap<i64, CachedChunk>,
    bytes: usize,
}

struct CachedChunk {
    first_sequence: u64,
    records: Vec<(u64, Bytes)>,
}

impl ChunkCache {
    fn find(
        &mut self,
        connection: &Connection,
        tail: &StreamTail,
        sequence: u64,
    ) -> Result<Option<(u64, Bytes)>, Fault> {
        let stream = tail.id;
        if let Some(found) = self.chunks.get(&stream).and_then(|kept| kept.get(sequence)) {
            return Ok(Some(found));
        }
        let mut found = None;
        layout::chunks_from(connection, tail, sequence, &mut |chunk| {
            // Only records from here on are needed, because the feed goes forward.
            let records: Vec<(u64, Bytes)> = chunk
                .records()
                .filter(|(there, ..)| *there >= sequence)
                .map(|(_, position, bytes)| (position, Bytes::copy_from_slice(bytes)))
                .collect();
            if chunk.first_sequence <= sequence {
                found = Some(CachedChunk { first_sequence: sequence, records });
            }
            Ok(false)
        })?;
        let Some(chunk) = found else { return Ok(None) };
        let bytes: usize = chunk.records.iter().map(|(_, bytes)| bytes.len()).sum();
        if self.bytes + bytes > FEED_CHUNKS_BYTES_MAX {
            self.chunks.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        let record = chunk.get(sequence);
        self.chunks.insert(stream, chunk);
        Ok(record)
    }
}

impl CachedChunk {
    fn get(&self, sequence: u64) -> Option<(u64, Bytes)> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        self.records.get(place).cloned()
    }
}
