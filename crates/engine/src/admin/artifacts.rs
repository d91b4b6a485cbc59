//! Deletes, pins and unpins single artifacts. The events that name a deleted artifact do not change; a record stores
//! the deletion. Its bytes are removed when no other artifact uses them.
//!
//! A deletion has two steps: the record becomes durable, then the bytes are removed. After a crash between the steps,
//! the next start removes the bytes. Start with [`AdminHandle::delete_artifact`] and [`AdminHandle::pin_artifact`].

use recount_event::{Code, ForeignId, time};
use recount_log::{Append, AppendError, Guard, RowPut};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::artifact_rows::{ArtifactEntry, ArtifactRemoval, DeletedArtifact, blob_of};
use crate::catalogue::deleted_artifacts::{ArtifactPin, freed_key, owner_of, pin_key};
use crate::ground::rows;
use crate::ground::rows::deletion;
use crate::read::artifacts::artifact_deleted;
use crate::write::row_deletions::delete_rows;
use crate::{ArtifactRow, Error, FoundArtifact, Pin};

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactDeletion {
    /// Whether bytes were removed. They stay if another artifact uses them.
    pub bytes_removed: bool,
}

impl AdminHandle {
    /// Deletes one artifact of an ended run, or an upload that no run has used.
    #[boxed]
    pub async fn delete_artifact(&self, found: &FoundArtifact, by: &str) -> Result<ArtifactDeletion, Error> {
        let _turn = self.housekeeping.lock().await;
        let deleted = DeletedArtifact {
            artifact_id: found.id().clone(),
            by: self.write().redactor().text(by).into_owned(),
            deleted_at: time::format_ms(self.ground().world.clock.now_ms()),
        };
        let rows = match found {
            FoundArtifact::OfRun(row) => self.artifact_deletions(row, &deleted).await?,
            FoundArtifact::Upload(upload) => {
                let removal = ArtifactRemoval { run_id: None, pruned: false, deleted: Some(deleted.clone()) };
                let mut rows = self.write().upload_deletions(upload).await?;
                let key = rows::tenant_key(&upload.id);
                rows.push(rows::put(rows::ARTIFACTS_REMOVED, key, Guard::Any, &removal));
                rows
            }
        };
        match self.ground().store().append(deletion(rows)).await {
            Ok(_) => {}
            Err(AppendError::GuardFailed { .. }) => return Err(artifact_deleted(found.id(), &deleted)),
            Err(error) => return Err(error.into()),
        }
        let context = &self.write().context;
        if let FoundArtifact::OfRun(row) = found {
            context.quotas.forget(&owner_of(row)).await;
        }
        let hash = found.hash().and_then(blob_of).map(str::to_owned);
        let removed = context.blobs.release(hash).await.unwrap_or_else(|error| {
            let id = found.id();
            tracing::warn!(
                %id,
                %error,
                "cannot delete the bytes of a deleted artifact; they are deleted at the next start"
            );
            0
        });
        Ok(ArtifactDeletion { bytes_removed: removed > 0 })
    }

    /// The row changes of a deletion. Refuses an artifact that cannot be deleted.
    async fn artifact_deletions(
        &self,
        row: &ArtifactRow,
        deleted: &DeletedArtifact,
    ) -> Result<Vec<RowPut>, Error> {
        let id = &row.id;
        if self.catalogue().is_artifact_pinned(row).await? {
            return Err(Error::rejected(
                Code::ArtifactPinned,
                format!("artifact {id} is pinned; unpin it first"),
            ));
        }
        let run = row.run_id;
        if row.log_from_sequence.is_some() {
            let message =
                format!("the bytes of artifact {id} are events of {run}; prune the run, or delete its task");
            return Err(Error::rejected(Code::ArtifactInLog, message));
        }
        if self.catalogue().is_pinned(run).await? {
            let message = format!("{run}, which created artifact {id}, is pinned; unpin the run first");
            return Err(Error::rejected(Code::ArtifactPinned, message));
        }
        let creator = self.catalogue().existing_run(run).await?;
        if creator.ended_at.is_none() {
            let message =
                format!("{run} is active and may need artifact {id}; delete it after the run has ended");
            return Err(Error::rejected(Code::RunActive, message));
        }
        let removal = ArtifactRemoval { run_id: Some(run), pruned: false, deleted: Some(deleted.clone()) };
        let blob = row.hash.as_deref().and_then(blob_of);
        let freed = ArtifactEntry(id.clone(), blob.and(row.size_bytes).unwrap_or(0));
        let mut rows = vec![
            rows::put(rows::ARTIFACTS_DELETED, rows::tenant_key(row.event_id), Guard::Absent, deleted),
            rows::put(rows::ARTIFACTS_FREED, freed_key(row), Guard::Any, &freed),
            rows::put(rows::ARTIFACTS_REMOVED, rows::tenant_key(id), Guard::Any, &removal),
        ];
        rows.extend(blob.map(|hash| rows::delete(rows::BLOBS_KEPT, format!("{hash}/{}", row.event_id))));
        Ok(rows)
    }

    /// Protects an artifact from deletion and its run from pruning. Pinning a pinned artifact changes nothing.
    #[boxed]
    pub async fn pin_artifact(&self, found: &FoundArtifact, by: &str) -> Result<Pin, Error> {
        // Serialized with prunes and deletions, so that each of them sees the pin.
        let _turn = self.housekeeping.lock().await;
        let row = created_by_run(found)?;
        if let Some(pin) = self.catalogue().artifact_pin_of(row).await? {
            return Ok(pin);
        }
        if self.read().find_artifacts(&row.id).await?.is_empty() {
            return Err(self.read().missing_artifact(&row.id).await);
        }
        let pin = Pin {
            by: self.write().redactor().text(by).into_owned(),
            pinned_at: time::format_ms(self.ground().world.clock.now_ms()),
        };
        let record = ArtifactPin { artifact_id: row.id.clone(), pin: pin.clone() };
        let key = pin_key(row.run_id, row.event_id);
        let rows = vec![rows::put(rows::ARTIFACT_PINS, key, Guard::Any, &record)];
        self.ground().store().append(Append { rows, ..Append::default() }).await?;
        Ok(pin)
    }

    /// Removes the pin of an artifact. An artifact without a pin does not change.
    #[boxed]
    pub async fn unpin_artifact(&self, found: &FoundArtifact) -> Result<(), Error> {
        let row = created_by_run(found)?;
        let rows = vec![rows::delete(rows::ARTIFACT_PINS, pin_key(row.run_id, row.event_id))];
        delete_rows(self.ground().store(), rows).await
    }
}

fn created_by_run(found: &FoundArtifact) -> Result<&ArtifactRow, Error> {
    match found {
        FoundArtifact::OfRun(row) => Ok(row),
        FoundArtifact::Upload(upload) => Err(not_used(&upload.id)),
    }
}

fn not_used(id: &ForeignId) -> Error {
    let message = format!("no run uses artifact {id} yet; attach it to a run before you pin it");
    Error::rejected(Code::ArtifactUnused, message)
}
