//! Why a run, a task or a session is missing: it never existed, or it was erased.

use recount_event::{Code, RunId, SessionId, TaskId};

use crate::Error;
use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::error::{run_erased, run_not_found, session_erased, task_erased};
use crate::ground::{journal, rows};

impl CatalogueHandle {
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
