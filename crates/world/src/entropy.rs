//! Sources of randomness: the operating system, or a seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// 128 unpredictable bits (or, in a simulation, reproducible ones).
pub trait Entropy: Send + Sync + 'static {
    fn draw(&self) -> u128;
}

/// The operating system's randomness.
///
/// A secret key is read once; each draw is a keyed hash of a counter, so a draw costs no system call.
pub struct SystemEntropy {
    key: [u8; 32],
    counter: AtomicU64,
}

impl SystemEntropy {
    pub fn new() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the server needs random numbers from the operating system");
        SystemEntropy { key, counter: AtomicU64::new(0) }
    }
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self::new()
    }
}

impl Entropy for SystemEntropy {
    fn draw(&self) -> u128 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let hash = blake3::keyed_hash(&self.key, &count.to_le_bytes());
        let (half, _) = hash.as_bytes().split_at(16);
        half.iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
    }
}

/// The same numbers for the same seed (SplitMix64, twice a draw).
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        SeededEntropy(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn draw(&self) -> u128 {
        let mut state = self.0.lock().expect("no draw panics while it holds the lock");
        let mut next = || {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        (u128::from(next()) << 64) | u128::from(next())
    }
}
