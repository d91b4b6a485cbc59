//! Publishes the store's commits to the live lists. Events become visible to readers only here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use recount_log::{End, FeedRecord, Observer, StreamKey};
use tokio::sync::Semaphore;

use crate::ground::counters::Counters;
use crate::limits;
use crate::read::live::{Framing, List};
use crate::read::readers::Readers;

/// The list of the feed, and a list for each followed run.
pub(crate) struct Publisher {
    framing: Arc<dyn Framing>,
    feed: Arc<List>,
    runs: Mutex<RunLists>,
    reads: Semaphore,
    reads_ahead: Arc<Semaphore>,
    counters: Arc<Counters>,
    readers: Arc<Readers>,
}

/// The lists of runs.
#[derive(Default)]
struct RunLists {
    by_stream: HashMap<StreamKey, Weak<List>>,
    /// The number of lists at which unused ones are removed.
    purge_at: usize,
    ended: EndedLists,
}

/// The lists of recently ended runs: a short run may end before its client follows it.
#[derive(Default)]
struct EndedLists {
    lists: VecDeque<(Arc<List>, usize)>,
    bytes: usize,
}

impl EndedLists {
    fn push(&mut self, list: Arc<List>) {
        let bytes = list.bytes() + limits::LIST_BYTES;
        // A large list would evict many others, and most of it was delivered before.
        if bytes > limits::ENDED_LISTS_BYTES_MAX / 16 {
            return;
        }
        self.bytes += bytes;
        self.lists.push_back((list, bytes));
        while self.bytes > limits::ENDED_LISTS_BYTES_MAX {
            let Some((_, bytes)) = self.lists.pop_front() else { break };
            self.bytes -= bytes;
        }
    }
}

impl Publisher {
    pub(crate) fn new(framing: Arc<dyn Framing>, counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Publisher {
            framing,
            feed: List::new(limits::FEED_LIST_BYTES_MAX),
            runs: Mutex::default(),
            reads: Semaphore::new(limits::HISTORY_READS_MAX),
            reads_ahead: Arc::new(Semaphore::new(limits::HISTORY_READS_AHEAD_MAX)),
            counters,
            readers: Arc::default(),
        })
    }

    /// The readers of runs and of the feed.
    pub(crate) fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    /// Permits to read a page of history.
    pub(crate) fn reads(&self) -> &Semaphore {
        &self.reads
    }

    /// Permits to read a page ahead.
    pub(crate) fn reads_ahead(&self) -> &Arc<Semaphore> {
        &self.reads_ahead
    }

    pub(crate) fn framing(&self) -> &Arc<dyn Framing> {
        &self.framing
    }

    pub(crate) fn feed(&self) -> Arc<List> {
        self.feed.clone()
    }

    /// The list of one run; created if missing. It receives every later commit.
    pub(crate) fn run(&self, stream: &StreamKey) -> Arc<List> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            return list;
        }
        let list = List::new(limits::RUN_LIST_BYTES_MAX);
        // Unused lists leave an entry in the map. They are removed when they are as many as the used ones, so that
        // the cost for each list is small.
        if runs.by_stream.len() >= runs.purge_at {
            runs.by_stream.retain(|_, list| list.strong_count() > 0);
            runs.purge_at = limits::LISTS_KEPT_MIN.max(runs.by_stream.len() * 2);
        }
        runs.by_stream.insert(stream.clone(), Arc::downgrade(&list));
        list
    }

    /// Records what the log has, in case a commit was not observed: a store that does not know the outcome of a
    /// commit reports a failure.
    pub(crate) fn mark_stored(&self, stream: &StreamKey, tail: End) {
        self.feed.mark_stored(tail.last_position + 1);
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            list.mark_stored(tail.next_sequence);
        }
    }

    /// Records of the run were removed, the last of them at this position. Readers find the remaining ones in the
    /// store.
    pub(crate) fn forget(&self, stream: &StreamKey, position: u64) {
        self.feed.forget(position);
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            list.forget(u64::MAX);
        }
    }

    /// The run has ended: its readers may close when they have everything before `end`.
    pub(crate) fn mark_ended(&self, stream: &StreamKey, end: u64) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            list.mark_ended(end);
            runs.ended.push(list);
        }
    }
}

impl Observer for Publisher {
    fn committed(&self, records: &[FeedRecord]) {
        let Some(first) = records.first() else { return };
        self.counters.committed(records.len());
        // Without a reader this work would delay the store's commit thread for nothing.
        let position = first.record.position;
        if self.feed.is_followed() {
            self.feed.push_committed(&*self.framing, position, records.iter().map(|r| &r.record.bytes));
        } else {
            self.feed.skip_to(position + records.len() as u64);
        }
        // A commit has the records of a stream next to each other.
        for of_one_run in records.chunk_by(|a, b| a.stream == b.stream) {
            let Some(first) = of_one_run.first() else { continue };
            let list = {
                let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
                runs.by_stream.get(&first.stream).and_then(Weak::upgrade)
            };
            if let Some(list) = list {
                if list.has_ended() {
                    // Few events follow an ending, and readers find them in the store. So the kept list does not
                    // grow.
                    list.skip_to(first.record.sequence + of_one_run.len() as u64);
                    continue;
                }
                let envelopes: Vec<&Bytes> = of_one_run.iter().map(|r| &r.record.bytes).collect();
                list.push_committed(&*self.framing, first.record.sequence, envelopes.into_iter());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use recount_log::Record;

    use super::*;

    struct Bare;

    impl Framing for Bare {
        fn frame(&self, _: u64, envelope: &[u8], out: &mut bytes::BytesMut) {
            out.extend_from_slice(envelope);
        }
    }

    /// A run of one event that has ended and whose list has no other owner.
    fn ended(publisher: &Publisher, stream: &str, bytes: usize) {
        let stream: StreamKey = stream.into();
        let list = publisher.run(&stream);
        let record = Record { sequence: 0, position: 1, bytes: vec![b'x'; bytes].into() };
        publisher.committed(&[FeedRecord { stream: stream.clone(), record }]);
        publisher.mark_ended(&stream, 1);
        assert!(list.holds(0));
    }

    fn is_here(publisher: &Publisher, stream: &str) -> bool {
        let list = publisher.run(&stream.into());
        list.holds(0) && list.watch().borrow().end == Some(1)
    }

    #[test]
    fn lists_of_recently_ended_runs_stay_for_late_readers() {
        let publisher = Publisher::new(Arc::new(Bare), Arc::default());
        let some = limits::ENDED_LISTS_BYTES_MAX / 20;
        for at in 0..22 {
            ended(&publisher, &at.to_string(), some);
        }
        assert!(!is_here(&publisher, "0") && is_here(&publisher, "21"));
        assert!(publisher.runs.lock().unwrap().ended.bytes <= limits::ENDED_LISTS_BYTES_MAX);
        // Events after the ending are in the store.
        let record = Record { sequence: 1, position: 2, bytes: "late".into() };
        publisher.committed(&[FeedRecord { stream: "21".into(), record }]);
        let list = publisher.run(&"21".into());
        assert!(!list.holds(0) && list.bytes() == 0 && list.known_next() == 2);
        // Events that are removed from the store are removed here too.
        publisher.forget(&"20".into(), 1);
        assert!(!is_here(&publisher, "20") && is_here(&publisher, "19"));
        ended(&publisher, "long", limits::ENDED_LISTS_BYTES_MAX / 16);
        assert!(!is_here(&publisher, "long") && is_here(&publisher, "19"));
    }
}
