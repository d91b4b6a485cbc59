//! Routes for prompts: list, show, extend and answer approvals, clarifications and handoffs.
//!
//! The kinds differ in the bodies of their answers. Everything else is done by [`PromptRequest`] and the functions that
//! take a kind.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use bytes::Bytes;
use recount_api::query::{APPROVAL_STATUSES, CLARIFICATION_STATUSES, HANDOFF_STATUSES};
use recount_api::reply::One;
use recount_api::request::{
    AcknowledgeHandoff, AnswerClarification, ExtendPrompt, RejectHandoff, ResolveApproval, Verdict,
};
use recount_engine::PromptRow;
use recount_event::family::approval::AllowanceScope;
use recount_event::{Code, ForeignId, Json, PromptKind, SessionId};
use recount_run::Command;

use super::Face;
use super::http::{HandlerResult, Ids, Query, body_bytes, json, page};
use super::once::IdempotentRequest;
use crate::error::Refusal;
use crate::{accept, limits, project};

/// The prompts of one kind that the caller may see.
pub(super) async fn list(kind: PromptKind, face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let statuses: &[&str] = match kind {
        PromptKind::Approval => &APPROVAL_STATUSES,
        PromptKind::Clarification => &CLARIFICATION_STATUSES,
        PromptKind::Handoff => &HANDOFF_STATUSES,
    };
    let query = Query::parse(raw.as_deref()).list_by_status(None, statuses)?;
    let listed = face.engine.read().list_prompts(kind, &query).await?;
    let mut seen = Vec::with_capacity(listed.items.len());
    for row in listed.items {
        if face.sees_run(row.run_id()).await? {
            seen.push(project::listed_prompt(row));
        }
    }
    Ok(page(&face, seen, listed.end))
}

pub(super) async fn get(kind: PromptKind, face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let row = find(&face, kind, &accept::prompt_id(kind, &id)?).await?;
    let context = face.engine.read().packaged_context(&row).await?;
    Ok(json(StatusCode::OK, &one(row, context)))
}

/// A prompt that exists and that the caller may see.
async fn find(face: &Face, kind: PromptKind, id: &ForeignId) -> Result<PromptRow, Refusal> {
    let missing = || accept::no_prompt(kind, id.as_str());
    let row = face.engine.read().prompt(kind, id).await?.ok_or_else(missing)?;
    if face.sees_run(row.run_id()).await? { Ok(row) } else { Err(missing()) }
}

fn one(row: PromptRow, context: Option<Json>) -> One<project::Prompt> {
    One::new(row.kind().as_str(), project::single_prompt(row, context))
}

/// A request that extends or answers a prompt.
struct PromptRequest {
    face: Face,
    row: PromptRow,
    idempotent: IdempotentRequest,
    body: Bytes,
}

impl PromptRequest {
    async fn read(
        kind: PromptKind,
        face: Face,
        Ids(id): Ids<String>,
        request: Request,
    ) -> Result<Self, Refusal> {
        let idempotent = IdempotentRequest::of(&request);
        let row = find(&face, kind, &accept::prompt_id(kind, &id)?).await?;
        let body_bytes_max = match kind {
            PromptKind::Clarification => limits::ANSWER_BODY_BYTES_MAX,
            PromptKind::Approval | PromptKind::Handoff => limits::BODY_BYTES_MAX,
        };
        let body = body_bytes(request, body_bytes_max).await?;
        Ok(PromptRequest { face, row, idempotent, body })
    }

    fn id(&self) -> ForeignId {
        self.row.id().clone()
    }

    fn by(&self) -> String {
        self.face.caller.name.clone()
    }

    /// Refuses an answer to a prompt that differs from the one that was shown. An answer without a digest is bound by the
    /// id.
    async fn check_shown(&self, shown: Option<String>) -> Result<(), Refusal> {
        let Some(shown) = shown.filter(|_| self.idempotent.created.is_none()) else { return Ok(()) };
        let context = self.face.engine.read().packaged_context(&self.row).await?;
        let prompt = project::single_prompt(self.row.clone(), context);
        let now = prompt.shown_digest().unwrap_or_default();
        if shown == now {
            return Ok(());
        }
        let detail = format!(
            "{kind} {id:?} differs from what was shown: its shown_digest is {now}, and the answer has {shown:?}; read \
             it again, show it, and answer with its shown_digest",
            kind = self.row.kind().as_str(),
            id = self.row.id().as_str(),
        );
        Err(Refusal::new(Code::PromptChanged, detail))
    }

