//! Prompts of all kinds (approvals, clarifications, handoffs): their kind, their name, and which events concern them.
//!
//! Must not depend on the details of a kind; these are in [`crate::family`]. Start with [`PromptEvent::of`].

use std::fmt;

use crate::family::run::WaitKind;
use crate::{Code, ForeignId, Payload};

/// The kind of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromptKind {
    Approval,
    Clarification,
    Handoff,
}

impl PromptKind {
    pub const ALL: [PromptKind; 3] = [PromptKind::Approval, PromptKind::Clarification, PromptKind::Handoff];

    pub fn as_str(self) -> &'static str {
        match self {
            PromptKind::Approval => "approval",
            PromptKind::Clarification => "clarification",
            PromptKind::Handoff => "handoff",
        }
    }

    /// The code for an id without a prompt of this kind.
    pub fn not_found(self) -> Code {
        match self {
            PromptKind::Approval => Code::ApprovalNotFound,
            PromptKind::Clarification => Code::ClarificationNotFound,
            PromptKind::Handoff => Code::HandoffNotFound,
        }
    }

    /// The code for a prompt that has an outcome.
    pub fn not_pending(self) -> Code {
        match self {
            PromptKind::Approval => Code::ApprovalNotPending,
            PromptKind::Clarification => Code::ClarificationNotPending,
            PromptKind::Handoff => Code::HandoffNotPending,
        }
    }

    /// What a run waits for while such a prompt is pending.
    pub fn wait_kind(self) -> WaitKind {
        match self {
            PromptKind::Approval => WaitKind::Approval,
            PromptKind::Clarification => WaitKind::Clarification,
            PromptKind::Handoff => WaitKind::Handoff,
        }
    }

    pub fn named(self, id: &ForeignId) -> PromptName {
        PromptName { kind: self, id: id.clone() }
    }
}

/// Names a prompt. Each kind has its own identifiers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptName {
    pub kind: PromptKind,
    pub id: ForeignId,
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.id)
    }
}

/// The prompt of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptEvent<'e> {
    pub kind: PromptKind,
    pub id: &'e ForeignId,
    pub step: PromptStep<'e>,
}

/// What an event does to its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStep<'e> {
    Requested,
    /// Until the stated time.
    Extended(&'e str),
    Settled,
}

impl<'e> PromptEvent<'e> {
    /// `None` for events that concern no prompt.
    pub fn of(payload: &'e Payload) -> Option<Self> {
        use PromptKind::{Approval, Clarification, Handoff};
        use PromptStep::{Extended, Requested, Settled};
        let (kind, id, step) = match payload {
            Payload::ApprovalRequested(event) => (Approval, &event.approval_id, Requested),
            Payload::ApprovalExtended(event) => (Approval, &event.approval_id, Extended(&event.expires_at)),
            Payload::ApprovalResolved(event) => (Approval, &event.approval_id, Settled),
            Payload::ApprovalTimedOut(event) => (Approval, &event.approval_id, Settled),
            Payload::ClarificationRequested(event) => (Clarification, &event.clarification_id, Requested),
            Payload::ClarificationExtended(event) => {
                (Clarification, &event.clarification_id, Extended(&event.expires_at))
            }
            Payload::ClarificationAnswered(event) => (Clarification, &event.clarification_id, Settled),
            Payload::ClarificationTimedOut(event) => (Clarification, &event.clarification_id, Settled),
            Payload::HandoffRequested(event) => (Handoff, &event.handoff_id, Requested),
            Payload::HandoffExtended(event) => (Handoff, &event.handoff_id, Extended(&event.expires_at)),
            Payload::HandoffAcknowledged(event) => (Handoff, &event.handoff_id, Settled),
            Payload::HandoffRejected(event) => (Handoff, &event.handoff_id, Settled),
            Payload::HandoffTimedOut(event) => (Handoff, &event.handoff_id, Settled),
            _ => return None,
        };
        Some(PromptEvent { kind, id, step })
    }

    /// The same, only for events that request a prompt.
    pub fn requested(payload: &'e Payload) -> Option<Self> {
        PromptEvent::of(payload).filter(|event| event.step == PromptStep::Requested)
    }

    pub fn name(&self) -> PromptName {
        self.kind.named(self.id)
    }
}
