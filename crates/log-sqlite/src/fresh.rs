//! Rows whose newest state is not in their table yet: a map in memory, in front of the table.
//!
//! The writer changes it after a commit is durable and before any observer or client learns of it. A reader asks it *before* it takes
//! its snapshot of the database: then the snapshot has everything that was in the table by then. A snapshot may also
//! have more, when rows were brought to the table in between; of several rows together a reader would then see some
//! older than others. So the writer counts before it begins to bring rows there, and who reads several rows begins anew
//! when the count has changed (see [`Fresh::between`]). It must not know SQL.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use recount_log::{Row, RowRange};
use tokio::time::Instant;

use crate::limits;
use crate::quick::QuickMap;

/// What a row is by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowState {
    /// Version and value; `None` for a row that is gone.
    pub(crate) row: Option<(u64, Bytes)>,
    /// Whether the table has a row of this name, of whatever state.
    pub(crate) in_table: bool,
}

impl RowState {
    pub(crate) fn version(&self) -> Option<u64> {
        self.row.as_ref().map(|(version, _)| *version)
    }

    fn bytes(&self) -> usize {
        self.row.as_ref().map_or(0, |(_, value)| value.len())
    }

    pub(crate) fn told(self, key: &Arc<str>) -> Option<Row> {
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

    /// All of them; those of one space are together and in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &RowState)> {
        self.spaces.iter().flat_map(|(space, rows)| rows.iter().map(move |(key, state)| (space, key, state)))
    }

    /// The names of spaces stay: there are few, and they come again.
    pub(crate) fn clear(&mut self) {
        self.spaces.values_mut().for_each(BTreeMap::clear);
        (self.count, self.bytes) = (0, 0);
    }

    fn range(&self, range: &RowRange) -> Vec<(Arc<str>, RowState)> {
        let Some(rows) = self.spaces.get(&range.space) else { return Vec::new() };
        let (prefix, after) = (&*range.prefix, range.after.as_deref());
        let is_asked =
            |key: &str| after.is_none_or(|after| if range.backwards { key < after } else { key > after });
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let found = rows.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        let found = found.filter(|(key, _)| is_asked(key)).map(|(key, state)| (key.clone(), state.clone()));
        let mut found: Vec<_> = found.collect();
        if range.backwards {
            found.reverse();
        }
        found
    }
}

/// One for the writer and all readers.
#[derive(Default)]
pub(crate) struct Fresh(Mutex<FreshRows>);

#[derive(Default)]
struct FreshRows {
    states: RowStates,
    /// When the oldest of them came.
    since: Option<Instant>,
    /// How often the writer began to bring them to the table.
    rounds: u64,
}

/// How much is fresh.
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

impl Fresh {
    fn lock(&self) -> MutexGuard<'_, FreshRows> {
        self.0.lock().expect("nothing panics while it holds the fresh rows")
    }

    // ---- for readers ----

    /// `None`: the table knows.
    pub(crate) fn get(&self, space: &str, key: &str) -> Option<RowState> {
        self.lock().states.get(space, key).cloned()
    }

    /// The fresh rows of a range together with what the table has, which `stored` reads in one snapshot that it takes
    /// when it is called: at most so many rows.
    pub(crate) fn between<E>(
        &self,
        range: &RowRange,
        mut stored: impl FnMut(usize, &dyn Fn() -> bool) -> Result<Option<Vec<Row>>, E>,
    ) -> Result<Vec<Row>, E> {
        loop {
            let (rounds, fresh) = {
                let inner = self.lock();
                (inner.rounds, inner.states.range(range))
            };
            // Each of the fresh ones may stand in the place of one of the table's.
            let most = range.limit.saturating_add(fresh.len());
            let holds = || self.lock().rounds == rounds;
            if let Some(stored) = stored(most, &holds)? {
                return Ok(merge(fresh, stored, range));
            }
        }
    }

    // ---- the writer ----

    pub(crate) fn amount(&self) -> Amount {
        let inner = self.lock();
        Amount { rows: inner.states.count, bytes: inner.states.bytes }
    }

    /// When the oldest came; `None` when nothing is fresh.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.lock().since
    }

    /// Says of a row what the table says of it. Then the table may be changed beyond what was told, see
    /// [`Fresh::begin_round`].
    pub(crate) fn pin(&self, space: &Arc<str>, key: &Arc<str>, state: RowState) {
        self.lock().states.put(space, key, state);
    }

    /// All of them, to be written to the table by whoever asks. Who began to read several rows before begins anew, and
    /// who begins later does not look at what the table has of these.
    pub(crate) fn begin_round(&self) -> Vec<(Arc<str>, Arc<str>, RowState)> {
        let mut inner = self.lock();
        inner.rounds += 1;
        inner.states.iter().map(|(space, key, state)| (space.clone(), key.clone(), state.clone())).collect()
    }

    /// What a commit made of rows. With `folded` all that was fresh before it is in the table.
    pub(crate) fn landed(&self, new: &mut RowStates, folded: bool, now: Instant) {
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

    /// Begins with what the database says.
    pub(crate) fn replace(&self, states: RowStates, now: Instant) {
        let mut inner = self.lock();
        inner.since = (!states.is_empty()).then_some(now);
        inner.states = states;
        inner.rounds += 1;
    }
}

