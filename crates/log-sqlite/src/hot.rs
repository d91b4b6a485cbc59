//! The index of the hot part in memory: which streams have records there, in which groups, and where those streams end.
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
    /// Only streams with records in the hot part. Each lies outside the map, which then takes little however many
    /// there are, and while it grows.
    streams: QuickMap<StreamKey, Box<HotStream>>,
    /// Oldest first.
    groups: VecDeque<HotGroup>,
    pub(crate) ends: StoreEnd,
    /// Of all groups.
    hot: Totals,
    /// Of all chunks.
    sealed: Totals,
    /// What is in a chunk and in its group still.
    both: Totals,
    /// Streams that had damaged records in the hot part when it was read, with each stretch of them in order.
    damaged: HashMap<StreamKey, Vec<RangeInclusive<u64>>>,
}

struct HotStream {
    known: KnownTail,
    /// Without a gap up to the tail.
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

/// What was removed from one stream.
pub(crate) struct RemovedRecords {
    pub(crate) key: StreamKey,
    /// What it is now.
    pub(crate) known: KnownTail,
    /// From groups, by the first position of each.
    pub(crate) hot: Vec<(u64, Totals)>,
    /// From chunks.
    pub(crate) sealed: Totals,
    /// From both.
    pub(crate) both: Totals,
}

/// How much is hot, and for how long the oldest has been.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) totals: Totals,
    pub(crate) oldest: Option<Instant>,
    /// Of the oldest group; beyond the last when nothing is hot.
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

    /// The same, with where the records of the stream are.
    pub(crate) fn known_with_parts(&self, key: &StreamKey) -> Option<(KnownTail, Vec<Part>)> {
        let inner = self.lock();
        let stream = inner.streams.get(key)?;
        Some((stream.known, stream.parts.from(0, usize::MAX)))
    }

    /// Where the records of a stream from a sequence on are, at most `max` places.
    pub(crate) fn parts(&self, key: &StreamKey, from: u64, max: usize) -> Vec<Part> {
        let inner = self.lock();
        let Some(stream) = inner.streams.get(key) else { return Vec::new() };
        stream.parts.from(from, max)
    }

    /// Why nothing may be appended to a stream or cut from it, if it has damaged records. Erased it may be.
    pub(crate) fn refusal(&self, key: &StreamKey) -> Option<Fault> {
        let inner = self.lock();
        let ranges = inner.damaged.get(key)?;
        let (first, last) = (ranges.first()?.start(), ranges.last()?.end());
        Some(Fault::damaged(damage(key, *first..=*last)))
    }

    /// Every damaged stretch that was found when the hot part was read.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let inner = self.lock();
        let streams = inner.damaged.iter();
        streams.flat_map(|(key, ranges)| ranges.iter().map(|range| damage(key, range.clone()))).collect()
    }

    pub(crate) fn ends(&self) -> StoreEnd {
        self.lock().ends
    }

    /// How much is hot and how much is sealed. What is both is hot.
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

    /// A group landed.
    pub(crate) fn landed(&self, group: &CommittedGroup<'_>, ends: StoreEnd) {
        let mut inner = self.lock();
        inner.ends = ends;
        inner.land(group);
    }

    /// So much more is in chunks, and in its groups still.
    pub(crate) fn sealed(&self, more: Totals) {
        let mut inner = self.lock();
        inner.sealed.more(more);
        inner.both.more(more);
    }

    /// Groups up to a position, with records of these streams and all of them sealed, were removed.
    pub(crate) fn taken_away(&self, last_position: u64, streams: &[StreamKey]) {
        let mut inner = self.lock();
        while let Some(gone) = inner.groups.pop_front_if(|group| group.last_position <= last_position) {
            inner.hot.less(gone.totals);
            inner.both.less(gone.totals);
        }
        for key in streams {
            if let Some(stream) = inner.streams.get_mut(key) {
                stream.parts.take_away(last_position);
                if stream.parts.is_empty() {
                    inner.streams.remove(key);
                }
            }
        }
    }

    /// A stream was cut or erased.
    pub(crate) fn cut(&self, taken: &RemovedRecords) {
        let RemovedRecords { key, known, hot, sealed, both } = taken;
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

    /// This record is damaged, and in no chunk yet.
    pub(crate) fn is_damaged(&mut self, key: &StreamKey, sequence: u64) {
        let ranges = self.damaged.entry(key.clone()).or_default();
        match ranges.last_mut() {
            Some(range) if range.end() + 1 == sequence => *range = *range.start()..=sequence,
            _ => ranges.push(sequence..=sequence),
        }
    }

    /// Of a group that has landed, so much is in chunks too.
    pub(crate) fn is_both(&mut self, totals: Totals) {
        self.both.more(totals);
    }

    pub(crate) fn land(&mut self, group: &CommittedGroup<'_>) {
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
