//! Detects repeated events within a window: [`Seen`].

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

/// Remembers texts by their hash; of more than fit, the oldest are forgotten.
pub(super) struct Seen {
    most: usize,
    key: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Seen {
    pub(super) fn new(most: usize) -> Self {
        Seen { most, key: RandomState::new(), known: HashSet::new(), order: VecDeque::new() }
    }

    /// Whether a text was not heard before; from now on it was.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        let hash = self.key.hash_one(text);
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > self.most
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
        let mut seen = Seen::new(3);
        assert!(["a", "b", "c"].into_iter().all(|text| seen.is_new(text)));
        assert!(["a", "b", "c"].into_iter().all(|text| !seen.is_new(text)));
        assert!(seen.is_new("d") && seen.is_new("a"), "a was the oldest");
        assert_eq!((seen.known.len(), seen.order.len()), (3, 3));
    }
}
