//! Decides timeouts: an approval, question or handoff that is due gets its stated default.

use recount_event::Payload;
use recount_event::family::approval::{self, DecidedElsewhere, Decision, DefaultDecision};
use recount_event::family::clarification::{self, Applied};
use recount_event::family::handoff;

use super::Batch;
use super::settle::{self, HandedOff};
use crate::rejection::Rejection;
use crate::state::{Prompt, PromptName, PromptRequest};

/// `by` of a decision by timeout.
const BY_TIMEOUT: &str = "timeout";

pub(super) fn tick(batch: &mut Batch) -> Result<(), Rejection> {
    let now_ms = batch.stamp.now_ms;
    let mut due: Vec<(u64, PromptName, Prompt)> = batch
        .state
        .prompts
        .iter()
        .filter_map(|(name, prompt)| Some((prompt.deadline_ms?, name.clone(), prompt.clone())))
        .filter(|(deadline_ms, _, _)| *deadline_ms <= now_ms)
        .collect();
    if due.is_empty() {
        return Ok(());
    }
    due.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut handed_off = false;
    for (_, name, prompt) in &due {
        handed_off |= matches!(prompt.request, PromptRequest::Handoff(_));
        let missed = missed(batch, name, prompt);
        batch.emit(missed)?;
    }
    if handed_off {
        settle::conclude(batch, BY_TIMEOUT, HandedOff::TimedOut)
    } else {
        settle::continue_run(batch, BY_TIMEOUT)
    }
}

fn missed(batch: &Batch, name: &PromptName, prompt: &Prompt) -> Payload {
    let waited_s = batch.now_ms().saturating_sub(prompt.requested_ms) / 1_000;
    let tool_call_id = prompt.tool_call_id().cloned();
    let allowed = |seconds: Option<u64>| {
        seconds.map_or(waited_s, |seconds| seconds.saturating_add(prompt.extended_seconds))
    };
    match &prompt.request {
        PromptRequest::Approval(request)
            if request.withdrawn_at_deadline == Some(true) && !batch.state.is_own() =>
        {
            let mut withdrawn =
                approval::Resolved::new(name.id.clone(), Decision::Cancelled, BY_TIMEOUT.into());
            withdrawn.tool_call_id = tool_call_id;
            withdrawn.comment = Some("no answer before the deadline; the agent's own dialog decides".into());
            withdrawn.decided_elsewhere = Some(DecidedElsewhere::Undecided);
            Payload::ApprovalResolved(Box::new(withdrawn))
        }
        PromptRequest::Approval(request) => {
            let after_seconds = allowed(request.timeout_seconds);
            let mut missed = approval::TimedOut::new(name.id.clone(), after_seconds);
            missed.tool_call_id = tool_call_id;
            missed.decision = Some(match request.default_decision {
                Some(DefaultDecision::Approve) if !request.is_grave() => Decision::Approved,
                _ => Decision::Rejected,
            });
            missed.by = Some(BY_TIMEOUT.into());
            Payload::ApprovalTimedOut(Box::new(missed))
        }
        PromptRequest::Clarification(request) => {
            let applied =
                if request.default_response.is_some() { Applied::Default } else { Applied::Unavailable };
            let mut missed = clarification::TimedOut::new(name.id.clone(), applied);
            missed.tool_call_id = tool_call_id;
            missed.response = request.default_response.clone();
            missed.after_seconds = Some(allowed(request.timeout_seconds));
            missed.by = Some(BY_TIMEOUT.into());
            Payload::ClarificationTimedOut(Box::new(missed))
        }
        PromptRequest::Handoff(request) => {
            let after_seconds = allowed(request.timeout_seconds);
            let mut missed = handoff::TimedOut::new(name.id.clone(), after_seconds);
            missed.tool_call_id = tool_call_id;
            Payload::HandoffTimedOut(Box::new(missed))
        }
    }
}
