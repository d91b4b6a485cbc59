//! The conformance suite of [`Store`]: the same cases run against every store.
//!
//! A store's tests call [`conformance_suite!`](crate::conformance_suite) with an expression that creates a [`Subject`];
//! it expands to one test per case. The suite calls stores from plain threads without a runtime, so a store that needs
//! one fails. It must not depend on a particular store.
#![allow(clippy::unwrap_used, reason = "a case that fails is a panic")]

pub mod appends;
pub mod blobs;
pub mod cuts;
pub mod edges;
pub mod order;
pub mod reads;
pub mod rows;
pub mod shapes;

use std::any::Any;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::{Bytes, BytesMut};

use recount_log::chain::ChainValue;
use recount_log::{
    Append, AppendError, Committed, Cut, Fault, FaultKind, FeedRecord, Guard, Observer, ReadBound, Record,
    Row, RowPut, Store, StreamAppend, StreamKey, Tail,
};

/// Expands to one `#[test]` for each case, against a fresh [`Subject`] each.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_cases! { $make;
            appends::sequences_start_at_zero_without_gaps
            appends::positions_start_at_one_in_commit_order
            appends::a_wrong_tail_is_refused_with_the_real_one
            appends::several_streams_are_committed_together_or_not_at_all
            appends::an_empty_append_changes_nothing
            appends::bytes_come_back_as_they_went_in
            appends::too_large_appends_are_refused
            cuts::a_cut_removes_the_oldest_records
            cuts::a_cut_and_a_record_are_committed_together_or_not_at_all
            cuts::a_cut_beyond_the_tail_is_refused
            cuts::cutting_everything_keeps_the_tail
            cuts::a_cut_may_split_a_commit
            cuts::an_erased_stream_leaves_a_tombstone
            cuts::an_erased_stream_accepts_no_records
            blobs::bytes_are_stored_under_their_hash
            blobs::an_unknown_blob_is_none
            blobs::blobs_are_listed_and_deleted
            blobs::a_damaged_blob_is_a_fault
            blobs::a_damaged_blob_is_healed_by_storing_it_again
            edges::an_empty_store_answers
            edges::integrity_counts_the_stored_content
            edges::stats_count_the_stored_content
            edges::a_backup_into_an_existing_path_is_refused
            edges::after_close_everything_is_refused
            edges::appends_accepted_before_close_are_finished
            order::appends_are_queued_when_they_are_called
            order::the_observer_sees_each_commit_before_its_writer
            order::a_cursor_never_skips_under_concurrent_writers
            order::many_writers_on_one_stream_lose_nothing
            order::many_writers_on_many_streams_lose_nothing
            reads::a_read_ends_before_the_record_that_passes_a_bound
            reads::reads_past_the_tail_are_empty
            reads::the_feed_runs_across_streams
            reads::the_feed_ends_before_the_record_that_passes_a_bound
            reads::the_head_is_the_chain_over_all_records
            reads::streams_are_listed_in_key_order
            rows::versions_start_at_one_and_grow
            rows::guards_hold
            rows::a_deleted_row_can_be_created_again
            rows::events_and_rows_are_committed_together_or_not_at_all
            rows::later_appends_see_the_rows_of_earlier_ones
            rows::ranges_go_by_prefix_place_direction_and_limit
            shapes::any_sequence_of_appends_agrees_with_the_model
            shapes::any_shape_of_writers_on_one_stream_adds_up
            shapes::any_shape_of_writers_on_many_streams_adds_up
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($make:expr; $($family:ident :: $case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::$family::$case(&|| $make);
            }
        )*
    };
}

/// An empty store, and how to damage it.
pub struct Subject {
    pub store: Arc<dyn Store>,
    damage_blob: Option<Damage>,
    /// Dropped after the store, for example its folder.
    _kept: Box<dyn Any>,
}

/// Changes the stored blob of a hash without the store's knowledge.
type Damage = Box<dyn Fn(&str)>;

/// Creates a subject for a case.
pub type Make<'a> = &'a dyn Fn() -> Subject;

impl Subject {
    pub fn new(store: impl Store) -> Self {
        Subject { store: Arc::new(store), damage_blob: None, _kept: Box::new(()) }
    }

