//! Checks prompts: asked once, answered once, and never granted by a timeout where the risk is high.

use recount_event::digest::{CALL_DIGEST_PREFIX, call_digest};
use recount_event::family::approval::{Decision, DefaultDecision};
use recount_event::family::clarification::Applied;
use recount_event::family::{approval, clarification, handoff};
use recount_event::{ForeignId, time};

use crate::rejection::{Broken, broken};
use crate::state::{
    ApprovalOutcome, Call, CallStage, NameStatus, Prompt, PromptKind, PromptRequest, Space, State,
};

fn unused(state: &State, kind: PromptKind, id: &ForeignId) -> Result<(), Broken> {
    let name = kind.named(id);
    if state.prompts.contains_key(&name) || state.ledger.get(kind.space(), id).is_some() {
        return broken!("prompt.id", "{name} was asked before: use a new id");
    }
    Ok(())
}

pub(super) fn approval(state: &State, asked: &approval::Requested) -> Result<(), Broken> {
    unused(state, PromptKind::Approval, &asked.approval_id)?;
    let id = &asked.tool_call_id;
    let call = state.calls.get(id);
    match call {
        Some(Call { stage: CallStage::Invoked(_), .. }) => {
            return broken!("approval.call", "an approval is asked for call {id}, which was invoked before");
        }
        Some(call)
            if call.verdict.as_ref().is_some_and(|verdict| verdict.said != ApprovalOutcome::Granted) =>
        {
            return broken!("approval.call", "an approval is asked for call {id}, which was denied before");
        }
        Some(_) => {}
        None => match state.ledger.get(Space::Call, id) {
            Some(NameStatus::Over(how)) => {
                return broken!(
                    "approval.call",
                    "an approval is asked for call {id}, which was settled by {how}"
                );
            }
            Some(NameStatus::Denied) => {
                return broken!(
                    "approval.call",
                    "an approval is asked for call {id}, which was denied before"
                );
            }
            None => {}
        },
    }
    if state.approval_pending(id) {
        return broken!("approval.one_pending", "call {id} has a pending approval: wait for its outcome");
    }
    if asked.is_grave() && asked.default_decision == Some(DefaultDecision::Approve) {
        return broken!(
            "approval.default",
            "approval {} is irreversible or of high risk and would approve itself: send default_decision reject",
            asked.approval_id
        );
    }
    digest_fits(call, asked)
}

fn digest_fits(call: Option<&Call>, asked: &approval::Requested) -> Result<(), Broken> {
    let Some(digest) = asked.call_digest.as_deref().filter(|digest| digest.starts_with(CALL_DIGEST_PREFIX))
    else {
        return Ok(());
    };
    let Some(Call { tool_name: Some(tool_name), input: Some(input), .. }) = call else { return Ok(()) };
    let right = call_digest(tool_name, input.text());
    if digest != right {
        return broken!(
            "approval.digest",
            "approval {} is bound to {digest}, but call {} is {right}: ask for the call as it was proposed",
            asked.approval_id,
            asked.tool_call_id
        );
    }
    Ok(())
}

fn names_open_call(
    state: &State,
    kind: PromptKind,
    id: &ForeignId,
    call: Option<&ForeignId>,
) -> Result<(), Broken> {
    match call {
        Some(call) if !state.calls.contains_key(call) => broken!(
            "prompt.call_open",
            "{} {id} names call {call}, which is not open: name an open call or none",
            kind.as_str()
        ),
        _ => Ok(()),
    }
}

pub(super) fn clarification(state: &State, asked: &clarification::Requested) -> Result<(), Broken> {
    let (kind, id) = (PromptKind::Clarification, &asked.clarification_id);
    unused(state, kind, id)?;
    names_open_call(state, kind, id, asked.tool_call_id.as_ref())
}

pub(super) fn handoff(state: &State, asked: &handoff::Requested) -> Result<(), Broken> {
    let (kind, id) = (PromptKind::Handoff, &asked.handoff_id);
    unused(state, kind, id)?;
    names_open_call(state, kind, id, asked.tool_call_id.as_ref())
}

