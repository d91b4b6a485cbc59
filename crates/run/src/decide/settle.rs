//! What follows from answers in own runs: nothing until the last open item has one, then `run.continued`
//! and every held call; and after a handoff, the ending.

use recount_event::family::approval::{Requested, Reversibility};
use recount_event::family::run::{Cancelled, Continued, Failed, Finished};
use recount_event::family::tool::{self, Executor, RefusalCode};
use recount_event::{ForeignId, Json, Payload};

use super::outcome::{ended, refusal};
use super::{Batch, close};
use crate::command::CancelledBy;
use crate::rejection::Rejection;
use crate::state::{Answer, ApprovalOutcome, Call, CallStage, Phase};

/// All outcomes are known; the run continues if nothing else is open.
pub(super) fn continue_run(batch: &mut Batch, by: &str) -> Result<(), Rejection> {
    continue_run_with(batch, by, None)
}

/// The same with what changes of the configuration from here on.
pub(super) fn continue_run_with(batch: &mut Batch, by: &str, config: Option<Json>) -> Result<(), Rejection> {
    if !batch.state.is_own() {
        return Ok(());
    }
    if batch.state.phase == Phase::Waiting && batch.state.waits_for().is_empty() {
        proceed(batch, by, config)?;
    }
    // A run that was not waiting acts on each answer at once.
    if batch.state.phase == Phase::Running { held_calls(batch) } else { Ok(()) }
}

fn proceed(batch: &mut Batch, by: &str, config: Option<Json>) -> Result<(), Rejection> {
    let mut continued = Continued::new(by.to_owned());
    continued.config = config;
    batch.emit(Payload::RunContinued(Box::new(continued)))
}

/// Acts on every answer that a call holds.
pub(super) fn held_calls(batch: &mut Batch) -> Result<(), Rejection> {
    for (id, call) in close::in_order(batch) {
        let acts = call.is_held() && call.stage != CallStage::Announced && !call.runs_command();
        if acts && !batch.state.has_prompt(&id) {
            held_call(batch, &id, &call)?;
        }
    }
    Ok(())
}

fn held_call(batch: &mut Batch, id: &ForeignId, call: &Call) -> Result<(), Rejection> {
    if call.stage == CallStage::Proposed {
        let approval = call.verdict.as_ref().map(|verdict| &verdict.outcome);
        if let Some((code, message)) = approval.and_then(denial) {
            return batch.emit(refusal(id, call, code, message));
        }
        if batch.state.cost.exceeded {
            return batch.emit(refusal(id, call, RefusalCode::Budget, "the budget is exhausted".into()));
        }
        batch.emit(invocation(id, call))?;
    }
    match &call.answer {
        Some(answer) => batch.emit(outcome(id, call, answer)),
        None => Ok(()),
    }
}

/// Why a call was denied, and the text for the model.
fn denial(outcome: &ApprovalOutcome) -> Option<(RefusalCode, String)> {
    match outcome {
        ApprovalOutcome::Granted => None,
        ApprovalOutcome::Denied { answer: Some(answer), .. } => {
            Some((RefusalCode::Denied, answer.to_string()))
        }
        ApprovalOutcome::Denied { comment: None, .. } => {
            Some((RefusalCode::Denied, "Tool call denied".into()))
        }
        ApprovalOutcome::Denied { comment: Some(comment), .. } => {
            Some((RefusalCode::Denied, format!("Tool call denied: {comment}")))
        }
        ApprovalOutcome::Missed => {
            Some((RefusalCode::TimedOut, "the approval request for this call timed out".into()))
        }
        ApprovalOutcome::Cancelled => {
            Some((RefusalCode::Cancelled, "the approval request for this call was withdrawn".into()))
        }
    }
}

