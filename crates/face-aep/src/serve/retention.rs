//! Routes for retention: pins, pruning, and the deletion of tasks.

use ::http::StatusCode;
use axum::extract::Request;
use axum::response::Response;
use recount_api::reply::{self, One};
use recount_api::request::{Prune, PruneRun};
use recount_engine::{Policy, Pruned, RequestResult, SweepReport};
use recount_event::RunId;

use super::Face;
use super::caller::RunInPath;
use super::http::{HandlerResult, Ids, body_bytes, json};
use super::once::IdempotentRequest;
use super::runs::show_run;
use crate::{accept, limits};

/// Marks the response to a request that only returned what it would remove.
#[derive(Debug, Clone, Copy)]
pub struct DryRun;

/// The reason of a pruning by request.
const PRUNED_BY_REQUEST: &str = "operator";

pub(super) async fn delete_task(face: Face, Ids(task): Ids<String>) -> HandlerResult {
    let task = face.task_id(&task)?;
    let runs = face.engine.admin().delete_task(task, &face.caller.name).await?;
    let reply = reply::Deleted { task_id: task.to_string(), runs };
    Ok(json(StatusCode::OK, &One::new("deleted", reply)))
}

pub(super) async fn delete_run(RunInPath { face, run }: RunInPath) -> HandlerResult {
    face.engine.admin().delete_run(run, &face.caller.name).await?;
    Ok(json(StatusCode::OK, &One::new("deleted", reply::RunDeleted { run_id: run.to_string() })))
}

pub(super) async fn pin_run(RunInPath { face, run }: RunInPath) -> HandlerResult {
    face.engine.admin().pin(run, &face.caller.name).await?;
    Ok(json(StatusCode::OK, &One::new("run", show_run(&face, run).await?)))
}

pub(super) async fn unpin_run(RunInPath { face, run }: RunInPath) -> HandlerResult {
    face.engine.admin().unpin(run).await?;
    Ok(json(StatusCode::OK, &One::new("run", show_run(&face, run).await?)))
}

pub(super) async fn prune_run(RunInPath { face, run }: RunInPath, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: PruneRun = accept::body_or_default(&bytes)?;
    let before = accept::number(request.before)?;
    let pruned = match idempotent.created {
        _ if request.dry_run == Some(true) => {
            let pruned = face.engine.admin().would_prune(run, before).await?;
            return Ok(dry_run(json(StatusCode::OK, &one_pruned(run, &pruned))));
        }
        Some(RequestResult::PrunedRun { first_sequence, events, .. }) => {
            Pruned { first_sequence, events, receipt: None }
        }
        _ => {
            let key = idempotent.once.as_ref();
            face.engine.admin().prune_keyed(run, before, PRUNED_BY_REQUEST, key).await?
        }
    };
    Ok(json(StatusCode::OK, &one_pruned(run, &pruned)))
}

fn one_pruned(run: RunId, pruned: &Pruned) -> One<reply::Pruned> {
    let Pruned { events, first_sequence, .. } = *pruned;
    One::new("pruned", reply::Pruned { run_id: run.to_string(), events, first_sequence })
}

pub(super) async fn prune(face: Face, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: Prune = accept::body(&bytes)?;
    let policy: Policy = accept::policy(&request)?;
    if request.dry_run == Some(true) {
        let plan = face.engine.admin().would_sweep(&policy).await?;
        let run_ids = plan.runs.iter().map(ToString::to_string).collect();
        return Ok(dry_run(json(StatusCode::OK, &One::new("swept", swept_reply(plan.swept, run_ids)))));
    }
    let swept = face
        .engine
        .admin()
        .sweep_keyed(&policy, idempotent.once.as_ref(), idempotent.created.as_ref())
        .await?;
    Ok(json(StatusCode::OK, &One::new("swept", swept_reply(swept, Vec::new()))))
}

fn dry_run(mut response: Response) -> Response {
    response.extensions_mut().insert(DryRun);
    response
}

fn swept_reply(swept: SweepReport, run_ids: Vec<String>) -> reply::Swept {
    let SweepReport { runs, events, has_more, damaged } = swept;
    reply::Swept { runs, events, has_more, damaged, run_ids }
}
