//! What is counted while the engine works, for metrics, and what damage was found. It must never know what the numbers
//! are used for.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use recount_log::{Damage, StreamKey};

use crate::limits;

/// Shared by everything that counts.
#[derive(Default)]
pub(crate) struct Counters {
    committed: AtomicU64,
    /// Whether the last append that needed space found some; not known before the first.
    has_space: AtomicBool,
    appends_full: AtomicU64,
    findings: Findings,
}

impl Counters {
    pub(crate) fn committed(&self, events: usize) {
        self.committed.fetch_add(events as u64, Ordering::Relaxed);
    }

    /// What damage was found.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Notes whether there was space for an append.
    pub(crate) fn had_space(&self, space: bool) {
        self.has_space.store(space, Ordering::Relaxed);
        if !space {
            self.appends_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last append that needed space found some. Before the first nobody knows.
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

/// What the scrub has read so far, and the damage that it, the start or another read has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Rounds that came to their end.
    pub rounds: u64,
    /// Events read, over all rounds.
    pub events: u64,
    /// What is damaged, by the last round that ended and what was read since; at most
    /// [`limits::SCRUB_FINDINGS_MAX`] sentences, each about another place.
    pub findings: Vec<String>,
    /// Findings beyond those; at most [`limits::DAMAGED_PLACES_MAX`] in all are counted.
    pub more: u64,
}

/// Shared by the scrub, by reads, and by callers of [`Scrubbed`].
#[derive(Default)]
pub(crate) struct Findings(Mutex<Inner>);

impl Findings {
    pub(crate) fn told(&self) -> Scrubbed {
        self.change(|inner| {
            let places = &inner.known.0;
            let named = places.iter().take(limits::SCRUB_FINDINGS_MAX).map(ToString::to_string);
            Scrubbed {
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

    /// Notes damaged events. Reads that begin at different events, and the feed, report parts of one stretch: it is one
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

    /// What could not be repaired is tried once more, and named again where that fails.
    pub(crate) fn round_begins(&self) {
        self.change(|inner| inner.given_up.clear());
    }

    /// What is not damaged any more, because it was erased, repaired or restored, is forgotten.
    pub(crate) fn round_ended(&self) {
        self.change(|inner| {
            inner.rounds += 1;
            inner.known = std::mem::take(&mut inner.round);
        });
    }
}

/// What is damaged.
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

/// At most [`limits::DAMAGED_PLACES_MAX`], in the order in which they were found. Those of one stream do not touch.
#[derive(Default)]
struct DamagedPlaces(Vec<DamagedPlace>);

impl DamagedPlaces {
    /// Answers the place as it is known now, where that is news.
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

/// Whether two ranges overlap, or one follows the other.
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
    /// Damage that could not be repaired since the round began.
    given_up: BTreeSet<String>,
}

impl Inner {
    /// Each try may read the whole log, so a store with more than this would be busy with nothing else.
    fn all_given_up(&self) -> bool {
        self.given_up.len() >= limits::REPAIRS_GIVEN_UP_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_as_the_last_append_found_it() {
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
    fn each_damaged_stretch_is_one_finding_however_it_is_read() {
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
        let wanted = [
            "stream a is damaged from sequence 379 to 755",
            "stream b is damaged from sequence 379 to 401",
            "stream a is damaged from sequence 757 to 800",
            "another thing",
        ];
        assert_eq!(findings.told().findings, wanted);
        damaged("a", 756..=756);
        assert_eq!(findings.told().findings.len(), 3, "{:?}", findings.told());
        // What a round does not find again is forgotten with the next.
        findings.round_ended();
        assert_eq!(findings.told().findings.len(), 3);
        damaged("b", 380..=401);
        findings.round_ended();
        assert_eq!(findings.told().findings, ["stream b is damaged from sequence 380 to 401"]);
        assert_eq!(findings.told().rounds, 2);
    }

    #[test]
    fn findings_are_bounded_and_counted_once() {
        let findings = Findings::default();
        for _ in 0..2 {
            for number in 0..limits::DAMAGED_PLACES_MAX + 5 {
                findings.found(format!("place {number}"));
            }
        }
        let told = findings.told();
        assert_eq!(told.findings.len(), limits::SCRUB_FINDINGS_MAX);
        assert_eq!(told.more as usize, limits::DAMAGED_PLACES_MAX - limits::SCRUB_FINDINGS_MAX);
    }

    #[test]
    fn where_too_much_cannot_be_repaired_reads_repair_nothing_until_the_next_round() {
        let findings = Findings::default();
        for number in 0..limits::REPAIRS_GIVEN_UP_MAX {
            assert!(!findings.is_given_up("another row"), "{number}");
            findings.give_up(format!("row {number}"));
        }
        assert!(findings.is_given_up("another row"));
        findings.give_up("another row".to_owned());
        let said = findings.told().findings;
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("REPAIRS_GIVEN_UP_MAX"), "{said:?}");
        findings.round_begins();
        assert!(!findings.is_given_up("row 0"));
    }
}
