//! An application answers the calls that wait for it. What was answered elsewhere in the meantime is no mistake of
//! its: then it is told what really happened.

use recount_engine::{Answering, Receipt};
use recount_event::{Code, ForeignId, Payload, RunId};
use recount_run::{CallAnswer, Command};

use super::caller::Face;
use super::late::{self, Fate};
use super::turns::{Beginning, events};
use crate::accept::{self, Answer, no_call};
use crate::error::Refusal;
use crate::project::TurnId;

pub(super) async fn answer(beginning: Beginning<'_>, answers: Vec<Answer>) -> Result<TurnId, Refusal> {
    let ids: Vec<ForeignId> = answers.iter().map(|answer| answer.call.clone()).collect();
    let answers: Vec<CallAnswer> = answers.into_iter().map(Answer::command).collect();
    let active = beginning.face.engine.active_run(beginning.session).await?;
    if let Some(run) = active {
        match submit(&beginning, run, answers.clone(), false).await {
            Ok(Some(turn)) => return Ok(turn),
            // The run went on in the same moment.
            Ok(None) => {}
            Err(refusal) if is_late(refusal.code) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let fates = late::fates(beginning.face, beginning.session, &ids).await?;
    let mut elsewhere = None;
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
            Fate::Gone => {
                let detail =
                    format!("the turn that waited for call {id} was given up, and the conversation went on");
                return Err(Refusal::new(Code::CallNotPending, detail));
            }
            Fate::Elsewhere { run, reopened } => {
                elsewhere = elsewhere.or(Some(TurnId { run, opening: reopened }))
            }
        }
    }
    if let Some(run) = active
        && let Some(turn) = submit(&beginning, run, answers, true).await?
    {
        return Ok(turn);
    }
    match elsewhere {
        Some(turn) => {
            beginning.remember(turn).await?;
            Ok(turn)
        }
        None => {
            let detail = "what was answered is not waited for any more; read the session's history";
            Err(Refusal::new(Code::CallNotPending, detail))
        }
    }
}

fn is_late(code: Code) -> bool {
    matches!(code, Code::CallNotFound | Code::CallNotPending | Code::RunEnded)
}

fn is_permission(answers: &[CallAnswer], id: &ForeignId) -> bool {
    use recount_run::CallSaid;
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
    let Beginning { face, session, row, profile, change, .. } = beginning;
    let command = Command::AnswerCalls {
        answers,
        by: face.caller.name.clone(),
        via: VIA.into(),
        config: accept::config(change, profile)?,
        lenient,
    };
    let answering = Answering {
        session: *session,
        run,
        command,
        before: Some(row.clone()),
        overrides: change.overrides.clone(),
    };
    let Some(receipt) = face.engine.answer(answering).await? else { return Ok(None) };
    let turn = opening(face, run, &receipt).await?;
    beginning.remember(turn).await?;
    Ok(Some(turn))
}

/// Through which protocol an answer came.
pub(super) const VIA: &str = "aap";

/// The turn that begins within what was just appended.
pub(super) async fn opening(face: &Face, run: RunId, receipt: &Receipt) -> Result<TurnId, Refusal> {
    let count = usize::try_from(receipt.last_sequence - receipt.first_sequence + 1).unwrap_or(usize::MAX);
    let appended = events(face, run, receipt.first_sequence, count).await?;
    let continued = appended.iter().find(|event| matches!(event.payload(), Payload::RunContinued(_)));
    continued.map(|event| TurnId { run, opening: event.sequence }).ok_or_else(|| {
        Refusal::new(
            Code::Internal,
            format!("{run} was answered at {} and did not go on", receipt.first_sequence),
        )
    })
}

/// A call may stand in what the application itself brought along; nothing ever runs for that.
async fn never_open(beginning: &Beginning<'_>, id: &ForeignId) -> Result<Refusal, Refusal> {
    let seed = beginning.face.engine.seed(beginning.session).await?;
    if accept::call_ids(&seed).contains(id.as_str()) {
        let detail = format!(
            "call {id} stands in what was said before the session began, and waits for nobody; nothing runs for it"
        );
        return Ok(Refusal::new(Code::CallNotFound, detail));
    }
    Ok(no_call(id))
}
