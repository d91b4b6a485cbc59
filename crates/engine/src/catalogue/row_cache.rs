//! Rows that are asked for with every message and hardly ever change, as they were read last, so that the store is not
//! asked again.
//!
//! The store has one writer, and every append passes here: what one may change is forgotten before it is handed on, and
//! nothing that was read meanwhile is kept. Where nobody heard what became of an append, its rows are not kept any more.
//! A row that was taken away is known to be gone. Answers may be heard in another order than they were given, so of
//! several appends the one counts that the log has last. So what is kept is what the store would answer. Look at
//! [`RowCache`].

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_log::{Append, Row};

use crate::ground::rows;
use crate::limits;

/// The spaces that are worth it.
const SPACES: [&str; 3] = [rows::SESSIONS, rows::SETUPS, rows::SESSION_ACTIVE];

/// See the file's head.
#[derive(Default)]
pub(crate) struct RowCache(Mutex<CachedRows>);

#[derive(Default)]
struct CachedRows {
    rows: HashMap<Name, Known>,
    /// The one kept longest first.
    order: BTreeMap<u64, Name>,
    next: u64,
    bytes: usize,
    /// What appends are under way to change. What nobody heard the end of stays here.
    doubtful: HashMap<Name, PendingWrite>,
    /// Counts what was forgotten, in as many parts as there are, so that who reads meanwhile does not keep what is old.
    forgotten: HashMap<usize, u64>,
    /// So many appends are in doubt that nothing is kept any more.
    off: bool,
}

/// Names are told apart by this many parts when it is counted what was forgotten.
const PARTS: usize = 4_096;

fn part(name: &Name) -> usize {
    let mut hasher = std::hash::DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() % PARTS as u64) as usize
}

