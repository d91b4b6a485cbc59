//! The moment of a call and its randomness, which a session is given and never takes itself.

/// When a method is called, and randomness for the ids that it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Milliseconds since 1970. A clock that is set back does no harm: events keep the time of the last one.
    pub now_ms: i64,
    /// Fresh bytes from a cryptographic source. One half goes into event ids, the other into reply tokens.
    pub entropy: [u8; 32],
}

impl Stamp {
    pub(super) fn halves(&self) -> (u128, u128) {
        let mut halves = [[0; 16]; 2];
        halves[0].copy_from_slice(&self.entropy[..16]);
        halves[1].copy_from_slice(&self.entropy[16..]);
        (u128::from_be_bytes(halves[0]), u128::from_be_bytes(halves[1]))
    }
}
