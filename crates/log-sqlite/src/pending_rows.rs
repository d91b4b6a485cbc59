//! Rows whose newest state is not in their table yet: a map in memory, consulted before the table.
//!
//! The writer changes it after a commit is durable and before any observer or client learns of it. A reader reads it
//! *before* it takes its snapshot of the database: the snapshot then has everything that was in the table by then. A
//! snapshot may also have more, if rows were written to the table in between; a read of several rows would then mix
//! older and newer ones. So the writer counts each round of writing rows to the table, and a read of several rows is
//! repeated when the count has changed (see [`PendingRows::between`]). It must not know SQL.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use recount_log::{Row, RowRange};
use tokio::time::Instant;

use crate::limits;
use crate::quick::QuickMap;

/// The current state of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowState {
    /// Version and value; `None` for a deleted row.
    pub(crate) row: Option<(u64, Bytes)>,
    /// Whether the table has a row of this name, in any state.
    pub(crate) in_table: bool,
}

impl RowState {
    pub(crate) fn version(&self) -> Option<u64> {
        self.row.as_ref().map(|(version, _)| *version)
    }

    fn bytes(&self) -> usize {
        self.row.as_ref().map_or(0, |(_, value)| value.len())
    }

    pub(crate) fn into_row(self, key: &Arc<str>) -> Option<Row> {
        self.row.map(|(version, value)| Row { key: key.clone(), version, value })
    }
}

/// States of rows by space and key.
#[derive(Default)]
pub(crate) struct RowStates {
    spaces: QuickMap<Arc<str>, BTreeMap<Arc<str>, RowState>>,
    count: usize,
    bytes: usize,
}

impl RowStates {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn get(&self, space: &str, key: &str) -> Option<&RowState> {
        self.spaces.get(space)?.get(key)
    }

    pub(crate) fn put(&mut self, space: &Arc<str>, key: &Arc<str>, state: RowState) {
        if !self.spaces.contains_key(space) {
            self.spaces.insert(space.clone(), BTreeMap::new());
        }
        let Some(rows) = self.spaces.get_mut(space) else { return };
        self.bytes += key.len() + state.bytes();
        match rows.insert(key.clone(), state) {
            Some(before) => self.bytes -= key.len() + before.bytes(),
            None => self.count += 1,
        }
    }

    /// All states; those of one space are contiguous and in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &RowState)> {
        self.spaces.iter().flat_map(|(space, rows)| rows.iter().map(move |(key, state)| (space, key, state)))
    }

    /// Keeps the names of spaces: there are few, and they are reused.
    pub(crate) fn clear(&mut self) {
        self.spaces.values_mut().for_each(BTreeMap::clear);
        (self.count, self.bytes) = (0, 0);
    }

    fn range(&self, range: &RowRange) -> Vec<(Arc<str>, RowState)> {
        let Some(rows) = self.spaces.get(&range.space) else { return Vec::new() };
        let (prefix, after) = (&*range.prefix, range.after.as_deref());
        let is_in_range =
            |key: &str| after.is_none_or(|after| if range.backwards { key < after } else { key > after });
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let found = rows.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        let found =
            found.filter(|(key, _)| is_in_range(key)).map(|(key, state)| (key.clone(), state.clone()));
        let mut found: Vec<_> = found.collect();
        if range.backwards {
            found.reverse();
        }
        found
    }
}

/// The pending rows, shared by the writer and all readers.
#[derive(Default)]
pub(crate) struct PendingRows(Mutex<PendingRowMap>);

#[derive(Default)]
struct PendingRowMap {
    states: RowStates,
    /// When the oldest of them was changed.
    since: Option<Instant>,
    /// How often the writer started to move them to the table.
    rounds: u64,
}

/// The amount of pending rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Amount {
    pub(crate) fn is_much(self, rows_max: usize) -> bool {
        self.rows >= rows_max || self.bytes >= limits::FRESH_BYTES_MAX
    }
}

