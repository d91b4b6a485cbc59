//! Routes for prompts: list, show and answer approvals, clarifications and handoffs.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use axum::response::Response;
use recount_api::query::{APPROVAL_STATUSES, CLARIFICATION_STATUSES, HANDOFF_STATUSES};
use recount_api::reply::{self, One};
use recount_api::request::{
    AcknowledgeHandoff, AnswerClarification, ExtendPrompt, RejectHandoff, ResolveApproval, Verdict,
};
use recount_engine::{ApprovalRow, ClarificationRow, Error, HandoffRow, PromptRow};
use recount_event::family::approval::AllowanceScope;
use recount_event::{Code, ForeignId, RunId, SessionId};
use recount_run::{Command, PromptKind};

use super::Face;
use super::http::{HandlerResult, Ids, Query, body_bytes, json, page};
use super::once::IdempotentRequest;
use crate::error::Refusal;
use crate::{accept, limits, project};

/// The prompts of a list that the caller may see.
async fn seen<T>(face: &Face, rows: Vec<T>, run_of: fn(&T) -> RunId) -> Result<Vec<T>, Refusal> {
    let mut seen = Vec::with_capacity(rows.len());
    for row in rows {
        if face.sees_run(run_of(&row)).await? {
            seen.push(row);
        }
    }
    Ok(seen)
}

/// A prompt that exists and that the caller may see.
async fn found<T>(
    face: &Face,
    kind: PromptKind,
    id: &ForeignId,
    row: Result<Option<T>, Error>,
    run_of: fn(&T) -> RunId,
) -> Result<T, Refusal> {
    let missing = || accept::no_prompt(kind, id.as_str());
    let row = row?.ok_or_else(missing)?;
    if face.sees_run(run_of(&row)).await? { Ok(row) } else { Err(missing()) }
}

/// Refuses an answer to a prompt that differs from the one that was shown. An answer without a digest is bound by the id.
fn check_shown(
    kind: PromptKind,
    id: &ForeignId,
    now: Option<String>,
    shown: Option<String>,
) -> Result<(), Refusal> {
    if shown.is_none() || shown == now {
        return Ok(());
    }
    let (shown, now) = (shown.unwrap_or_default(), now.unwrap_or_default());
    let detail = format!(
        "{kind} {id:?} differs from what was shown: its shown_digest is {now}, and the answer has {shown:?}; read it \
         again, show it, and answer with its shown_digest",
        kind = kind.as_str(),
        id = id.as_str(),
    );
    Err(Refusal::new(Code::PromptChanged, detail))
}

// ---- approvals ---------------------------------------------------------------------------------

fn run_of_approval(row: &ApprovalRow) -> RunId {
    row.run_id
}

pub(super) async fn list_approvals(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref()).list_by_status(None, &APPROVAL_STATUSES)?;
    let listed = face.engine.read().list_approvals(&query).await?;
    let rows = seen(&face, listed.items, run_of_approval).await?;
    Ok(page(
        &face,
        rows.into_iter().map(project::approval).collect(),
        (listed.next, listed.has_more),
        listed.damaged,
    ))
}

async fn approval_row(face: &Face, id: &ForeignId) -> Result<ApprovalRow, Refusal> {
    let row = face.engine.read().approval(id).await;
    found(face, PromptKind::Approval, id, row, run_of_approval).await
}

fn shown_approval(row: ApprovalRow) -> Response {
    json(StatusCode::OK, &One::new("approval", project::approval(row)))
}

pub(super) async fn get_approval(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::prompt_id(PromptKind::Approval, &id)?;
    Ok(shown_approval(approval_row(&face, &id).await?))
}

pub(super) async fn resolve_approval(face: Face, Ids(id): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let approval_id = accept::prompt_id(PromptKind::Approval, &id)?;
    let row = approval_row(&face, &approval_id).await?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: ResolveApproval = accept::body(&bytes)?;
    let run = row.run_id;
    check_shown(
        PromptKind::Approval,
        &approval_id,
        project::approval(row).shown_digest,
        request.shown_digest,
    )?;
    if let Some(scope) = request.remember {
        may_reach(&face, run, scope).await?;
    }
    let command = Command::ResolveApproval {
        approval_id: approval_id.clone(),
        approve: request.decision == Verdict::Approve,
        by: face.caller.name.clone(),
        comment: accept::text("comment", request.comment)?,
        remember: request.remember,
    };
    idempotent.submit(&face, run, command).await?;
    Ok(shown_approval(approval_row(&face, &approval_id).await?))
}

