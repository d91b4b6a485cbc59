//! The chain over a stream: each value covers all bytes before it, so an edit anywhere changes the head.
//!
//! `h₋₁ = BLAKE3("recount.run.v1" ‖ stream)`, `hₙ = BLAKE3(hₙ₋₁ ‖ u32 length, little endian ‖ bytes)`.
//! It *detects* edits against a head noted elsewhere; it cannot prevent them.

use std::fmt;

/// One link. Prints as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainValue(pub [u8; 32]);

const DOMAIN: &[u8] = b"recount.run.v1";

impl ChainValue {
    /// The value before the first record of `stream`.
    pub fn start(stream: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN);
        hasher.update(stream.as_bytes());
        ChainValue(*hasher.finalize().as_bytes())
    }

    /// The value after one more record.
    #[must_use]
    pub fn then(self, record: &[u8]) -> Self {
        let length = u32::try_from(record.len()).expect("records are bounded far below 4 GiB");
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(&length.to_le_bytes());
        hasher.update(record);
        ChainValue(*hasher.finalize().as_bytes())
    }

    /// Reads what `Display` wrote.
    pub fn parse(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| ChainValue(*hash.as_bytes()))
    }
}

impl fmt::Display for ChainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ChainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads are noted outside the store, so the rule may never change: these values are permanent.
    #[test]
    fn the_rule_is_frozen() {
        let start = ChainValue::start("run_1");
        let by_hand = blake3::hash(b"recount.run.v1run_1");
        assert_eq!(start.to_string(), by_hand.to_hex().as_str());
        let one = start.then(b"ab");
        let by_hand = blake3::hash(&[&start.0[..], &[2, 0, 0, 0], b"ab"].concat());
        assert_eq!(one.to_string(), by_hand.to_hex().as_str());
        assert_eq!(one.to_string(), "bae0a1a730f53ea1cd8526a6746d6c4bf4de19f733244052f2e92ce801b2724e");
    }

    #[test]
    fn the_length_is_part_of_a_link() {
        let start = ChainValue::start("a");
        assert_ne!(start.then(b"ab").then(b"c"), start.then(b"a").then(b"bc"));
        assert_ne!(start.then(b""), start);
    }

    #[test]
    fn printing_and_parsing_agree() {
        let value = ChainValue::start("a").then(b"x");
        assert_eq!(ChainValue::parse(&value.to_string()), Some(value));
        for bad in ["", "00", &"g".repeat(64), &"0".repeat(65)] {
            assert_eq!(ChainValue::parse(bad), None);
        }
    }
}
