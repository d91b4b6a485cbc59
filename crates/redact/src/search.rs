//! Searches for many short texts at once.

use std::ops::Range;

use aho_corasick::packed;
use aho_corasick::{AhoCorasick, MatchKind, Span};

/// The owner of a trigger.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TriggerTarget {
    Shape(usize),
    /// A known secret, and the offset of the trigger in it.
    Known(usize, usize),
}

/// A text that is searched for, and what it may be the beginning of.
#[derive(Debug)]
pub(crate) struct Trigger {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) what: TriggerTarget,
}

impl Trigger {
    pub(crate) fn new(bytes: &[u8], what: TriggerTarget) -> Self {
        Trigger { bytes: bytes.into(), what }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.bytes.len() < 4
    }
}

#[derive(Debug)]
pub(crate) struct Search {
    /// In the order of their first bytes.
    triggers: Vec<Trigger>,
    by_first: Box<[Range<usize>; 256]>,
    longest: usize,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    /// Many bytes at a step, where the processor can.
    Packed(Box<packed::Searcher>),
    Automaton(Box<AhoCorasick>),
}

impl Search {
    pub(crate) fn of(mut triggers: Vec<Trigger>) -> Self {
        triggers.sort_by_key(|trigger| trigger.bytes[0]);
        let by_first = Box::new(std::array::from_fn(|first| {
            let from = triggers.partition_point(|trigger| usize::from(trigger.bytes[0]) < first);
            let to = triggers.partition_point(|trigger| usize::from(trigger.bytes[0]) <= first);
            from..to
        }));
        let engine = Engine::of(&triggers);
        let longest = triggers.iter().map(|trigger| trigger.bytes.len()).max().unwrap_or(1);
        Search { triggers, by_first, longest, engine }
    }

    /// Passes every trigger from a place on to `each`, also several at one place, until it returns `false`.
    pub(crate) fn each(&self, bytes: &[u8], from: usize, mut each: impl FnMut(usize, &Trigger) -> bool) {
        let mut at = from;
        while let Some(found) = self.engine.find(bytes, at) {
            for trigger in self.with_first(bytes[found]) {
                if bytes[found..].starts_with(&trigger.bytes) && !each(found, trigger) {
                    return;
                }
            }
            at = found + 1;
        }
    }

    /// The first place from `from` on where a trigger begins that ends after the bytes.
    pub(crate) fn begins(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let from = from.max(bytes.len().saturating_sub(self.longest - 1));
        (from..bytes.len()).find(|at| {
            let end = &bytes[*at..];
            let mut triggers = self.with_first(end[0]).iter();
            triggers.any(|trigger| trigger.bytes.len() > end.len() && trigger.bytes.starts_with(end))
        })
    }

    fn with_first(&self, first: u8) -> &[Trigger] {
        &self.triggers[self.by_first[usize::from(first)].clone()]
    }
}

impl Engine {
    fn of(triggers: &[Trigger]) -> Self {
        let bytes = || triggers.iter().map(|trigger| &trigger.bytes);
        let packed = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostFirst)
            .heuristic_pattern_limits(false)
            .builder()
            .extend(bytes())
            .build();
        if let Some(packed) = packed {
            return Engine::Packed(Box::new(packed));
        }
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(bytes());
        Engine::Automaton(Box::new(automaton.expect("a few short texts fit an automaton")))
    }

    /// The first place from `at` on where a trigger begins.
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        if at >= bytes.len() {
            return None;
        }
        match self {
            Engine::Packed(packed) => {
                packed.find_in(bytes, Span { start: at, end: bytes.len() }).map(|found| found.start())
            }
            Engine::Automaton(automaton) => {
                automaton.find(aho_corasick::Input::new(bytes).range(at..)).map(|found| found.start())
            }
        }
    }
}