/// The command that moves a deadline.
async fn extension(
    face: &Face,
    kind: PromptKind,
    id: &ForeignId,
    request: Request,
) -> Result<Command, Refusal> {
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let ExtendPrompt { seconds } = accept::body(&bytes)?;
    Ok(Command::ExtendPrompt { kind, id: id.clone(), seconds, by: face.caller.name.clone() })
}

/// Moves a deadline. Returns the prompt after that for a request with a key; otherwise the caller reads it.
async fn extend<T: PromptRow>(
    face: &Face,
    idempotent: IdempotentRequest,
    run: RunId,
    id: &ForeignId,
    command: Command,
) -> Result<Option<T>, Refusal> {
    match idempotent.submit(face, run, command).await? {
        Some((run, sequence)) => Ok(face.engine.catalogue().prompt_at(run, sequence, id).await?),
        None => Ok(None),
    }
}

pub(super) async fn extend_approval(face: Face, Ids(id): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let approval_id = accept::prompt_id(PromptKind::Approval, &id)?;
    let row = approval_row(&face, &approval_id).await?;
    let command = extension(&face, PromptKind::Approval, &approval_id, request).await?;
    match extend(&face, idempotent, row.run_id, &approval_id, command).await? {
        Some(extended) => Ok(shown_approval(extended)),
        None => Ok(shown_approval(approval_row(&face, &approval_id).await?)),
    }
}

/// Whether the caller may do everything that an allowance of this scope covers, granted in a run of this session.
pub(super) fn reaches(face: &Face, session: Option<SessionId>, scope: AllowanceScope) -> bool {
    match scope {
        AllowanceScope::Run => true,
        AllowanceScope::Session => session.is_none() || face.caller.narrowing.admits(None, session),
        AllowanceScope::Workspace => face.caller.narrowing.is_none(),
    }
}

/// Refuses an allowance with a wider scope than the caller's own: a narrowed token cannot allow more than it covers.
async fn may_reach(face: &Face, run: RunId, scope: AllowanceScope) -> Result<(), Refusal> {
    let row = face.engine.catalogue().run(run).await?;
    if reaches(face, row.and_then(|row| row.session_id), scope) {
        return Ok(());
    }
    let detail = format!(
        "the token is limited to certain tasks or sessions, and an allowance for the {scope} goes beyond \
         them; send a narrower scope"
    );
    Err(Refusal::new(Code::ScopeMissing, detail))
}

// ---- clarifications ----------------------------------------------------------------------------

fn run_of_clarification(row: &ClarificationRow) -> RunId {
    row.run_id
}

pub(super) async fn list_clarifications(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref()).list_by_status(None, &CLARIFICATION_STATUSES)?;
    let listed = face.engine.read().list_clarifications(&query).await?;
    let rows = seen(&face, listed.items, run_of_clarification).await?;
    Ok(page(
        &face,
        rows.into_iter().map(project::clarification).collect(),
        (listed.next, listed.has_more),
        listed.damaged,
    ))
}

async fn clarification_row(face: &Face, id: &ForeignId) -> Result<ClarificationRow, Refusal> {
    let row = face.engine.read().clarification(id).await;
    found(face, PromptKind::Clarification, id, row, run_of_clarification).await
}

fn shown_clarification(row: ClarificationRow) -> Response {
    json(StatusCode::OK, &One::new("clarification", project::clarification(row)))
}

pub(super) async fn get_clarification(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::prompt_id(PromptKind::Clarification, &id)?;
    Ok(shown_clarification(clarification_row(&face, &id).await?))
}

pub(super) async fn answer_clarification(
    face: Face,
    Ids(id): Ids<String>,
    request: Request,
) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let clarification_id = accept::prompt_id(PromptKind::Clarification, &id)?;
    let row = clarification_row(&face, &clarification_id).await?;
    let bytes = body_bytes(request, limits::ANSWER_BODY_BYTES_MAX).await?;
    let request: AnswerClarification = accept::body(&bytes)?;
    let run = row.run_id;
    let now = project::clarification(row).shown_digest;
    check_shown(PromptKind::Clarification, &clarification_id, now, request.shown_digest)?;
    let command = Command::AnswerClarification {
        clarification_id: clarification_id.clone(),
        response: accept::response(request.response.get())?,
        by: face.caller.name.clone(),
        blocks: None,
        config: None,
    };
    idempotent.submit(&face, run, command).await?;
    Ok(shown_clarification(clarification_row(&face, &clarification_id).await?))
}

