//! The values that a store takes and gives: appends, records, rows, tails and figures.
//!
//! They must not know how a call is made or how it fails. Begin with [`Append`] and [`Record`].

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::chain::ChainValue;

/// The name of one stream. Opaque here; cheap to clone.
pub type StreamKey = Arc<str>;

/// One atomic change. Empty parts are fine; an append with nothing in it is a durable no-op.
#[derive(Debug, Clone, Default)]
pub struct Append {
    /// At most one entry a stream.
    pub streams: Vec<StreamAppend>,
    /// At most one entry a row.
    pub rows: Vec<RowPut>,
    /// At most one entry a stream; the stream may get records in the same append.
    pub cuts: Vec<Cut>,
    /// Streams that are erased down to a tombstone. None of them may get records, or be cut, in the
    /// same append. A missing or erased one is ignored.
    pub erased: Vec<StreamKey>,
    /// Whether this is part of taking things away although it only changes rows or adds records, and so may use the
    /// space that a store reserves for that. See [`Append::may_use_reserve`].
    pub frees_space: bool,
}

impl Append {
    /// Whether this may be written with the space that a store keeps for what takes things away, so that a full disk
    /// can be emptied.
    pub fn may_use_reserve(&self) -> bool {
        self.frees_space || !self.cuts.is_empty() || !self.erased.is_empty()
    }
}

/// Takes the oldest records of a stream away: they and their positions are gone, the rest stays as it
/// is, and the chain value at the cut is kept, so that what is left can still be verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    pub stream: StreamKey,
    /// The first sequence that stays. At most where the stream ended before this append, else the append
    /// is refused with the real tail; what an earlier cut took is not taken again.
    pub keep_from: u64,
}

/// Records for the end of one stream. They may be any bytes, none included.
#[derive(Debug, Clone)]
pub struct StreamAppend {
    pub stream: StreamKey,
    /// The sequence the first record will get; 0 creates the stream.
    pub expected_tail: u64,
    /// Never an empty list.
    pub records: Vec<Bytes>,
}

/// A change of one row. Rows live in named spaces and are ordered by key within one.
#[derive(Debug, Clone)]
pub struct RowPut {
    pub space: Arc<str>,
    pub key: Arc<str>,
    pub guard: Guard,
    /// `None` deletes the row.
    pub value: Option<Bytes>,
}

/// What must hold of a row for the whole append to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Replaces any existing row.
    Any,
    /// The row must not exist.
    Absent,
    /// The row must exist in exactly this version.
    Version(u64),
}

/// The receipt of an append, stream by stream in the order they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub streams: Vec<Landed>,
}

/// Where the records of one stream landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    pub first_sequence: u64,
    pub last_sequence: u64,
    /// Position of the first record; the others follow without a gap.
    pub first_position: u64,
}

/// One stored record with both of its places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub position: u64,
    pub sequence: u64,
    pub bytes: Bytes,
}

/// One record of the cross-stream feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedRecord {
    pub stream: StreamKey,
    pub record: Record,
}

/// Writes a record into a page of one piece, in the caller's format: its sequence, its bytes, and the page so far.
/// Called on a thread of the store, so that the record is copied once.
pub type PageWriter = Box<dyn Fn(u64, &[u8], &mut BytesMut) + Send + Sync>;

/// Records of one stream that were written one after the other by a [`PageWriter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage {
    pub bytes: Bytes,
    /// The sequence of the first record.
    pub first: u64,
    /// The sequence of the last.
    pub last: u64,
}

/// Limits of one read. At least one record is returned if there is one; it ends before the record
/// that would exceed either bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBound {
    pub count: usize,
    pub bytes: usize,
}

impl ReadBound {
    /// Starts to measure one read.
    pub fn meter(self) -> Meter {
        Meter { bound: self, count: 0, bytes: 0 }
    }
}

/// Measures one read against its [`ReadBound`], so that every store ends a page at the same record.
#[derive(Debug, Clone)]
pub struct Meter {
    bound: ReadBound,
    count: usize,
    bytes: usize,
}

impl Meter {
    /// Whether a record of this length still belongs to the page; if so, it is counted.
    pub fn admits(&mut self, record_bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(record_bytes);
        let fits = self.count < self.bound.count && bytes <= self.bound.bytes;
        if self.count == 0 || fits {
            self.count += 1;
            self.bytes = bytes;
            return true;
        }
        false
    }
}

/// Where a stream ends, and where what is left of it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The sequence the next record will get.
    pub next_sequence: u64,
    /// Position of the last record, be it still there or not.
    pub last_position: u64,
    /// The chain over all records so far, removed ones included.
    pub head: ChainValue,
    /// The first record that is left: 0 unless the stream was cut, `next_sequence` when nothing is left.
    pub first_sequence: u64,
    /// The chain value before the first record that is left.
    pub start: ChainValue,
    /// Nothing is left and nothing can be added: this is the tombstone.
    pub erased: bool,
}

/// Where a stream ends, without its chain. See [`Tail`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub next_sequence: u64,
    pub last_position: u64,
    pub first_sequence: u64,
    pub erased: bool,
}

impl Tail {
    pub fn end(&self) -> End {
        End {
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            first_sequence: self.first_sequence,
            erased: self.erased,
        }
    }
}