impl PendingRows {
    fn lock(&self) -> MutexGuard<'_, PendingRowMap> {
        self.0.lock().expect("nothing panics while it holds the pending rows")
    }

    // ---- for readers ----

    /// Returns `None` when the table has the current state.
    pub(crate) fn get(&self, space: &str, key: &str) -> Option<RowState> {
        self.lock().states.get(space, key).cloned()
    }

    /// Merges the pending rows of a range with the table's rows, which `stored` reads in one new snapshot, at most so
    /// many.
    pub(crate) fn between<E>(
        &self,
        range: &RowRange,
        mut stored: impl FnMut(usize, &dyn Fn() -> bool) -> Result<Option<Vec<Row>>, E>,
    ) -> Result<Vec<Row>, E> {
        loop {
            let (rounds, pending_rows) = {
                let inner = self.lock();
                (inner.rounds, inner.states.range(range))
            };
            // Each pending row may replace one of the table's.
            let most = range.limit.saturating_add(pending_rows.len());
            let holds = || self.lock().rounds == rounds;
            if let Some(stored) = stored(most, &holds)? {
                return Ok(merge(pending_rows, stored, range));
            }
        }
    }

    // ---- for the writer ----

    pub(crate) fn amount(&self) -> Amount {
        let inner = self.lock();
        Amount { rows: inner.states.count, bytes: inner.states.bytes }
    }

    /// When the oldest was changed; `None` when nothing is pending.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.lock().since
    }

    /// Records the table's current state of a row. Then the table may be changed further, see
    /// [`PendingRows::begin_round`].
    pub(crate) fn pin(&self, space: &Arc<str>, key: &Arc<str>, state: RowState) {
        self.lock().states.put(space, key, state);
    }

    /// Returns all pending rows, for the caller to write to the table. Concurrent reads of several rows are repeated;
    /// later ones ignore the table's state of these rows.
    pub(crate) fn begin_round(&self) -> Vec<(Arc<str>, Arc<str>, RowState)> {
        let mut inner = self.lock();
        inner.rounds += 1;
        inner.states.iter().map(|(space, key, state)| (space.clone(), key.clone(), state.clone())).collect()
    }

    /// Publishes the row changes of a commit. With `folded`, all earlier pending rows are in the table.
    pub(crate) fn publish(&self, new: &mut RowStates, folded: bool, now: Instant) {
        let mut inner = self.lock();
        if folded {
            for (space, rows) in &mut new.spaces {
                for (key, state) in rows {
                    if let Some(before) = inner.states.get(space, key) {
                        state.in_table = before.row.is_some();
                    }
                }
            }
            inner.states.clear();
            inner.since = None;
        }
        for (space, rows) in &mut new.spaces {
            while let Some((key, state)) = rows.pop_first() {
                inner.states.put(space, &key, state);
            }
        }
        new.clear();
        if !inner.states.is_empty() {
            inner.since.get_or_insert(now);
        }
    }

    /// Replaces everything with the state from the database.
    pub(crate) fn replace(&self, states: RowStates, now: Instant) {
        let mut inner = self.lock();
        inner.since = (!states.is_empty()).then_some(now);
        inner.states = states;
        inner.rounds += 1;
    }
}

