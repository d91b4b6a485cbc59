//! The in-memory index of the hot part: which streams have records there, in which groups, and where those streams end.
//!
//! The writer changes it after a commit is durable and before any observer or client learns of it. A reader reads it
//! *before* it takes its snapshot of the database, never after: then everything in the index is in the
//! snapshot, either still hot or sealed by now, and the snapshot shows which. It must not know SQL.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard};

use recount_log::{Damage, Fault, StreamKey};
use tokio::time::Instant;

use crate::layout::{KnownTail, StoreEnd, Totals};
pub(crate) use crate::parts::Part;
use crate::parts::Parts;
use crate::quick::QuickMap;

/// The index of the hot part. One for the writer and all readers.
#[derive(Default)]
pub(crate) struct Hot(Mutex<HotIndex>);

#[derive(Default)]
pub(crate) struct HotIndex {
    /// Only streams with records in the hot part. They are boxed to keep the map small, also while it grows.
    streams: QuickMap<StreamKey, Box<HotStream>>,
    /// Oldest first.
    groups: VecDeque<HotGroup>,
    pub(crate) ends: StoreEnd,
    /// The totals of all groups.
    hot: Totals,
    /// The totals of all chunks.
    sealed: Totals,
    /// Records that are in a chunk and also still in their group.
    both: Totals,
    /// Streams with damaged records in the hot part when it was read, with the ranges in order.
    damaged: HashMap<StreamKey, Vec<RangeInclusive<u64>>>,
}

struct HotStream {
    known: KnownTail,
    /// Contiguous up to the tail.
    parts: Parts,
}

struct HotGroup {
    first_position: u64,
    last_position: u64,
    totals: Totals,
    since: Instant,
}

/// One group that was committed, for the index.
pub(crate) struct CommittedGroup<'s> {
    pub(crate) first_position: u64,
    pub(crate) last_position: u64,
    pub(crate) totals: Totals,
    pub(crate) since: Instant,
    /// In order of position.
    pub(crate) spans: &'s [StreamSpan],
}

/// Records of one append for one stream, and the state of the stream after them.
#[derive(Debug, Clone)]
pub(crate) struct StreamSpan {
    pub(crate) key: StreamKey,
    pub(crate) first_sequence: u64,
    pub(crate) count: u64,
    pub(crate) known: KnownTail,
}

/// The records removed from one stream.
pub(crate) struct RemovedRecords {
    pub(crate) key: StreamKey,
    /// The tail of the stream after the removal.
    pub(crate) known: KnownTail,
    /// Removed from groups, by the first position of each.
    pub(crate) hot: Vec<(u64, Totals)>,
    /// Removed from chunks.
    pub(crate) sealed: Totals,
    /// Removed from both.
    pub(crate) both: Totals,
}

/// How much is hot, and for how long the oldest has been.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) totals: Totals,
    pub(crate) oldest: Option<Instant>,
    /// The first position of the oldest group; after the last position when nothing is hot.
    pub(crate) first_position: u64,
    pub(crate) last_position: u64,
}

