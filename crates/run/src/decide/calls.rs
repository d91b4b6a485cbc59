//! Decides the answers of an application to the calls that wait for it: calls that it executes, and calls that it
//! must allow. The answers and what follows from them are one append. If some are missing, the run continues only to
//! wait for the rest, so that subscribers see it.

use std::collections::BTreeSet;

use recount_event::family::approval::{self, Decision};
use recount_event::family::run::{Continued, Waiting};
use recount_event::{Code, ForeignId, Json, Payload};

use super::{Batch, outcome, settle};
use crate::command::{CallAnswer, CallSaid};
use crate::rejection::Rejection;
use crate::state::{Phase, PromptKind, Space, State};

/// The client that answers, and how.
pub(super) struct Answerer {
    pub(super) by: String,
    pub(super) via: String,
    /// What changes of the configuration from here on.
    pub(super) config: Option<Json>,
    pub(super) lenient: bool,
}

/// What a call waits for.
enum Open {
    /// The application carries it out.
    Output,
    /// It waits for permission.
    Leave { approval_id: ForeignId },
    /// Nothing, any more.
    Nothing,
}

pub(super) fn answer(batch: &mut Batch, answers: Vec<CallAnswer>, whose: Answerer) -> Result<(), Rejection> {
    if !batch.state.is_own() {
        let foreign = format!("{} is driven by its producer: answer there", batch.state.run_id);
        return Err(Rejection::new(Code::EventRefused, foreign));
    }
    let mut named = BTreeSet::new();
    for CallAnswer { tool_call_id, .. } in &answers {
        if !named.insert(tool_call_id.clone()) {
            let twice = format!("call {tool_call_id} is answered twice in one request: send one answer");
            return Err(Rejection::new(Code::CallNotPending, twice));
        }
    }
    let mut said = Vec::new();
    for CallAnswer { tool_call_id, said: what } in answers {
        match (open(&batch.state, &tool_call_id)?, what) {
            (Open::Nothing, _) if whose.lenient => {}
            (Open::Nothing, _) => {
                let idle = format!(
                    "call {tool_call_id} waits for no answer: it was answered before, or never was the application's to answer"
                );
                return Err(Rejection::new(Code::CallNotPending, idle));
            }
            (Open::Output, CallSaid::Output { output, .. }) => {
                let call = batch.state.calls[&tool_call_id].clone();
                let mut ended = outcome::ended(&tool_call_id, &call);
                ended.output = Some(output);
                said.push(Payload::ToolCompleted(Box::new(ended)));
            }
            (Open::Output, CallSaid::Granted | CallSaid::Denied { .. }) => {
                let own = format!(
                    "call {tool_call_id} is the application's own to carry out: send its result, not a permission"
                );
                return Err(Rejection::new(Code::CallNotPending, own));
            }
            (Open::Leave { approval_id }, what) => {
                said.push(decision(&whose, approval_id, tool_call_id, what));
            }
        }
    }
    for payload in said {
        batch.emit(payload)?;
    }
    go_on(batch, whose)
}

/// What a call waits for, when it ever was a call of this run.
fn open(state: &State, id: &ForeignId) -> Result<Open, Rejection> {
    let Some(call) = state.calls.get(id) else {
        return match state.ledger.get(Space::Call, id) {
            Some(_) => Ok(Open::Nothing),
            None => {
                let unknown = format!("no call {id} was ever open in {}", state.run_id);
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
    let asked = state.prompts.iter().find(|(name, prompt)| {
        name.kind == PromptKind::Approval && prompt.tool_call_id().is_some_and(|call| call == id)
    });
    Ok(asked.map_or(Open::Nothing, |(name, _)| Open::Leave { approval_id: name.id.clone() }))
}

fn decision(whose: &Answerer, approval_id: ForeignId, tool_call_id: ForeignId, what: CallSaid) -> Payload {
    let (decision, comment, answer) = match what {
        CallSaid::Granted => (Decision::Approved, None, None),
        CallSaid::Denied { reason } => (Decision::Rejected, reason, None),
        // It does not know the tool, and answered as if it were its own.
        CallSaid::Output { text, .. } => (Decision::Rejected, None, Some(text)),
    };
    let mut resolved = approval::Resolved::new(approval_id, decision, whose.by.clone());
    resolved.tool_call_id = Some(tool_call_id);
    resolved.comment = comment;
    resolved.via = Some(whose.via.clone());
    resolved.answer = answer;
    Payload::ApprovalResolved(Box::new(resolved))
}

/// A partial answer continues the run; it then waits for the rest.
fn go_on(batch: &mut Batch, whose: Answerer) -> Result<(), Rejection> {
    if batch.state.phase != Phase::Waiting {
        return Ok(());
    }
    let mut continued = Continued::new(whose.by);
    continued.config = whose.config;
    batch.emit(Payload::RunContinued(Box::new(continued)))?;
    let rest = batch.state.waits_for();
    if rest.is_empty() {
        return settle::held_calls(batch);
    }
    batch.emit(Payload::RunWaiting(Box::new(Waiting::new(rest))))
}
