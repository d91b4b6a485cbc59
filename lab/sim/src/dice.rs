//! Reproducible random numbers: every choice of a simulation is drawn from [`Dice`].

use recount_world::{Entropy, SeededEntropy};

/// A random generator with a seed.
pub struct Dice {
    seed: u64,
    entropy: SeededEntropy,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice { seed, entropy: SeededEntropy::new(seed) }
    }

    /// Creates independent dice, which are not affected by other draws.
    pub fn fork(&self, name: &str) -> Dice {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(name.as_bytes());
        let hash = hasher.finalize();
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has more than eight bytes");
        Dice::new(u64::from_le_bytes(*first))
    }

    pub fn draw(&self) -> u128 {
        self.entropy.draw()
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&self, end: u64) -> u64 {
        (self.draw() as u64) % end
    }

    pub fn index(&self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True with a probability of `chance` in 1000.
    pub fn permille(&self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.index(from.len())])
    }

    /// Chooses one of several values by weight.
    pub fn weighed<T>(&self, mut choices: Vec<(u64, T)>) -> Option<T> {
        let total: u64 = choices.iter().map(|(weight, _)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.below(total);
        let place = choices.iter().position(|(weight, _)| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        })?;
        Some(choices.swap_remove(place).1)
    }
}
