//! Time and entropy as data, and the identifiers derived from them.

use ulid::Ulid;

/// The time and entropy of a decision, instead of a clock and a random source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub now_ms: u64,
    pub entropy: u128,
}

/// Mints ULIDs that are never lower than the ones before them, even when the clock steps back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Minter {
    last: u128,
}

impl Minter {
    /// Continues after an identifier already given.
    pub fn after(last: Ulid) -> Self {
        Minter { last: last.0 }
    }

    /// Whatever is minted from now on is greater than this one, too.
    pub fn pass(&mut self, other: Ulid) {
        self.last = self.last.max(other.0);
    }

    /// The next ULID: fresh from the stamp when its time has moved on, else the last one plus one.
    pub fn mint(&mut self, stamp: Stamp) -> Ulid {
        let fresh = Ulid::from_parts(stamp.now_ms, stamp.entropy).0;
        self.last = if fresh >> 80 > self.last >> 80 { fresh } else { self.last.saturating_add(1) };
        Ulid(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_even_when_the_clock_steps_back() {
        let mut minter = Minter::default();
        let mut last = Ulid(0);
        for now_ms in [5, 5, 9, 3, 3, 10] {
            let next = minter.mint(Stamp { now_ms, entropy: u128::MAX / 3 });
            assert!(next > last, "{next} follows {last}");
            last = next;
        }
        assert_eq!(last.timestamp_ms(), 10);
        minter.pass(Ulid::from_parts(12, 7));
        let next = minter.mint(Stamp { now_ms: 11, entropy: 9 });
        assert_eq!(next, Ulid::from_parts(12, 8));
        minter.pass(last);
        assert_eq!(minter.mint(Stamp { now_ms: 11, entropy: 9 }), Ulid::from_parts(12, 9));
    }
}
