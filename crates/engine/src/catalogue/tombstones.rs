//! What was removed: tombstones of erased runs, records of deleted tasks and sessions, and the end of pruned positions.
//! It also finds out why an item is missing: it never existed, or it was erased. It removes nothing; see `admin::erase`.

use recount_event::{Code, RunId, SessionId, TaskId};
use recount_log::{RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::table::read_row;
use crate::ground::error::{run_erased, run_not_found, session_erased, task_erased};
use crate::ground::{journal, rows};
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

    /// Why a run is missing: it never existed, or it was erased.
    #[boxed]
    pub async fn missing_run(&self, run: RunId) -> Error {
        match self.ground().store().end(&journal::stream_of(run)).await {
            Ok(Some(tail)) if tail.erased => run_erased(run),
            Ok(_) => run_not_found(run),
            Err(fault) => fault.into(),
        }
    }

    /// Why a task is missing: it never existed, or it was deleted.
    #[boxed]
    pub async fn missing_task(&self, task: TaskId) -> Error {
        match self.ground().store().row(rows::TASKS_ERASED, &task.to_string()).await {
            Ok(Some(_)) => task_erased(task),
            Ok(None) => Error::rejected(Code::TaskNotFound, format!("task {task} not found")),
            Err(fault) => fault.into(),
        }
    }

    /// Why a session is missing: it never existed, or it was deleted.
    #[boxed]
    pub async fn missing_session(&self, session: SessionId) -> Error {
        match self.ground().store().row(rows::SESSIONS_ERASED, &session.to_string()).await {
            Ok(Some(_)) => session_erased(session),
            Ok(None) => Error::rejected(Code::SessionNotFound, format!("session {session} not found")),
            Err(fault) => fault.into(),
        }
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

/// The highest position that was ever pruned.
pub(crate) async fn pruned_up_to(store: &dyn Store) -> Result<u64, Error> {
    match store.row(rows::PRUNED, rows::PRUNED_LAST).await? {
        Some(row) => read_row(rows::PRUNED, &row.key, &row.value),
        None => Ok(0),
    }
}
