//! Hashes of strings, mixed with a seed, so that a file's author cannot choose collisions when the seed is unknown. Not
//! for any other security.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
const OTHER: u64 = 0xD1B5_4A32_D192_ED03;

/// The sum of a string.
#[inline]
pub(crate) fn sum(seed: u64, text: &[u8]) -> u64 {
    let mut state = seed ^ (text.len() as u64).wrapping_mul(ODD);
    let word = |bytes: &[u8], at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(eight)
    };
    // Long texts in two lanes that do not wait for each other.
    let mut rest = text;
    if text.len() >= 64 {
        let mut lane = state ^ OTHER;
        let mut chunks = text.chunks_exact(32);
        for chunk in &mut chunks {
            state = mix(state ^ word(chunk, 0), word(chunk, 8) ^ ODD);
            lane = mix(lane ^ word(chunk, 16), word(chunk, 24) ^ ODD);
        }
        state ^= lane.rotate_left(17);
        rest = chunks.remainder();
    }
    let mut chunks = rest.chunks_exact(8);
    for chunk in &mut chunks {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(eight), ODD);
    }
    let rest = chunks.remainder();
    let mut eight = [0; 8];
    eight[..rest.len()].copy_from_slice(rest);
    mix(mix(state ^ u64::from_le_bytes(eight), OTHER), ODD)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
fn mix(one: u64, two: u64) -> u64 {
    let product = u128::from(one ^ OTHER) * u128::from(two);
    (product as u64) ^ ((product >> 64) as u64)
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