    /// Keeps a value alive as long as the store.
    #[must_use]
    pub fn keeping(self, value: impl Any) -> Self {
        Subject { _kept: Box::new(value), ..self }
    }

    /// Sets how to change a stored blob, given its hash, without the store's knowledge.
    #[must_use]
    pub fn damaging_blobs(self, damage: impl Fn(&str) + 'static) -> Self {
        Subject { damage_blob: Some(Box::new(damage)), ..self }
    }
}

/// Waits for a future on this thread, with no runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A limit that no case reaches.
pub const ALL: ReadBound = ReadBound { count: usize::MAX, bytes: usize::MAX };

/// An append of records to one stream.
pub fn records(stream: &str, expected_tail: u64, records: &[&[u8]]) -> Append {
    let records = records.iter().map(|record| Bytes::copy_from_slice(record)).collect();
    let streams = vec![StreamAppend { stream: stream.into(), expected_tail, records }];
    Append { streams, ..Append::default() }
}

/// An append of one row.
pub fn row(space: &str, key: &str, guard: Guard, value: Option<&[u8]>) -> Append {
    let value = value.map(Bytes::copy_from_slice);
    let rows = vec![RowPut { space: space.into(), key: key.into(), guard, value }];
    Append { rows, ..Append::default() }
}

/// An append that removes the records of a stream before `keep_from`.
pub fn cut(stream: &str, keep_from: u64) -> Append {
    Append { cuts: vec![Cut { stream: stream.into(), keep_from }], ..Append::default() }
}

/// An append that erases a stream.
pub fn erase(stream: &str) -> Append {
    Append { erased: vec![stream.into()], ..Append::default() }
}

/// Combines two appends into one.
pub fn both(mut one: Append, other: Append) -> Append {
    one.streams.extend(other.streams);
    one.rows.extend(other.rows);
    one.cuts.extend(other.cuts);
    one.erased.extend(other.erased);
    one
}

/// Everything that the calls of a store return, for comparing before and after.
#[derive(Debug, PartialEq)]
struct Whole {
    feed: Vec<FeedRecord>,
    tails: Vec<(StreamKey, Option<Tail>)>,
    rows: Vec<Row>,
    last_position: u64,
}

/// Blocking shorthand for the calls, which panics on failures that no case expects.
struct Calls<'a>(&'a dyn Store);

