//! Closes everything open, in a legal order: texts, running calls, prompts, proposed calls, and then the turn.

use recount_event::family::approval::{self, Decision};
use recount_event::family::clarification::{self, Applied};
use recount_event::family::tool::RefusalCode;
use recount_event::family::{handoff, turn};
use recount_event::{ForeignId, Payload};

use super::Batch;
use super::outcome::{ended, how_far, refusal};
use crate::rejection::Rejection;
use crate::state::{Call, CallStage, PromptKind};

/// By whom and why open items are closed.
pub(super) struct CloseReason<'a> {
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
}

/// Every open text is cut at its current length.
pub(super) fn texts(batch: &mut Batch) -> Result<(), Rejection> {
    for cut in batch.state.cut_texts() {
        batch.emit(cut)?;
    }
    Ok(())
}

/// Every call and prompt that is open, but for calls that hold an answer when those are `kept`.
pub(super) fn calls_and_prompts(
    batch: &mut Batch,
    why: &CloseReason<'_>,
    kept: bool,
) -> Result<(), Rejection> {
    let keep = |call: &Call| kept && call.answer.is_some() && !call.runs_command();
    for (id, call) in in_order(batch) {
        if matches!(call.stage, CallStage::Invoked(_)) && !keep(&call) {
            let mut ended = ended(&id, &call);
            ended.code = Some("cancelled".into());
            ended.error = Some(cancelled_call(batch, &id, &call, why.reason));
            batch.emit(Payload::ToolCancelled(Box::new(ended)))?;
        }
    }
    prompts(batch, why)?;
    for (id, call) in in_order(batch) {
        if call.stage == CallStage::Proposed && !keep(&call) {
            batch.emit(refusal(&id, &call, RefusalCode::Cancelled, why.reason.to_owned()))?;
        }
    }
    Ok(())
}

/// Why a call is closed, and what is known of it if this server executes it. A command reports itself that output may
/// be missing, and a call that started a run or requests an answer does nothing else.
fn cancelled_call(batch: &Batch, id: &ForeignId, call: &Call, reason: &str) -> String {
    let is_ours = batch.state.is_own() && call.is_with_server();
    let does_nothing = call.has_child() || call.answer.is_some() || batch.state.has_prompt(id);
    if !is_ours || does_nothing || call.runs_command() {
        return reason.to_owned();
    }
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    format!("cancelled{reason}: {}", how_far(call))
}

/// Withdraws every pending prompt, whatever the state of its call.
pub(super) fn prompts(batch: &mut Batch, why: &CloseReason<'_>) -> Result<(), Rejection> {
    for (name, prompt) in batch.state.prompts.clone() {
        let (id, tool_call_id, by) = (name.id, prompt.tool_call_id().cloned(), why.by.to_owned());
        batch.emit(match name.kind {
            PromptKind::Approval => {
                let mut cancelled = approval::Resolved::new(id, Decision::Cancelled, by);
                cancelled.tool_call_id = tool_call_id;
                cancelled.comment = Some(why.reason.to_owned());
                Payload::ApprovalResolved(Box::new(cancelled))
            }
            PromptKind::Clarification => {
                let mut given_up = clarification::TimedOut::new(id, Applied::Unavailable);
                given_up.tool_call_id = tool_call_id;
                given_up.by = Some(by);
                Payload::ClarificationTimedOut(Box::new(given_up))
            }
            PromptKind::Handoff => {
                let mut refused = handoff::Rejected::new(id, by);
                refused.tool_call_id = tool_call_id;
                refused.reason = Some(why.reason.to_owned());
                Payload::HandoffRejected(Box::new(refused))
            }
        })?;
    }
    Ok(())
}

/// The turn that is open fails.
pub(super) fn turn(batch: &mut Batch, code: &str, message: &str, will_retry: bool) -> Result<(), Rejection> {
    let Some(index) = batch.state.open_turn() else { return Ok(()) };
    let failed = turn::Failed::new(index, code.to_owned(), message.to_owned(), will_retry);
    batch.emit(Payload::TurnFailed(Box::new(failed)))
}

/// Open calls in order.
pub(super) fn in_order(batch: &Batch) -> Vec<(ForeignId, Call)> {
    let ids = batch.state.calls_in_order();
    ids.into_iter().map(|id| (id.clone(), batch.state.calls[&id].clone())).collect()
}
