//! Deleting and pinning one artifact. The events that name it stay as they are, and a record beside them says what became
//! of it; its bytes go when nothing else needs them.
//!
//! In two steps: the record is durable first, then the bytes go. What a crash leaves between them, the next start takes
//! away. Entry points: [`AdminHandle::delete_artifact`], [`AdminHandle::pin_artifact`].

use recount_event::{Code, ForeignId, time};
use recount_log::{Append, AppendError, Guard, RowPut};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::artifact_rows::{DeletedArtifact, Gone, Indexed, blob_of};
use crate::catalogue::deleted_artifacts::{ArtifactPin, freed_key, owner_of, pin_key};
use crate::ground::rows;
use crate::ground::rows::taking_away;
use crate::read::artifacts::artifact_deleted;
use crate::write::damaged_rows::take_away;
use crate::{ArtifactRow, Error, FoundArtifact, Pin};

/// What a deletion came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactDeletion {
    /// Whether bytes went; they stay where another artifact has the same.
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
            FoundArtifact::OfRun(row) => self.artifact_goes(row, &deleted).await?,
            FoundArtifact::Upload(upload) => {
                let gone = Gone { run_id: None, pruned: false, deleted: Some(deleted.clone()) };
                let mut rows = self.write().upload_goes(upload).await?;
                let key = rows::tenant_key(&upload.id);
                rows.push(rows::put(rows::ARTIFACTS_GONE, key, Guard::Any, &gone));
                rows
            }
        };
        match self.ground().store().append(taking_away(rows)).await {
            Ok(_) => {}
            Err(AppendError::GuardFailed { .. }) => return Err(artifact_deleted(found.id(), &deleted)),
            Err(error) => return Err(error.into()),
        }
        let room = &self.write().room;
        if let FoundArtifact::OfRun(row) = found {
            room.quotas.forget(&owner_of(row)).await;
        }
        let hash = found.hash().and_then(blob_of).map(str::to_owned);
        let removed = room.blobs.release(hash).await.unwrap_or_else(|error| {
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

    /// The rows of a deletion, when the artifact may go.
    async fn artifact_goes(
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
        let Some(maker) = self.catalogue().run(run).await? else {
            return Err(self.catalogue().missing_run(run).await);
        };
        if maker.ended_at.is_none() {
            let message =
                format!("{run} is active and may need artifact {id}; delete it after the run has ended");
            return Err(Error::rejected(Code::RunActive, message));
        }
        let gone = Gone { run_id: Some(run), pruned: false, deleted: Some(deleted.clone()) };
        let blob = row.hash.as_deref().and_then(blob_of);
        let freed = Indexed(id.clone(), blob.and(row.size_bytes).unwrap_or(0));
        let mut rows = vec![
            rows::put(rows::ARTIFACTS_DELETED, rows::tenant_key(row.event_id), Guard::Absent, deleted),
            rows::put(rows::ARTIFACTS_FREED, freed_key(row), Guard::Any, &freed),
            rows::put(rows::ARTIFACTS_GONE, rows::tenant_key(id), Guard::Any, &gone),
        ];
        rows.extend(blob.map(|hash| rows::delete(rows::BLOBS_KEPT, format!("{hash}/{}", row.event_id))));
        Ok(rows)
    }

    /// Withholds an artifact from deletion, and its run from pruning. Pinning again changes nothing.
    #[boxed]
    pub async fn pin_artifact(&self, found: &FoundArtifact, by: &str) -> Result<Pin, Error> {
        // In turn with prunes and deletions, so that none of them misses it.
        let _turn = self.housekeeping.lock().await;
        let row = made_by_a_run(found)?;
        if let Some(pin) = self.catalogue().artifact_pin_of(row).await? {
            return Ok(pin);
        }
        if self.read().artifacts_called(&row.id).await?.is_empty() {
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

    /// Lets an artifact go again. One that is not pinned is left as it is.
    #[boxed]
    pub async fn unpin_artifact(&self, found: &FoundArtifact) -> Result<(), Error> {
        let row = made_by_a_run(found)?;
        let rows = vec![rows::delete(rows::ARTIFACT_PINS, pin_key(row.run_id, row.event_id))];
        take_away(self.ground().store(), rows).await
    }
}

fn made_by_a_run(found: &FoundArtifact) -> Result<&ArtifactRow, Error> {
    match found {
        FoundArtifact::OfRun(row) => Ok(row),
        FoundArtifact::Upload(upload) => Err(unused(&upload.id)),
    }
}

fn unused(id: &ForeignId) -> Error {
    let message = format!("no run uses artifact {id} yet; attach it to a run before you pin it");
    Error::rejected(Code::ArtifactUnused, message)
}
