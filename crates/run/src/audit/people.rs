//! Audits prompts and their answers.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::digest::{CALL_DIGEST_PREFIX, call_digest};
use recount_event::family::approval::{self, Decision, DefaultDecision};
use recount_event::family::clarification::Applied;
use recount_event::family::run::{WaitKind, WaitsFor};
use recount_event::{ForeignId, Json, Payload, time};

use super::Reading;
use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct People {
    /// Without an outcome.
    pending: BTreeMap<Name, AuditedPrompt>,
    answered: BTreeSet<Name>,
}

/// Each kind has its own identifiers.
type Name = (WaitKind, ForeignId);

/// What the outcome of a prompt is held against.
#[derive(Default)]
struct AuditedPrompt {
    call: Option<ForeignId>,
    /// Without an answer in time, the approval is granted.
    approves_itself: bool,
    /// The default answer to a question.
    default_response: Option<Json>,
    /// In milliseconds since 1970.
    deadline: Option<u64>,
}

/// The time allowed counts from the request; without one, the instant named.
fn deadline(asked_ms: u64, timeout_seconds: Option<u64>, expires_at: Option<&String>) -> Option<u64> {
    match (timeout_seconds, expires_at) {
        (Some(seconds), _) => Some(asked_ms.saturating_add(seconds.saturating_mul(1_000))),
        (None, Some(instant)) => time::parse_ms(instant),
        (None, None) => None,
    }
}

impl People {
    pub(super) fn pending(&self) -> Vec<WaitsFor> {
        self.pending.keys().map(|(kind, id)| WaitsFor { kind: *kind, id: id.clone() }).collect()
    }

    fn pending_for(&self, call: &str) -> impl Iterator<Item = WaitKind> {
        self.pending
            .iter()
            .filter(move |(_, asked)| asked.call.as_deref() == Some(call))
            .map(|((kind, _), _)| *kind)
    }

    /// Whether the call waits for a person.
    pub(super) fn waits_on(&self, call: &str) -> bool {
        self.pending_for(call).next().is_some()
    }

    /// Whether an approval of the call is pending.
    pub(super) fn approves(&self, call: &str) -> bool {
        self.pending_for(call).any(|kind| kind == WaitKind::Approval)
    }

    fn is_new(&self, name: &Name) -> Result<(), Broken> {
        if self.pending.contains_key(name) || self.answered.contains(name) {
            return broken!("prompt.id", "{} {} is asked twice", name.0, name.1);
        }
        Ok(())
    }

    /// Finds a prompt.
    fn find(&self, name: &Name, call: Option<&ForeignId>) -> Result<&AuditedPrompt, Broken> {
        let (kind, id) = name;
        let Some(asked) = self.pending.get(name) else {
            return broken!("prompt.pending", "{kind} {id} is not pending");
        };
        match call {
            Some(call) if asked.call.as_ref() != Some(call) => {
                broken!("prompt.call", "{kind} {id} was not about {call}")
            }
            _ => Ok(asked),
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.pending.len(), self.answered.len())
    }
}

