//! Seeded hashes of strings, and maps keyed by them. With an unknown seed, the author of a file cannot choose
//! collisions. Not for any other security purpose.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The hash of a string.
#[inline]
pub(crate) fn hash_text(seed: u64, text: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot_with_seed(seed, text)
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_text(self.0, bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

pub(crate) type HashedMap<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// A bounded map that keeps the newest hashes, each with a value.
pub(crate) struct Window<V> {
    known: HashedMap<V>,
    order: VecDeque<u64>,
    capacity: usize,
}

impl<V: Copy> Window<V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Window { known: HashedMap::default(), order: VecDeque::new(), capacity }
    }

    pub(crate) fn get(&self, hash: u64) -> Option<V> {
        self.known.get(&hash).copied()
    }

    /// Inserts a hash; returns the existing value, if any.
    pub(crate) fn keep(&mut self, hash: u64, value: V) -> Option<V> {
        if let Some(known) = self.known.get(&hash) {
            return Some(*known);
        }
        if self.order.len() >= self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(hash, value);
        self.order.push_back(hash);
        None
    }
}
