//! Routes for artifacts: list, show, pin, delete.

use ::http::StatusCode;
use axum::extract::RawQuery;
use recount_api::query::{self, ARTIFACT_STATUSES};
use recount_api::reply::{self, One};
use recount_engine::{ArtifactFilter, FoundArtifact, UploadRow};
use recount_event::{Code, EventId, ForeignId};

use super::Face;
use super::caller::RunInPath;
use super::http::{HandlerResult, Ids, Query, json, page};
use crate::error::Refusal;
use crate::{accept, limits, project};

pub(super) async fn list_artifacts(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref());
    let run = match query.get(query::RUN_ID) {
        Some(run) => Some(face.run_id(run).await?),
        None => None,
    };
    let task = query.get(query::TASK_ID).map(|task| face.task_id(task)).transpose()?;
    // A missing run is 404, not an empty list.
    if let Some(run) = run {
        face.engine.catalogue().existing_run(run).await?;
    }
    if let Some(task) = task {
        face.engine.catalogue().existing_task(task).await?;
    }
    list(&face, &query, ArtifactFilter { run, task, ..ArtifactFilter::default() }).await
}

pub(super) async fn list_run_artifacts(
    RunInPath { face, run }: RunInPath,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    face.engine.catalogue().existing_run(run).await?;
    let query = Query::parse(raw.as_deref());
    list(&face, &query, ArtifactFilter { run: Some(run), ..ArtifactFilter::default() }).await
}

async fn list(face: &Face, query: &Query, filter: ArtifactFilter) -> HandlerResult {
    let page_of = query.list(Some(EventId::PREFIX))?;
    let filter = ArtifactFilter {
        kind: accept::short(query::KIND, query.get(query::KIND))?,
        status: accept::status(query.get(query::STATUS), &ARTIFACT_STATUSES)?,
        ..filter
    };
    let listed = face.engine.read().list_artifacts(&page_of, &filter, &face.caller.narrowing).await?;
    let shown = listed.items.into_iter().map(|row| project::artifact(row, None)).collect();
    Ok(page(face, shown, listed.end))
}

/// The first artifact with this id that the caller may see.
pub(super) async fn found(face: &Face, id: &ForeignId) -> Result<FoundArtifact, Refusal> {
    for found in face.engine.read().find_artifacts(id).await? {
        let seen = match &found {
            FoundArtifact::OfRun(row) => face.caller.narrowing.admits(row.task_id, row.session_id),
            FoundArtifact::Upload(upload) => face.sees_upload(upload),
        };
        if seen {
            return Ok(found);
        }
    }
    // An artifact deleted with its run is reported only to clients that could see the run; narrowed tokens cannot see
    // an erased one.
    match face.engine.read().run_of_removed_artifact(id).await? {
        Some(run) if !face.sees_run(run).await? => Err(accept::no_artifact(id.as_str())),
        Some(_) => Err(face.engine.read().missing_artifact(id).await.into()),
        // An upload that no run used is visible to all tokens that are not narrowed, even after it was deleted.
        None if face.caller.narrowing.is_none() => Err(face.engine.read().missing_artifact(id).await.into()),
        None => Err(accept::no_artifact(id.as_str())),
    }
}

pub(super) async fn get_artifact(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    let is_small = row.size_bytes().is_some_and(|size| size <= limits::DIFF_INLINE_BYTES_MAX);
    let diff = match row.kind() == "patch" && is_small {
        // A read of its bytes reports a missing blob.
        true => match face.engine.read().artifact_bytes(&row).await {
            Ok(bytes) => String::from_utf8(bytes.to_vec()).ok(),
            Err(error) if matches!(error.code(), Code::ArtifactBytesLost | Code::ArtifactBytesMissing) => {
                None
            }
            Err(error) => return Err(error.into()),
        },
        false => None,
    };
    Ok(json(StatusCode::OK, &One::new("artifact", project::found_artifact(row, diff))))
}

pub(super) async fn pin_artifact(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    face.engine.admin().pin_artifact(&row, &face.caller.name).await?;
    shown(&face, &id).await
}

pub(super) async fn unpin_artifact(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    face.engine.admin().unpin_artifact(&row).await?;
    shown(&face, &id).await
}

pub(super) async fn delete_artifact(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    let deletion = face.engine.admin().delete_artifact(&row, &face.caller.name).await?;
    let run_id = match &row {
        FoundArtifact::OfRun(row) => Some(row.run_id.to_string()),
        FoundArtifact::Upload(_) => None,
    };
    let deleted =
        reply::ArtifactGone { artifact_id: id.to_string(), run_id, bytes_removed: deletion.bytes_removed };
    Ok(json(StatusCode::OK, &One::new("deleted", deleted)))
}

async fn shown(face: &Face, id: &ForeignId) -> HandlerResult {
    let row = found(face, id).await?;
    Ok(json(StatusCode::OK, &One::new("artifact", project::found_artifact(row, None))))
}

impl Face {
    /// An upload without a run belongs to its uploader; a narrowed token sees no others.
    fn sees_upload(&self, upload: &UploadRow) -> bool {
        self.caller.narrowing.is_none() || upload.by == self.caller.id
    }
}
