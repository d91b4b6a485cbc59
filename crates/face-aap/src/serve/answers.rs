//! Submits the answers of an application to open calls. If a call was answered elsewhere in the meantime, the response
//! reports the outcome; that is not an error. Start with [`answer`].

use recount_engine::{ListQuery, Receipt};
use recount_event::{Code, ForeignId, Payload, RunId};
use recount_run::{CallAnswer, CallResolution, Command};

use super::caller::Face;
use super::events::events;
use super::late::{self, CallStatus, VIA};
use super::turn_setup::TurnSetup;
use crate::accept::{self, Answer, no_call};
use crate::error::Refusal;
use crate::limits;
use crate::project::TurnId;
use crate::wire::TurnError;

/// The outcome of answers.
pub(super) enum Answered {
    Turn(TurnId),
    /// Another client ended the run while it waited, and no message followed.
    Ended(TurnError),
}

pub(super) async fn answer(turn_setup: TurnSetup<'_>, answers: Vec<Answer>) -> Result<Answered, Refusal> {
    let ids: Vec<ForeignId> = answers.iter().map(|answer| answer.call.clone()).collect();
    let mut answers: Vec<CallAnswer> = answers.into_iter().map(Answer::command).collect();
    let active = turn_setup.face.engine.catalogue().active_run(turn_setup.session).await?;
    if let Some(run) = active {
        deny_disabled_tools(&turn_setup, run, &mut answers).await?;
        match submit(&turn_setup, run, answers.clone(), false).await {
            Ok(Some(turn)) => return Ok(Answered::Turn(turn)),
            // The run continued at the same time.
            Ok(None) => {}
            Err(refusal) if is_late(refusal.code) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let statuses = late::call_statuses(turn_setup.face, turn_setup.session, &ids).await?;
    let (mut elsewhere, mut ended) = (None, None);
    for (id, status) in ids.iter().zip(statuses) {
        match status {
            CallStatus::NeverOpen => return Err(never_open(&turn_setup, id).await?),
            CallStatus::AnsweredHere => {
                let detail = format!(
                    "call {id} was already answered in this session; read the history of the session"
                );
                return Err(Refusal::new(Code::CallNotPending, detail));
            }
            CallStatus::Open { by_client } => {
                if by_client && is_permission(&answers, id) {
                    let detail = format!(
                        "call {id} is executed by the application; send its result, not a permission"
                    );
                    return Err(Refusal::new(Code::BodyMalformed, detail));
                }
            }
            CallStatus::Ended { run, why } => {
                if Some(run) != latest(&turn_setup).await? {
                    let detail = format!(
                        "the turn that waited for call {id} was abandoned and the conversation continued"
                    );
                    return Err(Refusal::new(Code::CallNotPending, detail));
                }
                ended = Some(why);
            }
            CallStatus::Elsewhere { run, reopened } => {
                elsewhere = elsewhere.or(Some(TurnId { run, opening: reopened }))
            }
        }
    }
    if let Some(run) = active
        && let Some(turn) = submit(&turn_setup, run, answers, true).await?
    {
        return Ok(Answered::Turn(turn));
    }
    match (elsewhere, ended) {
        (Some(turn), _) => {
            turn_setup.remember(turn).await;
            Ok(Answered::Turn(turn))
        }
        (None, Some(why)) => Ok(Answered::Ended(why)),
        (None, None) => {
            let detail = "the calls are no longer open; read the history of the session";
            Err(Refusal::new(Code::CallNotPending, detail))
        }
    }
}

/// The newest run of the session.
async fn latest(turn_setup: &TurnSetup<'_>) -> Result<Option<RunId>, Refusal> {
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let runs = turn_setup.face.engine.catalogue().list_session_runs(turn_setup.session, &query).await?.items;
    Ok(runs.first().map(|row| row.id))
}

/// Denies permissions for tools that the same turn disables: overrides take precedence.
async fn deny_disabled_tools(
    turn_setup: &TurnSetup<'_>,
    run: RunId,
    answers: &mut [CallAnswer],
) -> Result<(), Refusal> {
    let is_grant = |answer: &CallAnswer| answer.resolution == CallResolution::Granted;
    if turn_setup.change.overrides.tools.is_none() || !answers.iter().any(is_grant) {
        return Ok(());
    }
    let tools = late::tools(turn_setup.face, run).await?;
    let setup = &turn_setup.change.setup;
    for answer in answers.iter_mut().filter(|answer| is_grant(answer)) {
        let Some(tool) = tools.get(&answer.tool_call_id) else { continue };
        let is_enabled = setup.tools.iter().flatten().any(|enabled| enabled.name == *tool);
        if !is_enabled && !turn_setup.profile.hidden.contains(tool) {
            answer.resolution =
                CallResolution::Denied { reason: Some(format!("the tool {tool} is not enabled")) };
        }
    }
    Ok(())
}

fn is_late(code: Code) -> bool {
    matches!(code, Code::CallNotFound | Code::CallNotPending | Code::RunEnded)
}

fn is_permission(answers: &[CallAnswer], id: &ForeignId) -> bool {
    let answer = answers.iter().find(|answer| answer.tool_call_id == *id);
    answer.is_some_and(|answer| {
        matches!(answer.resolution, CallResolution::Granted | CallResolution::Denied { .. })
    })
}

/// `None` if other clients have answered all calls.
async fn submit(
    turn_setup: &TurnSetup<'_>,
    run: RunId,
    answers: Vec<CallAnswer>,
    lenient: bool,
) -> Result<Option<TurnId>, Refusal> {
    let TurnSetup { face, profile, change, .. } = turn_setup;
    let command = Command::AnswerCalls {
        answers,
        by: face.caller.name.clone(),
        via: VIA.into(),
        config: accept::config(change, profile)?,
        lenient,
    };
    let Some(receipt) = turn_setup.submit(run, command).await? else { return Ok(None) };
    opening(face, run, &receipt).await.map(Some)
}

/// The turn that starts within the events that were just appended.
pub(super) async fn opening(face: &Face, run: RunId, receipt: &Receipt) -> Result<TurnId, Refusal> {
    let mut from = receipt.first_sequence;
    // Large answers fill a page before it is full.
    while from <= receipt.last_sequence {
        let page = events(face, run, from, limits::PAGE_EVENTS).await?;
        let Some(last) = page.last() else { break };
        from = last.sequence + 1;
        if let Some(event) = page.iter().find(|event| matches!(event.payload(), Payload::RunContinued(_))) {
            return Ok(TurnId { run, opening: event.sequence });
        }
    }
    let detail = format!("{run} was answered at {} and did not continue", receipt.first_sequence);
    Err(Refusal::new(Code::Internal, detail))
}

/// A call in the application's seed messages never runs and never waits.
async fn never_open(turn_setup: &TurnSetup<'_>, id: &ForeignId) -> Result<Refusal, Refusal> {
    let seed = turn_setup.face.engine.catalogue().seed(turn_setup.session).await?;
    if accept::call_ids(&seed).contains(id.as_str()) {
        let detail =
            format!("call {id} is part of the seed messages of the session and does not wait for an answer");
        return Ok(Refusal::new(Code::CallNotFound, detail));
    }
    Ok(no_call(id))
}