pub(super) async fn extend_clarification(
    face: Face,
    Ids(id): Ids<String>,
    request: Request,
) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let clarification_id = accept::prompt_id(PromptKind::Clarification, &id)?;
    let row = clarification_row(&face, &clarification_id).await?;
    let command = extension(&face, PromptKind::Clarification, &clarification_id, request).await?;
    match extend(&face, idempotent, row.run_id, &clarification_id, command).await? {
        Some(extended) => Ok(shown_clarification(extended)),
        None => Ok(shown_clarification(clarification_row(&face, &clarification_id).await?)),
    }
}

// ---- handoffs ----------------------------------------------------------------------------------

fn run_of_handoff(row: &HandoffRow) -> RunId {
    row.run_id
}

pub(super) async fn list_handoffs(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref()).list_by_status(None, &HANDOFF_STATUSES)?;
    let listed = face.engine.read().list_handoffs(&query).await?;
    let rows = seen(&face, listed.items, run_of_handoff).await?;
    let handoffs: Vec<reply::Handoff> = rows.into_iter().map(project::listed_handoff).collect();
    Ok(page(&face, handoffs, (listed.next, listed.has_more), listed.damaged))
}

async fn handoff_row(face: &Face, id: &ForeignId) -> Result<HandoffRow, Refusal> {
    let row = face.engine.read().handoff(id).await;
    found(face, PromptKind::Handoff, id, row, run_of_handoff).await
}

async fn shown_handoff(face: &Face, row: HandoffRow) -> HandlerResult {
    let packed = face.engine.read().handoff_context(&row).await?;
    Ok(json(StatusCode::OK, &One::new("handoff", project::single_handoff(row, packed))))
}

/// Answers a handoff, and returns it with the answer.
async fn settle_handoff(
    face: &Face,
    id: &ForeignId,
    idempotent: IdempotentRequest,
    command: Command,
    shown: Option<String>,
) -> HandlerResult {
    let row = handoff_row(face, id).await?;
    let run = row.run_id;
    if shown.is_some() {
        let packed = face.engine.read().handoff_context(&row).await?;
        check_shown(PromptKind::Handoff, id, project::single_handoff(row, packed).shown_digest, shown)?;
    }
    idempotent.submit(face, run, command).await?;
    shown_handoff(face, handoff_row(face, id).await?).await
}

pub(super) async fn get_handoff(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::prompt_id(PromptKind::Handoff, &id)?;
    shown_handoff(&face, handoff_row(&face, &id).await?).await
}

pub(super) async fn acknowledge_handoff(face: Face, Ids(id): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let handoff_id = accept::prompt_id(PromptKind::Handoff, &id)?;
    handoff_row(&face, &handoff_id).await?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: AcknowledgeHandoff = accept::body_or_default(&bytes)?;
    let comment = accept::text("comment", request.comment)?;
    let (id, by) = (handoff_id.clone(), face.caller.name.clone());
    let command = Command::AcknowledgeHandoff { handoff_id: id, by, comment };
    settle_handoff(&face, &handoff_id, idempotent, command, request.shown_digest).await
}

pub(super) async fn reject_handoff(face: Face, Ids(id): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let handoff_id = accept::prompt_id(PromptKind::Handoff, &id)?;
    handoff_row(&face, &handoff_id).await?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: RejectHandoff = accept::body_or_default(&bytes)?;
    let reason = accept::text("reason", request.reason)?;
    let (id, by) = (handoff_id.clone(), face.caller.name.clone());
    let command = Command::RejectHandoff { handoff_id: id, by, reason };
    settle_handoff(&face, &handoff_id, idempotent, command, request.shown_digest).await
}

pub(super) async fn extend_handoff(face: Face, Ids(id): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let handoff_id = accept::prompt_id(PromptKind::Handoff, &id)?;
    let row = handoff_row(&face, &handoff_id).await?;
    let command = extension(&face, PromptKind::Handoff, &handoff_id, request).await?;
    match extend(&face, idempotent, row.run_id, &handoff_id, command).await? {
        Some(extended) => shown_handoff(&face, extended).await,
        None => shown_handoff(&face, handoff_row(&face, &handoff_id).await?).await,
    }
}
