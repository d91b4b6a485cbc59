//! Decides the answer of a person. The first valid answer wins; later ones are rejected with the recorded outcome.

use recount_event::family::approval::{self, AllowanceScope, Decision};
use recount_event::family::{clarification, handoff};
use recount_event::{Code, ForeignId, Json, Payload};

use super::Batch;
use super::settle::{self, HandedOff};
use crate::rejection::Rejection;
use crate::state::{NameStatus, Prompt, PromptKind, Space};

/// The prefix of the names of allowances.
const ALLOWANCE_PREFIX: &str = "allow_";

/// The call that waits for this answer, when the prompt is pending.
fn pending(batch: &Batch, kind: PromptKind, id: &ForeignId) -> Result<Option<ForeignId>, Rejection> {
    open(batch, kind, id).map(|prompt| prompt.tool_call_id().cloned())
}

/// The prompt, while it is pending.
pub(super) fn open<'b>(batch: &'b Batch, kind: PromptKind, id: &ForeignId) -> Result<&'b Prompt, Rejection> {
    let name = kind.named(id);
    if let Some(prompt) = batch.state.prompts.get(&name) {
        return Ok(prompt);
    }
    Err(match batch.state.ledger.get(Space::of(kind), id) {
        Some(NameStatus::Over(how)) => Rejection::new(kind.not_pending(), format!("{name} was {how}")),
        _ => Rejection::new(kind.not_found(), format!("{name} does not exist in {}", batch.state.run_id)),
    })
}

pub(super) fn approval(
    batch: &mut Batch,
    approval_id: ForeignId,
    approve: bool,
    (by, comment): (String, Option<String>),
    remember: Option<AllowanceScope>,
) -> Result<(), Rejection> {
    let tool_call_id = pending(batch, PromptKind::Approval, &approval_id)?;
    let decision = if approve { Decision::Approved } else { Decision::Rejected };
    let allowance_id = match remember {
        Some(scope) => Some(may_be_remembered(batch, &approval_id, approve, scope)?),
        None => None,
    };
    let mut resolved = approval::Resolved::new(approval_id, decision, by.clone());
    resolved.tool_call_id = tool_call_id;
    resolved.comment = comment;
    resolved.scope = remember.map(|scope| scope.as_str().to_owned());
    resolved.allowance_id = allowance_id;
    batch.emit(Payload::ApprovalResolved(Box::new(resolved)))?;
    settle::continue_run(batch, &by)
}

/// The name of the allowance that a decision makes, where it may make one. An approval makes at most one, so the name of
/// the approval identifies it.
fn may_be_remembered(
    batch: &Batch,
    approval_id: &ForeignId,
    approve: bool,
    scope: AllowanceScope,
) -> Result<ForeignId, Rejection> {
    let refused = |why: String| Rejection::new(Code::AllowanceRefused, why);
    let state = &batch.state;
    if !approve {
        let why = format!("only an approval can be remembered: reject {approval_id} without `remember`");
        return Err(refused(why));
    }
    if !state.is_own() {
        let why = format!(
            "{approval_id} belongs to an external run, whose decisions cannot be remembered: approve it \
             without `remember`"
        );
        return Err(refused(why));
    }
    let Some(request) = state.approval(approval_id) else {
        return Err(refused(format!("the request of {approval_id} is unknown")));
    };
    if request.is_grave() {
        let why = format!(
            "{approval_id} is high-risk or irreversible, so it needs approval every time: approve it without \
             `remember`"
        );
        return Err(refused(why));
    }
    if request.allowance_digest.is_none() {
        let why = format!(
            "the effect of {approval_id} could not be determined, so the same call cannot be recognized \
             later: approve it without `remember`"
        );
        return Err(refused(why));
    }
    if scope == AllowanceScope::Session && state.session_id().is_none() {
        return Err(refused(format!(
            "{} belongs to no session: send the scope run or workspace",
            state.run_id
        )));
    }
    let unique = approval_id.strip_prefix("appr_").unwrap_or(approval_id);
    ForeignId::parse(&format!("{ALLOWANCE_PREFIX}{unique}")).map_err(|_| {
        refused(format!(
            "{approval_id} is too long to derive an allowance id from it: approve it without `remember`"
        ))
    })
}

pub(super) fn clarification(
    batch: &mut Batch,
    mut answered: clarification::Answered,
    config: Option<Json>,
) -> Result<(), Rejection> {
    answered.tool_call_id = pending(batch, PromptKind::Clarification, &answered.clarification_id)?;
    let by = answered.by.clone();
    batch.emit(Payload::ClarificationAnswered(Box::new(answered)))?;
    settle::continue_run_with(batch, &by, config)
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
    batch.emit(Payload::HandoffAcknowledged(Box::new(taken)))?;
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
    batch.emit(Payload::HandoffRejected(Box::new(refused)))?;
    settle::conclude(batch, &by, HandedOff::NotTaken { reason })
}
