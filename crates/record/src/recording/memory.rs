//! A map of short keys with a size limit.

use std::collections::HashMap;

use crate::limits::REMEMBERED_MAX;

/// Keys with a word for each. Full, the older half is forgotten: two generations, of which the elder goes.
#[derive(Debug)]
pub(super) struct Memory<T> {
    young: HashMap<u64, T>,
    old: HashMap<u64, T>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Memory { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<T: Copy> Memory<T> {
    pub(super) fn get(&self, key: u64) -> Option<T> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    /// Remembers it and returns what was known before.
    pub(super) fn insert(&mut self, key: u64, value: T) -> Option<T> {
        let before = self.get(key);
        if self.young.len() >= REMEMBERED_MAX / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
        before
    }
}
