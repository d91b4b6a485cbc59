//! Routes that create a run from an ended run: retry, resume, continue, and retry from a turn.
//!
//! Must not decide what can be resumed, or from where: the engine does. Start with [`create_resumed_run`].

use axum::extract::Request;
use bytes::Bytes;
use recount_api::request::{ContinueRun, ResumeRun, RetryRun, RetryRunFromTurn};
use recount_engine::{EndedRun, ResumeFrom, RunConfig, StartFiles};
use recount_event::family::run::RunKind;
use recount_event::{Code, ForeignId, RunId};

use super::Face;
use super::http::{HandlerResult, Ids, body_bytes};
use super::once::IdempotentRequest;
use super::runs::{create_run_response, show_created_run};
use crate::error::Refusal;
use crate::{accept, limits};

/// A request about an ended run, before its body is parsed.
struct EndedRunRequest {
    run: RunId,
    trace: Option<String>,
    idempotent: IdempotentRequest,
}

impl EndedRunRequest {
    /// Also returns the bytes of the body.
    async fn read(
        face: &Face,
        run: &str,
        idempotent: IdempotentRequest,
        request: Request,
    ) -> Result<(EndedRunRequest, Bytes), Refusal> {
        let trace = accept::traceparent(request.headers().get("traceparent"));
        let run = face.run_id(run).await?;
        let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
        Ok((EndedRunRequest { run, trace, idempotent }, bytes))
    }
}

/// The differences of the new run from the ended one.
#[derive(Default)]
struct Changes {
    model: Option<String>,
    request_text: Option<String>,
    max_turns: Option<u64>,
    attachments: Vec<(ForeignId, Option<String>)>,
    files: StartFiles,
}

pub(super) async fn retry_run(face: Face, Ids(run): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return show_created_run(&face, created).await;
    }
    let (ended, bytes) = EndedRunRequest::read(&face, &run, idempotent, request).await?;
    let request: RetryRun = accept::body_or_default(&bytes)?;
    let past = face.engine.write().ended_run(ended.run).await?;
    face.check_may_start(past.queued.kind)?;
    let mut new = past.again()?;
    if let Some(model) = accept::bounded("model", request.model, limits::NAME_BYTES_MAX)? {
        require_agent_loop(past.queued.kind, "model")?;
        (new.queued.model, new.queued.provider) = (Some(model), None);
    }
    new.queued.requested_by = Some(face.caller.name.clone());
    new.queued.traceparent = ended.trace;
    create_run_response(&face, new, ended.idempotent).await
}

pub(super) async fn resume_run(face: Face, Ids(run): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return show_created_run(&face, created).await;
    }
    let (ended, bytes) = EndedRunRequest::read(&face, &run, idempotent, request).await?;
    let request: ResumeRun = accept::body_or_default(&bytes)?;
    let from = match (request.checkpoint_id, accept::number(request.from_sequence)?) {
        (Some(_), Some(_)) => {
            let both = "checkpoint_id and from_sequence were both sent; send one of them";
            return Err(Refusal::new(Code::OrderRefused, both));
        }
        (Some(id), None) => ResumeFrom::Checkpoint(checkpoint(&id)?),
        (None, Some(sequence)) => ResumeFrom::Sequence(sequence),
        // A new request continues the whole conversation.
        (None, None) if request.request_text.is_some() => ResumeFrom::End,
        (None, None) => ResumeFrom::Settled,
    };
    let changes = Changes {
        model: request.model,
        request_text: accept::text("request_text", request.request_text)?,
        max_turns: request.max_turns,
        attachments: Vec::new(),
        files: accept::start_files(request.files.as_deref())?,
    };
    create_resumed_run(&face, ended, from, changes).await
}

pub(super) async fn continue_run(face: Face, Ids(run): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return show_created_run(&face, created).await;
    }
    let (ended, bytes) = EndedRunRequest::read(&face, &run, idempotent, request).await?;
    let request: ContinueRun = accept::body(&bytes)?;
    if request.prompt.trim().is_empty() {
        return Err(Refusal::new(Code::OrderRefused, "prompt is empty; send what the agent should do next"));
    }
    let changes = Changes {
        model: request.model,
        request_text: accept::text("prompt", Some(request.prompt))?,
        max_turns: request.max_turns,
        attachments: accept::attachments(request.attachments)?,
        files: StartFiles::Current,
    };
    create_resumed_run(&face, ended, ResumeFrom::End, changes).await
}

pub(super) async fn retry_run_from_turn(
    face: Face,
    Ids(run): Ids<String>,
    request: Request,
) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return show_created_run(&face, created).await;
    }
    let (ended, bytes) = EndedRunRequest::read(&face, &run, idempotent, request).await?;
    let request: RetryRunFromTurn = accept::body(&bytes)?;
    let from = ResumeFrom::BeforeTurn(request.turn_index);
    let files = accept::start_files(request.files.as_deref())?;
    let changes = Changes { model: request.model, max_turns: request.max_turns, files, ..Changes::default() };
    create_resumed_run(&face, ended, from, changes).await
}

/// Creates the run that continues an ended one.
async fn create_resumed_run(
    face: &Face,
    ended: EndedRunRequest,
    from: ResumeFrom,
    changes: Changes,
) -> HandlerResult {
    let past: EndedRun = face.engine.write().ended_run(ended.run).await?;
    if past.queued.kind != RunKind::AgentLoop {
        let (run, kind) = (ended.run, past.queued.kind.as_str());
        let detail = format!("{run} is of kind {kind}, which cannot be resumed; retry it");
        return Err(Refusal::new(Code::OrderRefused, detail));
    }
    face.check_may_start(past.queued.kind)?;
    let place = face.engine.write().resume_point(&past, &from).await?;
    let files_from = face.engine.work().files_from(&past, &from, place, changes.files).await?;
    let mut new = past.resumed(place)?;
    if let Some(model) = accept::bounded("model", changes.model, limits::NAME_BYTES_MAX)? {
        (new.queued.model, new.queued.provider) = (Some(model), None);
    }
    new.queued.request_text = changes.request_text;
    // Earlier attachments are in the conversation already.
    let attachments = face.resolve_attachments(changes.attachments).await?;
    let order = past.run_config()?;
    let max_turns = accept::amount("max_turns", changes.max_turns, limits::TURNS_MAX)?.or(order.max_turns);
    let order = RunConfig { attachments, max_turns, branch: from.branch(), files_from, ..order };
    new.queued.config = Some(order.written());
    new.queued.requested_by = Some(face.caller.name.clone());
    new.queued.traceparent = ended.trace;
    create_run_response(face, new, ended.idempotent).await
}

fn checkpoint(id: &str) -> Result<ForeignId, Refusal> {
    ForeignId::parse(id).map_err(|_| {
        let detail = format!("checkpoint_id is {:?}, which is not an id", accept::shortened(id));
        Refusal::new(Code::CheckpointNotFound, detail)
    })
}

/// Refuses an option that only agent loops have.
fn require_agent_loop(kind: RunKind, name: &str) -> Result<(), Refusal> {
    if kind == RunKind::AgentLoop {
        return Ok(());
    }
    let kind = kind.as_str();
    let detail = format!(
        "{name} is allowed only for runs of kind agent_loop, and this run is of kind {kind}; leave it out"
    );
    Err(Refusal::new(Code::OrderRefused, detail))
}
