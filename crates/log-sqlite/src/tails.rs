//! What the writer remembers of streams, so that the hot path reads nothing: two generations, the older
//! of which is let go when the younger is full.

use std::collections::HashMap;

use recount_log::StreamKey;

use crate::layout::StreamTail;

/// Remembers at most `max` tails.
pub(crate) struct Tails {
    young: HashMap<StreamKey, StreamTail>,
    old: HashMap<StreamKey, StreamTail>,
    max: usize,
}

impl Tails {
    pub(crate) fn new(max: usize) -> Self {
        Tails { young: HashMap::new(), old: HashMap::new(), max }
    }

    pub(crate) fn get(&mut self, key: &StreamKey) -> Option<StreamTail> {
        if let Some(tail) = self.young.get(key) {
            return Some(*tail);
        }
        let (key, tail) = self.old.remove_entry(key)?;
        self.put(key, tail);
        Some(tail)
    }

    pub(crate) fn put(&mut self, key: StreamKey, tail: StreamTail) {
        if self.young.len() >= (self.max / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, tail);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(id: i64) -> StreamTail {
        StreamTail::fresh(id, "a")
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut tails = Tails::new(8);
        let used: StreamKey = "used".into();
        tails.put(used.clone(), tail(0));
        for n in 1..100 {
            tails.put(format!("s{n}").into(), tail(n));
            assert_eq!(tails.get(&used).map(|tail| tail.id), Some(0));
            assert!(tails.young.len() + tails.old.len() <= 8);
        }
        assert!(tails.get(&"s1".into()).is_none());
        assert!(tails.get(&"s99".into()).is_some());
        tails.clear();
        assert!(tails.get(&used).is_none());
    }

    #[test]
    fn the_latest_tail_wins() {
        let mut tails = Tails::new(2);
        let key: StreamKey = "a".into();
        for id in 0..5 {
            tails.put(key.clone(), tail(id));
            assert_eq!(tails.get(&key).map(|tail| tail.id), Some(id));
        }
    }
}
