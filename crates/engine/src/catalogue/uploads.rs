//! Unused uploads as rows. It must not know their bytes.

use recount_event::ForeignId;
use recount_event::family::artifact::Created;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;

/// An upload that no run has used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadRow {
    pub id: ForeignId,
    pub kind: String,
    pub mime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub size_bytes: u64,
    pub hash: String,
    pub created_at: String,
    /// When it expires.
    pub until_ms: u64,
    pub by: String,
}

impl UploadRow {
    /// The event data that make it an artifact of a run.
    pub(crate) fn created(&self, id: ForeignId) -> Created {
        let mut created = Created::new(id, self.kind.clone());
        created.size_bytes = Some(self.size_bytes);
        created.mime = Some(self.mime.clone());
        created.hash = Some(self.hash.clone());
        created.name.clone_from(&self.name);
        created
    }
}

impl CatalogueHandle {
    /// An unused upload that has not expired.
    #[boxed]
    pub async fn uploaded(&self, id: &ForeignId) -> Result<Option<UploadRow>, Error> {
        let now_ms = self.ground().world.clock.now_ms();
        let row: Option<UploadRow> = self.row(rows::UPLOADS, &rows::tenant_key(id)).await?;
        Ok(row.filter(|row| row.until_ms > now_ms))
    }
}