fn invocation(id: &ForeignId, call: &Call) -> Payload {
    let mut invoked = tool::Invoked::new(id.clone(), call.name().to_owned());
    invoked.turn_index = call.turn_index;
    invoked.executor = Some(Executor::Server);
    if let Some(request) = call.granted() {
        invoked.risk_level = request.risk_level;
        invoked.irreversible = irreversible(request);
        invoked.args_summary = Some(request.summary.clone());
    }
    Payload::ToolInvoked(Box::new(invoked))
}

fn irreversible(request: &Requested) -> Option<bool> {
    match request.reversibility {
        Some(Reversibility::Irreversible) => Some(true),
        _ => request.irreversible,
    }
}

/// The outcome of the call, taken from its answer.
fn outcome(id: &ForeignId, call: &Call, answer: &Answer) -> Payload {
    let mut ended = ended(id, call);
    match answer {
        Answer::Response(response) => {
            ended.output = Some(Json::clone(response));
            Payload::ToolCompleted(Box::new(ended))
        }
        Answer::TakenOver { by } => {
            ended.summary = Some(format!("{by} took over"));
            Payload::ToolCompleted(Box::new(ended))
        }
        Answer::NotTakenOver { by } => {
            ended.code = Some("handoff_rejected".into());
            ended.error = Some(format!("{by} did not take over"));
            Payload::ToolFailed(Box::new(ended))
        }
        Answer::Unanswered => {
            ended.code = Some("unanswered".into());
            ended.error = Some("no answer was given".into());
            Payload::ToolTimedOut(Box::new(ended))
        }
        Answer::TimedOut => {
            ended.code = Some("handoff_timed_out".into());
            ended.error = Some("the handoff timed out".into());
            Payload::ToolTimedOut(Box::new(ended))
        }
    }
}

/// The outcome of a handoff.
pub(super) enum HandedOff {
    Taken,
    NotTaken { reason: Option<String> },
    TimedOut,
}

/// An own run ends after a handoff: everything else open is closed, and the call of the handoff is settled.
pub(super) fn conclude(batch: &mut Batch, by: &str, what: HandedOff) -> Result<(), Rejection> {
    if !batch.state.is_own() {
        return Ok(());
    }
    let reason = match &what {
        HandedOff::Taken => format!("{by} took over"),
        HandedOff::NotTaken { reason: Some(reason) } => format!("{by} did not take over: {reason}"),
        HandedOff::NotTaken { reason: None } => format!("{by} did not take over"),
        HandedOff::TimedOut => "the handoff timed out".to_owned(),
    };
    close::texts(batch)?;
    close::calls_and_prompts(batch, &close::CloseReason { by, reason: &reason }, true)?;
    if batch.state.phase == Phase::Waiting {
        proceed(batch, by, None)?;
    }
    held_calls(batch)?;
    close::turn(batch, "handed_off", &reason, false)?;
    batch.emit(match what {
        HandedOff::Taken => finished(batch, "handed_off"),
        HandedOff::NotTaken { .. } => cancelled(batch, CancelledBy::Operator, reason),
        HandedOff::TimedOut => failed(batch, "handoff_timed_out", reason),
    })
}

fn finished(batch: &Batch, final_status: &str) -> Payload {
    let mut ending = Finished::new(final_status.to_owned());
    (ending.turns, ending.cost_micros_usd, ending.duration_ms) = figures(batch);
    Payload::RunFinished(Box::new(ending))
}

fn failed(batch: &Batch, code: &str, message: String) -> Payload {
    let mut ending = Failed::new(code.to_owned(), message, false);
    (ending.turns, ending.cost_micros_usd, ending.duration_ms) = figures(batch);
    Payload::RunFailed(Box::new(ending))
}

pub(super) fn cancelled(batch: &Batch, by: CancelledBy, reason: String) -> Payload {
    let mut ending = Cancelled::new(by.as_str().to_owned(), reason);
    (ending.turns, ending.cost_micros_usd, ending.duration_ms) = figures(batch);
    Payload::RunCancelled(Box::new(ending))
}

pub(super) fn figures(batch: &Batch) -> (Option<u64>, Option<u64>, Option<u64>) {
    batch.state.figures(batch.now_ms())
}