    /// Submits the command, and returns the prompt after it.
    async fn submit(self, command: Command) -> HandlerResult {
        let PromptRequest { face, row, idempotent, .. } = self;
        let (kind, id, run) = (row.kind(), row.id().clone(), row.run_id());
        let context = face.engine.read().packaged_context(&row).await?;
        let is_extension = matches!(command, Command::ExtendPrompt { .. });
        let (catalogue, changed_at) =
            (face.engine.catalogue(), idempotent.submit(&face, run, command).await?);
        let then = match changed_at {
            // The prompt of the first request was deleted, and its id is used again.
            Some((other, _)) if other != run => return Err(accept::no_prompt(kind, &id)),
            // An answer is final, and a deadline may be moved again.
            Some((_, sequence)) if is_extension => catalogue.prompt_at(kind, run, sequence, &id).await?,
            _ => None,
        };
        let row = match then {
            Some(then) => Some(then),
            None => catalogue.prompt_of(kind, run, &id).await?,
        };
        let row = row.ok_or_else(|| accept::no_prompt(kind, &id))?;
        Ok(json(StatusCode::OK, &one(row, context)))
    }
}

pub(super) async fn extend(kind: PromptKind, face: Face, id: Ids<String>, request: Request) -> HandlerResult {
    let prompt = PromptRequest::read(kind, face, id, request).await?;
    let ExtendPrompt { seconds } = accept::body(&prompt.body)?;
    let command = Command::ExtendPrompt { kind, id: prompt.id(), seconds, by: prompt.by() };
    prompt.submit(command).await
}

pub(super) async fn resolve_approval(face: Face, id: Ids<String>, request: Request) -> HandlerResult {
    let prompt = PromptRequest::read(PromptKind::Approval, face, id, request).await?;
    let request: ResolveApproval = accept::body(&prompt.body)?;
    prompt.check_shown(request.shown_digest).await?;
    if let Some(scope) = request.remember {
        may_reach(&prompt, scope).await?;
    }
    let command = Command::ResolveApproval {
        approval_id: prompt.id(),
        approve: request.decision == Verdict::Approve,
        by: prompt.by(),
        comment: accept::text("comment", request.comment)?,
        remember: request.remember,
    };
    prompt.submit(command).await
}

pub(super) async fn answer_clarification(face: Face, id: Ids<String>, request: Request) -> HandlerResult {
    let prompt = PromptRequest::read(PromptKind::Clarification, face, id, request).await?;
    let request: AnswerClarification = accept::body(&prompt.body)?;
    prompt.check_shown(request.shown_digest).await?;
    let command = Command::AnswerClarification {
        clarification_id: prompt.id(),
        response: accept::response(request.response.get())?,
        by: prompt.by(),
        blocks: None,
        config: None,
    };
    prompt.submit(command).await
}

pub(super) async fn acknowledge_handoff(face: Face, id: Ids<String>, request: Request) -> HandlerResult {
    let prompt = PromptRequest::read(PromptKind::Handoff, face, id, request).await?;
    let request: AcknowledgeHandoff = accept::body_or_default(&prompt.body)?;
    let comment = accept::text("comment", request.comment)?;
    prompt.check_shown(request.shown_digest).await?;
    let command = Command::AcknowledgeHandoff { handoff_id: prompt.id(), by: prompt.by(), comment };
    prompt.submit(command).await
}

pub(super) async fn reject_handoff(face: Face, id: Ids<String>, request: Request) -> HandlerResult {
    let prompt = PromptRequest::read(PromptKind::Handoff, face, id, request).await?;
    let request: RejectHandoff = accept::body_or_default(&prompt.body)?;
    let reason = accept::text("reason", request.reason)?;
    prompt.check_shown(request.shown_digest).await?;
    let command = Command::RejectHandoff { handoff_id: prompt.id(), by: prompt.by(), reason };
    prompt.submit(command).await
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
async fn may_reach(prompt: &PromptRequest, scope: AllowanceScope) -> Result<(), Refusal> {
    let row = prompt.face.engine.catalogue().run(prompt.row.run_id()).await?;
    if reaches(&prompt.face, row.and_then(|row| row.session_id), scope) {
        return Ok(());
    }
    let detail = format!(
        "the token is limited to certain tasks or sessions, and an allowance for the {scope} goes beyond \
         them; send a narrower scope"
    );
    Err(Refusal::new(Code::ScopeMissing, detail))
}
