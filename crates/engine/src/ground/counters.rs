//! Counters for metrics, and the damage found so far. It must not know how the numbers are used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use recount_event::PromptKind;
use recount_log::{Damage, Histogram, StreamKey};

use crate::limits;

/// Counters of an engine.
#[derive(Default)]
pub(crate) struct Counters {
    committed: AtomicU64,
    /// Whether the last append that needed space found some; `false` before the first.
    has_space: AtomicBool,
    appends_full: AtomicU64,
    waits: Mutex<PromptWaits>,
    findings: Findings,
}

/// How long prompts waited for a person, in milliseconds, by kind and outcome.
pub type PromptWaits = BTreeMap<(PromptKind, String), Histogram>;

impl Counters {
    pub(crate) fn committed(&self, events: usize) {
        self.committed.fetch_add(events as u64, Ordering::Relaxed);
    }

    /// Counts a prompt that was settled.
    pub(crate) fn waited(&self, kind: PromptKind, outcome: String, ms: u64) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.entry((kind, outcome)).or_default().note(ms);
    }

    pub(crate) fn waits(&self) -> PromptWaits {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The damage found so far.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Records whether there was space for an append.
    pub(crate) fn had_space(&self, space: bool) {
        self.has_space.store(space, Ordering::Relaxed);
        if !space {
            self.appends_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last append that needed space found some. `false` before the first append.
    pub(crate) fn is_known_to_have_space(&self) -> bool {
        self.has_space.load(Ordering::Relaxed)
    }

    pub(crate) fn events_committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    pub(crate) fn appends_full(&self) -> u64 {
        self.appends_full.load(Ordering::Relaxed)
    }
}

/// Progress of the scrub, and damage found by the scrub, at startup or by other reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// Completed rounds.
    pub rounds: u64,
    /// Events read in all rounds.
    pub events: u64,
    /// Damage found by the last completed round and since then; at most [`limits::SCRUB_FINDINGS_MAX`] sentences.
    pub findings: Vec<String>,
    /// The number of further findings; at most [`limits::DAMAGED_PLACES_MAX`] are counted in total.
    pub more: u64,
}

/// Shared by the scrub, by reads, and by callers of [`ScrubReport`].
#[derive(Default)]
pub(crate) struct Findings(Mutex<Inner>);

impl Findings {
    pub(crate) fn report(&self) -> ScrubReport {
        self.change(|inner| {
            let places = &inner.known.0;
            let named = places.iter().take(limits::SCRUB_FINDINGS_MAX).map(ToString::to_string);
            ScrubReport {
                rounds: inner.rounds,
                events: inner.events,
                findings: named.collect(),
                more: places.len().saturating_sub(limits::SCRUB_FINDINGS_MAX) as u64,
            }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn read(&self, events: usize) {
        self.change(|inner| inner.events += events as u64);
    }

    pub(crate) fn found(&self, sentence: String) {
        self.add(DamagedPlace::Other(sentence));
    }

    /// Records damaged events. Reads with different ranges, and the feed, report parts of one range; it is one
    /// finding.
    pub(crate) fn damaged(&self, damage: &Damage) {
        self.add(match damage.clone() {
            Damage { stream: Some(stream), sequences: Some(range), .. } => {
                DamagedPlace::Events { stream, range }
            }
            // The feed names the same events by position.
            damage => DamagedPlace::Other(Damage { positions: None, ..damage }.to_string()),
        });
    }

    fn add(&self, place: DamagedPlace) {
        self.change(|inner| {
            if let Some(place) = inner.known.add(place.clone()) {
                tracing::error!(damage = %place, "stored bytes are damaged");
            }
            inner.round.add(place);
        });
    }

    pub(crate) fn is_given_up(&self, what: &str) -> bool {
        self.change(|inner| inner.all_given_up() || inner.given_up.contains(what))
    }

    pub(crate) fn give_up(&self, what: String) {
        let is_last = self.change(|inner| {
            let was_full = inner.all_given_up();
            if !was_full {
                inner.given_up.insert(what);
            }
            !was_full && inner.all_given_up()
        });
        if is_last {
            let most = limits::REPAIRS_GIVEN_UP_MAX;
            self.found(format!(
                "{most} rows (REPAIRS_GIVEN_UP_MAX) or more are damaged and cannot be repaired; reads repair \
                 no rows until the next scrub"
            ));
        }
    }

    /// Allows repairs that failed before; if they fail again, they are reported again.
    pub(crate) fn start_round(&self) {
        self.change(|inner| inner.given_up.clear());
    }

    /// Drops findings of damage that was erased, repaired or restored.
    pub(crate) fn finish_round(&self) {
        self.change(|inner| {
            inner.rounds += 1;
            inner.known = std::mem::take(&mut inner.round);
        });
    }
}

/// A damaged location.
#[derive(Clone, PartialEq, Eq)]
enum DamagedPlace {
    Events { stream: StreamKey, range: RangeInclusive<u64> },
    Other(String),
}

impl fmt::Display for DamagedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamagedPlace::Events { stream, range } => {
                let (stream, sequences) = (Some(stream.clone()), Some(range.clone()));
                Damage { stream, sequences, positions: None }.fmt(f)
            }
            DamagedPlace::Other(sentence) => f.write_str(sentence),
        }
    }
}

/// At most [`limits::DAMAGED_PLACES_MAX`] locations, in the order found. Ranges of one stream never touch.
#[derive(Default)]
struct DamagedPlaces(Vec<DamagedPlace>);

impl DamagedPlaces {
    /// Returns the merged location if it is new.
    fn add(&mut self, place: DamagedPlace) -> Option<DamagedPlace> {
        let DamagedPlace::Events { stream, mut range } = place else {
            return (!self.0.contains(&place)).then(|| self.push(place)).flatten();
        };
        let of_stream = |place: &DamagedPlace| match place {
            DamagedPlace::Events { stream: other, range } if *other == stream => Some(range.clone()),
            _ => None,
        };
        let includes =
            |known: RangeInclusive<u64>| known.start() <= range.start() && range.end() <= known.end();
        if self.0.iter().filter_map(of_stream).any(includes) {
            return None;
        }
        self.0.retain(|place| match of_stream(place) {
            Some(known) if touches(&known, &range) => {
                range = *known.start().min(range.start())..=*known.end().max(range.end());
                false
            }
            _ => true,
        });
        self.push(DamagedPlace::Events { stream, range })
    }

    fn push(&mut self, place: DamagedPlace) -> Option<DamagedPlace> {
        if self.0.len() >= limits::DAMAGED_PLACES_MAX {
            return None;
        }
        self.0.push(place.clone());
        Some(place)
    }
}

/// Whether two ranges overlap or are adjacent.
fn touches(one: &RangeInclusive<u64>, other: &RangeInclusive<u64>) -> bool {
    *one.start() <= other.end().saturating_add(1) && *other.start() <= one.end().saturating_add(1)
}

#[derive(Default)]
struct Inner {
    rounds: u64,
    events: u64,
    known: DamagedPlaces,
    /// Found since the last round ended.
    round: DamagedPlaces,
    /// Damage that could not be repaired in this round.
    given_up: BTreeSet<String>,
}

impl Inner {
    /// Each attempt may read the whole log, so the number of attempts is limited.
    fn all_given_up(&self) -> bool {
        self.given_up.len() >= limits::REPAIRS_GIVEN_UP_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_known_from_the_last_append() {
        let meters = Counters::default();
        assert!(!meters.is_known_to_have_space(), "nothing was appended yet");
        meters.had_space(true);
        assert!(meters.is_known_to_have_space());
        meters.had_space(false);
        meters.had_space(false);
        assert!(!meters.is_known_to_have_space());
        meters.had_space(true);
        assert_eq!((meters.is_known_to_have_space(), meters.appends_full()), (true, 2));
    }

    #[test]
    fn each_damaged_range_is_one_finding() {
        let findings = Findings::default();
        let damaged = |stream: &str, sequences: RangeInclusive<u64>| {
            let (stream, sequences) = (Some(stream.into()), Some(sequences));
            findings.damaged(&Damage { stream, sequences, positions: Some(3..=4) });
        };
        for range in [400..=755, 379..=755, 379..=401, 402..=755, 500..=500] {
            damaged("a", range);
        }
        damaged("b", 379..=401);
        damaged("a", 757..=800);
        findings.found("another thing".to_owned());
        findings.found("another thing".to_owned());
        let expected = [
            "stream a is damaged from sequence 379 to 755",
            "stream b is damaged from sequence 379 to 401",
            "stream a is damaged from sequence 757 to 800",
            "another thing",
        ];
        assert_eq!(findings.report().findings, expected);
        damaged("a", 756..=756);
        assert_eq!(findings.report().findings.len(), 3, "{:?}", findings.report());
        // Damage that a round does not find again is dropped at the end of the next.
        findings.finish_round();
        assert_eq!(findings.report().findings.len(), 3);
        damaged("b", 380..=401);
        findings.finish_round();
        assert_eq!(findings.report().findings, ["stream b is damaged from sequence 380 to 401"]);
        assert_eq!(findings.report().rounds, 2);
    }

    #[test]
    fn findings_are_bounded_and_counted_once() {
        let findings = Findings::default();
        for _ in 0..2 {
            for number in 0..limits::DAMAGED_PLACES_MAX + 5 {
                findings.found(format!("place {number}"));
            }
        }
        let report = findings.report();
        assert_eq!(report.findings.len(), limits::SCRUB_FINDINGS_MAX);
        assert_eq!(report.more as usize, limits::DAMAGED_PLACES_MAX - limits::SCRUB_FINDINGS_MAX);
    }

    #[test]
    fn after_too_many_failed_repairs_reads_repair_nothing_until_the_next_round() {
        let findings = Findings::default();
        for number in 0..limits::REPAIRS_GIVEN_UP_MAX {
            assert!(!findings.is_given_up("another row"), "{number}");
            findings.give_up(format!("row {number}"));
        }
        assert!(findings.is_given_up("another row"));
        findings.give_up("another row".to_owned());
        let texts = findings.report().findings;
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("REPAIRS_GIVEN_UP_MAX"), "{texts:?}");
        findings.start_round();
        assert!(!findings.is_given_up("row 0"));
    }
}
