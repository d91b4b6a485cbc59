//! Where the records of one stream are in the hot part: group by group, stored inline while they are few.
//!
//! Most streams are short and stay indexed while they are hot: tens of thousands of them when runs are short. It must
//! not know streams or groups.

use std::collections::VecDeque;

/// Records of one stream that follow each other in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first_sequence: u64,
    pub(crate) count: u64,
    /// The group's first position.
    pub(crate) group: u64,
}

impl Part {
    fn end(&self) -> u64 {
        self.first_sequence + self.count
    }
}

/// Parts in order of sequence, each begins where the one before ends.
pub(crate) enum Parts {
    Few(PackedParts),
    Many(VecDeque<Part>),
}

/// The number of parts of a short run.
const FEW: usize = 4;

/// Parts stored inline, without an allocation.
#[derive(Default)]
pub(crate) struct PackedParts {
    first_sequence: u64,
    groups: [u64; FEW],
    counts: [u32; FEW],
    len: u8,
}

impl Parts {
    pub(crate) fn of(part: Part) -> Self {
        let mut parts = Parts::Few(PackedParts::default());
        parts.push(part);
        parts
    }

    /// Adds the newest part.
    pub(crate) fn push(&mut self, part: Part) {
        if let Parts::Few(few) = self {
            if few.push(part) {
                return;
            }
            *self = Parts::Many(few.all().collect());
        }
        if let Parts::Many(many) = self {
            many.push_back(part);
        }
    }

    /// The parts with records from a sequence on, at most `max`.
    pub(crate) fn from(&self, sequence: u64, max: usize) -> Vec<Part> {
        match self {
            Parts::Few(few) => few.all().filter(|part| part.end() > sequence).take(max).collect(),
            Parts::Many(many) => {
                let first = many.partition_point(|part| part.end() <= sequence);
                many.range(first..).take(max).copied().collect()
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Parts::Few(few) => few.len == 0,
            Parts::Many(many) => many.is_empty(),
        }
    }

    /// Removes the groups up to a position.
    pub(crate) fn remove_groups(&mut self, last_position: u64) {
        match self {
            Parts::Few(few) => few.keep(|part| (part.group > last_position).then_some(part)),
            Parts::Many(many) => while many.pop_front_if(|part| part.group <= last_position).is_some() {},
        }
    }

    /// Removes the records before a sequence.
    pub(crate) fn cut(&mut self, first_sequence: u64) {
        let rest = |part: Part| {
            let first = part.first_sequence.max(first_sequence);
            (part.end() > first).then(|| Part { first_sequence: first, count: part.end() - first, ..part })
        };
        match self {
            Parts::Few(few) => few.keep(rest),
            Parts::Many(many) => *many = many.drain(..).filter_map(rest).collect(),
        }
    }
}

impl PackedParts {
    /// Returns `false` if the part does not fit.
    fn push(&mut self, part: Part) -> bool {
        let (place, Ok(count)) = (usize::from(self.len), u32::try_from(part.count)) else { return false };
        if place == FEW {
            return false;
        }
        if place == 0 {
            self.first_sequence = part.first_sequence;
        } else if self.all().last().is_some_and(|last| last.end() != part.first_sequence) {
            return false;
        }
        (self.groups[place], self.counts[place]) = (part.group, count);
        self.len += 1;
        true
    }

    fn all(&self) -> impl Iterator<Item = Part> {
        let packed = self.groups.iter().zip(&self.counts).take(self.len.into());
        packed.scan(self.first_sequence, |next, (group, count)| {
            let part = Part { first_sequence: *next, count: u64::from(*count), group: *group };
            *next = part.end();
            Some(part)
        })
    }

    /// Replaces or removes each part; only the first ones may be removed or shortened.
    fn keep(&mut self, each: impl Fn(Part) -> Option<Part>) {
        let mut kept = PackedParts::default();
        for part in self.all().filter_map(each) {
            kept.push(part);
        }
        *self = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first_sequence: u64, count: u64, group: u64) -> Part {
        Part { first_sequence, count, group }
    }

    /// The same parts, packed and not.
    fn both(parts: &[Part]) -> [Parts; 2] {
        let mut packed = Parts::of(parts[0]);
        parts[1..].iter().for_each(|part| packed.push(*part));
        [packed, Parts::Many(parts.iter().copied().collect())]
    }

    fn all(parts: &Parts) -> Vec<Part> {
        parts.from(0, usize::MAX)
    }

    #[test]
    fn packed_and_queued_parts_agree() {
        let parts: Vec<Part> = (0..6).map(|at| part(10 + at * (at + 1) / 2, at + 1, 100 + at * 10)).collect();
        for len in 1..=parts.len() {
            let some = &parts[..len];
            for parts in both(some) {
                assert_eq!(all(&parts), some);
                assert!(!parts.is_empty());
            }
            assert_eq!(matches!(both(some)[0], Parts::Few(_)), len <= FEW);
            for sequence in 8..35 {
                for max in [0, 1, 2, 9] {
                    let [packed, plain] = both(some);
                    assert_eq!(packed.from(sequence, max), plain.from(sequence, max));
                }
                let [mut packed, mut plain] = both(some);
                packed.cut(sequence);
                plain.cut(sequence);
                assert_eq!(all(&packed), all(&plain), "cut at {sequence}");
                assert_eq!(packed.is_empty(), sequence >= some[len - 1].end());
                assert!(all(&packed).iter().all(|part| part.first_sequence >= sequence && part.count > 0));
            }
            for position in 95..160 {
                let [mut packed, mut plain] = both(some);
                packed.remove_groups(position);
                plain.remove_groups(position);
                assert_eq!(all(&packed), all(&plain), "removed up to {position}");
                assert!(all(&packed).iter().all(|part| part.group > position));
            }
        }
    }

    #[test]
    fn removed_parts_free_their_slots_and_large_parts_are_kept() {
        let mut parts = both(&[part(0, 1, 10), part(1, 1, 20), part(2, 1, 30), part(3, 1, 40)])[0].from(0, 9);
        let mut few = Parts::of(parts.remove(0));
        parts.iter().for_each(|part| few.push(*part));
        few.remove_groups(20);
        few.push(part(4, 2, 50));
        assert!(matches!(few, Parts::Few(_)));
        assert_eq!(all(&few), [part(2, 1, 30), part(3, 1, 40), part(4, 2, 50)]);
        let large = u64::from(u32::MAX) + 1;
        few.push(part(6, large, 60));
        assert_eq!(all(&few).last(), Some(&part(6, large, 60)));
    }
}
