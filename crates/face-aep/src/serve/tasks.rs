//! Routes for tasks: create, list, show, change, cancel.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use recount_api::query;
use recount_api::query::RUN_STATUSES;
use recount_api::reply::{self, One};
use recount_api::request::{ChangeTask, CreateTask};
use recount_engine::{ListQuery, NewTask, PageEnd, RequestResult, TaskChange, TaskRow};
use recount_event::{Code, RunId, TaskId};

use super::Face;
use super::http::{HandlerResult, Ids, Query, body_bytes, created, json, page};
use super::once::IdempotentRequest;
use super::runs::{cancel, runs_of_task};
use crate::error::Refusal;
use crate::{accept, limits, project};

/// The statuses of a task.
const TASK_STATUSES: [&str; 7] = query::TASK_STATUSES;

pub(super) async fn create_task(face: Face, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let trace = accept::traceparent(request.headers().get("traceparent"));
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: CreateTask = accept::body_or_default(&bytes)?;
    match &idempotent.created {
        // Earlier releases stored the task where it has a first run, too.
        Some(RequestResult::Task(task))
            if accept::first_run(request.clone(), &face.caller.name)?.is_some() =>
        {
            let row = face.engine.catalogue().existing_task(*task).await?;
            let location = format!("/v1/tasks/{task}");
            return Ok(created(&location, &One::new("task", show_task(&face, row).await?)));
        }
        Some(created) => return show_created_task(&face, created).await,
        None => {}
    }
    face.check_may_create_in(None, None)?;
    let title = accept::text("title", request.title.clone())?;
    let new = NewTask {
        title,
        budget_micros_usd: accept::number(request.budget_micros_usd)?,
        budget_tokens: accept::number(request.budget_tokens)?,
    };
    let first_run = match accept::first_run(request, &face.caller.name)? {
        None => None,
        Some(request) => {
            let mut queued = face.prepare_run(request).await?.queued;
            queued.traceparent = trace;
            Some(queued)
        }
    };
    let (row, run) = face.engine.write().create_task_keyed(new, first_run, idempotent.once.as_ref()).await?;
    created_task(&face, row, run).await
}

/// Responds with the task that the same request created before.
async fn show_created_task(face: &Face, created: &RequestResult) -> HandlerResult {
    let RequestResult::Run(run) = *created else {
        return created_task(face, face.engine.catalogue().existing_task(created.task()?).await?, None).await;
    };
    let task = match face.engine.catalogue().run(run).await? {
        Some(row) => row.task_id,
        None => face.engine.catalogue().tombstone(run).await?.and_then(|tombstone| tombstone.task_id),
    };
    match task {
        Some(task) => created_task(face, face.engine.catalogue().existing_task(task).await?, Some(run)).await,
        None => Err(face.engine.catalogue().missing_run(run).await.into()),
    }
}

/// The response to the creation of a task with its first run. It shows the current title and budget.
async fn created_task(face: &Face, row: TaskRow, first: Option<RunId>) -> HandlerResult {
    let location = format!("/v1/tasks/{}", row.id);
    let task = match first {
        Some(run) => task_at(face, row, run, None).await?,
        None => project::task(row, None, 0),
    };
    Ok(created(&location, &One::new("task", task)))
}

/// A task after an event of its latest run then, or when that was queued.
async fn task_at(
    face: &Face,
    row: TaskRow,
    run: RunId,
    sequence: Option<u64>,
) -> Result<reply::Task, Refusal> {
    let catalogue = face.engine.catalogue();
    let then = match sequence {
        Some(sequence) => catalogue.run_at(run, sequence).await?,
        None => catalogue.queued_run(run).await?,
    };
    let latest = match then {
        Some(then) => Some(then),
        None => catalogue.run(run).await?,
    };
    let runs = catalogue.count_task_runs_up_to(row.id, run).await?;
    Ok(project::task(row, latest, runs))
}

pub(super) async fn list_tasks(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref());
    let (mut page_of, filter) = (query.list(Some(TaskId::PREFIX))?, query.run_filter(&TASK_STATUSES)?);
    let limit = page_of.limit;
    let (mut tasks, mut looked_at, mut end) = (Vec::new(), 0, PageEnd::default());
    loop {
        // The status of a task is that of its latest run, so each run is read, up to a limit for each page.
        page_of.limit = limit - tasks.len();
        let listed = face.engine.catalogue().list_tasks(&page_of).await?;
        looked_at += listed.items.len();
        end.advance(listed.end);
        for row in listed.items {
            if !face.caller.narrowing.admits(Some(row.id), None) {
                continue;
            }
            let task = show_task(&face, row).await?;
            if filter.takes_fields(&task.status, None, task.needs_attention, &[&task.title]) {
                tasks.push(task);
            }
        }
        if tasks.len() == limit || looked_at >= limits::TASKS_LOOKED_AT_MAX || !end.has_more {
            return Ok(page(&face, tasks, end));
        }
        page_of.after = end.next.take();
    }
}

pub(super) async fn show_task(face: &Face, row: TaskRow) -> Result<reply::Task, Refusal> {
    let task = row.id;
    let newest = ListQuery { limit: 1, ..ListQuery::default() };
    let latest = face.engine.catalogue().list_task_runs(task, &newest).await?.items.pop();
    let runs = face.engine.catalogue().count_task_runs(task).await?;
    Ok(project::task(row, latest, runs))
}

pub(super) async fn get_task(face: Face, Ids(task): Ids<String>) -> HandlerResult {
    let row = face.engine.catalogue().existing_task(face.task_id(&task)?).await?;
    Ok(json(StatusCode::OK, &One::new("task", show_task(&face, row).await?)))
}

pub(super) async fn change_task(face: Face, Ids(task): Ids<String>, request: Request) -> HandlerResult {
    let task = face.task_id(&task)?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: ChangeTask = accept::body(&bytes)?;
    let raise = TaskChange {
        title: accept::text("title", request.title)?,
        budget_micros_usd: accept::number(request.budget_micros_usd)?,
        budget_tokens: accept::number(request.budget_tokens)?,
    };
    if raise == TaskChange::default() {
        let nothing = "no change was sent; send title, budget_micros_usd or budget_tokens";
        return Err(Refusal::new(Code::BodyMalformed, nothing));
    }
    let row = face.engine.write().change_task(task, raise).await?;
    Ok(json(StatusCode::OK, &One::new("task", show_task(&face, row).await?)))
}

pub(super) async fn cancel_task(face: Face, Ids(task): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let task = face.task_id(&task)?;
    let row = face.engine.catalogue().existing_task(task).await?;
    let run = match idempotent.created {
        Some(RequestResult::ChangedAt(run, _)) => Some(run),
        _ => face.engine.catalogue().active_run(task).await?,
    };
    let Some(run) = run else {
        return Err(Refusal::new(Code::RunEnded, format!("task {task} has no active run to cancel")));
    };
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let command = cancel(accept::body_or_default(&bytes)?)?;
    let task = match idempotent.submit(&face, run, command).await? {
        Some((run, sequence)) => task_at(&face, row, run, Some(sequence)).await?,
        None => show_task(&face, row).await?,
    };
    Ok(json(StatusCode::OK, &One::new("task", task)))
}

pub(super) async fn list_task_runs(
    face: Face,
    Ids(task): Ids<String>,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let task = face.task_id(&task)?;
    face.engine.catalogue().existing_task(task).await?;
    let query = Query::parse(raw.as_deref());
    runs_of_task(&face, task, query.list(Some(RunId::PREFIX))?, query.run_filter(&RUN_STATUSES)?).await
}
