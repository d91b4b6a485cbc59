//! A message of a person: starts a run, or continues one that asked a question.

use recount_engine::{Attached, NewRun, Order, Saying, Superseded, Upload};
use recount_event::family::run::Queued;
use recount_event::{Code, ForeignId, Json, RunId};
use recount_run::{Command, Status};

use super::answers::opening;
use super::latest;
use super::turn_setup::TurnSetup;
use crate::accept::{self, MessageContent};
use crate::error::Refusal;
use crate::limits;
use crate::project::TurnId;

/// The text for the model in place of results of calls that were open when another message came.
const SUPERSEDED: &str = "the user said something else instead of answering";

/// The state of the session's active run.
enum Active {
    None,
    Working,
    /// It asked a question, and nothing else is open.
    Asks {
        run: RunId,
        clarification: ForeignId,
    },
    Waits(RunId),
}

pub(super) async fn message(turn_setup: TurnSetup<'_>, said: MessageContent) -> Result<TurnId, Refusal> {
    let engine = &turn_setup.face.engine;
    let mut kept = None;
    for _ in 0..limits::SAY_TRIES {
        let supersedes = match active(&turn_setup).await? {
            Active::None => None,
            Active::Working => return Err(busy(&turn_setup).await),
            Active::Asks { run, clarification } => {
                match reply(&turn_setup, run, clarification, &said).await {
                    // Another client was first, or the prompt timed out: look again.
                    Err(refusal) if is_over(refusal.code) => continue,
                    answered => return answered,
                }
            }
            Active::Waits(run) => Some(Superseded { run, reason: SUPERSEDED.into() }),
        };
        if kept.is_none() {
            kept = Some(keep(&turn_setup, &said).await?);
        }
        let saying = Saying {
            session: turn_setup.session,
            new: new_run(&turn_setup, &said, kept.clone().unwrap_or_default())?,
            before: Some(turn_setup.row.clone()),
            overrides: turn_setup.change.overrides.clone(),
            supersedes,
        };
        return match engine.write().say(saying, turn_setup.again.idempotency.as_ref()).await {
            Ok((run, _)) => Ok(TurnId { run, opening: 0 }),
            Err(error) if error.code() == Code::SessionBusy => Err(busy(&turn_setup).await),
            Err(error) => Err(error.into()),
        };
    }
    Err(busy(&turn_setup).await)
}

fn is_over(code: Code) -> bool {
    matches!(code, Code::ClarificationNotPending | Code::ClarificationNotFound | Code::RunEnded)
}

/// Names the turn that runs, unless it stopped in this moment.
async fn busy(turn_setup: &TurnSetup<'_>) -> Refusal {
    let TurnSetup { face, session, .. } = turn_setup;
    let turn = match latest::standing(face, *session).await {
        Ok(standing) => standing.running,
        Err(refusal) => return refusal,
    };
    let which = turn.map(|turn| format!(" {turn}")).unwrap_or_default();
    let detail =
        format!("the turn{which} of session {session} is running; wait for it to stop, or cancel it");
    let busy = Refusal::new(Code::SessionBusy, detail);
    Refusal { retry_after: Some(limits::TRY_AGAIN), turn, ..busy }
}

async fn active(turn_setup: &TurnSetup<'_>) -> Result<Active, Refusal> {
    let engine = &turn_setup.face.engine;
    let Some(run) = engine.catalogue().active_run(turn_setup.session).await? else { return Ok(Active::None) };
    let Some(row) = engine.catalogue().run(run).await? else { return Ok(Active::None) };
    if row.has_ended() {
        return Ok(Active::None);
    }
    if row.status != Status::Waiting.as_str() {
        return Ok(Active::Working);
    }
    let question = row.pending_clarifications.first().and_then(|id| ForeignId::parse(id).ok());
    Ok(match question {
        Some(clarification) => Active::Asks { run, clarification },
        None => Active::Waits(run),
    })
}

/// The message answers an open question.
async fn reply(
    turn_setup: &TurnSetup<'_>,
    run: RunId,
    clarification: ForeignId,
    said: &MessageContent,
) -> Result<TurnId, Refusal> {
    if said.has_pictures() {
        let detail = "the agent asked a question, and a picture cannot answer it; send a text";
        return Err(Refusal::new(Code::ImageRefused, detail));
    }
    let TurnSetup { face, change, .. } = turn_setup;
    let response = Json::of(&said.text()).expect("a text is JSON");
    let blocks = said.blocks(&[]);
    let command = Command::AnswerClarification {
        clarification_id: clarification,
        response,
        blocks: Some(blocks).filter(|blocks| !blocks.is_empty()),
        by: face.caller.name.clone(),
        config: accept::config(change, turn_setup.profile)?,
    };
    let Some(receipt) = turn_setup.submit(run, command).await? else {
        return Err(Refusal::new(Code::ClarificationNotPending, "the question was answered before"));
    };
    opening(face, run, &receipt).await
}

/// Stores the attached pictures for the new run.
async fn keep(turn_setup: &TurnSetup<'_>, said: &MessageContent) -> Result<Vec<Attached>, Refusal> {
    let mut kept = Vec::new();
    for (mime, bytes) in said.data() {
        let upload = Upload {
            kind: "image".into(),
            mime: mime.to_owned(),
            name: None,
            bytes: bytes.clone(),
            by: turn_setup.face.caller.id.clone(),
        };
        let row = turn_setup.face.engine.write().upload(upload).await?;
        kept.push(Attached { artifact_id: row.id, mime: mime.to_owned(), name: None });
    }
    Ok(kept)
}

fn new_run(
    turn_setup: &TurnSetup<'_>,
    said: &MessageContent,
    kept: Vec<Attached>,
) -> Result<NewRun, Refusal> {
    let (mut queued, mut order): (Queued, Order) =
        turn_setup.profile.order(&turn_setup.change.setup.choice())?;
    let text = said.text();
    queued.title = accept::run_title(&text);
    queued.request_text = Some(text);
    queued.requested_by = Some(turn_setup.face.caller.name.clone());
    queued.traceparent.clone_from(&turn_setup.traceparent);
    order.blocks = said.blocks(&kept);
    order.attachments = kept;
    queued.config = Some(order.written());
    Ok(NewRun { queued, task: None, session: Some(turn_setup.session), resumed_from: None })
}
