//! Handles a user message: starts a run, or answers the open question of a run. Start with [`message`].

use recount_engine::{Attachment, NewRun, RunConfig, SupersededRun, Upload, UserMessage};
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

/// The result of calls that were open when the user sent another message.
const SUPERSEDED: &str = "the user sent another message instead of answering";

/// The state of the session's active run.
enum Active {
    None,
    Working,
    /// The run waits for the answer to a question, and for nothing else.
    HasQuestion {
        run: RunId,
        clarification: ForeignId,
    },
    Waiting(RunId),
}

pub(super) async fn message(turn_setup: TurnSetup<'_>, content: MessageContent) -> Result<TurnId, Refusal> {
    let engine = &turn_setup.face.engine;
    let mut attachments = None;
    for _ in 0..limits::USER_MESSAGE_TRIES {
        let supersedes = match active(&turn_setup).await? {
            Active::None => None,
            Active::Working => return Err(busy(&turn_setup).await),
            Active::HasQuestion { run, clarification } => {
                match answer_question(&turn_setup, run, clarification, &content).await {
                    // Another client answered first, or the prompt timed out: read the state again.
                    Err(refusal) if is_over(refusal.code) => continue,
                    answered => return answered,
                }
            }
            Active::Waiting(run) => Some(SupersededRun { run, reason: SUPERSEDED.into() }),
        };
        if attachments.is_none() {
            attachments = Some(store_pictures(&turn_setup, &content).await?);
        }
        let saying = UserMessage {
            session: turn_setup.session,
            new: new_run(&turn_setup, &content, attachments.clone().unwrap_or_default())?,
            before: Some(turn_setup.row.clone()),
            overrides: turn_setup.change.overrides.clone(),
            supersedes,
        };
        return match engine.write().send_message(saying, turn_setup.idempotent.idempotency.as_ref()).await {
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

/// The refusal while a turn runs. Names the turn, unless it has just stopped.
async fn busy(turn_setup: &TurnSetup<'_>) -> Refusal {
    let TurnSetup { face, session, .. } = turn_setup;
    let turn = match latest::session_state(face, *session).await {
        Ok(state) => state.running,
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
        Some(clarification) => Active::HasQuestion { run, clarification },
        None => Active::Waiting(run),
    })
}

/// Answers an open question with the message.
async fn answer_question(
    turn_setup: &TurnSetup<'_>,
    run: RunId,
    clarification: ForeignId,
    content: &MessageContent,
) -> Result<TurnId, Refusal> {
    if content.has_pictures() {
        let detail = "the agent asked a question, which an image cannot answer; send text";
        return Err(Refusal::new(Code::ImageRefused, detail));
    }
    let TurnSetup { face, change, .. } = turn_setup;
    let response = Json::of(&content.text()).expect("a string is valid JSON");
    let blocks = content.blocks(&[]);
    let command = Command::AnswerClarification {
        clarification_id: clarification,
        response,
        blocks: Some(blocks).filter(|blocks| !blocks.is_empty()),
        by: face.caller.name.clone(),
        config: accept::config(change, turn_setup.profile)?,
    };
    let Some(receipt) = turn_setup.submit(run, command).await? else {
        return Err(Refusal::new(Code::ClarificationNotPending, "the question was already answered"));
    };
    opening(face, run, &receipt).await
}

/// Stores the attached pictures for the new run.
async fn store_pictures(
    turn_setup: &TurnSetup<'_>,
    content: &MessageContent,
) -> Result<Vec<Attachment>, Refusal> {
    let mut attachments = Vec::new();
    for (mime, bytes) in content.data() {
        let upload = Upload {
            kind: "image".into(),
            mime: mime.to_owned(),
            name: None,
            bytes: bytes.clone(),
            by: turn_setup.face.caller.id.clone(),
        };
        let row = turn_setup.face.engine.write().upload(upload).await?;
        attachments.push(Attachment { artifact_id: row.id, mime: mime.to_owned(), name: None });
    }
    Ok(attachments)
}

fn new_run(
    turn_setup: &TurnSetup<'_>,
    content: &MessageContent,
    attachments: Vec<Attachment>,
) -> Result<NewRun, Refusal> {
    let (mut queued, mut order): (Queued, RunConfig) =
        turn_setup.profile.run_config(&turn_setup.change.setup.choice())?;
    let text = content.text();
    queued.title = accept::run_title(&text);
    queued.request_text = Some(text);
    queued.requested_by = Some(turn_setup.face.caller.name.clone());
    queued.traceparent.clone_from(&turn_setup.traceparent);
    order.blocks = content.blocks(&attachments);
    order.attachments = attachments;
    queued.config = Some(order.written());
    Ok(NewRun { queued, task: None, session: Some(turn_setup.session), resumed_from: None })
}