impl Calls<'_> {
    fn append(&self, append: Append) -> Result<Committed, AppendError> {
        block_on(self.0.append(append))
    }

    fn land(&self, append: Append) -> Committed {
        self.append(append).unwrap()
    }

    fn read(&self, stream: &str, from: u64, bound: ReadBound) -> Vec<Record> {
        block_on(self.0.read(&stream.into(), from, bound)).unwrap()
    }

    fn feed(&self, from: u64, bound: ReadBound) -> Vec<FeedRecord> {
        block_on(self.0.read_feed(from, bound)).unwrap()
    }

    fn tail(&self, stream: &str) -> Option<Tail> {
        block_on(self.0.tail(&stream.into())).unwrap()
    }

    fn next_sequence(&self, stream: &str) -> u64 {
        self.tail(stream).map_or(0, |tail| tail.next_sequence)
    }

    fn last_position(&self) -> u64 {
        block_on(self.0.last_position()).unwrap()
    }

    fn streams(&self, after: Option<&str>, limit: usize) -> Vec<StreamKey> {
        block_on(self.0.streams(after.map(Into::into), limit)).unwrap()
    }

    fn row(&self, space: &str, key: &str) -> Option<Row> {
        block_on(self.0.row(space, key)).unwrap()
    }

    fn rows(&self, space: &str) -> Vec<Row> {
        let range = recount_log::RowRange::first(space, "", usize::MAX);
        block_on(self.0.rows(range)).unwrap()
    }

    fn whole(&self, space: &str) -> Whole {
        let tails =
            self.streams(None, usize::MAX).into_iter().map(|key| (key.clone(), self.tail(&key))).collect();
        Whole { feed: self.feed(1, ALL), tails, rows: self.rows(space), last_position: self.last_position() }
    }

    /// Checks that all page sizes return the same records.
    fn check_pages(&self, key: &StreamKey, from: u64, expected: &[&Record]) {
        for count in [1, 7, usize::MAX] {
            let bound = ReadBound { count, bytes: usize::MAX };
            let (mut next, mut whole) = (from, BytesMut::new());
            while let Some(page) =
                block_on(self.0.read_page(key, next, bound, Box::new(listed_record))).unwrap()
            {
                let records = page.bytes.iter().filter(|byte| **byte == b'\n').count();
                assert!(next <= page.first && page.first <= page.last, "{page:?} from {next}");
                assert!(records <= count && records as u64 == page.last - page.first + 1, "{page:?}");
                whole.extend_from_slice(&page.bytes);
                next = page.last + 1;
            }
            let mut listed = BytesMut::new();
            expected.iter().for_each(|record| listed_record(record.sequence, &record.bytes, &mut listed));
            assert_eq!(whole, listed, "stream {key} from {from}, in pages");
        }
    }

    /// Reads the store in every form and checks that all results agree.
    fn check_whole(&self) {
        let feed = self.feed(1, ALL);
        let positions: Vec<u64> = feed.iter().map(|feed| feed.record.position).collect();
        assert!(positions.is_sorted_by(|one, next| one < next), "positions grow");
        let mut removed = 0;
        let mut counted = 0;
        for key in self.streams(None, usize::MAX) {
            let records = self.read(&key, 0, ALL);
            let of_feed = feed.iter().filter(|feed| feed.stream == key).map(|feed| &feed.record);
            assert!(of_feed.eq(&records), "stream {key} and the feed return the same records");
            let tail = self.tail(&key).unwrap();
            let sequences = records.iter().map(|record| record.sequence);
            assert!(sequences.eq(tail.first_sequence..tail.next_sequence), "stream {key} is gap-free");
            let start = if tail.first_sequence == 0 { ChainValue::start(&key) } else { tail.start };
            let head = records.iter().fold(start, |head, record| head.then(&record.bytes));
            let last_position = records.last().map_or(tail.last_position, |last| last.position);
            assert_eq!(tail, Tail { start, head, last_position, ..tail }, "the tail of stream {key}");
            assert!(!tail.erased || records.is_empty(), "stream {key} was erased");
            for from in [0, tail.next_sequence / 2] {
                let expected: Vec<_> = records.iter().filter(|record| record.sequence >= from).collect();
                self.check_pages(&key, from, &expected);
            }
            removed += tail.first_sequence;
            counted += records.len();
        }
        assert_eq!(self.last_position(), feed.len() as u64 + removed, "no position is lost");
        assert_eq!(counted, feed.len(), "every record of the feed is in a listed stream");
        let found = block_on(self.0.integrity()).unwrap();
        assert_eq!((found.problems, found.readable_records), (vec![], feed.len() as u64));
    }
}

fn payloads(records: &[Record]) -> Vec<&[u8]> {
    records.iter().map(|record| &record.bytes[..]).collect()
}

fn kind_of<T: std::fmt::Debug>(answer: Result<T, AppendError>) -> FaultKind {
    match answer {
        Err(AppendError::Fault(fault)) => fault.kind,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

fn kind<T: std::fmt::Debug>(answer: Result<T, Fault>) -> FaultKind {
    answer.expect_err("a fault was expected").kind
}

/// Writes a record as a line.
fn listed_record(sequence: u64, record: &[u8], out: &mut BytesMut) {
    out.extend_from_slice(format!("{sequence} {}\n", ChainValue([0; 32]).then(record)).as_bytes());
}

/// Records the commits it observes.
#[derive(Default)]
struct Notes(Mutex<Vec<FeedRecord>>);

impl Observer for Notes {
    fn committed(&self, records: &[FeedRecord]) {
        assert!(!records.is_empty(), "an observed commit has records");
        self.0.lock().unwrap().extend_from_slice(records);
    }
}

impl Notes {
    fn taken(&self) -> Vec<FeedRecord> {
        self.0.lock().unwrap().clone()
    }
}
