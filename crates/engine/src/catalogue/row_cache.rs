//! Cache of rows that every message reads and that rarely change.
//!
//! The store has one writer, and every append passes this cache. Before an append its rows are invalidated, and no
//! concurrent read of them is cached. If the outcome of an append stays unknown, its rows are never cached again. A
//! deleted row is cached as missing. Outcomes may arrive out of order, so of several appends the last one in the log
//! counts. The cache always equals the store. Start with [`RowCache`].

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_log::{Append, Row};

use crate::ground::rows;
use crate::limits;

/// The cached spaces.
const SPACES: [&str; 3] = [rows::SESSIONS, rows::SETUPS, rows::SESSION_ACTIVE];

/// A cache of rows in front of the store.
#[derive(Default)]
pub(crate) struct RowCache(Mutex<CachedRows>);

#[derive(Default)]
struct CachedRows {
    rows: HashMap<CacheKey, CachedRow>,
    /// Rows by age; the oldest comes first.
    order: BTreeMap<u64, CacheKey>,
    next: u64,
    bytes: usize,
    /// Rows that unfinished appends may change. Rows of appends with an unknown outcome stay here.
    pending: HashMap<CacheKey, PendingWrite>,
    /// Counts invalidations by partition, so that a concurrent read does not cache an old row.
    invalidations: HashMap<usize, u64>,
    /// Too many appends have an unknown outcome; nothing is cached any more.
    off: bool,
}

/// The number of partitions for counting invalidations.
const PARTS: usize = 4_096;

fn part(name: &CacheKey) -> usize {
    let mut hasher = std::hash::DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() % PARTS as u64) as usize
}

type CacheKey = (&'static str, Arc<str>);

/// A row that unfinished appends may change.
#[derive(Default)]
struct PendingWrite {
    /// Appends without a known outcome.
    open: usize,
    /// The last committed append: its position, if it has one, and whether it deletes the row.
    last: Option<(Option<u64>, bool)>,
    /// Several appends were committed and one has no position, so their order is unknown.
    is_unordered: bool,
}

impl PendingWrite {
    fn happened(&mut self, position: Option<u64>, is_deletion: bool) {
        self.is_unordered |= self.last.is_some_and(|(last, _)| last.is_none() || position.is_none());
        self.last = self.last.max(Some((position, is_deletion)));
    }

    /// Whether the row is deleted, once all outcomes are known.
    fn is_deleted(&self) -> bool {
        !self.is_unordered && self.last.is_some_and(|(_, is_deletion)| is_deletion)
    }
}

/// The outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppendOutcome {
    NotAppended,
    /// Committed at this position; `None` for an append without records.
    Committed(Option<u64>),
}

struct CachedRow {
    row: Option<Row>,
    number: u64,
    bytes: usize,
}

/// Allows a reader to cache the row that it read.
pub(crate) struct ReadTicket {
    name: CacheKey,
    invalidations: u64,
}

/// An unfinished append.
pub(crate) struct PendingAppend {
    /// The rows, and whether it deletes them.
    names: Vec<(CacheKey, bool)>,
}

/// The result of a lookup.
pub(crate) enum Lookup {
    Known(Option<Row>),
    /// Read the store, and cache the row with this ticket.
    Unknown(ReadTicket),
    /// Read the store.
    Uncached,
}

impl RowCache {
    pub(crate) fn get(&self, space: &str, key: &str) -> Lookup {
        let Some(space) = SPACES.iter().find(|known| **known == space) else { return Lookup::Uncached };
        let name: CacheKey = (space, key.into());
        let cached = self.cached();
        if let Some(known) = cached.rows.get(&name) {
            return Lookup::Known(known.row.clone());
        }
        if cached.off || cached.pending.contains_key(&name) {
            return Lookup::Uncached;
        }
        let invalidations = cached.invalidations.get(&part(&name)).copied().unwrap_or(0);
        Lookup::Unknown(ReadTicket { name, invalidations })
    }

    /// Caches a row, unless it was invalidated since the lookup.
    pub(crate) fn keep(&self, reading: ReadTicket, row: Option<Row>) {
        let mut cached = self.cached();
        let invalidations = cached.invalidations.get(&part(&reading.name)).copied().unwrap_or(0);
        if invalidations == reading.invalidations && !cached.pending.contains_key(&reading.name) {
            cached.put(reading.name, row);
        }
    }

