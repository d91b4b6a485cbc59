//! Folds `approval.*`, `clarification.*` and `handoff.*`: prompts and their outcomes.

use std::sync::Arc;

use recount_event::family::approval::{Decision, DefaultDecision};
use recount_event::family::clarification::Applied;
use recount_event::family::{approval, clarification, handoff};
use recount_event::{ForeignId, time};

use crate::state::{
    Answer, ApprovalOutcome, Call, CallStage, NameStatus, Prompt, PromptKind, PromptRequest, Space, State,
    Verdict,
};

pub(super) fn approval(state: &mut State, request: &approval::Requested, at_ms: u64) {
    let request = Arc::new(request.clone());
    let since = state.next_sequence;
    let seen = &mut state.calls_seen;
    let call = state.calls.entry(request.tool_call_id.clone()).or_insert_with(|| {
        *seen += 1;
        Call {
            tool_name: None,
            input: None,
            turn_index: None,
            stage: CallStage::Announced,
            since,
            verdict: None,
            answer: None,
            is_masked: false,
        }
    });
    call.verdict = None;
    let deadline_ms = deadline(at_ms, request.timeout_seconds, request.expires_at.as_deref());
    add_prompt(
        state,
        &request.approval_id,
        Prompt::new(at_ms, deadline_ms, PromptRequest::Approval(request.clone())),
    );
}

pub(super) fn clarification(state: &mut State, request: &clarification::Requested, at_ms: u64) {
    let deadline_ms = deadline(at_ms, request.timeout_seconds, request.expires_at.as_deref());
    let request = Arc::new(request.clone());
    let id = &request.clarification_id.clone();
    add_prompt(state, id, Prompt::new(at_ms, deadline_ms, PromptRequest::Clarification(request)));
}

pub(super) fn handoff(state: &mut State, request: &handoff::Requested, at_ms: u64) {
    let deadline_ms = deadline(at_ms, request.timeout_seconds, request.expires_at.as_deref());
    let request = Arc::new(request.clone());
    let id = &request.handoff_id.clone();
    add_prompt(state, id, Prompt::new(at_ms, deadline_ms, PromptRequest::Handoff(request)));
}

/// By the timeout, counted from the request; else by the given instant; else none.
fn deadline(requested_ms: u64, timeout_seconds: Option<u64>, expires_at: Option<&str>) -> Option<u64> {
    match timeout_seconds {
        Some(seconds) => Some(requested_ms.saturating_add(seconds.saturating_mul(1_000))),
        None => expires_at.and_then(time::parse_ms),
    }
}

fn add_prompt(state: &mut State, id: &ForeignId, prompt: Prompt) {
    state.prompts_seen += 1;
    if let Some(call) = prompt.tool_call_id().and_then(|id| state.calls.get_mut(id)) {
        call.answer = None;
    }
    state.prompts.insert(prompt.kind().named(id), prompt);
}

/// The deadline moves to the instant named.
pub(super) fn extended(state: &mut State, kind: PromptKind, id: &ForeignId, expires_at: &str, seconds: u64) {
    let prompt = state.prompts.get_mut(&kind.named(id)).expect("only a pending prompt is extended");
    prompt.deadline_ms = time::parse_ms(expires_at).or(prompt.deadline_ms);
    prompt.extended_seconds = prompt.extended_seconds.saturating_add(seconds);
    prompt.extensions += 1;
}

pub(super) fn approval_resolved(state: &mut State, resolved: &approval::Resolved) {
    let (how, outcome) = match resolved.decision {
        Decision::Approved => (format!("approved by {}", resolved.by), ApprovalOutcome::Granted),
        Decision::Rejected => (
            format!("rejected by {}", resolved.by),
            ApprovalOutcome::Denied {
                comment: resolved.comment.as_deref().map(Into::into),
                answer: resolved.answer.as_deref().map(Into::into),
            },
        ),
        Decision::Cancelled => (format!("cancelled by {}", resolved.by), ApprovalOutcome::Cancelled),
    };
    if resolved.leaves_call_open() {
        close_prompt(state, PromptKind::Approval, &resolved.approval_id, &how);
        return;
    }
    resolve_approval(state, &resolved.approval_id, &how, outcome);
}

