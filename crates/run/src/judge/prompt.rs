//! Checks prompts: requested once, answered once, and never granted by a timeout if the risk is high.

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
    if state.prompts.contains_key(&name) || state.ledger.get(Space::of(kind), id).is_some() {
        return broken!("prompt.id", "{name} already exists: use a new id");
    }
    Ok(())
}

pub(super) fn approval(state: &State, request: &approval::Requested) -> Result<(), Broken> {
    unused(state, PromptKind::Approval, &request.approval_id)?;
    let id = &request.tool_call_id;
    let call = state.calls.get(id);
    match call {
        Some(Call { stage: CallStage::Invoked(_), .. }) => {
            return broken!(
                "approval.call",
                "an approval is requested for call {id}, which was already invoked"
            );
        }
        Some(call)
            if call.verdict.as_ref().is_some_and(|verdict| verdict.outcome != ApprovalOutcome::Granted) =>
        {
            return broken!(
                "approval.call",
                "an approval is requested for call {id}, which was already denied"
            );
        }
        Some(_) => {}
        None => match state.ledger.get(Space::Call, id) {
            Some(NameStatus::Over(how)) => {
                return broken!(
                    "approval.call",
                    "an approval is requested for call {id}, which was settled by {how}"
                );
            }
            Some(NameStatus::Denied) => {
                return broken!(
                    "approval.call",
                    "an approval is requested for call {id}, which was already denied"
                );
            }
            None => {}
        },
    }
    if state.approval_pending(id) {
        return broken!("approval.one_pending", "call {id} has a pending approval: wait for its outcome");
    }
    if request.is_grave() && request.default_decision == Some(DefaultDecision::Approve) {
        return broken!(
            "approval.default",
            "approval {} is irreversible or high-risk, so its default cannot be to approve: send \
             default_decision reject",
            request.approval_id
        );
    }
    digest_fits(call, request)
}

fn digest_fits(call: Option<&Call>, request: &approval::Requested) -> Result<(), Broken> {
    let Some(digest) = request.call_digest.as_deref().filter(|digest| digest.starts_with(CALL_DIGEST_PREFIX))
    else {
        return Ok(());
    };
    let Some(Call { tool_name: Some(tool_name), input: Some(input), .. }) = call else { return Ok(()) };
    let right = call_digest(tool_name, input.text());
    if digest != right {
        return broken!(
            "approval.digest",
            "approval {} has call_digest {digest}, but the digest of call {} is {right}: request approval of \
             the call as proposed",
            request.approval_id,
            request.tool_call_id
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

pub(super) fn clarification(state: &State, request: &clarification::Requested) -> Result<(), Broken> {
    let (kind, id) = (PromptKind::Clarification, &request.clarification_id);
    unused(state, kind, id)?;
    names_open_call(state, kind, id, request.tool_call_id.as_ref())
}

pub(super) fn handoff(state: &State, request: &handoff::Requested) -> Result<(), Broken> {
    let (kind, id) = (PromptKind::Handoff, &request.handoff_id);
    unused(state, kind, id)?;
    names_open_call(state, kind, id, request.tool_call_id.as_ref())
}

fn pending<'a>(
    state: &'a State,
    kind: PromptKind,
    id: &ForeignId,
    call: Option<&ForeignId>,
) -> Result<&'a Prompt, Broken> {
    let name = kind.named(id);
    let Some(prompt) = state.prompts.get(&name) else {
        return match state.ledger.get(Space::of(kind), id) {
            Some(NameStatus::Over(how)) => broken!("prompt.pending", "{name} was {how}"),
            _ => broken!("prompt.pending", "{name} does not exist"),
        };
    };
    match (call, prompt.tool_call_id()) {
        (Some(given), Some(requested)) if given == requested => Ok(prompt),
        (Some(given), _) => broken!("prompt.call", "{name} was not requested for call {given}"),
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
        return broken!("prompt.extension", "{name} has no deadline to extend");
    };
    let right_ms = before_ms.saturating_add(seconds.saturating_mul(1_000));
    if time::parse_ms(expires_at) != Some(right_ms) || right_ms <= before_ms {
        return broken!(
            "prompt.extension",
            "{name} is extended to {expires_at:?}, but {seconds} s after its deadline is {}",
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
            "approval {} has decided_elsewhere with decision {}: only the producer of an external run may \
             send it, with decision cancelled",
            resolved.approval_id,
            resolved.decision
        );
    }
    Ok(())
}

pub(super) fn approval_timed_out(state: &State, missed: &approval::TimedOut) -> Result<(), Broken> {
    let prompt = pending(state, PromptKind::Approval, &missed.approval_id, missed.tool_call_id.as_ref())?;
    let PromptRequest::Approval(request) = &prompt.request else { return Ok(()) };
    let right = match request.default_decision {
        Some(DefaultDecision::Approve) if !request.is_grave() => Decision::Approved,
        _ => Decision::Rejected,
    };
    match missed.decision {
        Some(given) if given != right => broken!(
            "approval.decision",
            "approval {} timed out with {given}, but its default is {right}",
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
    let PromptRequest::Clarification(request) = &prompt.request else { return Ok(()) };
    match (missed.applied, &request.default_response, &missed.response) {
        (Applied::Default, None, _) => {
            broken!(
                "clarification.default",
                "question {id} has no default response: send applied unavailable"
            )
        }
        (Applied::Default, Some(stated), Some(given)) if stated != given => broken!(
            "clarification.default",
            "question {id} timed out with a response that is not its default: send the default"
        ),
        (Applied::Unavailable, _, Some(_)) => broken!(
            "clarification.default",
            "question {id} timed out as unavailable, but has a response: send no response"
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
