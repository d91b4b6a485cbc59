//! Verifies runs: bytes against the chain, events against the rules, heads against recorded ones.
//!
//! [`Checker`] checks one run; [`offline`] checks a data folder that no server holds, and [`offline_database`] a database. A stored head proves nothing
//! against a person who can change the bytes next to it: only a head that was recorded elsewhere does.

mod database;
mod export;
mod folder;
mod signed;
mod survey;

use recount_event::codec;
use recount_log::chain::ChainValue;
use recount_run::{Auditor, Illegal};

#[doc(hidden)]
pub use crate::stores::seal_now as seal;
pub use database::offline_database;
pub use export::of_export;
pub use folder::{offline, offline_with_keys};
pub use signed::{PublicKeys, SignedCheck, SignedHead};
pub use survey::Survey;

/// The result of checking one run, or a store as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// `None` for the store as a whole.
    pub run_id: Option<String>,
    pub events: u64,
    /// The chain over the bytes that were read.
    pub head: String,
    /// One sentence per problem; empty if there is none.
    pub problems: Vec<String>,
    /// Pruned or erased content that could not be checked. These are notes, not problems.
    pub unseen: Vec<String>,
}

impl VerifyReport {
    /// The report of a recorded run that is missing.
    pub fn missing(run_id: &str) -> Self {
        VerifyReport {
            run_id: Some(run_id.to_owned()),
            events: 0,
            head: String::new(),
            problems: vec!["a digest of it was recorded, but the run is missing".to_owned()],
            unseen: Vec::new(),
        }
    }

    /// The report of a run that could not be read.
    pub fn unchecked(run_id: &str, why: &str) -> Self {
        let problems = vec![format!("cannot check it: {why}")];
        VerifyReport { problems, ..VerifyReport::missing(run_id) }
    }

    /// The report of an erased run, of which only a tombstone remains. Without its head, the recorded digest cannot be
    /// compared, and the report notes it.
    pub fn erased(run_id: &str, events: u64, head: &str, noted: &[Noted]) -> Self {
        let (mut problems, mut unseen) = (Vec::new(), vec!["it was erased and cannot be read".to_owned()]);
        for noted in noted.iter().filter(|noted| noted.run_id == run_id) {
            let differs = noted.head.to_string() != head;
            match noted.events {
                _ if head.is_empty() => unseen.push(format!(
                    "the recorded head {} was not compared, because a server does not return the head of an \
                     erased run; use `verify --data`",
                    noted.head
                )),
                Some(count) if count > events || count == events && differs => {
                    problems.push(format!(
                        "the recorded digest ({count} events, head {}) does not match the erased run ({events} \
                         events, head {head})",
                        noted.head
                    ));
                }
                _ => {}
            }
        }
        VerifyReport { run_id: Some(run_id.to_owned()), events, head: head.to_owned(), problems, unseen }
    }
}

/// The count and head of a run, recorded elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    pub run_id: String,
    /// How many events the head covers; `None` if unknown, then any number matches.
    pub events: Option<u64>,
    head: ChainValue,
}

impl Noted {
    /// A head without a count.
    pub fn head(run_id: &str, head: &str) -> Option<Self> {
        let head = ChainValue::parse(head)?;
        Some(Noted { run_id: run_id.to_owned(), events: None, head })
    }

    /// Parses a line of `recount digest`: run, events, head.
    pub fn line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (run, events, head) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        let noted = Noted { events: Some(events), ..Noted::head(run, head)? };
        words.next().is_none().then_some(noted)
    }
}

/// Checks the events of one run, given in order as stored bytes.
pub struct Checker {
    run_id: String,
    head: ChainValue,
    auditor: Auditor,
    illegal: Option<Illegal>,
    count: u64,
    /// The first event that was not pruned.
    first: u64,
    problems: Vec<String>,
    /// Recorded digests of this run that were not reached yet.
    noted: Vec<Noted>,
    /// Differences from recorded digests; the check continues after them.
    differences: Vec<String>,
    ended_at: Option<u64>,
}