    /// Invalidates the rows of an append. Call this before the store gets it.
    pub(crate) fn change(&self, append: &Append) -> PendingAppend {
        let name = |put: &recount_log::RowPut| -> Option<(CacheKey, bool)> {
            let space = SPACES.iter().find(|known| **known == &*put.space)?;
            Some(((space, put.key.clone()), put.value.is_none()))
        };
        let names: Vec<(CacheKey, bool)> = append.rows.iter().filter_map(name).collect();
        if names.is_empty() {
            return PendingAppend { names };
        }
        let mut cached = self.cached();
        for (name, _) in &names {
            *cached.invalidations.entry(part(name)).or_default() += 1;
            cached.remove(name);
            cached.pending.entry(name.clone()).or_default().open += 1;
        }
        if cached.pending.len() > limits::REMEMBERED_DOUBTS_MAX && !cached.off {
            tracing::warn!(
                "too many appends have an unknown outcome; the row cache is off and rows are read from the \
                 store"
            );
            *cached = CachedRows { off: true, ..CachedRows::default() };
        }
        PendingAppend { names }
    }

    /// Records the outcome of an append. Without this call the outcome stays unknown.
    pub(crate) fn changed(&self, pending: PendingAppend, outcome: AppendOutcome) {
        if pending.names.is_empty() {
            return;
        }
        let mut cached = self.cached();
        for (name, is_deletion) in pending.names {
            // Missing if the cache was turned off meanwhile.
            let Some(doubt) = cached.pending.get_mut(&name) else { continue };
            doubt.open -= 1;
            if let AppendOutcome::Committed(position) = outcome {
                doubt.happened(position, is_deletion);
            }
            if doubt.open == 0 && cached.pending.remove(&name).is_some_and(|doubt| doubt.is_deleted()) {
                cached.put(name, None);
            }
        }
    }

    fn cached(&self) -> MutexGuard<'_, CachedRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedRows {
    fn put(&mut self, name: CacheKey, row: Option<Row>) {
        self.remove(&name);
        let bytes =
            name.1.len() + row.as_ref().map_or(0, |row| row.value.len()) + limits::REMEMBERED_ROW_BYTES;
        if bytes > limits::REMEMBERED_BYTES_MAX / 16 {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.bytes += bytes;
        self.order.insert(number, name.clone());
        self.rows.insert(name, CachedRow { row, number, bytes });
        while self.bytes > limits::REMEMBERED_BYTES_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.bytes -= self.rows.remove(&oldest).map_or(0, |known| known.bytes);
        }
    }

