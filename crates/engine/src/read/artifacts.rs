//! Looks up and lists artifacts, and reads their bytes. The bytes are blobs named by their hash; events report the
//! artifact and its changes, and the catalogue has the rows.
//!
//! Start with [`ReadHandle::find_artifacts`]. It must not depend on the content of patches, nor on HTTP.

use recount_event::{Code, ForeignId, RunId, TaskId};
use recount_log::{FaultKind, RowRange, Store};

use crate::boxed;
use crate::catalogue::artifact_rows::{
    ArtifactChange, ArtifactEntry, ArtifactRemoval, DeletedArtifact, PATCH, blob_of, blob_uses,
};
use crate::catalogue::deleted_artifacts::is_deleted;
use crate::catalogue::run_row::OWN;
use crate::catalogue::table::read_row;
use crate::ground::error::run_erased;
use crate::ground::rows;
use crate::read::handle::ReadHandle;
use crate::read::logged_output::LoggedOutput;
use crate::{ArtifactRow, Error, FoundArtifact, ListPage, ListQuery, Narrowing, PageEnd, RunRow, limits};

/// The bytes of an artifact.
pub enum ArtifactContent {
    /// Stored as a blob, and verified against the hash.
    Kept(bytes::Bytes),
    /// Stored as events of the run.
    Logged(LoggedOutput),
}

/// Selects artifacts. A missing field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArtifactFilter {
    pub run: Option<RunId>,
    pub task: Option<TaskId>,
    pub kind: Option<String>,
    pub status: Option<String>,
}

impl ArtifactFilter {
    fn takes(&self, row: &ArtifactRow) -> bool {
        self.run.is_none_or(|run| row.run_id == run)
            && self.task.is_none_or(|task| row.task_id == Some(task))
            && self.kind.as_ref().is_none_or(|kind| row.kind == *kind)
            && self.status.as_ref().is_none_or(|status| row.status == *status)
    }
}

impl ReadHandle {
    /// All artifacts with an id, the oldest first. An id chosen by a producer is unique only in its run, and an
    /// upload becomes an artifact of its run. An unused upload is found as an upload.
    #[boxed]
    pub async fn find_artifacts(&self, id: &ForeignId) -> Result<Vec<FoundArtifact>, Error> {
        let range = RowRange::first(rows::ARTIFACTS, rows::within(id), limits::ARTIFACT_NAMESAKES_MAX);
        let mut found = Vec::new();
        for row in self.ground().store().rows(range).await? {
            let row: ArtifactRow = read_row(rows::ARTIFACTS, &row.key, &row.value)?;
            if is_deleted(self.ground().store(), &row.event_id.to_string()).await? {
                continue;
            }
            found.push(FoundArtifact::OfRun(Box::new(self.with_changes(row).await?)));
        }
        if found.is_empty()
            && let Some(upload) = self.catalogue().uploaded(id).await?
        {
            found.push(FoundArtifact::Upload(upload));
        }
        Ok(found)
    }

    /// Why an artifact is missing: it never existed, or it was deleted, pruned or erased.
    #[boxed]
    pub async fn missing_artifact(&self, id: &ForeignId) -> Error {
        match self.catalogue().row::<ArtifactRemoval>(rows::ARTIFACTS_REMOVED, &rows::tenant_key(id)).await {
            Ok(Some(ArtifactRemoval { deleted: Some(deleted), .. })) => artifact_deleted(id, &deleted),
            Ok(Some(ArtifactRemoval { run_id: Some(run), pruned: true, .. })) => Error::rejected(
                Code::ArtifactPruned,
                format!("artifact {id} was pruned with the beginning of {run}"),
            ),
            Ok(Some(ArtifactRemoval { run_id: Some(run), .. })) => run_erased(run),
            Ok(Some(_) | None) => Error::rejected(Code::ArtifactNotFound, format!("artifact {id} not found")),
            Err(error) => error,
        }
    }

