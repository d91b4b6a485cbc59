//! Counts of the readers that follow a run or the feed, for metrics. A reader counts in numbers of its own, so that no
//! event waits for a lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::read::live::List;

/// What is known of those who follow a run, or the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaderStats {
    pub open: usize,
    /// Those whose newest events came from the store and not from the live list.
    pub from_store: usize,
    /// Events that the one furthest behind has not been given yet.
    pub lag_max: u64,
    /// Events given, from either place.
    pub events_live: u64,
    pub events_stored: u64,
}

/// Shared by all readers of an engine.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    next_id: u64,
    open: BTreeMap<u64, Arc<Place>>,
    /// Of those who left.
    events_live: u64,
    events_stored: u64,
}

/// How far one reader is. Only the reader writes here.
struct Place {
    list: Arc<List>,
    watermark: u64,
    next: AtomicU64,
    from_store: AtomicBool,
    events_live: AtomicU64,
    events_stored: AtomicU64,
}

/// A reader's own count, which leaves with it.
pub(crate) struct Reader {
    readers: Arc<Readers>,
    id: u64,
    place: Arc<Place>,
}

impl Readers {
    /// Counts a reader in, whose next event has this cursor; before `watermark` all is there already.
    pub(crate) fn reader(self: &Arc<Self>, list: Arc<List>, next: u64, watermark: u64) -> Reader {
        let place = Arc::new(Place {
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
        readers.open.insert(id, place.clone());
        drop(readers);
        Reader { readers: self.clone(), id, place }
    }

    pub(crate) fn add_up(&self) -> ReaderStats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let readers = self.lock();
        let mut sum = ReaderStats {
            open: readers.open.len(),
            events_live: readers.events_live,
            events_stored: readers.events_stored,
            ..ReaderStats::default()
        };
        for place in readers.open.values() {
            sum.from_store += usize::from(place.from_store.load(Ordering::Relaxed));
            sum.events_live += load(&place.events_live);
            sum.events_stored += load(&place.events_stored);
            let end = place.list.known_next().max(place.watermark);
            sum.lag_max = sum.lag_max.max(end.saturating_sub(load(&place.next)));
        }
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Events up to before `next` were given, from the live list.
    pub(crate) fn given_live(&self, next: u64) {
        self.given(next, false, &self.place.events_live);
    }

    /// The same from the store.
    pub(crate) fn given_stored(&self, next: u64) {
        self.given(next, true, &self.place.events_stored);
    }

    fn given(&self, next: u64, from_store: bool, count: &AtomicU64) {
        // Nobody else writes here, so that reading and then writing loses nothing.
        let events = next.saturating_sub(self.place.next.load(Ordering::Relaxed));
        count.store(count.load(Ordering::Relaxed) + events, Ordering::Relaxed);
        self.place.next.store(next, Ordering::Relaxed);
        self.place.from_store.store(from_store, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut readers = self.readers.lock();
        readers.events_live += self.place.events_live.load(Ordering::Relaxed);
        readers.events_stored += self.place.events_stored.load(Ordering::Relaxed);
        readers.open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RUN_LIST_BYTES_MAX;

    #[test]
    fn readers_are_added_up_and_what_they_were_given_stays() {
        let readers = Arc::new(Readers::default());
        let list = List::new(RUN_LIST_BYTES_MAX);
        let (ahead, behind) = (readers.reader(list.clone(), 0, 10), readers.reader(list.clone(), 4, 10));
        ahead.given_stored(8);
        ahead.given_live(10);
        behind.given_stored(6);
        let sum = ReaderStats { open: 2, from_store: 1, lag_max: 4, events_live: 2, events_stored: 10 };
        assert_eq!(readers.add_up(), sum);
        list.mark_stored(100);
        assert_eq!(readers.add_up().lag_max, 94);
        drop(behind);
        let sum = ReaderStats { open: 1, from_store: 0, lag_max: 90, ..sum };
        assert_eq!(readers.add_up(), sum);
    }
}