type Name = (&'static str, Arc<str>);

/// A row that appends under way may change.
#[derive(Default)]
struct PendingWrite {
    /// How many of them have not been heard of.
    open: usize,
    /// Of those that happened, the one that the log has last: where, if it has a place there, and whether it takes the
    /// row away.
    last: Option<(Option<u64>, bool)>,
    /// Several happened, one of them without a place in the log: nobody knows which was last.
    is_unordered: bool,
}

impl PendingWrite {
    fn happened(&mut self, place: Option<u64>, taken: bool) {
        self.is_unordered |= self.last.is_some_and(|(last, _)| last.is_none() || place.is_none());
        self.last = self.last.max(Some((place, taken)));
    }

    /// Whether the row is gone, now that all is heard of.
    fn is_gone(&self) -> bool {
        !self.is_unordered && self.last.is_some_and(|(_, taken)| taken)
    }
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    Nothing,
    /// It happened, at this position; `None` where it has no records and so no place in the log.
    Landed(Option<u64>),
}

struct Known {
    row: Option<Row>,
    number: u64,
    bytes: usize,
}

/// What a caller that read a row and wants it kept has to show.
pub(crate) struct Reading {
    name: Name,
    forgotten: u64,
}

/// An append that is under way.
pub(crate) struct Changing {
    /// The rows, and whether it takes them away.
    names: Vec<(Name, bool)>,
}

/// What is known of a row.
pub(crate) enum Look {
    Known(Option<Row>),
    /// Ask the store, and keep what it says with this.
    Unknown(Reading),
    /// Ask the store.
    Passing,
}

impl RowCache {
    pub(crate) fn look(&self, space: &str, key: &str) -> Look {
        let Some(space) = SPACES.iter().find(|known| **known == space) else { return Look::Passing };
        let name: Name = (space, key.into());
        let kept = self.kept();
        if let Some(known) = kept.rows.get(&name) {
            return Look::Known(known.row.clone());
        }
        if kept.off || kept.doubtful.contains_key(&name) {
            return Look::Passing;
        }
        let forgotten = kept.forgotten.get(&part(&name)).copied().unwrap_or(0);
        Look::Unknown(Reading { name, forgotten })
    }

    /// Keeps what was read, unless something was forgotten since.
    pub(crate) fn keep(&self, reading: Reading, row: Option<Row>) {
        let mut kept = self.kept();
        let forgotten = kept.forgotten.get(&part(&reading.name)).copied().unwrap_or(0);
        if forgotten == reading.forgotten && !kept.doubtful.contains_key(&reading.name) {
            kept.put(reading.name, row);
        }
    }

    /// Forgets what an append may change. To be called before the store has it.
    pub(crate) fn change(&self, append: &Append) -> Changing {
        let name = |put: &recount_log::RowPut| -> Option<(Name, bool)> {
            let space = SPACES.iter().find(|known| **known == &*put.space)?;
            Some(((space, put.key.clone()), put.value.is_none()))
        };
        let names: Vec<(Name, bool)> = append.rows.iter().filter_map(name).collect();
        if names.is_empty() {
            return Changing { names };
        }
        let mut kept = self.kept();
        for (name, _) in &names {
            *kept.forgotten.entry(part(name)).or_default() += 1;
            kept.remove(name);
            kept.doubtful.entry(name.clone()).or_default().open += 1;
        }
        if kept.doubtful.len() > limits::REMEMBERED_DOUBTS_MAX && !kept.off {
            tracing::warn!(
                "too many appends have an unknown outcome; the row cache is off and rows are read from the \
                 store"
            );
            *kept = CachedRows { off: true, ..CachedRows::default() };
        }
        Changing { names }
    }

    /// An append has ended, and it is known how. One of which it is not known stays in doubt.
    pub(crate) fn changed(&self, changing: Changing, became: Became) {
        if changing.names.is_empty() {
            return;
        }
        let mut kept = self.kept();
        for (name, taken) in changing.names {
            // Nothing where too many doubts have ended it all.
            let Some(doubt) = kept.doubtful.get_mut(&name) else { continue };
            doubt.open -= 1;
            if let Became::Landed(place) = became {
                doubt.happened(place, taken);
            }
            if doubt.open == 0 && kept.doubtful.remove(&name).is_some_and(|doubt| doubt.is_gone()) {
                kept.put(name, None);
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, CachedRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedRows {
    fn put(&mut self, name: Name, row: Option<Row>) {
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
        self.rows.insert(name, Known { row, number, bytes });
        while self.bytes > limits::REMEMBERED_BYTES_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.bytes -= self.rows.remove(&oldest).map_or(0, |known| known.bytes);
        }
    }

    fn remove(&mut self, name: &Name) {
        if let Some(Known { number, bytes, .. }) = self.rows.remove(name) {
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

    fn landed(position: u64) -> Became {
        Became::Landed(Some(position))
    }

    fn reading(remembered: &RowCache) -> Reading {
        match remembered.look(rows::SETUPS, "k") {
            Look::Unknown(reading) => reading,
            Look::Known(_) | Look::Passing => panic!("it is known, or in doubt"),
        }
    }

    fn known(remembered: &RowCache) -> Option<Option<String>> {
        match remembered.look(rows::SETUPS, "k") {
            Look::Known(row) => Some(row.map(|row| String::from_utf8(row.value.to_vec()).unwrap())),
            Look::Unknown(_) | Look::Passing => None,
        }
    }

    #[test]
    fn what_was_read_is_known_until_an_append_may_change_it() {
        let remembered = RowCache::default();
        let read = reading(&remembered);
        remembered.keep(read, Some(row("old")));
        assert_eq!(known(&remembered), Some(Some("old".into())));
        let changing = remembered.change(&append(Some("new")));
        assert!(matches!(remembered.look(rows::SETUPS, "k"), Look::Passing));
        remembered.changed(changing, landed(1));
        let read = reading(&remembered);
        remembered.keep(read, Some(row("new")));
        assert_eq!(known(&remembered), Some(Some("new".into())));
        let changing = remembered.change(&append(None));
        remembered.changed(changing, landed(2));
        assert_eq!(known(&remembered), Some(None));
        assert!(matches!(remembered.look(rows::RUNS, "k"), Look::Passing));
    }

    #[test]
    fn what_was_read_while_it_changed_is_not_kept() {
        let remembered = RowCache::default();
        let read = reading(&remembered);
        let changing = remembered.change(&append(Some("new")));
        remembered.changed(changing, landed(1));
        remembered.keep(read, Some(row("old")));
        assert_eq!(known(&remembered), None);
        // Two at a time, of which one is refused.
        let (first, second) = (remembered.change(&append(None)), remembered.change(&append(Some("new"))));
        remembered.changed(first, Became::Nothing);
        assert!(matches!(remembered.look(rows::SETUPS, "k"), Look::Passing));
        remembered.changed(second, landed(2));
        let read = reading(&remembered);
        remembered.keep(read, Some(row("new")));
        assert_eq!(known(&remembered), Some(Some("new".into())));
    }

    #[test]
    fn of_changes_heard_of_in_any_order_the_last_of_the_log_counts() {
        // When each landed, and whether the row is known to be gone after all was heard of.
        let cases = [
            (landed(1), landed(2), true),
            (landed(2), landed(1), false),
            (Became::Nothing, landed(1), true),
            (landed(1), Became::Nothing, false),
            (Became::Landed(None), landed(1), false),
            (landed(1), Became::Landed(None), false),
            (Became::Nothing, Became::Nothing, false),
        ];
        for (put, taken, is_gone) in cases {
            for is_put_first in [true, false] {
                let remembered = RowCache::default();
                let putting = remembered.change(&append(Some("new")));
                let taking = remembered.change(&append(None));
                let mut heard = [(putting, put), (taking, taken)];
                if !is_put_first {
                    heard.reverse();
                }
                for (changing, became) in heard {
                    remembered.changed(changing, became);
                }
                let expected = is_gone.then_some(None);
                assert_eq!(known(&remembered), expected, "put {put:?}, taken {taken:?}, {is_put_first}");
            }
        }
    }

    #[test]
    fn a_change_without_a_place_counts_where_it_is_the_only_one() {
        let remembered = RowCache::default();
        let taking = remembered.change(&append(None));
        remembered.changed(taking, Became::Landed(None));
        assert_eq!(known(&remembered), Some(None));
    }

    #[test]
    fn what_nobody_heard_the_end_of_stays_in_doubt_and_many_doubts_end_it() {
        let remembered = RowCache::default();
        drop(remembered.change(&append(Some("new"))));
        assert!(matches!(remembered.look(rows::SETUPS, "k"), Look::Passing));
        for at in 0..=limits::REMEMBERED_DOUBTS_MAX {
            let mut one = append(None);
            one.rows[0].key = at.to_string().into();
            drop(remembered.change(&one));
        }
        assert!(matches!(remembered.look(rows::SETUPS, "other"), Look::Passing));
    }

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let remembered = RowCache::default();
        let value = "x".repeat(limits::REMEMBERED_BYTES_MAX / 20);
        for at in 0..40 {
            let Look::Unknown(reading) = remembered.look(rows::SETUPS, &at.to_string()) else { panic!() };
            remembered.keep(reading, Some(row(&value)));
        }
        assert!(remembered.kept().bytes <= limits::REMEMBERED_BYTES_MAX);
        assert!(matches!(remembered.look(rows::SETUPS, "0"), Look::Unknown(_)));
        assert!(matches!(remembered.look(rows::SETUPS, "39"), Look::Known(_)));
    }
}
