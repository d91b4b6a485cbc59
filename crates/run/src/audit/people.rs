//! What people were asked, and what they said.

use std::collections::BTreeMap;

use recount_event::digest::{CALL_DIGEST_PREFIX, call_digest};
use recount_event::family::approval::{self, Decision, DefaultDecision};
use recount_event::family::clarification::{self, Applied};
use recount_event::family::run::{WaitKind, WaitsFor};
use recount_event::{ForeignId, Payload};

use super::Reading;
use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct People<'a> {
    asked: BTreeMap<(WaitKind, &'a str), Asked<'a>>,
    /// Of these, the ones without an outcome.
    pending: Vec<(WaitKind, &'a ForeignId)>,
}

struct Asked<'a> {
    call: Option<&'a str>,
    /// The request itself, where its outcome is held against it.
    approval: Option<&'a approval::Requested>,
    question: Option<&'a clarification::Requested>,
}

impl<'a> People<'a> {
    pub(super) fn pending(&self) -> Vec<WaitsFor> {
        let mut all: Vec<WaitsFor> =
            self.pending.iter().map(|(kind, id)| WaitsFor { kind: *kind, id: (*id).clone() }).collect();
        all.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        all
    }

    fn pending_for(&self, call: &str) -> impl Iterator<Item = WaitKind> {
        self.pending
            .iter()
            .filter(move |(kind, id)| {
                self.asked.get(&(*kind, id.as_str())).is_some_and(|asked| asked.call == Some(call))
            })
            .map(|(kind, _)| *kind)
    }

    /// Whether the call waits for a person.
    pub(super) fn waits_on(&self, call: &str) -> bool {
        self.pending_for(call).next().is_some()
    }

    /// Whether an approval of the call is pending.
    pub(super) fn approves(&self, call: &str) -> bool {
        self.pending_for(call).any(|kind| kind == WaitKind::Approval)
    }

    fn is_new(&self, kind: WaitKind, id: &str) -> Result<(), Broken> {
        if self.asked.contains_key(&(kind, id)) {
            return broken!("prompt.id", "{kind} {id} is asked twice");
        }
        Ok(())
    }

    fn ask(&mut self, kind: WaitKind, id: &'a ForeignId, asked: Asked<'a>) {
        self.asked.insert((kind, id), asked);
        self.pending.push((kind, id));
    }

    /// Which of the pending it is, and what was asked.
    fn find<'s>(
        &'s self,
        kind: WaitKind,
        id: &'s ForeignId,
        call: Option<&ForeignId>,
    ) -> Result<(usize, &'s Asked<'a>), Broken> {
        let place = self.pending.iter().position(|one| *one == (kind, id));
        let (Some(place), Some(asked)) = (place, self.asked.get(&(kind, id.as_str()))) else {
            return broken!("prompt.pending", "{kind} {id} is not pending");
        };
        match call {
            Some(call) if asked.call != Some(call.as_str()) => {
                broken!("prompt.call", "{kind} {id} was not about {call}")
            }
            _ => Ok((place, asked)),
        }
    }
}

