//! Detects repeated events within a bounded window: [`RecentSet`].

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

/// Remembers texts by their hash. When it is full, the oldest are dropped.
pub(super) struct RecentSet {
    capacity: usize,
    key: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentSet {
    pub(super) fn new(capacity: usize) -> Self {
        RecentSet { capacity, key: RandomState::new(), known: HashSet::new(), order: VecDeque::new() }
    }

    /// Returns whether a text is new, and remembers it.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        let hash = self.key.hash_one(text);
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_bounded_and_forgets_the_oldest() {
        let mut seen = RecentSet::new(3);
        assert!(["a", "b", "c"].into_iter().all(|text| seen.is_new(text)));
        assert!(["a", "b", "c"].into_iter().all(|text| !seen.is_new(text)));
        assert!(seen.is_new("d") && seen.is_new("a"), "a was the oldest");
        assert_eq!((seen.known.len(), seen.order.len()), (3, 3));
    }
}
