//! Checksums of stored rows: a store writes every row with one and checks it each time it reads the row.
//!
//! A sum covers all columns of its row and the name of its table, so that a value from another row or
//! another table does not pass. XXH3 finds damage, at the speed of memory; it does not resist an attacker, which is
//! what the chain is for. This file must not know tables.

use twox_hash::XxHash3_64;

/// A sum that is built part by part. The parts cannot be shifted against each other: each is hashed by itself, over
/// the sum of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of a row of a table that has no columns yet.
    pub fn of(table: &str) -> Self {
        Sum(0).bytes(table.as_bytes())
    }

    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Sum(XxHash3_64::oneshot_with_seed(self.0, bytes))
    }

    #[must_use]
    pub fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// As it is kept in a column.
    pub fn column(self) -> i64 {
        self.0.cast_signed()
    }

    /// As it is kept within a value.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums are stored: the rule may never change without a step of the schema.
    #[test]
    fn the_rule_is_frozen() {
        assert_eq!(Sum::of("t").0, XxHash3_64::oneshot_with_seed(0, b"t"));
        assert_eq!(Sum::of("chunks").number(7).bytes(b"abc").column(), FROZEN);
    }

    const FROZEN: i64 = -7_746_924_842_163_509_312;

    #[test]
    fn every_bit_of_every_part_counts() {
        let (one, other) = (*b"one part", *b"another");
        let whole = Sum::of("t").bytes(&one).bytes(&other);
        for place in 0..one.len() * 8 {
            let mut changed = one;
            changed[place / 8] ^= 1 << (place % 8);
            assert_ne!(Sum::of("t").bytes(&changed).bytes(&other), whole);
        }
        assert_ne!(Sum::of("u").bytes(&one).bytes(&other), whole);
        assert_ne!(Sum::of("t").bytes(&other).bytes(&one), whole);
        assert_ne!(Sum::of("t").bytes(b"one parta").bytes(b"nother"), whole);
        assert_ne!(Sum::of("t").bytes(b"").bytes(b""), Sum::of("t").bytes(b""));
    }
}
