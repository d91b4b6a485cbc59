//! A person answers. The first valid answer wins; who comes later is told what became of it.

use recount_event::family::approval::{self, Decision};
use recount_event::family::{clarification, handoff};
use recount_event::{Code, ForeignId, Json, Payload};

use super::Batch;
use super::settle::{self, HandedOff};
use crate::rejection::Rejection;
use crate::state::{Fate, PromptKind};

/// The call that waits for this answer, when the prompt is pending.
fn pending(batch: &Batch, kind: PromptKind, id: &ForeignId) -> Result<Option<ForeignId>, Rejection> {
    let (not_found, not_pending) = match kind {
        PromptKind::Approval => (Code::ApprovalNotFound, Code::ApprovalNotPending),
        PromptKind::Clarification => (Code::ClarificationNotFound, Code::ClarificationNotPending),
        PromptKind::Handoff => (Code::HandoffNotFound, Code::HandoffNotPending),
    };
    let name = kind.named(id);
    if let Some(prompt) = batch.state.prompts.get(&name) {
        return Ok(prompt.tool_call_id().cloned());
    }
    Err(match batch.state.ledger.get(kind.space(), id) {
        Some(Fate::Over(how)) => Rejection::new(not_pending, format!("{name} was {how}")),
        _ => Rejection::new(not_found, format!("{name} was never asked in {}", batch.state.run_id)),
    })
}

pub(super) fn approval(
    batch: &mut Batch,
    approval_id: ForeignId,
    approve: bool,
    by: String,
    comment: Option<String>,
) -> Result<(), Rejection> {
    let tool_call_id = pending(batch, PromptKind::Approval, &approval_id)?;
    let decision = if approve { Decision::Approved } else { Decision::Rejected };
    let mut resolved = approval::Resolved::new(approval_id, decision, by.clone());
    resolved.tool_call_id = tool_call_id;
    resolved.comment = comment;
    batch.say(Payload::ApprovalResolved(Box::new(resolved)))?;
    settle::go_on(batch, &by)
}

pub(super) fn clarification(
    batch: &mut Batch,
    mut answered: clarification::Answered,
    config: Option<Json>,
) -> Result<(), Rejection> {
    answered.tool_call_id = pending(batch, PromptKind::Clarification, &answered.clarification_id)?;
    let by = answered.by.clone();
    batch.say(Payload::ClarificationAnswered(Box::new(answered)))?;
    settle::go_on_with(batch, &by, config)
}

pub(super) fn acknowledge(
    batch: &mut Batch,
    handoff_id: ForeignId,
    by: String,
    comment: Option<String>,
) -> Result<(), Rejection> {
    let tool_call_id = pending(batch, PromptKind::Handoff, &handoff_id)?;
    let mut taken = handoff::Acknowledged::new(handoff_id, by.clone());
    taken.tool_call_id = tool_call_id;
    taken.comment = comment;
    batch.say(Payload::HandoffAcknowledged(Box::new(taken)))?;
    settle::conclude(batch, &by, HandedOff::Taken)
}

pub(super) fn reject(
    batch: &mut Batch,
    handoff_id: ForeignId,
    by: String,
    reason: Option<String>,
) -> Result<(), Rejection> {
    let tool_call_id = pending(batch, PromptKind::Handoff, &handoff_id)?;
    let mut refused = handoff::Rejected::new(handoff_id, by.clone());
    refused.tool_call_id = tool_call_id;
    refused.reason = reason.clone();
    batch.say(Payload::HandoffRejected(Box::new(refused)))?;
    settle::conclude(batch, &by, HandedOff::NotTaken { reason })
}