/// Both are in the order of the range; where both have a row, the fresh one counts.
fn merge(fresh: Vec<(Arc<str>, RowState)>, stored: Vec<Row>, range: &RowRange) -> Vec<Row> {
    if fresh.is_empty() {
        return stored;
    }
    let comes_first = |one: &str, other: &str| if range.backwards { one > other } else { one < other };
    let (mut fresh, mut stored) = (fresh.into_iter().peekable(), stored.into_iter().peekable());
    let mut merged = Vec::new();
    while merged.len() < range.limit {
        let next = match (fresh.peek(), stored.peek()) {
            (None, None) => break,
            (Some((key, _)), Some(row)) if comes_first(&row.key, key) => stored.next(),
            (None, Some(_)) => stored.next(),
            (Some((key, _)), other) => {
                if other.is_some_and(|row| row.key == *key) {
                    stored.next();
                }
                fresh.next().and_then(|(key, state)| state.told(&key))
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
        let row = (text != "gone").then(|| (1, Bytes::copy_from_slice(text.as_bytes())));
        RowState { row, in_table: false }
    }

    fn fresh(rows: &[(&str, &str)]) -> Fresh {
        let fresh = Fresh::default();
        land(&fresh, rows, false);
        fresh
    }

    fn land(fresh: &Fresh, rows: &[(&str, &str)], folded: bool) {
        let mut new = RowStates::default();
        rows.iter().for_each(|(key, value)| new.put(&"s".into(), &(*key).into(), state(value)));
        fresh.landed(&mut new, folded, recount_world::moment());
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
        let is_asked = |row: &Row| match after {
            Some(after) if range.backwards => &*row.key < after,
            Some(after) => &*row.key > after,
            None => true,
        };
        rows.into_iter().filter(is_asked).take(most).collect()
    }

    fn told(rows: &[Row]) -> String {
        let told = rows.iter().map(|row| format!("{}={}", row.key, str::from_utf8(&row.value).unwrap()));
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_fresh_stands_before_what_the_table_has() {
        let fresh = fresh(&[("a1", "x"), ("a3", "gone"), ("a5", "y"), ("b", "z"), ("a9", "gone")]);
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
            let found = fresh.between(&range, |most, holds| {
                assert!(holds());
                Ok::<_, Infallible>(Some(stored("a1 a2 a3 a4 a5 a6", &range, most)))
            });
            let Ok(found) = found;
            assert_eq!(told(&found), expected, "{prefix} {after:?} {backwards} {limit}");
        }
        let elsewhere = RowRange { space: "t".into(), ..range("", None, false, 9) };
        let Ok(found) = fresh.between(&elsewhere, |_, _| Ok::<_, Infallible>(Some(Vec::new())));
        assert_eq!(found, []);
    }

    #[test]
    fn who_reads_while_rows_are_brought_to_the_table_begins_anew() {
        let fresh = fresh(&[("a", "old"), ("b", "old")]);
        let range = range("", None, false, 9);
        let mut turns = 0;
        let Ok(found) = fresh.between(&range, |most, holds| {
            turns += 1;
            if turns == 1 {
                assert_eq!(fresh.begin_round().len(), 2);
                assert!(!holds());
                return Ok::<_, Infallible>(None);
            }
            assert!(holds());
            // Committed in between, and told to nobody yet.
            Ok(Some(stored("a b", &range, most)))
        });
        assert_eq!((told(&found).as_str(), turns), ("a=old b=old", 2));
        land(&fresh, &[("c", "new")], true);
        assert_eq!(fresh.get("s", "a"), None);
        assert_eq!(fresh.amount().rows, 1);
    }

    /// A row that was brought to the table while it was changed once more has to be taken from there when it goes.
    #[test]
    fn what_was_brought_to_the_table_is_known_to_be_there() {
        let fresh = fresh(&[("a", "x"), ("b", "gone")]);
        fresh.begin_round();
        land(&fresh, &[("a", "gone"), ("b", "y"), ("c", "z")], true);
        let in_table = |key| fresh.get("s", key).unwrap().in_table;
        assert_eq!((in_table("a"), in_table("b"), in_table("c")), (true, false, false));
    }

    #[test]
    fn amounts_are_of_what_is_there_now() {
        let fresh = fresh(&[("ab", "123"), ("c", "4")]);
        assert_eq!((fresh.amount().rows, fresh.amount().bytes), (2, 7));
        land(&fresh, &[("ab", "gone")], false);
        assert_eq!((fresh.amount().rows, fresh.amount().bytes), (2, 4));
        assert!(fresh.since().is_some());
        land(&fresh, &[], true);
        assert_eq!((fresh.amount().rows, fresh.amount().bytes, fresh.since()), (0, 0, None));
    }
}
