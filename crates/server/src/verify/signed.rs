//! Compares runs with their signed heads. See [`SignedCheck`].

use recount_event::codec::Envelope;
use recount_log::Store;
pub use recount_signature::{PublicKeys, SignedHead};

use super::{Noted, VerifyReport};
use crate::audit;

/// What the signed head of a run states, as far as it can be trusted.
#[derive(Debug, Default)]
pub struct SignedCheck {
    /// To be compared with the run.
    pub noted: Option<Noted>,
    problem: Option<String>,
    /// How many events it covers.
    events: u64,
    /// No signed head was found, which is right until the run has ended.
    is_missing: bool,
}

impl SignedCheck {
    /// Checks a signed head of a run, or that there is none.
    pub fn of(run_id: &str, signed: Option<&SignedHead>, keys: &PublicKeys) -> Self {
        let Some(signed) = signed else { return SignedCheck { is_missing: true, ..SignedCheck::default() } };
        match keys.check(signed) {
            Ok(statement) if statement.run_id != run_id => {
                SignedCheck::wrong(format!("its signed head is of {}", statement.run_id))
            }
            Ok(statement) => match Noted::head(run_id, &statement.head) {
                Some(head) => {
                    let noted = Some(Noted { events: Some(statement.events), ..head });
                    SignedCheck { noted, events: statement.events, ..SignedCheck::default() }
                }
                None => SignedCheck::wrong("its signed head is unreadable".to_owned()),
            },
            Err(distrust) => SignedCheck::wrong(format!("its signed head is not trusted: {distrust}")),
        }
    }

    fn wrong(problem: String) -> Self {
        SignedCheck { problem: Some(problem), ..SignedCheck::default() }
    }

    /// The same for the stored head of a run.
    pub(super) async fn of_store(store: &dyn Store, run_id: &str, keys: Option<&PublicKeys>) -> Self {
        let Some(keys) = keys else { return SignedCheck::default() };
        match recount_engine::stored_head(store, run_id).await {
            Ok(signed) => SignedCheck::of(run_id, signed.as_ref(), keys),
            Err(error) => SignedCheck::wrong(format!("its signed head cannot be read: {error}")),
        }
    }

    /// The problem of a run that has this stored head and no events.
    pub(super) fn of_missing_run(self) -> String {
        match self.problem {
            None => "a signed head of it is stored, but the run is missing".to_owned(),
            Some(problem) => format!("a head of it is stored, but the run is missing; {problem}"),
        }
    }

    /// Recorded digests, with that of the signed head.
    pub fn with(&self, noted: &[Noted]) -> Vec<Noted> {
        noted.iter().chain(&self.noted).cloned().collect()
    }

    /// The same for a run in a file that was made with signed heads of all its runs: one without an ending needs a head over
    /// exactly its events. Otherwise an ending that was cut off would make any events valid.
    pub(super) fn report_in_file(self, ended_at: Option<u64>, events: u64, report: &mut VerifyReport) {
        let has_trusted = self.problem.is_none() && !self.is_missing && self.noted.is_some();
        match ended_at {
            None if self.is_missing => {
                report.problems.push("it has neither an ending nor a signed head".to_owned());
            }
            None if has_trusted && self.events != events => report.problems.push(format!(
                "it has no ending, and its signed head covers {} of {events} events",
                self.events
            )),
            _ => {}
        }
        self.report(ended_at, report);
    }

    /// Adds what is wrong with the signed head. `ended_at` is the sequence of the run's ending: only a head that covers it was
    /// signed at the end.
    pub fn report(self, ended_at: Option<u64>, report: &mut VerifyReport) {
        let has_trusted = self.problem.is_none() && !self.is_missing && self.noted.is_some();
        report.problems.extend(self.problem);
        match ended_at {
            Some(_) if self.is_missing => report.problems.push("it has no signed head".to_owned()),
            Some(ending) if has_trusted && self.events <= ending => report.problems.push(format!(
                "its signed head covers only {} events, and it ended with event {ending}",
                self.events
            )),
            _ => {}
        }
    }
}

impl Noted {
    /// Reads a line of `recount digest --signed`, which one of these keys must have signed. An error is a sentence.
    pub fn signed_line(line: &str, keys: &PublicKeys) -> Result<Self, String> {
        let signed: SignedHead =
            serde_json::from_str(line).map_err(|why| format!("no signed head: {why}"))?;
        let statement = keys.check(&signed).map_err(|distrust| distrust.to_string())?;
        let head = Noted::head(&statement.run_id, &statement.head).ok_or("its head is unreadable")?;
        Ok(Noted { events: Some(statement.events), ..head })
    }
}

/// Whether the heads of a tenant's runs are signed: the audit trail is not.
pub(super) fn is_signed(tenant: &str) -> bool {
    tenant != audit::TENANT
}

/// Whether an event is the last one of its run.
pub(super) fn is_ending(envelope: &[u8]) -> bool {
    Envelope::read(envelope).is_ok_and(|read| read.is_ending())
}

#[cfg(test)]
mod tests {
    use recount_signature::{ALGORITHM, SEED_BYTES, SigningKey, Statement};

    use super::*;

    /// The problems of a run that ended with event 4 and has a head over so many events.
    fn problems(events: Option<u64>, ended_at: Option<u64>) -> Vec<String> {
        let key = SigningKey::from_seed(&[1; SEED_BYTES]);
        let keys = PublicKeys::parse(&serde_json::to_string(key.public()).unwrap()).unwrap();
        let signed = events.map(|events| {
            key.sign(&Statement {
                tenant: "default".to_owned(),
                run_id: "run_1".to_owned(),
                events,
                algorithm: ALGORITHM.to_owned(),
                head: "0".repeat(64),
                signed_at: String::new(),
                key_id: key.id().to_owned(),
                number: None,
                previous: None,
            })
        });
        let mut report = VerifyReport { problems: Vec::new(), ..VerifyReport::missing("run_1") };
        SignedCheck::of("run_1", signed.as_ref(), &keys).report(ended_at, &mut report);
        report.problems
    }

    #[test]
    fn a_head_that_was_signed_before_the_end_is_not_enough() {
        assert_eq!(problems(Some(5), Some(4)), [""; 0]);
        assert_eq!(problems(Some(3), None), [""; 0], "it has not ended");
        assert!(problems(Some(4), Some(4))[0].contains("covers only 4 events"));
        assert_eq!(problems(None, Some(4)), ["it has no signed head"]);
        assert_eq!(problems(None, None), [""; 0]);
    }
}
