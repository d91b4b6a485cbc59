//! What is counted while the engine works, for metrics, and what the scrub has found. It must never know what the numbers
//! are used for.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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

    /// What the scrub found.
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

/// What the scrub has found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Rounds that came to their end.
    pub rounds: u64,
    /// Events read, over all rounds.
    pub events: u64,
    /// What is damaged, by the last round that ended and the one under way; at most
    /// [`limits::SCRUB_FINDINGS_MAX`] sentences.
    pub findings: Vec<String>,
    /// Findings beyond those.
    pub more: u64,
}

impl Scrubbed {
    fn add(&mut self, sentence: String) {
        if self.findings.len() < limits::SCRUB_FINDINGS_MAX {
            self.findings.push(sentence);
        } else {
            self.more += 1;
        }
    }
}

/// Shared by the scrub and those who ask.
#[derive(Default)]
pub(crate) struct Findings(Mutex<Inner>);

impl Findings {
    pub(crate) fn told(&self) -> Scrubbed {
        self.change(|inner| inner.told.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn read(&self, events: usize) {
        self.change(|inner| inner.told.events += events as u64);
    }

    pub(crate) fn found(&self, sentence: String) {
        self.change(|inner| {
            if inner.round.contains(&sentence) {
                return;
            }
            if !inner.told.findings.contains(&sentence) {
                tracing::error!(damage = sentence, "stored bytes are damaged");
                inner.told.add(sentence.clone());
            }
            if inner.round.len() < limits::SCRUB_FINDINGS_MAX {
                inner.round.push(sentence);
            }
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
                "{most} rows (REPAIRS_GIVEN_UP_MAX) or more are damaged and cannot be repaired; reads repair nothing until \
                 the scrub looks at the rows again"
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
            inner.told.rounds += 1;
            inner.told.findings = std::mem::take(&mut inner.round);
            inner.told.more = 0;
        });
    }
}

#[derive(Default)]
struct Inner {
    told: Scrubbed,
    /// Of the round under way.
    round: Vec<String>,
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