    /// The run with which an artifact was removed.
    #[boxed]
    pub async fn run_of_removed_artifact(&self, id: &ForeignId) -> Result<Option<RunId>, Error> {
        let removal =
            self.catalogue().row::<ArtifactRemoval>(rows::ARTIFACTS_REMOVED, &rows::tenant_key(id)).await?;
        Ok(removal.and_then(|removal| removal.run_id))
    }

    /// The bytes of an artifact, or a reader for them.
    #[boxed]
    pub async fn artifact_content(&self, found: &FoundArtifact) -> Result<ArtifactContent, Error> {
        match self.logged(found) {
            Some(output) => {
                output.check_stored().await?;
                Ok(ArtifactContent::Logged(output))
            }
            None => Ok(ArtifactContent::Kept(self.artifact_bytes(found).await?)),
        }
    }

    fn logged(&self, found: &FoundArtifact) -> Option<LoggedOutput> {
        match found {
            FoundArtifact::OfRun(row) => LoggedOutput::of(self, row),
            FoundArtifact::Upload(_) => None,
        }
    }

    /// The bytes of an artifact, verified against its hash.
    #[boxed]
    pub async fn artifact_bytes(&self, found: &FoundArtifact) -> Result<bytes::Bytes, Error> {
        if let Some(output) = self.logged(found) {
            output.check_stored().await?;
            return output.whole().await;
        }
        let (id, hash) = (found.id(), found.hash());
        let missing = |why: &str| {
            let message = format!("the bytes of artifact {id} are not stored here: {why}");
            Error::rejected(Code::ArtifactBytesMissing, message)
        };
        let Some(hash) = hash else {
            return Err(missing("its event has no hash; get the bytes from the client that reported it"));
        };
        let Some(name) = blob_of(hash) else {
            return Err(missing(
                "its hash is not a hash of this server; get the bytes from the client that reported it",
            ));
        };
        let lost = |why: String| {
            let message = format!("the stored bytes of artifact {id} are lost: {why}");
            Error::rejected(Code::ArtifactBytesLost, message)
        };
        match self.ground().store().blob(name).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) if self.was_stored_here(found, name).await? => {
                Err(lost(format!("blob {name} is missing")))
            }
            Ok(None) => Err(missing("its run was imported, or its producer stores them elsewhere")),
            Err(fault) if fault.kind == FaultKind::Corrupt => {
                Err(lost(format!("blob {name} was changed on disk")))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    async fn was_stored_here(&self, found: &FoundArtifact, blob: &str) -> Result<bool, Error> {
        match found {
            FoundArtifact::OfRun(row) => was_stored(self.ground().store(), row, blob).await,
            FoundArtifact::Upload(_) => Ok(true),
        }
    }

    /// Artifacts that match a filter, newest first.
    #[boxed]
    pub async fn list_artifacts(
        &self,
        query: &ListQuery,
        filter: &ArtifactFilter,
        within: &Narrowing,
    ) -> Result<ListPage<ArtifactRow>, Error> {
        let (space, prefix) = match (filter.run, filter.task) {
            (Some(run), _) => (rows::RUN_ARTIFACTS, rows::within(run)),
            (None, Some(task)) => (rows::TASK_ARTIFACTS, rows::within(task)),
            (None, None) => (rows::ARTIFACTS_LISTED, rows::tenant_key("")),
        };
        let admits = |row: &ArtifactRow| within.admits(row.task_id, row.session_id);
        let (mut items, mut end) = (Vec::new(), PageEnd::before(query));
        let mut looked_at = 0;
        while items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && end.has_more {
            let limit = query.limit - items.len();
            let page = ListQuery { after: end.next.take(), limit, status: None };
            let page =
                self.catalogue().list(space, &prefix, &page, |_: &ArtifactEntry| String::new()).await?;
            looked_at += page.items.len();
            end.advance(page.end);
            for (event, ArtifactEntry(id, _)) in &page.items {
                if is_deleted(self.ground().store(), event).await? {
                    continue;
                }
                let key = format!("{}{event}", rows::within(id));
                // An artifact that was erased after the list was read is skipped.
                let row = self.catalogue().listed_row::<ArtifactRow>(rows::ARTIFACTS, &key, &mut end).await?;
                let Some(row) = row else { continue };
                let row = self.with_changes(row).await?;
                if admits(&row) && filter.takes(&row) {
                    items.push(row);
                }
            }
        }
        Ok(ListPage { items, end })
    }

    /// Applies later changes to an artifact.
    async fn with_changes(&self, mut row: ArtifactRow) -> Result<ArtifactRow, Error> {
        row.pinned = self.catalogue().is_artifact_pinned(&row).await?;
        if row.kind != PATCH {
            return Ok(row);
        }
        let range =
            RowRange::first(rows::ARTIFACT_CHANGES, rows::within(&row.id), limits::ARTIFACT_CHANGES_MAX);
        let mut changes: Vec<ArtifactChange> = Vec::new();
        for change in self.ground().store().rows(range).await? {
            let change: ArtifactChange = read_row(rows::ARTIFACT_CHANGES, &change.key, &change.value)?;
            if change.run_id == row.run_id || self.may_change(&row, &change).await? {
                changes.push(change);
            }
        }
        // Events of two runs are ordered by the clock, which may have been set back. A change that can only come
        // later is applied later.
        changes.sort_by_key(|change| change.field != "status");
        changes.into_iter().for_each(|change| change.apply(&mut row));
        Ok(row)
    }

    /// Whether a run may change an artifact of another run: an own run of the same task.
    async fn may_change(&self, row: &ArtifactRow, change: &ArtifactChange) -> Result<bool, Error> {
        let run: Option<RunRow> = self.catalogue().row(rows::RUNS, &rows::tenant_key(change.run_id)).await?;
        Ok(run.is_some_and(|run| run.driver == "own" && run.task_id == row.task_id))
    }
}

/// The rejection for an individually deleted artifact.
pub(crate) fn artifact_deleted(id: &ForeignId, deleted: &DeletedArtifact) -> Error {
    let DeletedArtifact { by, deleted_at, .. } = deleted;
    let message = format!("artifact {id} was deleted at {deleted_at} by {by}; its id is never used again");
    Error::rejected(Code::ArtifactDeleted, message)
}

/// Whether the bytes of an artifact were stored here: by its run, for it, or for another artifact with the same
/// bytes.
pub(super) async fn was_stored(store: &dyn Store, row: &ArtifactRow, hash: &str) -> Result<bool, Error> {
    if stores_bytes(store, row.run_id).await? {
        return Ok(true);
    }
    for space in [rows::UPLOAD_BLOBS, rows::BLOBS_KEPT] {
        if !blob_uses(store, space, hash, 1).await?.is_empty() {
            return Ok(true);
        }
    }
    for used in blob_uses(store, rows::BLOB_USES, hash, limits::ARTIFACT_NAMESAKES_MAX).await? {
        let Some((_, event)) = used.key.split_once('/') else { continue };
        let Some(listed) = store.row(rows::ARTIFACTS_LISTED, &rows::tenant_key(event)).await? else {
            continue;
        };
        let ArtifactEntry(id, _) = read_row(rows::ARTIFACTS_LISTED, &listed.key, &listed.value)?;
        let key = format!("{}{event}", rows::within(&id));
        let Some(other) = store.row(rows::ARTIFACTS, &key).await? else { continue };
        let other: ArtifactRow = read_row(rows::ARTIFACTS, &other.key, &other.value)?;
        if stores_bytes(store, other.run_id).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a run stores the bytes of its artifacts here: an own run that was not imported.
async fn stores_bytes(store: &dyn Store, run: RunId) -> Result<bool, Error> {
    if store.row(rows::IMPORTED, &run.to_string()).await?.is_some() {
        return Ok(false);
    }
    let Some(row) = store.row(rows::RUNS, &rows::tenant_key(run)).await? else { return Ok(false) };
    let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
    Ok(row.driver == OWN)
}