fn pending<'a>(
    state: &'a State,
    kind: PromptKind,
    id: &ForeignId,
    call: Option<&ForeignId>,
) -> Result<&'a Prompt, Broken> {
    let name = kind.named(id);
    let Some(prompt) = state.prompts.get(&name) else {
        return match state.ledger.get(kind.space(), id) {
            Some(NameStatus::Over(how)) => broken!("prompt.pending", "{name} was {how}"),
            _ => broken!("prompt.pending", "{name} was never asked"),
        };
    };
    match (call, prompt.tool_call_id()) {
        (Some(told), Some(asked)) if told == asked => Ok(prompt),
        (Some(told), _) => broken!("prompt.call", "{name} was not asked for call {told}"),
        (None, _) => Ok(prompt),
    }
}

pub(super) fn extended(
    state: &State,
    (kind, id, call): (PromptKind, &ForeignId, Option<&ForeignId>),
    expires_at: &str,
    seconds: u64,
) -> Result<(), Broken> {
    let name = kind.named(id);
    let Some(before_ms) = pending(state, kind, id, call)?.deadline_ms else {
        return broken!("prompt.extension", "{name} is extended but has no deadline");
    };
    let right_ms = before_ms.saturating_add(seconds.saturating_mul(1_000));
    if time::parse_ms(expires_at) != Some(right_ms) || right_ms <= before_ms {
        return broken!(
            "prompt.extension",
            "{name} is extended to {expires_at:?} where {seconds} seconds after its deadline is {}",
            time::format_ms(right_ms)
        );
    }
    Ok(())
}

pub(super) fn approval_resolved(state: &State, resolved: &approval::Resolved) -> Result<(), Broken> {
    pending(state, PromptKind::Approval, &resolved.approval_id, resolved.tool_call_id.as_ref())?;
    if resolved.decided_elsewhere.is_some() && (state.is_own() || resolved.decision != Decision::Cancelled) {
        return broken!(
            "approval.elsewhere",
            "approval {} is decided elsewhere, as {}: only the producer of an external run withdraws it so, as cancelled",
            resolved.approval_id,
            resolved.decision
        );
    }
    Ok(())
}

pub(super) fn approval_timed_out(state: &State, missed: &approval::TimedOut) -> Result<(), Broken> {
    let prompt = pending(state, PromptKind::Approval, &missed.approval_id, missed.tool_call_id.as_ref())?;
    let PromptRequest::Approval(asked) = &prompt.asked else { return Ok(()) };
    let right = match asked.default_decision {
        Some(DefaultDecision::Approve) if !asked.is_grave() => Decision::Approved,
        _ => Decision::Rejected,
    };
    match missed.decision {
        Some(told) if told != right => broken!(
            "approval.decision",
            "approval {} timed out with {told}, but its default is {right}",
            missed.approval_id
        ),
        _ => Ok(()),
    }
}

pub(super) fn clarification_answered(
    state: &State,
    answered: &clarification::Answered,
) -> Result<(), Broken> {
    let call = answered.tool_call_id.as_ref();
    pending(state, PromptKind::Clarification, &answered.clarification_id, call).map(|_| ())
}

pub(super) fn clarification_timed_out(state: &State, missed: &clarification::TimedOut) -> Result<(), Broken> {
    let id = &missed.clarification_id;
    let prompt = pending(state, PromptKind::Clarification, id, missed.tool_call_id.as_ref())?;
    let PromptRequest::Clarification(asked) = &prompt.asked else { return Ok(()) };
    match (missed.applied, &asked.default_response, &missed.response) {
        (Applied::Default, None, _) => {
            broken!("clarification.default", "question {id} has no default to apply: send unavailable")
        }
        (Applied::Default, Some(stated), Some(told)) if stated != told => broken!(
            "clarification.default",
            "question {id} is given up with a response that is not its default: send the default"
        ),
        (Applied::Unavailable, _, Some(_)) => broken!(
            "clarification.default",
            "question {id} is given up as unavailable with a response: send no response"
        ),
        _ => Ok(()),
    }
}

pub(super) fn handoff_acknowledged(state: &State, taken: &handoff::Acknowledged) -> Result<(), Broken> {
    pending(state, PromptKind::Handoff, &taken.handoff_id, taken.tool_call_id.as_ref()).map(|_| ())
}

pub(super) fn handoff_rejected(state: &State, refused: &handoff::Rejected) -> Result<(), Broken> {
    pending(state, PromptKind::Handoff, &refused.handoff_id, refused.tool_call_id.as_ref()).map(|_| ())
}

pub(super) fn handoff_timed_out(state: &State, missed: &handoff::TimedOut) -> Result<(), Broken> {
    pending(state, PromptKind::Handoff, &missed.handoff_id, missed.tool_call_id.as_ref()).map(|_| ())
}
