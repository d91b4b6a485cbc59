//! What is known of the hot part without looking at the disk: which streams have records there, in which
//! groups, and where those streams end.
//!
//! The writer changes it, after a commit is durable and before anybody is told of it. A reader asks it
//! *before* it takes its snapshot of the database, never after: then whatever it was told is in the
//! snapshot, either still hot or sealed by now, and the snapshot itself says which. It must not know SQL.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use recount_log::StreamKey;
use tokio::time::Instant;

use crate::layout::{Ends, StreamTail, Totals};

/// The index of the hot part. One for the writer and all readers.
#[derive(Default)]
pub(crate) struct Hot(Mutex<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    /// Only streams with records in the hot part.
    streams: HashMap<StreamKey, Stream>,
    /// Oldest first.
    groups: VecDeque<HotGroup>,
    pub(crate) ends: Ends,
    hot: Totals,
    sealed: Totals,
}

struct Stream {
    tail: StreamTail,
    /// In order of sequence, without a gap up to the tail.
    parts: VecDeque<Part>,
}

/// Records of one stream that follow each other in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first_sequence: u64,
    pub(crate) count: u64,
    /// The group's first position.
    pub(crate) group: u64,
}

struct HotGroup {
    first_position: u64,
    last_position: u64,
    totals: Totals,
    since: Instant,
}

/// One group that was committed, for the index.
pub(crate) struct Landed {
    pub(crate) first_position: u64,
    pub(crate) last_position: u64,
    pub(crate) totals: Totals,
    pub(crate) since: Instant,
    /// Stream by stream in order of position: first sequence and count.
    pub(crate) spans: Vec<(StreamKey, u64, u64)>,
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

impl Part {
    fn end(&self) -> u64 {
        self.first_sequence + self.count
    }
}

impl Hot {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nothing panics while it holds the index of the hot part")
    }

    // ---- what anybody asks ----

    pub(crate) fn tail(&self, key: &StreamKey) -> Option<StreamTail> {
        self.lock().streams.get(key).map(|stream| stream.tail)
    }

    /// Where the records of a stream from a sequence on are, at most `max` places.
    pub(crate) fn parts(&self, key: &StreamKey, from: u64, max: usize) -> Vec<Part> {
        let inner = self.lock();
        let Some(stream) = inner.streams.get(key) else { return Vec::new() };
        let first = stream.parts.partition_point(|part| part.end() <= from);
        stream.parts.range(first..).take(max).copied().collect()
    }

    pub(crate) fn ends(&self) -> Ends {
        self.lock().ends
    }

    /// How much is hot and how much is sealed.
    pub(crate) fn totals(&self) -> (Totals, Totals) {
        let inner = self.lock();
        (inner.hot, inner.sealed)
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

    // ---- what the writer tells, after each commit ----

    /// Forgets everything for what was read anew.
    pub(crate) fn replace(&self, inner: Inner) {
        *self.lock() = inner;
    }

    /// A group landed; `tails` are those of the streams with records in it.
    pub(crate) fn landed(
        &self,
        group: Landed,
        ends: Ends,
        tails: impl Iterator<Item = (StreamKey, StreamTail)>,
    ) {
        let mut inner = self.lock();
        inner.ends = ends;
        inner.land(group, tails);
    }

    /// Groups up to a position were sealed, with records of these streams.
    pub(crate) fn sealed(&self, last_position: u64, moved: Totals, streams: &[StreamKey]) {
        let mut inner = self.lock();
        while inner.groups.front().is_some_and(|group| group.last_position <= last_position) {
            inner.groups.pop_front();
        }
        inner.hot.less(moved);
        inner.sealed.more(moved);
        for key in streams {
            if let Some(stream) = inner.streams.get_mut(key) {
                while stream.parts.front().is_some_and(|part| part.group <= last_position) {
                    stream.parts.pop_front();
                }
                if stream.parts.is_empty() {
                    inner.streams.remove(key);
                }
            }
        }
    }

    /// A stream was cut or erased: `tail` is what it is now, `hot` and `sealed` what was taken away.
    pub(crate) fn cut(&self, key: &StreamKey, tail: StreamTail, taken: &[(u64, Totals)], sealed: Totals) {
        let mut inner = self.lock();
        inner.sealed.less(sealed);
        for (first_position, totals) in taken {
            inner.hot.less(*totals);
            let place = inner.groups.binary_search_by_key(first_position, |group| group.first_position);
            if let Ok(place) = place {
                inner.groups[place].totals.less(*totals);
            }
        }
        let Some(stream) = inner.streams.get_mut(key) else { return };
        stream.tail = tail;
        stream.parts.retain(|part| part.end() > tail.first_sequence);
        if let Some(first) = stream.parts.front_mut()
            && first.first_sequence < tail.first_sequence
        {
            first.count = first.end() - tail.first_sequence;
            first.first_sequence = tail.first_sequence;
        }
        if stream.parts.is_empty() {
            inner.streams.remove(key);
        }
    }
}

impl Inner {
    pub(crate) fn new(ends: Ends, sealed: Totals) -> Self {
        Inner { ends, sealed, ..Inner::default() }
    }

    pub(crate) fn land(&mut self, group: Landed, tails: impl Iterator<Item = (StreamKey, StreamTail)>) {
        for (key, tail) in tails {
            let stream = self.streams.entry(key);
            stream.or_insert_with(|| Stream { tail, parts: VecDeque::new() }).tail = tail;
        }
        for (key, first_sequence, count) in group.spans {
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            stream.parts.push_back(Part { first_sequence, count, group: group.first_position });
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