impl Checker {
    pub fn new(run_id: &str) -> Self {
        Checker {
            run_id: run_id.to_owned(),
            head: ChainValue::start(run_id),
            auditor: Auditor::default(),
            illegal: None,
            count: 0,
            first: 0,
            problems: Vec::new(),
            noted: Vec::new(),
            differences: Vec::new(),
            ended_at: None,
        }
    }

    /// Checks a run whose events before `first` were pruned, from the chain value `start`. `None` if `start` is
    /// invalid.
    pub fn beginning_at(run_id: &str, first: u64, start: &str) -> Option<Self> {
        let head = ChainValue::parse(start)?;
        let auditor = Auditor::beginning_at(first);
        Some(Checker { head, auditor, count: first, first, ..Checker::new(run_id) })
    }

    /// Also compares with the recorded digests of this run; more events may follow. Call it before any event.
    #[must_use]
    pub fn against(mut self, noted: &[Noted]) -> Self {
        self.noted = noted.iter().filter(|noted| noted.run_id == self.run_id).cloned().collect();
        self.compare();
        self
    }

    fn compare(&mut self) {
        let (count, head) = (self.count, self.head);
        let differences = &mut self.differences;
        self.noted.retain(|noted| match noted.events {
            Some(events) if events != count => true,
            Some(_) if noted.head != head => {
                differences.push(format!(
                    "its first {count} events were changed: they have the head {head}, but the recorded head \
                     is {}",
                    noted.head
                ));
                false
            }
            Some(_) => false,
            None => noted.head != head,
        });
    }

    /// The sequence of the run's ending, if it was checked.
    pub fn ended_at(&self) -> Option<u64> {
        self.ended_at
    }

    /// How many events were checked.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Describes the pruned events and the recorded digests that can no longer be compared.
    fn unseen(&mut self) -> Vec<String> {
        if self.first == 0 {
            return Vec::new();
        }
        let mut unseen = vec![format!("the events 0 to {} were pruned", self.first - 1)];
        let first = self.first;
        self.noted.retain(|noted| match noted.events {
            Some(events) if events >= first => true,
            Some(events) => {
                unseen.push(format!(
                    "the recorded digest of its first {events} events can no longer be compared"
                ));
                false
            }
            None => {
                unseen.push(format!("the recorded head {} may be of events that were pruned", noted.head));
                false
            }
        });
        unseen
    }

    /// Checks one event. An error names its own problem; the check continues.
    pub fn event(&mut self, bytes: &[u8]) -> Result<(), String> {
        let place = self.count;
        self.count += 1;
        self.head = self.head.then(bytes);
        self.compare();
        if signed::is_ending(bytes) {
            self.ended_at = self.ended_at.or(Some(place));
        }
        let outcome = match codec::decode(bytes) {
            Ok(event) if event.run_id.to_string() != self.run_id => {
                Err(format!("event {place} belongs to {}", event.run_id))
            }
            Ok(event) => {
                self.illegal = self.illegal.take().or_else(|| self.auditor.read(&event).err());
                Ok(())
            }
            Err(why) => Err(format!("event {place} cannot be read: {why}")),
        };
        if let Err(problem) = &outcome {
            self.problems.push(problem.clone());
        }
        outcome
    }

