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
                    SignedCheck { noted, ..SignedCheck::default() }
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

    /// Recorded digests, with that of the signed head.
    pub fn with(&self, noted: &[Noted]) -> Vec<Noted> {
        noted.iter().chain(&self.noted).cloned().collect()
    }

    /// Adds what is wrong with the signed head. `has_ended`: the run must have one.
    pub fn report(self, has_ended: bool, report: &mut VerifyReport) {
        report.problems.extend(self.problem);
        if self.is_missing && has_ended {
            report.problems.push("it has no signed head".to_owned());
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
    let read = Envelope::read(envelope);
    read.is_ok_and(|read| matches!(&*read.type_name, "run.finished" | "run.failed" | "run.cancelled"))
}
