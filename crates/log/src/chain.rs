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
