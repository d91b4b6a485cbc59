//! The keys of the open objects, to find duplicates. Must not know how keys are written.
//!
//! Ordered, not hashed: no input can make it slow, and nothing here draws randomness.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Keys of an object that are compared one by one; of more, the keys are sorted.
const COMPARED_MAX: usize = 32;

/// The keys of all open objects, the outermost object's first.
#[derive(Debug, Default)]
pub(crate) struct Keys<'a> {
    names: Vec<Cow<'a, str>>,
}

/// One object's part of them.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    first: usize,
    /// Which keys there may have been: one bit for each of 256 sums.
    bits: [u64; 4],
    sorted: BTreeSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn open(&self) -> Seen<'a> {
        Seen { first: self.names.len(), bits: [0; 4], sorted: BTreeSet::new() }
    }

    pub(crate) fn close(&mut self, seen: &Seen<'a>) {
        self.names.truncate(seen.first);
    }

    /// Whether the key is new in the innermost object.
    #[inline]
    pub(crate) fn insert(&mut self, seen: &mut Seen<'a>, name: Cow<'a, str>) -> bool {
        if !seen.sorted.is_empty() {
            return seen.sorted.insert(name);
        }
        let earlier = &self.names[seen.first..];
        if earlier.len() == COMPARED_MAX {
            seen.sorted.extend(self.names.drain(seen.first..));
            return seen.sorted.insert(name);
        }
        let sum = sum(name.as_bytes());
        let (word, bit) = (sum / 64, 1_u64 << (sum % 64));
        let is_new = seen.bits[word] & bit == 0 || !earlier.contains(&name);
        seen.bits[word] |= bit;
        self.names.push(name);
        is_new
    }
}

/// A number below 256 in which most different keys differ.
fn sum(name: &[u8]) -> usize {
    let length = name.len();
    let byte = |at: usize| name.get(at).copied().map_or(0, usize::from);
    length
        .wrapping_mul(101)
        .wrapping_add(byte(0) * 31)
        .wrapping_add(byte(length.wrapping_sub(1)) * 17)
        .wrapping_add(byte(length / 2) * 131)
        .wrapping_add(byte(length * 3 / 4) * 7)
        % 256
}
