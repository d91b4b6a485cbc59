//! From the store's commits to the live lists: the only way an event becomes visible to readers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use recount_log::{End, FeedRecord, Framing, Observer, StreamKey};
use tokio::sync::Semaphore;

use crate::limits;
use crate::live::List;
use crate::meters::Meters;

/// Holds the feed's list, and a list for each run that somebody follows.
pub(crate) struct Publisher {
    framing: Arc<dyn Framing>,
    feed: Arc<List>,
    runs: Mutex<Runs>,
    reads: Semaphore,
    reads_ahead: Arc<Semaphore>,
    meters: Arc<Meters>,
}

/// The lists of runs.
#[derive(Default)]
struct Runs {
    by_stream: HashMap<StreamKey, Weak<List>>,
    /// At how many of them it is looked which nobody follows.
    looked_through_at: usize,
}

impl Publisher {
    pub(crate) fn new(framing: Arc<dyn Framing>, meters: Arc<Meters>) -> Arc<Self> {
        Arc::new(Publisher {
            framing,
            feed: List::new(limits::FEED_LIST_BYTES_MAX),
            runs: Mutex::default(),
            reads: Semaphore::new(limits::HISTORY_READS_MAX),
            reads_ahead: Arc::new(Semaphore::new(limits::HISTORY_READS_AHEAD_MAX)),
            meters,
        })
    }

    pub(crate) fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Permits to read a page of history for a subscription.
    pub(crate) fn reads(&self) -> &Semaphore {
        &self.reads
    }

    /// Permits to read one page more, before it is asked for.
    pub(crate) fn reads_ahead(&self) -> &Arc<Semaphore> {
        &self.reads_ahead
    }

    pub(crate) fn framing(&self) -> &Arc<dyn Framing> {
        &self.framing
    }

    pub(crate) fn feed(&self) -> Arc<List> {
        self.feed.clone()
    }

    /// The list of one run, made when nobody follows it yet. From now on it hears of every commit.
    pub(crate) fn run(&self, stream: &StreamKey) -> Arc<List> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            return list;
        }
        let list = List::new(limits::RUN_LIST_BYTES_MAX);
        // Lists nobody follows any more leave their key and their place in memory behind; they go when they are as many
        // as those that are followed, so that looking through all of them costs little for each.
        if runs.by_stream.len() >= runs.looked_through_at {
            runs.by_stream.retain(|_, list| list.strong_count() > 0);
            runs.looked_through_at = limits::LISTS_KEPT_MIN.max(runs.by_stream.len() * 2);
        }
        runs.by_stream.insert(stream.clone(), Arc::downgrade(&list));
        list
    }

    /// What the log was found to hold, in case the commit of it was never told: when a store cannot say
    /// whether a commit happened, it says that it failed, and it may have happened all the same.
    pub(crate) fn mark_stored(&self, stream: &StreamKey, tail: End) {
        self.feed.mark_stored(tail.last_position + 1);
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            list.mark_stored(tail.next_sequence);
        }
    }

    /// Records of the run were taken away, the last of them at this position: readers find in the store what is
    /// left.
    pub(crate) fn forget(&self, stream: &StreamKey, position: u64) {
        self.feed.forget(position);
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            list.forget(u64::MAX);
        }
    }

    /// The run has ended: its readers may close once they have everything before `end`.
    pub(crate) fn mark_ended(&self, stream: &StreamKey, end: u64) {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = runs.by_stream.get(stream).and_then(Weak::upgrade) {
            list.mark_ended(end);
        }
    }
}

impl Observer for Publisher {
    fn committed(&self, records: &[FeedRecord]) {
        let Some(first) = records.first() else { return };
        self.meters.committed(records.len());
        // Frames nobody asks for would be made on the thread that everything waits for.
        let position = first.record.position;
        if self.feed.is_followed() {
            self.feed.push_committed(&*self.framing, position, records.iter().map(|r| &r.record.bytes));
        } else {
            self.feed.pass_over(position + records.len() as u64);
        }
        // A commit holds the records of a stream side by side.
        for of_one_run in records.chunk_by(|a, b| a.stream == b.stream) {
            let Some(first) = of_one_run.first() else { continue };
            let list = {
                let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
                runs.by_stream.get(&first.stream).and_then(Weak::upgrade)
            };
            if let Some(list) = list {
                let envelopes: Vec<&Bytes> = of_one_run.iter().map(|r| &r.record.bytes).collect();
                list.push_committed(&*self.framing, first.record.sequence, envelopes.into_iter());
            }
        }
    }
}