/// Both are in the order of the range; where both have a row, the pending one counts.
fn merge(pending_rows: Vec<(Arc<str>, RowState)>, stored: Vec<Row>, range: &RowRange) -> Vec<Row> {
    if pending_rows.is_empty() {
        return stored;
    }
    let comes_first = |one: &str, other: &str| if range.backwards { one > other } else { one < other };
    let (mut pending_rows, mut stored) = (pending_rows.into_iter().peekable(), stored.into_iter().peekable());
    let mut merged = Vec::new();
    while merged.len() < range.limit {
        let next = match (pending_rows.peek(), stored.peek()) {
            (None, None) => break,
            (Some((key, _)), Some(row)) if comes_first(&row.key, key) => stored.next(),
            (None, Some(_)) => stored.next(),
            (Some((key, _)), other) => {
                if other.is_some_and(|row| row.key == *key) {
                    stored.next();
                }
                pending_rows.next().and_then(|(key, state)| state.into_row(&key))
            }
        };
        merged.extend(next);
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn state(text: &str) -> RowState {
        let row = (text != "deleted").then(|| (1, Bytes::copy_from_slice(text.as_bytes())));
        RowState { row, in_table: false }
    }

    fn pending_rows(rows: &[(&str, &str)]) -> PendingRows {
        let pending_rows = PendingRows::default();
        publish(&pending_rows, rows, false);
        pending_rows
    }

    fn publish(pending_rows: &PendingRows, rows: &[(&str, &str)], folded: bool) {
        let mut new = RowStates::default();
        rows.iter().for_each(|(key, value)| new.put(&"s".into(), &(*key).into(), state(value)));
        pending_rows.publish(&mut new, folded, recount_world::moment());
    }

    fn range(prefix: &str, after: Option<&str>, backwards: bool, limit: usize) -> RowRange {
        RowRange { space: "s".into(), prefix: prefix.into(), after: after.map(Into::into), backwards, limit }
    }

    fn stored(keys: &str, range: &RowRange, most: usize) -> Vec<Row> {
        let rows = keys.split(' ').filter(|key| !key.is_empty());
        let row = |key: &str| Row { key: key.into(), version: 1, value: Bytes::from_static(b"table") };
        let mut rows: Vec<Row> = rows.map(row).filter(|row| row.key.starts_with(&*range.prefix)).collect();
        if range.backwards {
            rows.reverse();
        }
        let after = range.after.as_deref();
        let is_in_range = |row: &Row| match after {
            Some(after) if range.backwards => &*row.key < after,
            Some(after) => &*row.key > after,
            None => true,
        };
        rows.into_iter().filter(is_in_range).take(most).collect()
    }

    fn as_text(rows: &[Row]) -> String {
        let as_text = rows.iter().map(|row| format!("{}={}", row.key, str::from_utf8(&row.value).unwrap()));
        as_text.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pending_rows_override_the_table() {
        let pending_rows =
            pending_rows(&[("a1", "x"), ("a3", "deleted"), ("a5", "y"), ("b", "z"), ("a9", "deleted")]);
        for (prefix, after, backwards, limit, expected) in [
            ("a", None, false, 9, "a1=x a2=table a4=table a5=y a6=table"),
            ("a", None, true, 9, "a6=table a5=y a4=table a2=table a1=x"),
            ("a", None, false, 3, "a1=x a2=table a4=table"),
            ("a", Some("a2"), false, 2, "a4=table a5=y"),
            ("a", Some("a5"), true, 2, "a4=table a2=table"),
            ("", None, true, 2, "b=z a6=table"),
            ("c", None, false, 9, ""),
            ("a", None, false, 0, ""),
        ] {
            let range = range(prefix, after, backwards, limit);
            let found = pending_rows.between(&range, |most, holds| {
                assert!(holds());
                Ok::<_, Infallible>(Some(stored("a1 a2 a3 a4 a5 a6", &range, most)))
            });
            let Ok(found) = found;
            assert_eq!(as_text(&found), expected, "{prefix} {after:?} {backwards} {limit}");
        }
        let elsewhere = RowRange { space: "t".into(), ..range("", None, false, 9) };
        let Ok(found) = pending_rows.between(&elsewhere, |_, _| Ok::<_, Infallible>(Some(Vec::new())));
        assert_eq!(found, []);
    }

    #[test]
    fn a_read_during_a_fold_is_repeated() {
        let pending_rows = pending_rows(&[("a", "old"), ("b", "old")]);
        let range = range("", None, false, 9);
        let mut turns = 0;
        let Ok(found) = pending_rows.between(&range, |most, holds| {
            turns += 1;
            if turns == 1 {
                assert_eq!(pending_rows.begin_round().len(), 2);
                assert!(!holds());
                return Ok::<_, Infallible>(None);
            }
            assert!(holds());
            // Committed in between, and not published yet.
            Ok(Some(stored("a b", &range, most)))
        });
        assert_eq!((as_text(&found).as_str(), turns), ("a=old b=old", 2));
        publish(&pending_rows, &[("c", "new")], true);
        assert_eq!(pending_rows.get("s", "a"), None);
        assert_eq!(pending_rows.amount().rows, 1);
    }

    /// A row that is moved to the table while it changes again has to be deleted there when it is removed.
    #[test]
    fn folded_rows_are_marked_as_in_the_table() {
        let pending_rows = pending_rows(&[("a", "x"), ("b", "deleted")]);
        pending_rows.begin_round();
        publish(&pending_rows, &[("a", "deleted"), ("b", "y"), ("c", "z")], true);
        let in_table = |key| pending_rows.get("s", key).unwrap().in_table;
        assert_eq!((in_table("a"), in_table("b"), in_table("c")), (true, false, false));
    }

    #[test]
    fn amounts_count_the_current_rows() {
        let pending_rows = pending_rows(&[("ab", "123"), ("c", "4")]);
        assert_eq!((pending_rows.amount().rows, pending_rows.amount().bytes), (2, 7));
        publish(&pending_rows, &[("ab", "deleted")], false);
        assert_eq!((pending_rows.amount().rows, pending_rows.amount().bytes), (2, 4));
        assert!(pending_rows.since().is_some());
        publish(&pending_rows, &[], true);
        assert_eq!(
            (pending_rows.amount().rows, pending_rows.amount().bytes, pending_rows.since()),
            (0, 0, None)
        );
    }
}