impl<'a> Reading<'a> {
    /// Whether the event was of a prompt.
    pub(super) fn read_people(&mut self, payload: &'a Payload) -> Result<bool, Broken> {
        use WaitKind::{Approval, Clarification, Handoff};
        match payload {
            Payload::ApprovalRequested(asked) => self.ask_approval(asked)?,
            Payload::ClarificationRequested(question) => {
                let call = question.tool_call_id.as_ref();
                let asked = Asked { call: None, approval: None, question: Some(question) };
                self.ask_about(Clarification, &question.clarification_id, call, asked)?;
            }
            Payload::HandoffRequested(wanted) => {
                let asked = Asked { call: None, approval: None, question: None };
                self.ask_about(Handoff, &wanted.handoff_id, wanted.tool_call_id.as_ref(), asked)?;
            }
            Payload::ApprovalResolved(said) => {
                let (place, asked) =
                    self.people.find(Approval, &said.approval_id, said.tool_call_id.as_ref())?;
                let call = asked.call;
                self.has_outcome(place, call, Some(said.decision == Decision::Approved));
            }
            Payload::ApprovalTimedOut(missed) => {
                let (place, asked) =
                    self.people.find(Approval, &missed.approval_id, missed.tool_call_id.as_ref())?;
                let approves = asked.approval.is_some_and(|asked| {
                    asked.default_decision == Some(DefaultDecision::Approve) && !asked.is_grave()
                });
                let right = if approves { Decision::Approved } else { Decision::Rejected };
                if missed.decision.is_some_and(|told| told != right) {
                    return broken!(
                        "approval.decision",
                        "{} times out as what was not its default",
                        missed.approval_id
                    );
                }
                let call = asked.call;
                self.has_outcome(place, call, Some(approves));
            }
            Payload::ClarificationAnswered(said) => {
                let call = said.tool_call_id.as_ref();
                let (place, asked) = self.people.find(Clarification, &said.clarification_id, call)?;
                let call = asked.call;
                self.has_outcome(place, call, None);
            }
            Payload::ClarificationTimedOut(missed) => {
                let call = missed.tool_call_id.as_ref();
                let (place, asked) = self.people.find(Clarification, &missed.clarification_id, call)?;
                let stated = asked.question.and_then(|question| question.default_response.as_ref());
                let fits = match (missed.applied, &missed.response) {
                    (Applied::Unavailable, told) => told.is_none(),
                    (Applied::Default, None) => stated.is_some(),
                    (Applied::Default, told) => told.as_ref() == stated,
                };
                if !fits {
                    return broken!(
                        "clarification.default",
                        "{} ends with what was not its default",
                        missed.clarification_id
                    );
                }
                let call = asked.call;
                self.has_outcome(place, call, None);
            }
            Payload::HandoffAcknowledged(said) => {
                let (place, asked) =
                    self.people.find(Handoff, &said.handoff_id, said.tool_call_id.as_ref())?;
                let call = asked.call;
                self.has_outcome(place, call, None);
            }
            Payload::HandoffRejected(said) => {
                let (place, asked) =
                    self.people.find(Handoff, &said.handoff_id, said.tool_call_id.as_ref())?;
                let call = asked.call;
                self.has_outcome(place, call, None);
            }
            Payload::HandoffTimedOut(missed) => {
                let (place, asked) =
                    self.people.find(Handoff, &missed.handoff_id, missed.tool_call_id.as_ref())?;
                let call = asked.call;
                self.has_outcome(place, call, None);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn ask_approval(&mut self, asked: &'a approval::Requested) -> Result<(), Broken> {
        let (id, call): (_, &str) = (&asked.approval_id, &asked.tool_call_id);
        self.people.is_new(WaitKind::Approval, id)?;
        if !self.calls.may_be_asked_for(call) {
            return broken!("approval.call", "{id} asks for {call}, which is past asking");
        }
        if self.people.approves(call) {
            return broken!("approval.one_pending", "{id} asks for {call}, which another approval does");
        }
        if asked.default_decision == Some(DefaultDecision::Approve) && asked.is_grave() {
            return broken!("approval.default", "{id} is grave and approves itself");
        }
        if let (Some(digest), Some(proposed)) = (&asked.call_digest, self.calls.proposal(call))
            && digest.starts_with(CALL_DIGEST_PREFIX)
            && *digest != call_digest(&proposed.tool_name, proposed.input.text())
        {
            return broken!("approval.digest", "{id} asks for another call than {call} as proposed");
        }
        self.calls.ask_for(call);
        let asked = Asked { call: Some(call), approval: Some(asked), question: None };
        self.people.ask(WaitKind::Approval, id, asked);
        Ok(())
    }

    fn ask_about(
        &mut self,
        kind: WaitKind,
        id: &'a ForeignId,
        call: Option<&'a ForeignId>,
        asked: Asked<'a>,
    ) -> Result<(), Broken> {
        self.people.is_new(kind, id)?;
        if let Some(call) = call {
            if !self.calls.is_open(call) {
                return broken!("prompt.call_open", "{kind} {id} is about {call}, which is not open");
            }
            self.calls.answer(call, false);
        }
        self.people.ask(kind, id, Asked { call: call.map(ForeignId::as_str), ..asked });
        Ok(())
    }

    /// Strikes a prompt off the list and tells its call.
    fn has_outcome(&mut self, place: usize, call: Option<&str>, approved: Option<bool>) {
        self.people.pending.swap_remove(place);
        match (call, approved) {
            (Some(call), Some(approved)) => self.calls.approve(call, approved),
            (Some(call), None) => self.calls.answer(call, true),
            (None, _) => {}
        }
    }
}
