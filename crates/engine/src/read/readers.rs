//! Counts the readers of runs and of the feed, for metrics. Each reader has its own counters, so that no event waits
//! for a lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::read::live::List;

/// Statistics of readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaderStats {
    pub open: usize,
    /// Readers whose last events came from the store.
    pub from_store: usize,
    /// The largest number of events that a reader is behind.
    pub lag_max: u64,
    /// Events delivered from the live list and from the store.
    pub events_live: u64,
    pub events_stored: u64,
}

/// Shared by all readers of an engine.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    next_id: u64,
    open: BTreeMap<u64, Arc<ReaderCount>>,
    /// Of closed readers.
    events_live: u64,
    events_stored: u64,
}

/// The progress of one reader. Only this reader writes here.
struct ReaderCount {
    list: Arc<List>,
    watermark: u64,
    next: AtomicU64,
    from_store: AtomicBool,
    events_live: AtomicU64,
    events_stored: AtomicU64,
}

/// Counts one reader until it is dropped.
pub(crate) struct Reader {
    readers: Arc<Readers>,
    id: u64,
    count: Arc<ReaderCount>,
}

impl Readers {
    /// Adds a reader whose next event has this cursor. Everything before `watermark` is stored.
    pub(crate) fn reader(self: &Arc<Self>, list: Arc<List>, next: u64, watermark: u64) -> Reader {
        let count = Arc::new(ReaderCount {
            list,
            watermark,
            next: AtomicU64::new(next),
            from_store: AtomicBool::new(false),
            events_live: AtomicU64::new(0),
            events_stored: AtomicU64::new(0),
        });
        let mut readers = self.lock();
        readers.next_id += 1;
        let id = readers.next_id;
        readers.open.insert(id, count.clone());
        drop(readers);
        Reader { readers: self.clone(), id, count }
    }

    pub(crate) fn stats(&self) -> ReaderStats {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let readers = self.lock();
        let mut sum = ReaderStats {
            open: readers.open.len(),
            events_live: readers.events_live,
            events_stored: readers.events_stored,
            ..ReaderStats::default()
        };
        for count in readers.open.values() {
            sum.from_store += usize::from(count.from_store.load(Ordering::Relaxed));
            sum.events_live += load(&count.events_live);
            sum.events_stored += load(&count.events_stored);
            let end = count.list.known_next().max(count.watermark);
            sum.lag_max = sum.lag_max.max(end.saturating_sub(load(&count.next)));
        }
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Events before `next` were delivered from the live list.
    pub(crate) fn count_live(&self, next: u64) {
        self.count_delivered(next, false, &self.count.events_live);
    }

    /// Events before `next` were delivered from the store.
    pub(crate) fn count_stored(&self, next: u64) {
        self.count_delivered(next, true, &self.count.events_stored);
    }

    fn count_delivered(&self, next: u64, from_store: bool, delivered: &AtomicU64) {
        // Only this reader writes here, so a load and a store lose nothing.
        let events = next.saturating_sub(self.count.next.load(Ordering::Relaxed));
        delivered.store(delivered.load(Ordering::Relaxed) + events, Ordering::Relaxed);
        self.count.next.store(next, Ordering::Relaxed);
        self.count.from_store.store(from_store, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut readers = self.readers.lock();
        readers.events_live += self.count.events_live.load(Ordering::Relaxed);
        readers.events_stored += self.count.events_stored.load(Ordering::Relaxed);
        readers.open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RUN_LIST_BYTES_MAX;

    #[test]
    fn reader_counts_are_summed_and_stay_after_the_reader() {
        let readers = Arc::new(Readers::default());
        let list = List::new(RUN_LIST_BYTES_MAX);
        let (ahead, behind) = (readers.reader(list.clone(), 0, 10), readers.reader(list.clone(), 4, 10));
        ahead.count_stored(8);
        ahead.count_live(10);
        behind.count_stored(6);
        let sum = ReaderStats { open: 2, from_store: 1, lag_max: 4, events_live: 2, events_stored: 10 };
        assert_eq!(readers.stats(), sum);
        list.mark_stored(100);
        assert_eq!(readers.stats().lag_max, 94);
        drop(behind);
        let sum = ReaderStats { open: 1, from_store: 0, lag_max: 90, ..sum };
        assert_eq!(readers.stats(), sum);
    }
}