impl Reading {
    /// Whether the event was of a prompt.
    pub(super) fn read_people(&mut self, payload: &Payload, at_ms: u64) -> Result<bool, Broken> {
        use WaitKind::{Approval, Clarification, Handoff};
        match payload {
            Payload::ApprovalRequested(asked) => self.ask_approval(asked, at_ms)?,
            Payload::ClarificationRequested(question) => {
                let asked = AuditedPrompt {
                    call: question.tool_call_id.clone(),
                    default_response: question.default_response.clone(),
                    deadline: deadline(at_ms, question.timeout_seconds, question.expires_at.as_ref()),
                    ..AuditedPrompt::default()
                };
                self.ask_about((Clarification, question.clarification_id.clone()), asked)?;
            }
            Payload::HandoffRequested(wanted) => {
                let asked = AuditedPrompt {
                    call: wanted.tool_call_id.clone(),
                    deadline: deadline(at_ms, wanted.timeout_seconds, wanted.expires_at.as_ref()),
                    ..AuditedPrompt::default()
                };
                self.ask_about((Handoff, wanted.handoff_id.clone()), asked)?;
            }
            Payload::ApprovalResolved(said) => {
                let name = (Approval, said.approval_id.clone());
                self.people.find(&name, said.tool_call_id.as_ref())?;
                let elsewhere = said.decided_elsewhere.is_some();
                if elsewhere && (self.course.is_own() || said.decision != Decision::Cancelled) {
                    return broken!(
                        "approval.elsewhere",
                        "{} is decided elsewhere, but not withdrawn",
                        name.1
                    );
                }
                if said.leaves_call_open() {
                    self.people.pending.remove(&name);
                    self.people.answered.insert(name);
                } else {
                    self.has_outcome(name, Some(said.decision == Decision::Approved));
                }
            }
            Payload::ApprovalExtended(more) => {
                let name = (Approval, more.approval_id.clone());
                self.extend(name, more.tool_call_id.as_ref(), (&more.expires_at, more.seconds))?;
            }
            Payload::ClarificationExtended(more) => {
                let name = (Clarification, more.clarification_id.clone());
                self.extend(name, more.tool_call_id.as_ref(), (&more.expires_at, more.seconds))?;
            }
            Payload::HandoffExtended(more) => {
                let name = (Handoff, more.handoff_id.clone());
                self.extend(name, more.tool_call_id.as_ref(), (&more.expires_at, more.seconds))?;
            }
            Payload::ApprovalTimedOut(missed) => {
                let name = (Approval, missed.approval_id.clone());
                let approves = self.people.find(&name, missed.tool_call_id.as_ref())?.approves_itself;
                let right = if approves { Decision::Approved } else { Decision::Rejected };
                if missed.decision.is_some_and(|told| told != right) {
                    return broken!("approval.decision", "{} times out as what was not its default", name.1);
                }
                self.has_outcome(name, Some(approves));
            }
            Payload::ClarificationAnswered(said) => {
                let name = (Clarification, said.clarification_id.clone());
                self.people.find(&name, said.tool_call_id.as_ref())?;
                self.has_outcome(name, None);
            }
            Payload::ClarificationTimedOut(missed) => {
                let name = (Clarification, missed.clarification_id.clone());
                let stated = &self.people.find(&name, missed.tool_call_id.as_ref())?.default_response;
                let fits = match (missed.applied, &missed.response) {
                    (Applied::Unavailable, told) => told.is_none(),
                    (Applied::Default, None) => stated.is_some(),
                    (Applied::Default, told) => told == stated,
                };
                if !fits {
                    return broken!("clarification.default", "{} ends with what was not its default", name.1);
                }
                self.has_outcome(name, None);
            }
            Payload::HandoffAcknowledged(said) => {
                self.ends_handoff(&said.handoff_id, said.tool_call_id.as_ref())?;
            }
            Payload::HandoffRejected(said) => {
                self.ends_handoff(&said.handoff_id, said.tool_call_id.as_ref())?;
            }
            Payload::HandoffTimedOut(missed) => {
                self.ends_handoff(&missed.handoff_id, missed.tool_call_id.as_ref())?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn ask_approval(&mut self, asked: &approval::Requested, at_ms: u64) -> Result<(), Broken> {
        let (id, call) = (&asked.approval_id, &asked.tool_call_id);
        let name = (WaitKind::Approval, id.clone());
        self.people.is_new(&name)?;
        if !self.calls.may_be_asked_for(call) {
            return broken!("approval.call", "{id} asks for {call}, which is past asking");
        }
        if self.people.approves(call) {
            return broken!("approval.one_pending", "{id} asks for {call}, which another approval does");
        }
        let approves_itself = asked.default_decision == Some(DefaultDecision::Approve);
        if approves_itself && asked.is_grave() {
            return broken!("approval.default", "{id} is grave and approves itself");
        }
        if let (Some(digest), Some((tool_name, input))) = (&asked.call_digest, self.calls.proposal(call))
            && digest.starts_with(CALL_DIGEST_PREFIX)
            && *digest != call_digest(tool_name, input.text())
        {
            return broken!("approval.digest", "{id} asks for another call than {call} as proposed");
        }
        self.calls.ask_for(call);
        let deadline = deadline(at_ms, asked.timeout_seconds, asked.expires_at.as_ref());
        let asked =
            AuditedPrompt { call: Some(call.clone()), approves_itself, deadline, default_response: None };
        self.people.pending.insert(name, asked);
        Ok(())
    }

    fn ask_about(&mut self, name: Name, asked: AuditedPrompt) -> Result<(), Broken> {
        self.people.is_new(&name)?;
        if let Some(call) = &asked.call {
            if !self.calls.is_open(call) {
                return broken!(
                    "prompt.call_open",
                    "{} {} is about {call}, which is not open",
                    name.0,
                    name.1
                );
            }
            self.calls.answer(call, false);
        }
        self.people.pending.insert(name, asked);
        Ok(())
    }

    /// Moves a deadline.
    fn extend(
        &mut self,
        name: Name,
        call: Option<&ForeignId>,
        (expires_at, seconds): (&str, u64),
    ) -> Result<(), Broken> {
        let before = self.people.find(&name, call)?.deadline;
        let until = time::parse_ms(expires_at);
        let moves = match (before, until) {
            (Some(before), Some(until)) => until > before && until - before == seconds.saturating_mul(1_000),
            _ => false,
        };
        if !moves {
            return broken!("prompt.extension", "{} is extended to {expires_at}, not {seconds} s on", name.1);
        }
        if let Some(asked) = self.people.pending.get_mut(&name) {
            asked.deadline = until;
        }
        Ok(())
    }

    fn ends_handoff(&mut self, id: &ForeignId, call: Option<&ForeignId>) -> Result<(), Broken> {
        let name = (WaitKind::Handoff, id.clone());
        self.people.find(&name, call)?;
        self.has_outcome(name, None);
        Ok(())
    }

    /// Removes a prompt from the list and passes its outcome to its call.
    fn has_outcome(&mut self, name: Name, approved: Option<bool>) {
        let call = self.people.pending.remove(&name).and_then(|asked| asked.call);
        self.people.answered.insert(name);
        match (call, approved) {
            (Some(call), Some(approved)) => self.calls.approve(&call, approved),
            (Some(call), None) => self.calls.answer(&call, true),
            (None, _) => {}
        }
    }
}
