//! Artifacts that were deleted or pinned alone, while their run goes on being told: records, because the events that made
//! them stay as they are. It must not know how bytes are kept.

use recount_event::{EventId, ForeignId, RunId};
use recount_log::{RowPut, RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::pins::there_or_damaged;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{ArtifactRow, Error, Pin};

/// Whether the artifact that an event made was deleted.
pub(crate) async fn is_deleted(store: &dyn Store, event: &str) -> Result<bool, Error> {
    Ok(store.row(rows::ARTIFACTS_DELETED, &rows::tenant_key(event)).await?.is_some())
}

/// The task, or the run without one, whose quota an artifact counts for.
pub(crate) fn owner_of(row: &ArtifactRow) -> String {
    row.task_id.map_or_else(|| row.run_id.to_string(), |task| task.to_string())
}

pub(crate) fn pin_key(run: RunId, event: EventId) -> String {
    format!("{run}/{event}")
}

pub(crate) fn freed_key(row: &ArtifactRow) -> String {
    format!("{}/{}", owner_of(row), row.event_id)
}

/// The records about an artifact that go when the event goes that made it.
pub(crate) fn records_go(row: &ArtifactRow) -> [RowPut; 3] {
    [
        rows::delete(rows::ARTIFACT_PINS, pin_key(row.run_id, row.event_id)),
        rows::delete(rows::ARTIFACTS_DELETED, rows::tenant_key(row.event_id)),
        rows::delete(rows::ARTIFACTS_FREED, freed_key(row)),
    ]
}

/// An artifact that withholds its run from pruning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArtifactPin {
    pub(crate) artifact_id: ForeignId,
    #[serde(flatten)]
    pub(crate) pin: Pin,
}

impl CatalogueHandle {
    /// Who pinned an artifact, and when.
    #[boxed]
    pub async fn artifact_pin_of(&self, row: &ArtifactRow) -> Result<Option<Pin>, Error> {
        let key = pin_key(row.run_id, row.event_id);
        let pin: Option<ArtifactPin> = self.row(rows::ARTIFACT_PINS, &key).await?;
        Ok(pin.map(|pin| pin.pin))
    }

    /// Whether an artifact is kept. A pin that is damaged counts, as that of a run does.
    pub(crate) async fn is_artifact_pinned(&self, row: &ArtifactRow) -> Result<bool, Error> {
        there_or_damaged(self.artifact_pin_of(row).await)
    }

    /// One of the pinned artifacts of a run.
    pub(crate) async fn pinned_artifact_of(&self, run: RunId) -> Result<Option<ForeignId>, Error> {
        let range = RowRange {
            space: rows::ARTIFACT_PINS.into(),
            prefix: format!("{run}/").into(),
            after: None,
            backwards: false,
            limit: 1,
        };
        let found = self.ground().store().rows(range).await?;
        let pin = found.first().map(|row| read_row(rows::ARTIFACT_PINS, &row.key, &row.value)).transpose()?;
        Ok(pin.map(|pin: ArtifactPin| pin.artifact_id))
    }
}
