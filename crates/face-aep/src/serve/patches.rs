//! Routes for patches: apply, reject, revert. Each is a run of its own, and the response waits for its end.

use ::http::StatusCode;
use axum::extract::Request;
use recount_api::reply::{One, PatchOutcome};
use recount_api::request::ChangePatch;
use recount_engine::{ArtifactFilter, ListQuery, PatchAction, PatchRequest, RunRow};
use recount_event::{Code, ForeignId, RunId};

use super::Face;
use super::artifacts::found;
use super::http::{HandlerResult, Ids, body_bytes, json};
use super::once::IdempotentRequest;
use crate::error::Refusal;
use crate::{accept, limits, project};

pub(super) async fn apply_patch(face: Face, Ids(artifact): Ids<String>, request: Request) -> HandlerResult {
    change(&face, &artifact, PatchAction::Apply, request).await
}

pub(super) async fn reject_patch(face: Face, Ids(artifact): Ids<String>, request: Request) -> HandlerResult {
    change(&face, &artifact, PatchAction::Reject, request).await
}

pub(super) async fn revert_patch(face: Face, Ids(artifact): Ids<String>, request: Request) -> HandlerResult {
    change(&face, &artifact, PatchAction::Revert, request).await
}

async fn change(face: &Face, artifact: &str, action: PatchAction, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    let id = accept::artifact_id(artifact)?;
    if let Some(created) = &idempotent.created {
        return outcome(face, &id, created.run()?).await;
    }
    let traceparent = accept::traceparent(request.headers().get("traceparent"));
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let change: ChangePatch = accept::body_or_default(&bytes)?;
    let reason = accept::text("reason", change.reason)?;
    // Refused as missing if the caller may not see it.
    found(face, &id).await?;
    let requested_by = face.caller.name.clone();
    let patch = PatchRequest { action, artifact: id.clone(), requested_by, reason, traceparent };
    let run =
        face.engine.work().start_patch_run(patch, &face.caller.narrowing, idempotent.once.as_ref()).await?;
    outcome(face, &id, run).await
}

/// The outcome of the patch after the run has ended.
async fn outcome(face: &Face, id: &ForeignId, run: RunId) -> HandlerResult {
    let row = face.engine.work().wait_for_patch_run(run).await?;
    if row.has_ended() && row.status != "finished" {
        return Err(failure(row));
    }
    let artifact = project::found_artifact(found(face, id).await?, None);
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let of_run =
        ArtifactFilter { run: Some(run), kind: Some("patch".to_owned()), ..ArtifactFilter::default() };
    let of_revert = face.engine.read().list_artifacts(&query, &of_run, &face.caller.narrowing).await?;
    let inverse = of_revert.items.into_iter().next().map(|row| project::artifact(row, None));
    let patch = PatchOutcome { artifact, run_id: run.to_string(), run_status: row.status, inverse };
    Ok(json(StatusCode::OK, &One::new("patch", patch)))
}

/// The error of the run, from its ending.
fn failure(row: RunRow) -> Refusal {
    let known = match row.ending.as_deref().unwrap_or_default() {
        "patch_drift" => Code::PatchDrift,
        "patch_status" => Code::PatchStatus,
        "patch_unusable" => Code::PatchUnusable,
        _ => Code::PatchFailed,
    };
    let why = row.message.map(|why| format!(": {why}")).unwrap_or_default();
    Refusal::new(known, format!("{} {}{why}", row.id, row.status))
}
