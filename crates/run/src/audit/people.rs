//! Audits prompts and their answers.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::digest::{CALL_DIGEST_PREFIX, call_digest};
use recount_event::family::approval::{self, Decision, DefaultDecision};
use recount_event::family::clarification::{self, Applied};
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

/// The facts that the outcome of a prompt is checked against.
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
fn deadline(requested_ms: u64, timeout_seconds: Option<u64>, expires_at: Option<&String>) -> Option<u64> {
    match (timeout_seconds, expires_at) {
        (Some(seconds), _) => Some(requested_ms.saturating_add(seconds.saturating_mul(1_000))),
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
            .filter(move |(_, prompt)| prompt.call.as_deref() == Some(call))
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
            return broken!("prompt.id", "{} {} is requested twice", name.0, name.1);
        }
        Ok(())
    }

    /// Finds a prompt.
    fn find(&self, name: &Name, call: Option<&ForeignId>) -> Result<&AuditedPrompt, Broken> {
        let (kind, id) = name;
        let Some(prompt) = self.pending.get(name) else {
            return broken!("prompt.pending", "{kind} {id} is not pending");
        };
        match call {
            Some(call) if prompt.call.as_ref() != Some(call) => {
                broken!("prompt.call", "{kind} {id} was not requested for call {call}")
            }
            _ => Ok(prompt),
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
            Payload::ApprovalRequested(request) => self.add_approval(request, at_ms)?,
            Payload::ClarificationRequested(question) => {
                let prompt = AuditedPrompt {
                    call: question.tool_call_id.clone(),
                    default_response: question.default_response.clone(),
                    deadline: deadline(at_ms, question.timeout_seconds, question.expires_at.as_ref()),
                    ..AuditedPrompt::default()
                };
                self.add_prompt((Clarification, question.clarification_id.clone()), prompt)?;
            }
            Payload::HandoffRequested(handoff) => {
                let prompt = AuditedPrompt {
                    call: handoff.tool_call_id.clone(),
                    deadline: deadline(at_ms, handoff.timeout_seconds, handoff.expires_at.as_ref()),
                    ..AuditedPrompt::default()
                };
                self.add_prompt((Handoff, handoff.handoff_id.clone()), prompt)?;
            }
            Payload::ApprovalResolved(resolved) => self.resolve_approval(resolved)?,
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
            Payload::ApprovalTimedOut(missed) => self.time_out_approval(missed)?,
            Payload::ClarificationAnswered(answered) => {
                let name = (Clarification, answered.clarification_id.clone());
                self.people.find(&name, answered.tool_call_id.as_ref())?;
                self.has_outcome(name, None);
            }
            Payload::ClarificationTimedOut(missed) => self.time_out_clarification(missed)?,
            Payload::HandoffAcknowledged(acknowledged) => {
                self.ends_handoff(&acknowledged.handoff_id, acknowledged.tool_call_id.as_ref())?;
            }
            Payload::HandoffRejected(rejected) => {
                self.ends_handoff(&rejected.handoff_id, rejected.tool_call_id.as_ref())?;
            }
            Payload::HandoffTimedOut(missed) => {
                self.ends_handoff(&missed.handoff_id, missed.tool_call_id.as_ref())?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn add_approval(&mut self, request: &approval::Requested, at_ms: u64) -> Result<(), Broken> {
        let (id, call) = (&request.approval_id, &request.tool_call_id);
        let name = (WaitKind::Approval, id.clone());
        self.people.is_new(&name)?;
        if !self.calls.can_request_approval(call) {
            return broken!(
                "approval.call",
                "approval {id} is requested for call {call}, which was already invoked, denied or settled"
            );
        }
        if self.people.approves(call) {
            return broken!(
                "approval.one_pending",
                "approval {id} is requested for call {call}, which already has a pending approval"
            );
        }
        let approves_itself = request.default_decision == Some(DefaultDecision::Approve);
        if approves_itself && request.is_grave() {
            return broken!(
                "approval.default",
                "approval {id} is irreversible or high-risk, but its default is to approve"
            );
        }
        if let (Some(digest), Some((tool_name, input))) = (&request.call_digest, self.calls.proposal(call))
            && digest.starts_with(CALL_DIGEST_PREFIX)
            && *digest != call_digest(tool_name, input.text())
        {
            return broken!(
                "approval.digest",
                "the call_digest of approval {id} does not match call {call} as proposed"
            );
        }
        self.calls.request_approval(call);
        let deadline = deadline(at_ms, request.timeout_seconds, request.expires_at.as_ref());
        let prompt =
            AuditedPrompt { call: Some(call.clone()), approves_itself, deadline, default_response: None };
        self.people.pending.insert(name, prompt);
        Ok(())
    }

    fn resolve_approval(&mut self, resolved: &approval::Resolved) -> Result<(), Broken> {
        let name = (WaitKind::Approval, resolved.approval_id.clone());
        self.people.find(&name, resolved.tool_call_id.as_ref())?;
        let elsewhere = resolved.decided_elsewhere.is_some();
        if elsewhere && (self.course.is_own() || resolved.decision != Decision::Cancelled) {
            return broken!(
                "approval.elsewhere",
                "approval {} has decided_elsewhere, which is only for a cancelled approval of an \
                 external run",
                name.1
            );
        }
        if resolved.leaves_call_open() {
            self.people.pending.remove(&name);
            self.people.answered.insert(name);
        } else {
            self.has_outcome(name, Some(resolved.decision == Decision::Approved));
        }
        Ok(())
    }

    fn time_out_approval(&mut self, missed: &approval::TimedOut) -> Result<(), Broken> {
        let name = (WaitKind::Approval, missed.approval_id.clone());
        let approves = self.people.find(&name, missed.tool_call_id.as_ref())?.approves_itself;
        let right = if approves { Decision::Approved } else { Decision::Rejected };
        if missed.decision.is_some_and(|given| given != right) {
            return broken!(
                "approval.decision",
                "approval {} timed out with a decision that is not its default",
                name.1
            );
        }
        self.has_outcome(name, Some(approves));
        Ok(())
    }

    fn time_out_clarification(&mut self, missed: &clarification::TimedOut) -> Result<(), Broken> {
        let name = (WaitKind::Clarification, missed.clarification_id.clone());
        let stated = &self.people.find(&name, missed.tool_call_id.as_ref())?.default_response;
        let fits = match (missed.applied, &missed.response) {
            (Applied::Unavailable, given) => given.is_none(),
            (Applied::Default, None) => stated.is_some(),
            (Applied::Default, given) => given == stated,
        };
        if !fits {
            return broken!(
                "clarification.default",
                "question {} timed out with a response that is not its default",
                name.1
            );
        }
        self.has_outcome(name, None);
        Ok(())
    }

    fn add_prompt(&mut self, name: Name, prompt: AuditedPrompt) -> Result<(), Broken> {
        self.people.is_new(&name)?;
        if let Some(call) = &prompt.call {
            if !self.calls.is_open(call) {
                return broken!(
                    "prompt.call_open",
                    "{} {} names call {call}, which is not open",
                    name.0,
                    name.1
                );
            }
            self.calls.answer(call, false);
        }
        self.people.pending.insert(name, prompt);
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
            return broken!(
                "prompt.extension",
                "{} is extended to {expires_at}, which is not {seconds} s after its deadline",
                name.1
            );
        }
        if let Some(prompt) = self.people.pending.get_mut(&name) {
            prompt.deadline = until;
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
        let call = self.people.pending.remove(&name).and_then(|prompt| prompt.call);
        self.people.answered.insert(name);
        match (call, approved) {
            (Some(call), Some(approved)) => self.calls.approve(&call, approved),
            (Some(call), None) => self.calls.answer(&call, true),
            (None, _) => {}
        }
    }
}
