//! Decides timeouts: an approval, question or handoff that is due gets its stated default.

use recount_event::Payload;
use recount_event::family::approval::{self, Decision, DefaultDecision};
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
        handed_off |= matches!(prompt.asked, PromptRequest::Handoff(_));
        let missed = missed(batch, name, prompt);
        batch.emit(missed)?;
    }
    if handed_off {
        settle::conclude(batch, BY_TIMEOUT, HandedOff::NobodyCame)
    } else {
        settle::go_on(batch, BY_TIMEOUT)
    }
}

fn missed(batch: &Batch, name: &PromptName, prompt: &Prompt) -> Payload {
    let waited_s = batch.now_ms().saturating_sub(prompt.asked_ms) / 1_000;
    let tool_call_id = prompt.tool_call_id().cloned();
    let allowed = |seconds: Option<u64>| {
        seconds.map_or(waited_s, |seconds| seconds.saturating_add(prompt.extended_seconds))
    };
    match &prompt.asked {
        PromptRequest::Approval(asked) => {
            let after_seconds = allowed(asked.timeout_seconds);
            let mut missed = approval::TimedOut::new(name.id.clone(), after_seconds);
            missed.tool_call_id = tool_call_id;
            missed.decision = Some(match asked.default_decision {
                Some(DefaultDecision::Approve) if !asked.is_grave() => Decision::Approved,
                _ => Decision::Rejected,
            });
            missed.by = Some(BY_TIMEOUT.into());
            Payload::ApprovalTimedOut(Box::new(missed))
        }
        PromptRequest::Clarification(asked) => {
            let applied =
                if asked.default_response.is_some() { Applied::Default } else { Applied::Unavailable };
            let mut missed = clarification::TimedOut::new(name.id.clone(), applied);
            missed.tool_call_id = tool_call_id;
            missed.response = asked.default_response.clone();
            missed.after_seconds = Some(allowed(asked.timeout_seconds));
            missed.by = Some(BY_TIMEOUT.into());
            Payload::ClarificationTimedOut(Box::new(missed))
        }
        PromptRequest::Handoff(asked) => {
            let after_seconds = allowed(asked.timeout_seconds);
            let mut missed = handoff::TimedOut::new(name.id.clone(), after_seconds);
            missed.tool_call_id = tool_call_id;
            Payload::HandoffTimedOut(Box::new(missed))
        }
    }
}
