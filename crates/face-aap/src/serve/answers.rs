//! An application answers the calls that wait for it. What was answered elsewhere in the meantime is no mistake of
//! its: then it is told what really happened.

use recount_engine::{ListQuery, Receipt};
use recount_event::{Code, ForeignId, Payload, RunId};
use recount_run::{CallAnswer, CallSaid, Command};

use super::beginning::Beginning;
use super::caller::Face;
use super::events::events;
use super::late::{self, Fate, VIA};
use crate::accept::{self, Answer, no_call};
use crate::error::Refusal;
use crate::limits;
use crate::project::TurnId;
use crate::wire::TurnError;

/// What came of answers.
pub(super) enum Answered {
    Turn(TurnId),
    /// The run had ended while it waited, by others, and nothing was said since.
    Ended(TurnError),
}

pub(super) async fn answer(beginning: Beginning<'_>, answers: Vec<Answer>) -> Result<Answered, Refusal> {
    let ids: Vec<ForeignId> = answers.iter().map(|answer| answer.call.clone()).collect();
    let mut answers: Vec<CallAnswer> = answers.into_iter().map(Answer::command).collect();
    let active = beginning.face.engine.catalogue().active_run(beginning.session).await?;
    if let Some(run) = active {
        take_back(&beginning, run, &mut answers).await?;
        match submit(&beginning, run, answers.clone(), false).await {
            Ok(Some(turn)) => return Ok(Answered::Turn(turn)),
            // The run went on in the same moment.
            Ok(None) => {}
            Err(refusal) if is_late(refusal.code) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let fates = late::fates(beginning.face, beginning.session, &ids).await?;
    let (mut elsewhere, mut ended) = (None, None);
    for (id, fate) in ids.iter().zip(fates) {
        match fate {
            Fate::NeverOpen => return Err(never_open(&beginning, id).await?),
            Fate::AnsweredHere => {
                let detail = format!("call {id} was answered before in this session; read its history");
                return Err(Refusal::new(Code::CallNotPending, detail));
            }
            Fate::Open { by_client } => {
                if by_client && is_permission(&answers, id) {
                    let detail = format!(
                        "call {id} is the application's own to carry out; send its result, not a permission"
                    );
                    return Err(Refusal::new(Code::BodyMalformed, detail));
                }
            }
            Fate::Ended { run, why } => {
                if Some(run) != latest(&beginning).await? {
                    let detail = format!(
                        "the turn that waited for call {id} was given up, and the conversation went on"
                    );
                    return Err(Refusal::new(Code::CallNotPending, detail));
                }
                ended = Some(why);
            }
            Fate::Elsewhere { run, reopened } => {
                elsewhere = elsewhere.or(Some(TurnId { run, opening: reopened }))
            }
        }
    }
    if let Some(run) = active
        && let Some(turn) = submit(&beginning, run, answers, true).await?
    {
        return Ok(Answered::Turn(turn));
    }
    match (elsewhere, ended) {
        (Some(turn), _) => {
            beginning.remember(turn).await;
            Ok(Answered::Turn(turn))
        }
        (None, Some(why)) => Ok(Answered::Ended(why)),
        (None, None) => {
            let detail = "what was answered is not waited for any more; read the session's history";
            Err(Refusal::new(Code::CallNotPending, detail))
        }
    }
}

/// The newest run of the session.
async fn latest(beginning: &Beginning<'_>) -> Result<Option<RunId>, Refusal> {
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let runs = beginning.face.engine.catalogue().list_session_runs(beginning.session, &query).await?.items;
    Ok(runs.first().map(|row| row.id))
}

/// What a turn disables cannot be allowed by it: overrides hold before permissions do.
async fn take_back(beginning: &Beginning<'_>, run: RunId, answers: &mut [CallAnswer]) -> Result<(), Refusal> {
    let is_grant = |answer: &CallAnswer| answer.said == CallSaid::Granted;
    if beginning.change.overrides.tools.is_none() || !answers.iter().any(is_grant) {
        return Ok(());
    }
    let tools = late::tools(beginning.face, run).await?;
    let setup = &beginning.change.setup;
    for answer in answers.iter_mut().filter(|answer| is_grant(answer)) {
        let Some(tool) = tools.get(&answer.tool_call_id) else { continue };
        let is_enabled = setup.tools.iter().flatten().any(|enabled| enabled.name == *tool);
        if !is_enabled && !beginning.profile.hidden.contains(tool) {
            answer.said = CallSaid::Denied { reason: Some(format!("the tool {tool} is not enabled")) };
        }
    }
    Ok(())
}

fn is_late(code: Code) -> bool {
    matches!(code, Code::CallNotFound | Code::CallNotPending | Code::RunEnded)
}

fn is_permission(answers: &[CallAnswer], id: &ForeignId) -> bool {
    let of = answers.iter().find(|answer| answer.tool_call_id == *id);
    of.is_some_and(|answer| matches!(answer.said, CallSaid::Granted | CallSaid::Denied { .. }))
}

/// `None`: there was nothing to write, because others have said it all.
async fn submit(
    beginning: &Beginning<'_>,
    run: RunId,
    answers: Vec<CallAnswer>,
    lenient: bool,
) -> Result<Option<TurnId>, Refusal> {
    let Beginning { face, profile, change, .. } = beginning;
    let command = Command::AnswerCalls {
        answers,
        by: face.caller.name.clone(),
        via: VIA.into(),
        config: accept::config(change, profile)?,
        lenient,
    };
    let Some(receipt) = beginning.submit(run, command).await? else { return Ok(None) };
    opening(face, run, &receipt).await.map(Some)
}

/// The turn that begins within what was just appended.
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
    let detail = format!("{run} was answered at {} and did not go on", receipt.first_sequence);
    Err(Refusal::new(Code::Internal, detail))
}

/// A call may stand in what the application itself brought along; nothing ever runs for that.
async fn never_open(beginning: &Beginning<'_>, id: &ForeignId) -> Result<Refusal, Refusal> {
    let seed = beginning.face.engine.catalogue().seed(beginning.session).await?;
    if accept::call_ids(&seed).contains(id.as_str()) {
        let detail = format!(
            "call {id} stands in what was said before the session began, and waits for nobody; nothing runs for it"
        );
        return Ok(Refusal::new(Code::CallNotFound, detail));
    }
    Ok(no_call(id))
}
