//! A person says something: a run begins, or one that asked goes on.

use recount_engine::{Attached, NewRun, Order, Saying, Superseded, Upload};
use recount_event::family::run::Queued;
use recount_event::{Code, ForeignId, Json, RunId};
use recount_run::{Command, Status};

use super::answers::opening;
use super::beginning::Beginning;
use super::latest;
use crate::accept::{self, Said};
use crate::error::Refusal;
use crate::limits;
use crate::project::TurnId;

/// What the model is told of calls that were open when somebody said something else.
const SUPERSEDED: &str = "the user said something else instead of answering";

/// How the session's run stands that has not ended.
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

pub(super) async fn message(beginning: Beginning<'_>, said: Said) -> Result<TurnId, Refusal> {
    let engine = &beginning.face.engine;
    let mut kept = None;
    for _ in 0..limits::SAY_TRIES {
        let supersedes = match active(&beginning).await? {
            Active::None => None,
            Active::Working => return Err(busy(&beginning).await),
            Active::Asks { run, clarification } => match reply(&beginning, run, clarification, &said).await {
                // Somebody else was first, or its time was over: look again.
                Err(refusal) if is_over(refusal.code) => continue,
                answered => return answered,
            },
            Active::Waits(run) => Some(Superseded { run, reason: SUPERSEDED.into() }),
        };
        if kept.is_none() {
            kept = Some(keep(&beginning, &said).await?);
        }
        let saying = Saying {
            session: beginning.session,
            new: new_run(&beginning, &said, kept.clone().unwrap_or_default())?,
            before: Some(beginning.row.clone()),
            overrides: beginning.change.overrides.clone(),
            supersedes,
        };
        return match engine.write().say(saying, beginning.again.once.as_ref()).await {
            Ok((run, _)) => Ok(TurnId { run, opening: 0 }),
            Err(error) if error.code() == Code::SessionBusy => Err(busy(&beginning).await),
            Err(error) => Err(error.into()),
        };
    }
    Err(busy(&beginning).await)
}

fn is_over(code: Code) -> bool {
    matches!(code, Code::ClarificationNotPending | Code::ClarificationNotFound | Code::RunEnded)
}

/// Names the turn that runs, unless it stopped in this moment.
async fn busy(beginning: &Beginning<'_>) -> Refusal {
    let Beginning { face, session, .. } = beginning;
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

async fn active(beginning: &Beginning<'_>) -> Result<Active, Refusal> {
    let engine = &beginning.face.engine;
    let Some(run) = engine.catalogue().active_run(beginning.session).await? else { return Ok(Active::None) };
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

/// What somebody said is the answer to a question.
async fn reply(
    beginning: &Beginning<'_>,
    run: RunId,
    clarification: ForeignId,
    said: &Said,
) -> Result<TurnId, Refusal> {
    if said.has_pictures() {
        let detail = "the agent asked a question, and a picture is no answer to it; say it in words";
        return Err(Refusal::new(Code::ImageRefused, detail));
    }
    let Beginning { face, change, .. } = beginning;
    let response = Json::of(&said.text()).expect("a text is JSON");
    let blocks = said.blocks(&[]);
    let command = Command::AnswerClarification {
        clarification_id: clarification,
        response,
        blocks: Some(blocks).filter(|blocks| !blocks.is_empty()),
        by: face.caller.name.clone(),
        config: accept::config(change, beginning.profile)?,
    };
    let Some(receipt) = beginning.submit(run, command).await? else {
        return Err(Refusal::new(Code::ClarificationNotPending, "the question was answered before"));
    };
    opening(face, run, &receipt).await
}

/// Keeps the pictures that came along, for the run to be.
async fn keep(beginning: &Beginning<'_>, said: &Said) -> Result<Vec<Attached>, Refusal> {
    let mut kept = Vec::new();
    for (mime, bytes) in said.data() {
        let upload = Upload {
            kind: "image".into(),
            mime: mime.to_owned(),
            name: None,
            bytes: bytes.clone(),
            by: beginning.face.caller.id.clone(),
        };
        let row = beginning.face.engine.write().upload(upload).await?;
        kept.push(Attached { artifact_id: row.id, mime: mime.to_owned(), name: None });
    }
    Ok(kept)
}

fn new_run(beginning: &Beginning<'_>, said: &Said, kept: Vec<Attached>) -> Result<NewRun, Refusal> {
    let (mut queued, mut order): (Queued, Order) =
        beginning.profile.order(&beginning.change.setup.choice())?;
    let text = said.text();
    queued.title = accept::run_title(&text);
    queued.request_text = Some(text);
    queued.requested_by = Some(beginning.face.caller.name.clone());
    queued.traceparent.clone_from(&beginning.traceparent);
    order.blocks = said.blocks(&kept);
    order.attachments = kept;
    queued.config = Some(order.written());
    Ok(NewRun { queued, task: None, session: Some(beginning.session), resumed_from: None })
}
