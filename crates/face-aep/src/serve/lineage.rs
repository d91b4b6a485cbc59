//! Runs that come after an ended run: retry, resume, continue, and retry from a turn.
//!
//! What may be resumed, and from where, the engine decides. Look at [`resumed`].

use axum::extract::Request;
use bytes::Bytes;
use recount_api::request::{ContinueRun, ResumeRun, RetryRun, RetryRunFromTurn};
use recount_engine::{Order, Past, ResumeFrom};
use recount_event::family::run::RunKind;
use recount_event::{Code, ForeignId, RunId};

use super::Face;
use super::http::{Answer, Ids, body_bytes};
use super::once::IdempotentRequest;
use super::runs::{answer_made, show_made};
use crate::error::Refusal;
use crate::{accept, limits};

/// A request about an ended run, before its body is looked at.
struct Asked {
    run: RunId,
    trace: Option<String>,
    again: IdempotentRequest,
}

impl Asked {
    /// Gives the bytes of the body beside it.
    async fn read(
        face: &Face,
        run: &str,
        again: IdempotentRequest,
        request: Request,
    ) -> Result<(Asked, Bytes), Refusal> {
        let trace = accept::traceparent(request.headers().get("traceparent"));
        let run = face.run_id(run).await?;
        let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
        Ok((Asked { run, trace, again }, bytes))
    }
}

/// What is to be otherwise in the new run.
#[derive(Default)]
struct Changes {
    model: Option<String>,
    request_text: Option<String>,
    max_turns: Option<u64>,
    attachments: Vec<(ForeignId, Option<String>)>,
}

pub(super) async fn retry_run(face: Face, Ids(run): Ids<String>, request: Request) -> Answer {
    let again = IdempotentRequest::of(&request);
    if let Some(made) = &again.made {
        return show_made(&face, made).await;
    }
    let (asked, bytes) = Asked::read(&face, &run, again, request).await?;
    let request: RetryRun = accept::body_or_default(&bytes)?;
    let past = face.engine.write().past(asked.run).await?;
    face.may_order(past.queued.kind)?;
    let mut new = past.again()?;
    if let Some(model) = accept::bounded("model", request.model, limits::NAME_BYTES_MAX)? {
        only_of_a_loop(past.queued.kind, "model")?;
        (new.queued.model, new.queued.provider) = (Some(model), None);
    }
    new.queued.requested_by = Some(face.caller.name.clone());
    new.queued.traceparent = asked.trace;
    answer_made(&face, new, asked.again).await
}

pub(super) async fn resume_run(face: Face, Ids(run): Ids<String>, request: Request) -> Answer {
    let again = IdempotentRequest::of(&request);
    if let Some(made) = &again.made {
        return show_made(&face, made).await;
    }
    let (asked, bytes) = Asked::read(&face, &run, again, request).await?;
    let request: ResumeRun = accept::body_or_default(&bytes)?;
    let from = match (request.checkpoint_id, accept::number(request.from_sequence)?) {
        (Some(_), Some(_)) => {
            let both = "checkpoint_id and from_sequence were both sent; send one of them";
            return Err(Refusal::new(Code::OrderRefused, both));
        }
        (Some(id), None) => ResumeFrom::Checkpoint(checkpoint(&id)?),
        (None, Some(sequence)) => ResumeFrom::Sequence(sequence),
        // More words follow on all that was said.
        (None, None) if request.request_text.is_some() => ResumeFrom::End,
        (None, None) => ResumeFrom::Settled,
    };
    let changes = Changes {
        model: request.model,
        request_text: accept::text("request_text", request.request_text)?,
        max_turns: request.max_turns,
        attachments: Vec::new(),
    };
    resumed(&face, asked, from, changes).await
}

pub(super) async fn continue_run(face: Face, Ids(run): Ids<String>, request: Request) -> Answer {
    let again = IdempotentRequest::of(&request);
    if let Some(made) = &again.made {
        return show_made(&face, made).await;
    }
    let (asked, bytes) = Asked::read(&face, &run, again, request).await?;
    let request: ContinueRun = accept::body(&bytes)?;
    if request.prompt.trim().is_empty() {
        return Err(Refusal::new(Code::OrderRefused, "prompt is empty; say what the agent is to do next"));
    }
    let changes = Changes {
        model: request.model,
        request_text: accept::text("prompt", Some(request.prompt))?,
        max_turns: request.max_turns,
        attachments: accept::attachments(request.attachments)?,
    };
    resumed(&face, asked, ResumeFrom::End, changes).await
}

pub(super) async fn retry_run_from_turn(face: Face, Ids(run): Ids<String>, request: Request) -> Answer {
    let again = IdempotentRequest::of(&request);
    if let Some(made) = &again.made {
        return show_made(&face, made).await;
    }
    let (asked, bytes) = Asked::read(&face, &run, again, request).await?;
    let request: RetryRunFromTurn = accept::body(&bytes)?;
    let from = ResumeFrom::BeforeTurn(request.turn_index);
    let changes = Changes { model: request.model, max_turns: request.max_turns, ..Changes::default() };
    resumed(&face, asked, from, changes).await
}

/// Makes the run that goes on from an ended one.
async fn resumed(face: &Face, asked: Asked, from: ResumeFrom, changes: Changes) -> Answer {
    let past: Past = face.engine.write().past(asked.run).await?;
    if past.queued.kind != RunKind::AgentLoop {
        let (run, kind) = (asked.run, past.queued.kind.as_str());
        let detail = format!("{run} is of kind {kind}, which cannot be resumed; retry it");
        return Err(Refusal::new(Code::OrderRefused, detail));
    }
    face.may_order(past.queued.kind)?;
    let place = face.engine.write().resume_place(&past, &from).await?;
    let mut new = past.resumed(place)?;
    if let Some(model) = accept::bounded("model", changes.model, limits::NAME_BYTES_MAX)? {
        (new.queued.model, new.queued.provider) = (Some(model), None);
    }
    new.queued.request_text = changes.request_text;
    // What came with the earlier request is in the conversation already.
    let attachments = face.attached(changes.attachments).await?;
    let order = past.order()?;
    let max_turns = accept::amount("max_turns", changes.max_turns, limits::TURNS_MAX)?.or(order.max_turns);
    let order = Order { attachments, max_turns, branch: from.branch(), ..order };
    new.queued.config = Some(order.written());
    new.queued.requested_by = Some(face.caller.name.clone());
    new.queued.traceparent = asked.trace;
    answer_made(face, new, asked.again).await
}

fn checkpoint(id: &str) -> Result<ForeignId, Refusal> {
    ForeignId::parse(id).map_err(|_| {
        let detail = format!("checkpoint_id is {:?}, which is not an id", accept::shortened(id));
        Refusal::new(Code::CheckpointNotFound, detail)
    })
}

/// Options that only agent loops have.
fn only_of_a_loop(kind: RunKind, name: &str) -> Result<(), Refusal> {
    if kind == RunKind::AgentLoop {
        return Ok(());
    }
    let kind = kind.as_str();
    let detail = format!(
        "{name} is allowed only for runs of kind agent_loop, and this one is of kind {kind}; leave it out"
    );
    Err(Refusal::new(Code::OrderRefused, detail))
}
