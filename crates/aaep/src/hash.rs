//! Hashes of strings, mixed with a seed, so that a file's author cannot choose collisions when the seed is unknown. Not
//! for any other security.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The sum of a string.
#[inline]
pub(crate) fn sum(seed: u64, text: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot_with_seed(seed, text)
}

/// Passes on a sum that is one already.
#[derive(Default)]
pub(crate) struct Summed(u64);

impl Hasher for Summed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = sum(self.0, bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

pub(crate) type SumMap<V> = HashMap<u64, V, BuildHasherDefault<Summed>>;

/// The newest so many sums, each with something beside it.
pub(crate) struct Window<V> {
    known: SumMap<V>,
    order: VecDeque<u64>,
    most: usize,
}

impl<V: Copy> Window<V> {
    pub(crate) fn new(most: usize) -> Self {
        Window { known: SumMap::default(), order: VecDeque::new(), most }
    }

    pub(crate) fn get(&self, sum: u64) -> Option<V> {
        self.known.get(&sum).copied()
    }

    /// Keeps a sum; answers with what was beside it before.
    pub(crate) fn keep(&mut self, sum: u64, value: V) -> Option<V> {
        if let Some(known) = self.known.get(&sum) {
            return Some(*known);
        }
        if self.order.len() >= self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(sum, value);
        self.order.push_back(sum);
        None
    }
}