impl Hot {
    fn lock(&self) -> MutexGuard<'_, HotIndex> {
        self.0.lock().expect("nothing panics while it holds the index of the hot part")
    }

    // ---- for readers ----

    pub(crate) fn known(&self, key: &StreamKey) -> Option<KnownTail> {
        self.lock().streams.get(key).map(|stream| stream.known)
    }

    /// The tail of a stream with the parts of its records.
    pub(crate) fn known_with_parts(&self, key: &StreamKey) -> Option<(KnownTail, Vec<Part>)> {
        let inner = self.lock();
        let stream = inner.streams.get(key)?;
        Some((stream.known, stream.parts.from(0, usize::MAX)))
    }

    /// The parts of a stream from a sequence on, at most `max`.
    pub(crate) fn parts(&self, key: &StreamKey, from: u64, max: usize) -> Vec<Part> {
        let inner = self.lock();
        let Some(stream) = inner.streams.get(key) else { return Vec::new() };
        stream.parts.from(from, max)
    }

    /// The fault that refuses appends to a stream with damaged records and cuts of it. It may be erased.
    pub(crate) fn refusal(&self, key: &StreamKey) -> Option<Fault> {
        let inner = self.lock();
        let ranges = inner.damaged.get(key)?;
        let (first, last) = (ranges.first()?.start(), ranges.last()?.end());
        Some(Fault::damaged(damage(key, *first..=*last)))
    }

    /// Every damaged range that was found when the hot part was read.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let inner = self.lock();
        let streams = inner.damaged.iter();
        streams.flat_map(|(key, ranges)| ranges.iter().map(|range| damage(key, range.clone()))).collect()
    }

    pub(crate) fn ends(&self) -> StoreEnd {
        self.lock().ends
    }

    /// How much is hot and how much is sealed. Records in both count as hot.
    pub(crate) fn totals(&self) -> (Totals, Totals) {
        let inner = self.lock();
        let mut sealed = inner.sealed;
        sealed.less(inner.both);
        (inner.hot, sealed)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let inner = self.lock();
        let oldest = inner.groups.front();
        let last_position = inner.ends.last_position;
        Backlog {
            totals: inner.hot,
            oldest: oldest.map(|group| group.since),
            first_position: oldest.map_or(last_position + 1, |group| group.first_position),
            last_position,
        }
    }

    // ---- called by the writer after each commit ----

    /// Replaces the whole index with one that was read from the disk.
    pub(crate) fn replace(&self, inner: HotIndex) {
        *self.lock() = inner;
    }

    /// Adds a committed group.
    pub(crate) fn add_group(&self, group: &CommittedGroup<'_>, ends: StoreEnd) {
        let mut inner = self.lock();
        inner.ends = ends;
        inner.add_group(group);
    }

    /// Adds records that are in chunks now, and also still in their groups.
    pub(crate) fn add_sealed(&self, more: Totals) {
        let mut inner = self.lock();
        inner.sealed.more(more);
        inner.both.more(more);
    }

    /// Removes the groups up to a position, which have records of these streams, all sealed.
    pub(crate) fn remove_groups(&self, last_position: u64, streams: &[StreamKey]) {
        let mut inner = self.lock();
        while let Some(removed) = inner.groups.pop_front_if(|group| group.last_position <= last_position) {
            inner.hot.less(removed.totals);
            inner.both.less(removed.totals);
        }
        for key in streams {
            if let Some(stream) = inner.streams.get_mut(key) {
                stream.parts.remove_groups(last_position);
                if stream.parts.is_empty() {
                    inner.streams.remove(key);
                }
            }
        }
    }

    /// Removes the records of a cut or erased stream.
    pub(crate) fn remove_records(&self, removed_records: &RemovedRecords) {
        let RemovedRecords { key, known, hot, sealed, both } = removed_records;
        let known = *known;
        let mut inner = self.lock();
        inner.sealed.less(*sealed);
        inner.both.less(*both);
        for (first_position, totals) in hot {
            inner.hot.less(*totals);
            let place = inner.groups.binary_search_by_key(first_position, |group| group.first_position);
            if let Ok(place) = place {
                inner.groups[place].totals.less(*totals);
            }
        }
        if known.erased {
            inner.damaged.remove(key);
        }
        let Some(stream) = inner.streams.get_mut(key) else { return };
        stream.known = known;
        stream.parts.cut(known.first_sequence);
        if stream.parts.is_empty() {
            inner.streams.remove(key);
        }
    }
}

fn damage(key: &StreamKey, range: RangeInclusive<u64>) -> Damage {
    Damage { stream: Some(key.clone()), sequences: Some(range), positions: None }
}

impl HotIndex {
    pub(crate) fn new(sealed: Totals) -> Self {
        HotIndex { sealed, ..HotIndex::default() }
    }

    /// Marks a record that is damaged and not in a chunk.
    pub(crate) fn mark_damaged(&mut self, key: &StreamKey, sequence: u64) {
        let ranges = self.damaged.entry(key.clone()).or_default();
        match ranges.last_mut() {
            Some(range) if range.end() + 1 == sequence => *range = *range.start()..=sequence,
            _ => ranges.push(sequence..=sequence),
        }
    }

    /// Counts records of a group that are also in chunks.
    pub(crate) fn add_both(&mut self, totals: Totals) {
        self.both.more(totals);
    }

    pub(crate) fn add_group(&mut self, group: &CommittedGroup<'_>) {
        for span in group.spans {
            let part =
                Part { first_sequence: span.first_sequence, count: span.count, group: group.first_position };
            match self.streams.get_mut(&span.key) {
                Some(stream) => {
                    stream.known = span.known;
                    stream.parts.push(part);
                }
                None => {
                    let stream = HotStream { known: span.known, parts: Parts::of(part) };
                    self.streams.insert(span.key.clone(), Box::new(stream));
                }
            }
        }
        self.hot.more(group.totals);
        self.groups.push_back(HotGroup {
            first_position: group.first_position,
            last_position: group.last_position,
            totals: group.totals,
            since: group.since,
        });
    }
}