/// A row as stored. The version starts at 1 and grows by one with each put; a row that was deleted
/// and put again starts at 1 again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Arc<str>,
    pub version: u64,
    pub value: Bytes,
}

/// A range of rows in one space, in key order.
#[derive(Debug, Clone)]
pub struct RowRange {
    pub space: Arc<str>,
    /// Only keys that begin with this.
    pub prefix: Arc<str>,
    /// Strictly after this key (strictly before it when `backwards`).
    pub after: Option<Arc<str>>,
    pub backwards: bool,
    pub limit: usize,
}

impl RowRange {
    /// The first rows whose keys begin with a prefix.
    pub fn first(space: &str, prefix: impl Into<Arc<str>>, limit: usize) -> Self {
        RowRange { space: space.into(), prefix: prefix.into(), after: None, backwards: false, limit }
    }
}

/// A stored row whose bytes are not those that were written: space, key or value, which is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRow {
    /// Space and key as they are stored now. They need not be text.
    pub space: Bytes,
    pub key: Bytes,
    /// The spaces of the nearest whole rows before and after it. Rows are kept in order, so it belonged to one of
    /// these or to one between them.
    pub before: Option<Arc<str>>,
    pub after: Option<Arc<str>>,
}

impl std::fmt::Display for DamagedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", String::from_utf8_lossy(&self.space), String::from_utf8_lossy(&self.key))
    }
}

/// The whole rows of a range, and the damaged ones that are, or may be, part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WholeRows {
    pub rows: Vec<Row>,
    /// At most [`crate::limits::DAMAGED_ROWS_MAX`]. They are named again on each page of the range.
    pub damaged: Vec<DamagedRow>,
}

/// Rows that replace damaged ones. See [`crate::Store::repair_rows`].
#[derive(Debug, Clone, Default)]
pub struct RowRepair {
    /// Taken away, by the bytes that are stored.
    pub damaged: Vec<DamagedRow>,
    pub rows: Vec<RepairedRow>,
}

impl RowRepair {
    /// Of the values.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.value.len()).sum()
    }
}

/// The right content of a row, according to the records of one stream.
#[derive(Debug, Clone)]
pub struct RepairedRow {
    pub space: Arc<str>,
    pub key: Arc<str>,
    pub value: Bytes,
    /// The value counts while the stream ends here.
    pub stream: StreamKey,
    pub expected_tail: u64,
}

/// What a look at the whole store found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Integrity {
    /// Sentences about what is wrong, at most [`crate::limits::PROBLEMS_MAX`]; empty when nothing is.
    pub problems: Vec<String>,
    /// What is worth knowing and is no loss.
    pub notes: Vec<String>,
    /// Streams of which every record can be read and the chain agrees with the head.
    pub readable_streams: u64,
    /// Records that can be read.
    pub readable_records: u64,
}

/// Size and pace of a store, for metrics. Sizes are current, counts since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub last_position: u64,
    /// Streams there ever were, tombstones included.
    pub streams: u64,
    /// Records still in the order they were committed, and their bytes.
    pub hot_records: u64,
    pub hot_bytes: u64,
    /// Records gathered stream by stream, and their bytes.
    pub sealed_records: u64,
    pub sealed_bytes: u64,
    /// Files of the store, blobs left out.
    pub database_bytes: u64,
    pub wal_bytes: u64,
    /// From queueing an append to its answer, in microseconds; refused ones included.
    pub append_micros: Histogram,
    /// The making durable of one commit, in microseconds.
    pub sync_micros: Histogram,
    /// Appends that shared a commit.
    pub group_appends: Histogram,
    /// Commits that failed.
    pub commits_failed: u64,
}

impl Stats {
    /// Adds the figures of another store; positions add up too, to a count of records ever written.
    pub fn add(&mut self, other: &Stats) {
        self.last_position += other.last_position;
        self.streams += other.streams;
        self.hot_records += other.hot_records;
        self.hot_bytes += other.hot_bytes;
        self.sealed_records += other.sealed_records;
        self.sealed_bytes += other.sealed_bytes;
        self.database_bytes += other.database_bytes;
        self.wal_bytes += other.wal_bytes;
        self.append_micros.add(&other.append_micros);
        self.sync_micros.add(&other.sync_micros);
        self.group_appends.add(&other.group_appends);
        self.commits_failed += other.commits_failed;
    }
}

/// Counts values by their number of binary digits: `counts[n]` of them were less than 2ⁿ and not less
/// than 2ⁿ⁻¹. The last count takes all that are larger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    pub counts: [u64; 32],
    pub sum: u64,
}

impl Histogram {
    pub fn note(&mut self, value: u64) {
        let digits = (u64::BITS - value.leading_zeros()) as usize;
        self.counts[digits.min(self.counts.len() - 1)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values were noted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_by_binary_digits() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 1023, u64::MAX] {
            histogram.note(value);
        }
        assert_eq!(histogram.counts[..5], [1, 1, 2, 1, 0]);
        assert_eq!((histogram.counts[10], histogram.counts[31]), (1, 1));
        assert_eq!((histogram.count(), histogram.sum), (7, u64::MAX));
    }
}
