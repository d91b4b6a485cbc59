//! The writer's cache of stream tails, so that appends read nothing from the database. It has two generations; the
//! older one is dropped when the younger is full.
//!
//! A group's changes are written here at once; if it is not committed, they are dropped.

use recount_log::{Fault, StreamKey};
use rusqlite::Connection;

use crate::fault::FaultContext as _;
use crate::hot::Hot;
use crate::layout::{self, KnownTail};
use crate::quick::QuickMap;

/// Caches the tails of at most `max` streams.
pub(crate) struct Tails {
    young: QuickMap<StreamKey, KnownTail>,
    old: QuickMap<StreamKey, KnownTail>,
    max: usize,
}

impl Tails {
    pub(crate) fn new(max: usize) -> Self {
        Tails { young: QuickMap::default(), old: QuickMap::default(), max }
    }

    /// The tail of a stream, which is read if it is not cached; without a number if the stream does not exist.
    pub(crate) fn find(
        &mut self,
        connection: &Connection,
        hot: &Hot,
        key: &StreamKey,
    ) -> Result<KnownTail, Fault> {
        if let Some(known) = self.get(key) {
            return Ok(known);
        }
        let known = match hot.known(key) {
            Some(known) => known,
            // A new stream gets its number with its first record.
            None => layout::stream_tail(connection, key)
                .context(&format!("reading the tail of stream {key}"))?
                .map_or_else(KnownTail::default, |tail| tail.known()),
        };
        self.put(key, known);
        Ok(known)
    }

    fn get(&mut self, key: &StreamKey) -> Option<KnownTail> {
        if let Some(known) = self.young.get(key) {
            return Some(*known);
        }
        let (key, known) = self.old.remove_entry(key)?;
        self.add(key, known);
        Some(known)
    }

    pub(crate) fn put(&mut self, key: &StreamKey, known: KnownTail) {
        if let Some(there) = self.young.get_mut(key) {
            *there = known;
            return;
        }
        self.old.remove(key);
        self.add(key.clone(), known);
    }

    fn add(&mut self, key: StreamKey, known: KnownTail) {
        if self.young.len() >= (self.max / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }

    pub(crate) fn forget(&mut self, key: &StreamKey) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: i64) -> KnownTail {
        KnownTail { id, ..KnownTail::default() }
    }

    #[test]
    fn used_tails_stay_and_others_are_evicted() {
        let mut tails = Tails::new(8);
        let used: StreamKey = "used".into();
        tails.put(&used, known(0));
        for n in 1..100 {
            tails.put(&format!("s{n}").into(), known(n));
            assert_eq!(tails.get(&used).map(|known| known.id), Some(0));
            assert!(tails.young.len() + tails.old.len() <= 8);
        }
        assert!(tails.get(&"s1".into()).is_none());
        assert!(tails.get(&"s99".into()).is_some());
        tails.forget(&used);
        assert!(tails.get(&used).is_none());
        tails.clear();
        assert!(tails.get(&"s99".into()).is_none());
    }

    #[test]
    fn the_latest_wins() {
        let mut tails = Tails::new(2);
        let key: StreamKey = "a".into();
        for id in 0..5 {
            tails.put(&key, known(id));
            assert_eq!(tails.get(&key).map(|known| known.id), Some(id));
        }
    }
}
