//! Routes for runs: create, list, show, cancel, digest.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use recount_api::query::{self, RUN_STATUSES};
use recount_api::reply::{self, One};
use recount_api::request::{Cancel, CreateRun};
use recount_engine::{ListPage, ListQuery, NewRun, RequestResult, RunFilter, RunRow};
use recount_event::{Code, RunId, SessionId, TaskId};
use recount_run::{CancelledBy, Command};

use super::Face;
use super::caller::RunInPath;
use super::http::{HandlerResult, Ids, Query, body_bytes, created, json, page};
use super::once::IdempotentRequest;
use crate::error::Refusal;
use crate::{accept, limits, project};

pub(super) async fn create_run(face: Face, request: Request) -> HandlerResult {
    make_run(&face, None, request).await
}

pub(super) async fn create_task_run(face: Face, Ids(task): Ids<String>, request: Request) -> HandlerResult {
    let task = face.task_id(&task)?;
    make_run(&face, Some(task), request).await
}

async fn make_run(face: &Face, task: Option<TaskId>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return show_created_run(face, created).await;
    }
    let trace = accept::traceparent(request.headers().get("traceparent"));
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: CreateRun = accept::body(&bytes)?;
    let request = accept::new_run(request, task, &face.caller.name)?;
    let mut new = face.prepare_run(request).await?;
    new.queued.traceparent = trace;
    create_run_response(face, new, idempotent).await
}

/// Creates the run and responds with it. For a repeated request see [`show_created_run`].
pub(super) async fn create_run_response(
    face: &Face,
    new: NewRun,
    idempotent: IdempotentRequest,
) -> HandlerResult {
    face.check_may_create_in(new.task, new.session)?;
    let run = face.engine.write().create_run_keyed(new, idempotent.once.as_ref()).await?.0;
    created_run(face, run).await
}

/// Responds with the run that the same request created before. Checks nothing that may have changed since.
pub(super) async fn show_created_run(face: &Face, created: &RequestResult) -> HandlerResult {
    created_run(face, created.run()?).await
}

async fn created_run(face: &Face, run: RunId) -> HandlerResult {
    let reply = match face.engine.catalogue().queued_run(run).await? {
        Some(row) => project::run(row, false, Vec::new()),
        None => show_run(face, run).await?,
    };
    Ok(created(&format!("/v1/runs/{run}"), &One::new("run", reply)))
}

pub(super) async fn show_run(face: &Face, run: RunId) -> Result<reply::Run, Refusal> {
    let row = face.engine.catalogue().existing_run(run).await?;
    let successors = successors(face, run).await?;
    Ok(reply::Run { successor_run_ids: successors, ..shown(face, row).await? })
}

/// The runs that continue a run, as far as the caller may see them.
async fn successors(face: &Face, run: RunId) -> Result<Vec<String>, Refusal> {
    let newest = ListQuery { limit: limits::SUCCESSORS_SHOWN_MAX, ..ListQuery::default() };
    let listed = face.engine.catalogue().list_successors(run, &newest).await?.items;
    let within = &face.caller.narrowing;
    let known = listed.into_iter().filter(|row| within.admits(row.task_id, row.session_id));
    Ok(known.map(|row| row.id.to_string()).collect())
}

/// A run with the values that its row does not have.
async fn shown(face: &Face, row: RunRow) -> Result<reply::Run, Refusal> {
    let pinned = face.engine.catalogue().is_pinned(row.id).await?;
    Ok(project::run(row, pinned, Vec::new()))
}

/// A page of runs.
async fn shown_page(face: &Face, listed: ListPage<RunRow>) -> HandlerResult {
    let mut runs = Vec::with_capacity(listed.items.len());
    for row in listed.items {
        runs.push(shown(face, row).await?);
    }
    Ok(page(face, runs, listed.end))
}

pub(super) async fn list_runs(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref());
    let (page_of, filter) = (query.list(Some(RunId::PREFIX))?, query.run_filter(&RUN_STATUSES)?);
    match (query.get(query::TASK_ID), query.get(query::SESSION_ID)) {
        (None, None) => {}
        (Some(task), None) => return runs_of_task(&face, face.task_id(task)?, page_of, filter).await,
        (None, Some(session)) => {
            return runs_of_session(&face, face.session_id(session)?, page_of, filter).await;
        }
        (Some(_), Some(_)) => {
            let both = "task_id and session_id were both sent; send one of them";
            return Err(Refusal::new(Code::ParameterInvalid, both));
        }
    }
    let within = &face.caller.narrowing;
    let listed = face.engine.catalogue().list_matching_runs(&page_of, &filter, within).await?;
    shown_page(&face, listed).await
}

pub(super) async fn runs_of_task(
    face: &Face,
    task: TaskId,
    page_of: ListQuery,
    filter: RunFilter,
) -> HandlerResult {
    filtered_page(face, face.engine.catalogue().list_task_runs(task, &page_of).await?, filter).await
}

async fn runs_of_session(
    face: &Face,
    session: SessionId,
    page_of: ListQuery,
    filter: RunFilter,
) -> HandlerResult {
    filtered_page(face, face.engine.catalogue().list_session_runs(session, &page_of).await?, filter).await
}

/// The index of the runs of a task or session does not hold their status, so a filter shortens pages; the cursor
/// still advances.
async fn filtered_page(face: &Face, mut listed: ListPage<RunRow>, filter: RunFilter) -> HandlerResult {
    listed.items.retain(|row| filter.takes(row));
    shown_page(face, listed).await
}

pub(super) async fn get_run(RunInPath { face, run }: RunInPath) -> HandlerResult {
    Ok(json(StatusCode::OK, &One::new("run", show_run(&face, run).await?)))
}

/// The command of a cancellation.
pub(super) fn cancel(request: Cancel) -> Result<Command, Refusal> {
    let reason = accept::text("reason", request.reason)?.unwrap_or_default();
    Ok(Command::Cancel { by: CancelledBy::Operator, reason })
}

pub(super) async fn cancel_run(RunInPath { face, run }: RunInPath, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let command = cancel(accept::body_or_default(&bytes)?)?;
    let row = match idempotent.submit(&face, run, command).await? {
        Some((run, sequence)) => face.engine.catalogue().run_at(run, sequence).await?,
        None => None,
    };
    let reply = match row {
        Some(row) => shown(&face, row).await?,
        None => show_run(&face, run).await?,
    };
    Ok(json(StatusCode::OK, &One::new("run", reply)))
}

pub(super) async fn get_run_digest(RunInPath { face, run }: RunInPath) -> HandlerResult {
    let mut signed = face.engine.admin().signed_head(run).await?;
    let mut digest = face.engine.read().digest(run).await?;
    if face.engine.catalogue().run(run).await?.is_some_and(|row| row.has_ended()) {
        // It may have ended in between.
        signed = face.engine.admin().signed_head(run).await?;
    } else if let Some(statement) = signed.as_ref().and_then(|signed| signed.unchecked().ok()) {
        // Events may have been appended in between. Both must be of one moment.
        (digest.events, digest.head) = (statement.events, statement.head);
    }
    let signed = signed.map(|signed| reply::SignedHead {
        cose: signed.cose().unwrap_or_default(),
        statement: signed.statement,
        signature: signed.signature,
    });
    let digest = reply::Digest { signed, ..project::digest(run.to_string(), digest) };
    Ok(json(StatusCode::OK, &One::new("digest", digest)))
}
