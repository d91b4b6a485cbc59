//! Routes for changes of runs in their workspace copies: show, apply, discard.

use ::http::StatusCode;
use axum::extract::Request;
use recount_api::reply::{self, One};
use recount_api::request::ApplyRun;
use recount_engine::{ApplyTo, RequestResult, WorkspaceChanges};
use recount_event::RunId;

use super::caller::RunInPath;
use super::http::{HandlerResult, body_bytes, json};
use super::once::IdempotentRequest;
use crate::{accept, limits, project};

pub(super) async fn get_run_changes(RunInPath { face, run }: RunInPath) -> HandlerResult {
    Ok(answer(run, face.engine.work().workspace_changes(run, &face.caller.narrowing).await?))
}

pub(super) async fn apply_run(RunInPath { face, run }: RunInPath, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if idempotent.created.is_some() {
        return Ok(answer(run, face.engine.work().workspace_changes(run, &face.caller.narrowing).await?));
    }
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: ApplyRun = accept::body_or_default(&bytes)?;
    let branch = accept::bounded("branch", request.branch, limits::NAME_BYTES_MAX)?;
    let conflicts = accept::conflicts(request.conflicts.as_deref())?;
    let shown_digest = accept::bounded("shown_digest", request.shown_digest, limits::NAME_BYTES_MAX)?;
    let message = format!("Changes of {run}\n");
    let to = ApplyTo { branch, message, paths: request.paths, conflicts, shown_digest };
    let changes = face.engine.work().apply_changes(run, to, &face.caller.narrowing).await?;
    face.engine.write().store_result(idempotent.once.as_ref(), RequestResult::Run(run)).await?;
    Ok(answer(run, changes))
}

pub(super) async fn discard_run_changes(RunInPath { face, run }: RunInPath) -> HandlerResult {
    Ok(answer(run, face.engine.work().discard_changes(run, &face.caller.narrowing).await?))
}

fn answer(run: RunId, changes: WorkspaceChanges) -> axum::response::Response {
    let reply: reply::Changes = project::changes(run, changes);
    json(StatusCode::OK, &One::new("changes", reply))
}