pub(super) fn approval_timed_out(state: &mut State, missed: &approval::TimedOut) {
    let prompt = state.prompts.get(&PromptKind::Approval.named(&missed.approval_id));
    let approves = matches!(
        prompt.map(|prompt| &prompt.request),
        Some(PromptRequest::Approval(request))
            if request.default_decision == Some(DefaultDecision::Approve) && !request.is_grave()
    );
    if approves {
        resolve_approval(state, &missed.approval_id, "approved by its timeout", ApprovalOutcome::Granted);
    } else {
        resolve_approval(state, &missed.approval_id, "rejected by its timeout", ApprovalOutcome::Missed);
    }
}

fn resolve_approval(state: &mut State, approval_id: &ForeignId, how: &str, outcome: ApprovalOutcome) {
    let prompt = close_prompt(state, PromptKind::Approval, approval_id, how);
    let PromptRequest::Approval(request) = prompt.request else { panic!("{approval_id} is not an approval") };
    let tool_call_id = request.tool_call_id.clone();
    // The call may have been refused while the question stood.
    let Some(call) = state.calls.get_mut(&tool_call_id) else { return };
    if call.stage == CallStage::Announced && outcome != ApprovalOutcome::Granted {
        state.calls.remove(&tool_call_id);
        state.ledger.set(Space::Call, &tool_call_id, NameStatus::Denied);
        return;
    }
    call.verdict = Some(Verdict { request, outcome });
}

pub(super) fn clarification_answered(state: &mut State, answered: &clarification::Answered) {
    let how = format!("answered by {}", answered.by);
    let answer = Answer::Response(Arc::new(answered.response.clone()));
    let prompt = close_prompt(state, PromptKind::Clarification, &answered.clarification_id, &how);
    answer_call(state, &prompt, answer);
}

pub(super) fn clarification_timed_out(state: &mut State, missed: &clarification::TimedOut) {
    let id = &missed.clarification_id;
    let prompt = close_prompt(state, PromptKind::Clarification, id, "closed without an answer");
    let PromptRequest::Clarification(request) = &prompt.request else { panic!("{id} is not a question") };
    let answer = match (missed.applied, &request.default_response) {
        (Applied::Default, Some(response)) => Answer::Response(Arc::new(response.clone())),
        _ => Answer::Unanswered,
    };
    answer_call(state, &prompt, answer);
}

pub(super) fn handoff_acknowledged(state: &mut State, taken: &handoff::Acknowledged) {
    let prompt =
        close_prompt(state, PromptKind::Handoff, &taken.handoff_id, &format!("acknowledged by {}", taken.by));
    answer_call(state, &prompt, Answer::TakenOver { by: taken.by.as_str().into() });
}

pub(super) fn handoff_rejected(state: &mut State, refused: &handoff::Rejected) {
    let prompt =
        close_prompt(state, PromptKind::Handoff, &refused.handoff_id, &format!("rejected by {}", refused.by));
    answer_call(state, &prompt, Answer::NotTakenOver { by: refused.by.as_str().into() });
}

pub(super) fn handoff_timed_out(state: &mut State, missed: &handoff::TimedOut) {
    let prompt = close_prompt(state, PromptKind::Handoff, &missed.handoff_id, "closed by its timeout");
    answer_call(state, &prompt, Answer::TimedOut);
}

fn close_prompt(state: &mut State, kind: PromptKind, id: &ForeignId, how: &str) -> Prompt {
    state.ledger.set(Space::of(kind), id, NameStatus::Over(how.into()));
    state.prompts.remove(&kind.named(id)).expect("only a pending prompt has an outcome")
}

fn answer_call(state: &mut State, prompt: &Prompt, answer: Answer) {
    if let Some(call) = prompt.tool_call_id().and_then(|id| state.calls.get_mut(id)) {
        call.answer = Some(answer);
    }
}
