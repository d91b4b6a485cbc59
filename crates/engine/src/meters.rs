//! What is counted while the engine works, for metrics. See [`EngineStats`].
//!
//! Nothing here is a lock that an event waits for: a reader counts in numbers of its own, which are added up
//! when somebody asks. It must never know what the numbers are used for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_log::Stats;

use crate::live::List;
use crate::scrub::{Findings, Scrubbed};

/// What the engine says of its work. Counts are since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineStats {
    pub store: Stats,
    pub events_committed: u64,
    /// Appends that were refused because the disk is full.
    pub appends_full: u64,
    pub runs_awake: usize,
    /// Runs of ours with a worker, and those that wait for one.
    pub runs_at_work: usize,
    pub runs_in_line: usize,
    pub readers: ReaderStats,
    pub scrubbed: Scrubbed,
}

impl EngineStats {
    /// Takes in what another engine of the same process says.
    pub fn add(&mut self, other: &EngineStats) {
        self.store.add(&other.store);
        self.events_committed += other.events_committed;
        self.appends_full += other.appends_full;
        self.runs_awake += other.runs_awake;
        self.runs_at_work += other.runs_at_work;
        self.runs_in_line += other.runs_in_line;
        self.scrubbed.rounds += other.scrubbed.rounds;
        self.scrubbed.events += other.scrubbed.events;
        self.scrubbed.findings.extend(other.scrubbed.findings.iter().cloned());
        self.scrubbed.more += other.scrubbed.more;
        let (sum, more) = (&mut self.readers, &other.readers);
        sum.open += more.open;
        sum.from_store += more.from_store;
        sum.lag_max = sum.lag_max.max(more.lag_max);
        sum.events_live += more.events_live;
        sum.events_stored += more.events_stored;
    }
}

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

/// Shared by everything that counts.
#[derive(Default)]
pub(crate) struct Meters {
    committed: AtomicU64,
    /// Whether the last append that needed space found some; not known before the first.
    has_space: AtomicBool,
    appends_full: AtomicU64,
    readers: Mutex<Readers>,
    findings: Findings,
}

#[derive(Default)]
struct Readers {
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
    meters: Arc<Meters>,
    id: u64,
    place: Arc<Place>,
}

impl Meters {
    pub(crate) fn committed(&self, events: usize) {
        self.committed.fetch_add(events as u64, Ordering::Relaxed);
    }

    /// What the scrub found.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Notes whether there was space for an append.
    pub(crate) fn had_space(&self, space: bool) {
        self.has_space.store(space, Ordering::Relaxed);
        if !space {
            self.appends_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last append that needed space found some. Before the first nobody knows.
    pub(crate) fn is_known_to_have_space(&self) -> bool {
        self.has_space.load(Ordering::Relaxed)
    }

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
        let mut readers = self.readers();
        readers.next_id += 1;
        let id = readers.next_id;
        readers.open.insert(id, place.clone());
        drop(readers);
        Reader { meters: self.clone(), id, place }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds up; what the store and the writers say is left to who asks.
    pub(crate) fn add_up(&self) -> EngineStats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let readers = self.readers();
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
        EngineStats {
            events_committed: load(&self.committed),
            appends_full: load(&self.appends_full),
            readers: sum,
            ..EngineStats::default()
        }
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
        let mut readers = self.meters.readers();
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
        let meters = Arc::new(Meters::default());
        let list = List::new(RUN_LIST_BYTES_MAX);
        let (ahead, behind) = (meters.reader(list.clone(), 0, 10), meters.reader(list.clone(), 4, 10));
        ahead.given_stored(8);
        ahead.given_live(10);
        behind.given_stored(6);
        let sum = ReaderStats { open: 2, from_store: 1, lag_max: 4, events_live: 2, events_stored: 10 };
        assert_eq!(meters.add_up().readers, sum);
        list.mark_stored(100);
        assert_eq!(meters.add_up().readers.lag_max, 94);
        drop(behind);
        let sum = ReaderStats { open: 1, from_store: 0, lag_max: 90, ..sum };
        assert_eq!(meters.add_up().readers, sum);
    }

    #[test]
    fn space_is_as_the_last_append_found_it() {
        let meters = Meters::default();
        assert!(!meters.is_known_to_have_space(), "nothing was appended yet");
        meters.had_space(true);
        assert!(meters.is_known_to_have_space());
        meters.had_space(false);
        meters.had_space(false);
        assert!(!meters.is_known_to_have_space());
        meters.had_space(true);
        assert_eq!((meters.is_known_to_have_space(), meters.add_up().appends_full), (true, 2));
    }
}