    /// Compares with the expected count and head, and checks the whole run against the rules.
    pub fn finish(mut self, expected: Option<(u64, &str)>) -> VerifyReport {
        // After an unreadable event, later events would break rules only because of the gap.
        if self.problems.is_empty()
            && let Some(illegal) = &self.illegal
        {
            self.problems.push(format!(
                "event {} breaks the rule {}: {}",
                illegal.sequence, illegal.rule, illegal.message
            ));
        }
        if self.problems.is_empty()
            && let Err(illegal) = std::mem::take(&mut self.auditor).finish()
            && self.illegal.is_none()
        {
            self.problems.push(format!("it breaks the rule {}: {}", illegal.rule, illegal.message));
        }
        let unseen = self.unseen();
        let head = self.head.to_string();
        if let Some((events, noted)) = expected {
            if events != self.count {
                self.problems.push(format!("it has {} events, expected {events}", self.count));
            } else if noted != head {
                self.problems
                    .push(format!("the events were changed: they have the head {head}, expected {noted}"));
            }
        }
        for noted in self.noted {
            self.differences.push(match noted.events {
                Some(events) => {
                    format!("the recorded digest has {events} events, but only {} exist", self.count)
                }
                None => format!(
                    "the events were changed: no beginning of its {} events has the recorded head {}",
                    self.count, noted.head
                ),
            });
        }
        self.problems.append(&mut self.differences);
        VerifyReport { run_id: Some(self.run_id), events: self.count, head, problems: self.problems, unseen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "run_1";

    fn head(events: &[&str]) -> ChainValue {
        events.iter().fold(ChainValue::start(RUN), |head, event| head.then(event.as_bytes()))
    }

    /// Checks the difference between a run of three events and one recorded line.
    fn check(noted: Option<Noted>, expected: &str) {
        let mut checker = Checker::new(RUN).against(&[noted.expect("a head")]);
        for event in ["a", "b", "c"] {
            drop(checker.event(event.as_bytes()));
        }
        checker.problems.clear();
        checker.problems.push("not read".to_owned());
        let problems = checker.finish(None).problems.split_off(1);
        match expected {
            "" => assert_eq!(problems, Vec::<String>::new()),
            expected => assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}"),
        }
    }

    #[test]
    fn digests_of_erased_runs_are_compared_or_reported_as_uncompared() {
        let (one, two) = (head(&["a"]).to_string(), head(&["a", "b"]).to_string());
        let problems =
            |events, of: &str, noted: &[Noted]| VerifyReport::erased(RUN, events, of, noted).problems;
        let unseen = |of: &str, noted: &[Noted]| VerifyReport::erased(RUN, 0, of, noted).unseen.len();
        let noted = [Noted::line(&format!("{RUN} 2 {two}")).unwrap()];
        assert_eq!(problems(2, &two, &noted), [""; 0]);
        assert!(problems(2, &one, &noted)[0].contains("the recorded digest (2 events"));
        assert!(problems(1, &one, &noted)[0].contains("the erased run (1 events"));
        assert_eq!((problems(0, "", &noted), unseen("", &noted)), (Vec::new(), 2));
        assert_eq!((problems(0, "", &[]), unseen("", &[])), (Vec::new(), 1));
    }

    #[test]
    fn recorded_digests_must_match_and_more_events_may_follow() {
        let all = ["a", "b", "c"];
        for events in 0..=3 {
            let head = head(&all[..events]).to_string();
            check(Noted::line(&format!("{RUN} {events} {head}\n")), "");
            check(Noted::head(RUN, &head), "");
        }
        check(Noted::line(&format!("run_2 1 {}", head(&["x"]))), "");
        check(Noted::line(&format!("{RUN} 2 {}", head(&["a", "x"]))), "its first 2 events were changed");
        check(Noted::line(&format!("{RUN} 2 {}", head(&["a"]))), "its first 2 events were changed");
        check(
            Noted::line(&format!("{RUN} 4 {}", head(&all))),
            "the recorded digest has 4 events, but only 3 exist",
        );
        check(Noted::head(RUN, &head(&["x"]).to_string()), "no beginning of its 3 events");
        for odd in ["", "run_1", "run_1 3", "run_1 x 00", "run_1 3 00"] {
            assert_eq!(Noted::line(odd), None, "{odd:?}");
        }
        assert_eq!(Noted::line(&format!("{RUN} 3 {} more", head(&all))), None);
    }
}
