//! Where the records of one stream are in the hot part: group by group, stored inline while they are few.
//!
//! Most streams are short and are kept as long as the hot part reaches back, tens of thousands of them when runs
//! are many and short. It must not know streams or groups.

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
    PackedParts(PackedParts),
    Many(VecDeque<Part>),
}

/// As many as a short run has.
const FEW: usize = 4;

/// Without a memory of its own.
#[derive(Default)]
pub(crate) struct PackedParts {
    first_sequence: u64,
    groups: [u64; FEW],
    counts: [u32; FEW],
    len: u8,
}

impl Parts {
    pub(crate) fn of(part: Part) -> Self {
        let mut parts = Parts::PackedParts(PackedParts::default());
        parts.push(part);
        parts
    }

    /// Adds the newest.
    pub(crate) fn push(&mut self, part: Part) {
        if let Parts::PackedParts(few) = self {
            if few.push(part) {
                return;
            }
            *self = Parts::Many(few.all().collect());
        }
        if let Parts::Many(many) = self {
            many.push_back(part);
        }
    }

    /// Those that hold something from a sequence on, at most `max`.
    pub(crate) fn from(&self, sequence: u64, max: usize) -> Vec<Part> {
        match self {
            Parts::PackedParts(few) => few.all().filter(|part| part.end() > sequence).take(max).collect(),
            Parts::Many(many) => {
                let first = many.partition_point(|part| part.end() <= sequence);
                many.range(first..).take(max).copied().collect()
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Parts::PackedParts(few) => few.len == 0,
            Parts::Many(many) => many.is_empty(),
        }
    }

    /// Groups up to a position are no more.
    pub(crate) fn take_away(&mut self, last_position: u64) {
        match self {
            Parts::PackedParts(few) => few.keep(|part| (part.group > last_position).then_some(part)),
            Parts::Many(many) => while many.pop_front_if(|part| part.group <= last_position).is_some() {},
        }
    }

    /// Records before a sequence are no more.
    pub(crate) fn cut(&mut self, first_sequence: u64) {
        let rest = |part: Part| {
            let first = part.first_sequence.max(first_sequence);
            (part.end() > first).then(|| Part { first_sequence: first, count: part.end() - first, ..part })
        };
        match self {
            Parts::PackedParts(few) => few.keep(rest),
            Parts::Many(many) => *many = many.drain(..).filter_map(rest).collect(),
        }
    }
}

impl PackedParts {
    /// `false`: it does not fit.
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

    /// What becomes of each; only the first ones may go or grow shorter.
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
    fn few_and_many_say_the_same() {
        let parts: Vec<Part> = (0..6).map(|at| part(10 + at * (at + 1) / 2, at + 1, 100 + at * 10)).collect();
        for len in 1..=parts.len() {
            let some = &parts[..len];
            for made in both(some) {
                assert_eq!(all(&made), some);
                assert!(!made.is_empty());
            }
            assert_eq!(matches!(both(some)[0], Parts::PackedParts(_)), len <= FEW);
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
                packed.take_away(position);
                plain.take_away(position);
                assert_eq!(all(&packed), all(&plain), "taken away up to {position}");
                assert!(all(&packed).iter().all(|part| part.group > position));
            }
        }
    }

    #[test]
    fn what_was_taken_away_makes_room_and_what_does_not_fit_is_kept_all_the_same() {
        let mut parts = both(&[part(0, 1, 10), part(1, 1, 20), part(2, 1, 30), part(3, 1, 40)])[0].from(0, 9);
        let mut few = Parts::of(parts.remove(0));
        parts.iter().for_each(|part| few.push(*part));
        few.take_away(20);
        few.push(part(4, 2, 50));
        assert!(matches!(few, Parts::PackedParts(_)));
        assert_eq!(all(&few), [part(2, 1, 30), part(3, 1, 40), part(4, 2, 50)]);
        let large = u64::from(u32::MAX) + 1;
        few.push(part(6, large, 60));
        assert_eq!(all(&few).last(), Some(&part(6, large, 60)));
    }
}
