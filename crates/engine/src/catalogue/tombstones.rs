//! Tombstones of erased runs, and records of deleted tasks and sessions. It erases nothing; see `admin::erase`.

use recount_event::{RunId, SessionId, TaskId};
use recount_log::{RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, limits};

/// The tombstone of an erased run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The number of events, and the chain value over them; without it if they were damaged.
    pub events: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    pub erased_at: String,
    pub by: String,
}

/// A deleted task or session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub by: String,
    pub erased_at: String,
}

impl CatalogueHandle {
    /// The tombstone of a run.
    #[boxed]
    pub async fn tombstone(&self, run: RunId) -> Result<Option<Tombstone>, Error> {
        self.row(rows::ERASED, &rows::tenant_key(run)).await
    }
}

/// The tombstones of a store, ordered by run id. For checks without an engine.
#[boxed]
pub async fn tombstones(store: &dyn Store) -> Result<Vec<Tombstone>, Error> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let range = RowRange { after: after.take(), ..RowRange::first(rows::ERASED, "", limits::ERASE_PAGE) };
        let page = store.rows(range).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.key.clone());
        for row in &page {
            found.push(read_row(rows::ERASED, &row.key, &row.value)?);
        }
    }
}
