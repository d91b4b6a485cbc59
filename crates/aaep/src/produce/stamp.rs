//! The time and randomness that the caller passes to a session.

/// The time of a method call, and randomness for new ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Milliseconds since 1970. If the clock goes back, events keep the time of the previous one.
    pub now_ms: i64,
    /// Fresh bytes from a cryptographic source. One half is used for event ids, the other for reply tokens.
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
