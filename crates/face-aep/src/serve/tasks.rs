//! Tasks: create, list, show, cancel.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use recount_api::query::RUN_STATUSES;
use recount_api::reply::{self, One};
use recount_api::request::CreateTask;
use recount_engine::ListQuery;
use recount_event::family::run::Queued;
use recount_event::{Code, RunId, TaskId};

use super::Face;
use super::http::{Answer, Ids, Query, body_bytes, created, json, page};
use super::runs::{all_shown, cancel};
use crate::error::Refusal;
use crate::{accept, limits, project};

pub(super) async fn create_task(face: Face, request: Request) -> Answer {
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: CreateTask = accept::body_or_default(&bytes)?;
    face.may_make_in(None, None)?;
    let title = accept::text("title", request.title)?;
    let first_run = match request.kind.as_deref() {
        None => None,
        Some(kind) => {
            let mut queued = Queued::new(accept::kind(kind)?);
            queued.title = title.clone();
            queued.requested_by = Some(face.caller.name.clone());
            Some(queued)
        }
    };
    let (row, run) = face.engine.create_task(title, first_run).await?;
    let latest = match run {
        Some(run) => face.engine.run(run).await?,
        None => None,
    };
    let runs = u64::from(latest.is_some());
    let location = format!("/v1/tasks/{}", row.id);
    Ok(created(&location, &One::new("task", project::task(row, latest, runs))))
}

pub(super) async fn list_tasks(face: Face, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref()).list(Some(TaskId::PREFIX), &[])?;
    let mut listed = face.engine.list_tasks(&query).await?;
    listed.items.retain(|row| face.admits(Some(&row.id), None));
    let mut tasks = Vec::with_capacity(listed.items.len());
    for row in listed.items {
        tasks.push(show_task(&face, row).await?);
    }
    Ok(page(tasks, listed.next, listed.has_more))
}

pub(super) async fn show_task(face: &Face, row: recount_engine::TaskRow) -> Result<reply::Task, Refusal> {
    let task = accept::task_id(&row.id)?;
    let newest = ListQuery { limit: 1, ..ListQuery::default() };
    let latest = face.engine.list_task_runs(task, &newest).await?.items.pop();
    let runs = face.engine.count_task_runs(task).await?;
    Ok(project::task(row, latest, runs))
}

async fn task_row(face: &Face, task: TaskId) -> Result<recount_engine::TaskRow, Refusal> {
    match face.engine.task(task).await? {
        Some(row) => Ok(row),
        None => Err(face.engine.missing_task(task).await.into()),
    }
}

pub(super) async fn get_task(face: Face, Ids(task): Ids<String>) -> Answer {
    let row = task_row(&face, face.task_id(&task)?).await?;
    Ok(json(StatusCode::OK, &One::new("task", show_task(&face, row).await?)))
}

pub(super) async fn cancel_task(face: Face, Ids(task): Ids<String>, request: Request) -> Answer {
    let task = face.task_id(&task)?;
    let row = task_row(&face, task).await?;
    let Some(run) = face.engine.active_run(task).await? else {
        return Err(Refusal::new(Code::RunEnded, format!("task {task} has no active run to cancel")));
    };
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    cancel(&face, run, accept::body_or_default(&bytes)?).await?;
    Ok(json(StatusCode::OK, &One::new("task", show_task(&face, row).await?)))
}

pub(super) async fn list_task_runs(face: Face, Ids(task): Ids<String>, RawQuery(raw): RawQuery) -> Answer {
    let task = face.task_id(&task)?;
    task_row(&face, task).await?;
    let query = Query::parse(raw.as_deref()).list(Some(RunId::PREFIX), &RUN_STATUSES)?;
    runs_of_task(&face, task, query).await
}

/// The index of a task's runs does not know their status, so a filter shortens pages; their cursor goes on.
pub(super) async fn runs_of_task(face: &Face, task: TaskId, mut query: ListQuery) -> Answer {
    let status = query.status.take();
    let listed = face.engine.list_task_runs(task, &query).await?;
    let wanted =
        listed.items.into_iter().filter(|row| status.as_ref().is_none_or(|status| row.status == *status));
    Ok(page(all_shown(face, wanted).await?, listed.next, listed.has_more))
}
