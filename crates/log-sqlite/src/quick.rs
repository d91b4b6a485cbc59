//! A fast hash for the keys of maps in memory, seeded for each map, so
//! that no client can choose names with the same hash.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A map with the fast hash.
pub(crate) type QuickMap<K, V> = HashMap<K, V, Quick>;

/// Builds hashers with one seed.
#[derive(Clone)]
pub(crate) struct Quick(u64);

pub(crate) struct QuickHasher(u64);

impl Default for Quick {
    fn default() -> Self {
        Quick(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Quick {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.0)
    }
}

impl QuickHasher {
    /// Both halves of a product: every input bit reaches every bit that the map uses.
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((rest.len() as u64) << 56));
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_i64(&mut self, number: i64) {
        self.mix(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_that_look_alike_are_spread() {
        let quick = Quick::default();
        let hashes: Vec<u64> = (0..10_000).map(|n| quick.hash_one(format!("run_{n:026}").as_str())).collect();
        // A map uses the lowest bits for the slot and the highest for the tag.
        for part in [|hash: &u64| hash & 0xffff, |hash: &u64| hash >> 48] {
            let different: HashSet<u64> = hashes.iter().map(part).collect();
            assert!(different.len() > 9_000, "{} of 10,000", different.len());
        }
        assert_ne!(quick.hash_one("a"), quick.hash_one("a\0"));
    }
}