    fn remove(&mut self, name: &CacheKey) {
        if let Some(CachedRow { number, bytes, .. }) = self.rows.remove(name) {
            self.order.remove(&number);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use recount_log::{Guard, RowPut};

    use super::*;

    fn row(value: &str) -> Row {
        Row { key: "k".into(), version: 1, value: Bytes::from(value.to_owned()) }
    }

    fn append(value: Option<&str>) -> Append {
        let value = value.map(|value| Bytes::from(value.to_owned()));
        let put = RowPut { space: rows::SETUPS.into(), key: "k".into(), guard: Guard::Any, value };
        Append { rows: vec![put], ..Append::default() }
    }

    fn committed(position: u64) -> AppendOutcome {
        AppendOutcome::Committed(Some(position))
    }

    fn reading(cache: &RowCache) -> ReadTicket {
        match cache.get(rows::SETUPS, "k") {
            Lookup::Unknown(reading) => reading,
            Lookup::Known(_) | Lookup::Uncached => panic!("the row is cached or in doubt"),
        }
    }

    fn known(cache: &RowCache) -> Option<Option<String>> {
        match cache.get(rows::SETUPS, "k") {
            Lookup::Known(row) => Some(row.map(|row| String::from_utf8(row.value.to_vec()).unwrap())),
            Lookup::Unknown(_) | Lookup::Uncached => None,
        }
    }

    #[test]
    fn a_row_is_cached_until_an_append_may_change_it() {
        let cache = RowCache::default();
        let read = reading(&cache);
        cache.keep(read, Some(row("old")));
        assert_eq!(known(&cache), Some(Some("old".into())));
        let pending = cache.change(&append(Some("new")));
        assert!(matches!(cache.get(rows::SETUPS, "k"), Lookup::Uncached));
        cache.changed(pending, committed(1));
        let read = reading(&cache);
        cache.keep(read, Some(row("new")));
        assert_eq!(known(&cache), Some(Some("new".into())));
        let pending = cache.change(&append(None));
        cache.changed(pending, committed(2));
        assert_eq!(known(&cache), Some(None));
        assert!(matches!(cache.get(rows::RUNS, "k"), Lookup::Uncached));
    }

    #[test]
    fn a_row_read_during_a_change_is_not_cached() {
        let cache = RowCache::default();
        let read = reading(&cache);
        let pending = cache.change(&append(Some("new")));
        cache.changed(pending, committed(1));
        cache.keep(read, Some(row("old")));
        assert_eq!(known(&cache), None);
        // Two appends at a time, of which one is refused.
        let (first, second) = (cache.change(&append(None)), cache.change(&append(Some("new"))));
        cache.changed(first, AppendOutcome::NotAppended);
        assert!(matches!(cache.get(rows::SETUPS, "k"), Lookup::Uncached));
        cache.changed(second, committed(2));
        let read = reading(&cache);
        cache.keep(read, Some(row("new")));
        assert_eq!(known(&cache), Some(Some("new".into())));
    }

    #[test]
    fn the_last_change_in_the_log_counts_in_any_order_of_results() {
        // The outcomes of a put and of a deletion, and whether the row is then known as deleted.
        let cases = [
            (committed(1), committed(2), true),
            (committed(2), committed(1), false),
            (AppendOutcome::NotAppended, committed(1), true),
            (committed(1), AppendOutcome::NotAppended, false),
            (AppendOutcome::Committed(None), committed(1), false),
            (committed(1), AppendOutcome::Committed(None), false),
            (AppendOutcome::NotAppended, AppendOutcome::NotAppended, false),
        ];
        for (put, deleted, is_deleted) in cases {
            for is_put_first in [true, false] {
                let cache = RowCache::default();
                let putting = cache.change(&append(Some("new")));
                let deleting = cache.change(&append(None));
                let mut outcomes = [(putting, put), (deleting, deleted)];
                if !is_put_first {
                    outcomes.reverse();
                }
                for (pending, outcome) in outcomes {
                    cache.changed(pending, outcome);
                }
                let expected = is_deleted.then_some(None);
                assert_eq!(known(&cache), expected, "put {put:?}, deleted {deleted:?}, {is_put_first}");
            }
        }
    }

    #[test]
    fn a_single_change_without_a_position_counts() {
        let cache = RowCache::default();
        let deleting = cache.change(&append(None));
        cache.changed(deleting, AppendOutcome::Committed(None));
        assert_eq!(known(&cache), Some(None));
    }

    #[test]
    fn unknown_outcomes_stay_uncached_and_too_many_turn_the_cache_off() {
        let cache = RowCache::default();
        drop(cache.change(&append(Some("new"))));
        assert!(matches!(cache.get(rows::SETUPS, "k"), Lookup::Uncached));
        for at in 0..=limits::REMEMBERED_DOUBTS_MAX {
            let mut one = append(None);
            one.rows[0].key = at.to_string().into();
            drop(cache.change(&one));
        }
        assert!(matches!(cache.get(rows::SETUPS, "other"), Lookup::Uncached));
    }

    #[test]
    fn the_oldest_rows_are_evicted_when_the_cache_is_full() {
        let cache = RowCache::default();
        let value = "x".repeat(limits::REMEMBERED_BYTES_MAX / 20);
        for at in 0..40 {
            let Lookup::Unknown(reading) = cache.get(rows::SETUPS, &at.to_string()) else { panic!() };
            cache.keep(reading, Some(row(&value)));
        }
        assert!(cache.cached().bytes <= limits::REMEMBERED_BYTES_MAX);
        assert!(matches!(cache.get(rows::SETUPS, "0"), Lookup::Unknown(_)));
        assert!(matches!(cache.get(rows::SETUPS, "39"), Lookup::Known(_)));
    }
}
