//! Records of artifacts that were deleted or pinned individually. They are records because the creating events do not
//! change. It must not know how bytes are stored.

use recount_event::{EventId, ForeignId, RunId};
use recount_log::{RowPut, RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::pins::exists_or_damaged;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{ArtifactRow, Error, Pin};

/// Whether the artifact that this event created was deleted.
pub(crate) async fn is_deleted(store: &dyn Store, event: &str) -> Result<bool, Error> {
    Ok(store.row(rows::ARTIFACTS_DELETED, &rows::tenant_key(event)).await?.is_some())
}

/// The owner of the quota that the artifact uses: its task, or its run without a task.
pub(crate) fn owner_of(row: &ArtifactRow) -> String {
    row.task_id.map_or_else(|| row.run_id.to_string(), |task| task.to_string())
}

pub(crate) fn pin_key(run: RunId, event: EventId) -> String {
    format!("{run}/{event}")
}

pub(crate) fn freed_key(row: &ArtifactRow) -> String {
    format!("{}/{}", owner_of(row), row.event_id)
}

/// Deletes the records about an artifact together with its creating event.
pub(crate) fn record_deletions(row: &ArtifactRow) -> [RowPut; 3] {
    [
        rows::delete(rows::ARTIFACT_PINS, pin_key(row.run_id, row.event_id)),
        rows::delete(rows::ARTIFACTS_DELETED, rows::tenant_key(row.event_id)),
        rows::delete(rows::ARTIFACTS_FREED, freed_key(row)),
    ]
}

/// A pin that protects the artifact, and its run from pruning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArtifactPin {
    pub(crate) artifact_id: ForeignId,
    #[serde(flatten)]
    pub(crate) pin: Pin,
}

impl CatalogueHandle {
    /// The pin of an artifact.
    #[boxed]
    pub async fn artifact_pin_of(&self, row: &ArtifactRow) -> Result<Option<Pin>, Error> {
        let key = pin_key(row.run_id, row.event_id);
        let pin: Option<ArtifactPin> = self.row(rows::ARTIFACT_PINS, &key).await?;
        Ok(pin.map(|pin| pin.pin))
    }

    /// Whether an artifact is pinned. A damaged pin counts as a pin.
    pub(crate) async fn is_artifact_pinned(&self, row: &ArtifactRow) -> Result<bool, Error> {
        exists_or_damaged(self.artifact_pin_of(row).await)
    }

    /// Any pinned artifact of a run.
    pub(crate) async fn pinned_artifact_of(&self, run: RunId) -> Result<Option<ForeignId>, Error> {
        let range = RowRange::first(rows::ARTIFACT_PINS, format!("{run}/"), 1);
        let found = self.ground().store().rows(range).await?;
        let pin = found.first().map(|row| read_row(rows::ARTIFACT_PINS, &row.key, &row.value)).transpose()?;
        Ok(pin.map(|pin: ArtifactPin| pin.artifact_id))
    }
}
