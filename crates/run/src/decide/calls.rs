//! Decides the answers of an application to the calls that wait for it: calls that it executes, and calls that it
//! must allow. The answers and what follows from them are one append. If some are missing, the run continues only to
//! wait for the rest, so that subscribers see it.

use std::collections::BTreeSet;

use recount_event::family::approval::{self, Decision};
use recount_event::family::run::{Continued, Waiting};
use recount_event::{Code, ForeignId, Json, Payload};

use super::{Batch, outcome, settle};
use crate::command::{CallAnswer, CallResolution};
use crate::rejection::Rejection;
use crate::state::{Phase, PromptKind, Space, State};

/// Who answers, through which protocol, and the options of the answer.
pub(super) struct Answerer {
    pub(super) by: String,
    pub(super) via: String,
    /// The change of the configuration from here on.
    pub(super) config: Option<Json>,
    pub(super) lenient: bool,
}

/// What a call waits for.
enum Open {
    /// The application executes it.
    Output,
    /// It waits for permission.
    Permission { approval_id: ForeignId },
    /// Nothing, any more.
    Nothing,
}

pub(super) fn answer(
    batch: &mut Batch,
    answers: Vec<CallAnswer>,
    answerer: Answerer,
) -> Result<(), Rejection> {
    if !batch.state.is_own() {
        let foreign = format!(
            "{} is an external run: send the answer to the program that drives it",
            batch.state.run_id
        );
        return Err(Rejection::new(Code::EventRefused, foreign));
    }
    let mut named = BTreeSet::new();
    for CallAnswer { tool_call_id, .. } in &answers {
        if !named.insert(tool_call_id.clone()) {
            let twice =
                format!("call {tool_call_id} is answered twice in one request: send one answer per call");
            return Err(Rejection::new(Code::CallNotPending, twice));
        }
    }
    let mut payloads = Vec::new();
    for CallAnswer { tool_call_id, resolution } in answers {
        match (open(&batch.state, &tool_call_id)?, resolution) {
            (Open::Nothing, _) if answerer.lenient => {}
            (Open::Nothing, _) => {
                let idle = format!(
                    "call {tool_call_id} expects no answer: it was answered before, or the application does \
                     not answer it"
                );
                return Err(Rejection::new(Code::CallNotPending, idle));
            }
            (Open::Output, CallResolution::Output { output, .. }) => {
                let call = batch.state.calls[&tool_call_id].clone();
                let mut ended = outcome::ended(&tool_call_id, &call);
                ended.output = Some(output);
                payloads.push(Payload::ToolCompleted(Box::new(ended)));
            }
            (Open::Output, CallResolution::Granted | CallResolution::Denied { .. }) => {
                let own = format!(
                    "call {tool_call_id} is executed by the application: send its result, not a permission"
                );
                return Err(Rejection::new(Code::CallNotPending, own));
            }
            (Open::Permission { approval_id }, resolution) => {
                payloads.push(decision(&answerer, approval_id, tool_call_id, resolution));
            }
        }
    }
    for payload in payloads {
        batch.emit(payload)?;
    }
    continue_run(batch, answerer)
}

/// What a call waits for. An error if the run never had this call.
fn open(state: &State, id: &ForeignId) -> Result<Open, Rejection> {
    let Some(call) = state.calls.get(id) else {
        return match state.ledger.get(Space::Call, id) {
            Some(_) => Ok(Open::Nothing),
            None => {
                let unknown = format!("call {id} does not exist in {}", state.run_id);
                Err(Rejection::new(Code::CallNotFound, unknown))
            }
        };
    };
    if state.phase != Phase::Waiting {
        return Ok(Open::Nothing);
    }
    if call.is_with_client() {
        // The executor of a command reports its exit before its outcome.
        return Ok(if call.runs_command() { Open::Nothing } else { Open::Output });
    }
    let pending = state.prompts.iter().find(|(name, prompt)| {
        name.kind == PromptKind::Approval && prompt.tool_call_id().is_some_and(|call| call == id)
    });
    Ok(pending.map_or(Open::Nothing, |(name, _)| Open::Permission { approval_id: name.id.clone() }))
}

fn decision(
    answerer: &Answerer,
    approval_id: ForeignId,
    tool_call_id: ForeignId,
    resolution: CallResolution,
) -> Payload {
    let (decision, comment, answer) = match resolution {
        CallResolution::Granted => (Decision::Approved, None, None),
        CallResolution::Denied { reason } => (Decision::Rejected, reason, None),
        // It does not know the tool, and answered as if it were its own.
        CallResolution::Output { text, .. } => (Decision::Rejected, None, Some(text)),
    };
    let mut resolved = approval::Resolved::new(approval_id, decision, answerer.by.clone());
    resolved.tool_call_id = Some(tool_call_id);
    resolved.comment = comment;
    resolved.via = Some(answerer.via.clone());
    resolved.answer = answer;
    Payload::ApprovalResolved(Box::new(resolved))
}

/// A partial answer continues the run; it then waits for the rest.
fn continue_run(batch: &mut Batch, answerer: Answerer) -> Result<(), Rejection> {
    if batch.state.phase != Phase::Waiting {
        return Ok(());
    }
    let mut continued = Continued::new(answerer.by);
    continued.config = answerer.config;
    batch.emit(Payload::RunContinued(Box::new(continued)))?;
    let rest = batch.state.waits_for();
    if rest.is_empty() {
        return settle::held_calls(batch);
    }
    batch.emit(Payload::RunWaiting(Box::new(Waiting::new(rest))))
}
