//! Deletes a task or a session: cancels its runs, erases them one by one and leaves tombstones.
//!
//! The intent is written first. From then on no run can be created for the target, and the next start continues an
//! interrupted deletion. Start with [`AdminHandle::delete_task`] and [`DeletionTarget`].

use recount_event::{Code, RunId, SessionId, TaskId};
use recount_log::{AppendError, FaultKind, Guard, RowRange, WholeRows};
use recount_run::{CancelledBy, Command};
use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::ground::error::{damaged_row, session_erased, task_erased};
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::ground::rows::deletion;
use crate::write::request::{CommandWithRows, Erase, SubmitWithRows};
use crate::write::row_deletions::{delete_all, delete_rows, exists, is_damaged};
use crate::{ErasureRecord, Error, ListQuery, RunOwner, RunRow, limits};

/// What is deleted together with its runs.
#[derive(Debug, Clone, Copy)]
enum DeletionTarget {
    Task(TaskId),
    Session(SessionId),
}

impl DeletionTarget {
    fn parse(key: &str) -> Result<DeletionTarget, Error> {
        let target =
            key.parse().map(DeletionTarget::Task).or_else(|_| key.parse().map(DeletionTarget::Session));
        target.map_err(|why| damaged_row(rows::ERASING, key, why))
    }

    /// The id as text: its key in [`rows::ERASING`].
    fn key(self) -> String {
        match self {
            DeletionTarget::Task(task) => task.to_string(),
            DeletionTarget::Session(session) => session.to_string(),
        }
    }

    fn space(self) -> &'static str {
        match self {
            DeletionTarget::Task(_) => rows::TASKS,
            DeletionTarget::Session(_) => rows::SESSIONS,
        }
    }

    /// The space that records the deletion permanently.
    fn erased_space(self) -> &'static str {
        match self {
            DeletionTarget::Task(_) => rows::TASKS_ERASED,
            DeletionTarget::Session(_) => rows::SESSIONS_ERASED,
        }
    }

    /// The index of its runs, and the key prefix in that index.
    fn runs(self) -> (&'static str, String) {
        match self {
            DeletionTarget::Task(task) => (rows::TASK_RUNS, rows::task_runs_prefix(task)),
            DeletionTarget::Session(session) => (rows::SESSION_RUNS, rows::session_runs_prefix(session)),
        }
    }

    fn erased(self, by: &str, erased_at: String) -> ErasureRecord {
        let (task_id, session_id) = match self {
            DeletionTarget::Task(task) => (Some(task), None),
            DeletionTarget::Session(session) => (None, Some(session)),
        };
        ErasureRecord { task_id, session_id, by: by.to_owned(), erased_at }
    }

    /// The reason for which its runs are cancelled.
    fn reason(self) -> &'static str {
        match self {
            DeletionTarget::Task(_) => "the task was deleted",
            DeletionTarget::Session(_) => "the session was deleted",
        }
    }

    fn owner(self) -> RunOwner {
        match self {
            DeletionTarget::Task(task) => RunOwner::Task(task),
            DeletionTarget::Session(session) => RunOwner::Session(session),
        }
    }

    fn erased_error(self) -> Error {
        match self {
            DeletionTarget::Task(task) => task_erased(task),
            DeletionTarget::Session(session) => session_erased(session),
        }
    }
}

impl AdminHandle {
    /// Deletes a task: cancels its active runs and erases all its runs. Returns the number of runs that this call
    /// erased. A repeated call continues an interrupted deletion.
    #[boxed]
    pub async fn delete_task(&self, task: TaskId, by: &str) -> Result<u64, Error> {
        self.delete(DeletionTarget::Task(task), by).await
    }

    /// Deletes a session in the same way.
    #[boxed]
    pub async fn delete_session(&self, session: SessionId, by: &str) -> Result<u64, Error> {
        self.delete(DeletionTarget::Session(session), by).await
    }

    /// Erases a run that belongs to no task and no session; one that goes on is cancelled first. Called again after it
    /// failed, it continues.
    #[boxed]
    pub async fn delete_run(&self, run: RunId, by: &str) -> Result<(), Error> {
        let _turn = self.housekeeping.lock().await;
        let row = self.catalogue().existing_run(run).await?;
        if let Some(task) = row.task_id {
            let message = format!("{run} belongs to {task}; delete the task, which erases all its runs");
            return Err(Error::rejected(Code::RunInTask, message));
        }
        if let Some(session) = row.session_id {
            let message =
                format!("{run} belongs to {session}; delete the session, which erases all its runs");
            return Err(Error::rejected(Code::RunInSession, message));
        }
        let is_alone = self.is_alone_in_copy(&row).await?;
        let by = self.write().redactor().text(by).into_owned();
        self.erase_run(run, &by, "the run was deleted").await?;
        self.write().delete_stored_responses().await?;
        if let (Some(performer), Some(path), true) = (self.work().performer(), row.workspace_path, is_alone) {
            performer.forget_copy(path).await;
        }
        Ok(())
    }

    /// Whether neither the run before it nor one after it works in the same copy. Those at an earlier place have copies of
    /// their own.
    async fn is_alone_in_copy(&self, row: &RunRow) -> Result<bool, Error> {
        let few = ListQuery { limit: limits::LINEAGE_RUNS_MAX, ..ListQuery::default() };
        let mut others = self.catalogue().list_successors(row.id, &few).await?.items;
        if others.len() >= limits::LINEAGE_RUNS_MAX {
            return Ok(false);
        }
        if let Some(prior) = row.prior_run_id.as_ref().and_then(|prior| prior.parse::<RunId>().ok()) {
            // Of an erased run the copy is unknown.
            let Some(prior) = self.catalogue().run(prior).await? else { return Ok(false) };
            others.push(prior);
        }
        Ok(others.iter().all(|other| other.workspace_path != row.workspace_path))
    }

    async fn delete(&self, target: DeletionTarget, by: &str) -> Result<u64, Error> {
        let _turn = self.housekeeping.lock().await;
        if self.ground().store().row(rows::ERASING, &target.key()).await?.is_none() {
            self.record_intent(target, &self.write().redactor().text(by)).await?;
        }
        self.finish_erasing(target).await
    }

    async fn record_intent(&self, target: DeletionTarget, by: &str) -> Result<(), Error> {
        let key = target.key();
        let (store, record) = (self.ground().store(), rows::tenant_key(&key));
        if !exists(store, target.space(), &record).await? {
            return Err(match target {
                DeletionTarget::Task(task) => self.catalogue().missing_task(task).await,
                DeletionTarget::Session(session) => self.catalogue().missing_session(session).await,
            });
        }
        let erased_at = recount_event::time::format_ms(self.ground().world.clock.now_ms());
        let erased = target.erased(by, erased_at);
        let mut rows = vec![
            rows::put(target.erased_space(), key.as_str(), Guard::Absent, &erased),
            rows::put(rows::ERASING, key.as_str(), Guard::Absent, &by),
        ];
        if let DeletionTarget::Session(session) = target {
            rows.extend(self.write().setup_deletions(session).await?);
        }
        let mut with_record = rows.clone();
        with_record.push(rows::delete(target.space(), record.as_str()));
        let mut recorded = store.append(deletion(with_record)).await;
        if let Err(AppendError::Fault(fault)) = &recorded
            && fault.kind == FaultKind::Corrupt
            && is_damaged(store, target.space(), &record).await?
        {
            // The damaged record is deleted at the end.
            recorded = store.append(deletion(rows)).await;
        }
        match recorded {
            Ok(_) => Ok(()),
            Err(AppendError::GuardFailed { .. }) => Err(target.erased_error()),
            Err(error) => Err(error.into()),
        }
    }

    async fn finish_erasing(&self, target: DeletionTarget) -> Result<u64, Error> {
        let key = target.key();
        let by: String = self
            .catalogue()
            .row(rows::ERASING, &key)
            .await?
            .ok_or_else(|| Error::bug(format!("no deletion of {key} is recorded")))?;
        let (index, prefix) = target.runs();
        let mut erased = 0;
        loop {
            let range = RowRange::first(index, prefix.as_str(), limits::ERASE_PAGE);
            let WholeRows { rows: page, damaged } = self.ground().store().whole_rows(range).await?;
            if page.is_empty() {
                // Damaged index rows of readable runs were deleted with these runs.
                if let Some(row) = damaged.first() {
                    let why = format!("{row} is damaged and may belong to a run of {key}");
                    return Err(damaged_row(index, &prefix, why));
                }
                break;
            }
            for row in page {
                let run = rows::run_in_key(index, &row.key, &prefix)?;
                self.erase_run(run, &by, target.reason()).await?;
                erased += 1;
            }
        }
        if let DeletionTarget::Session(session) = target {
            // Most sealed values were deleted with the setup; some may have been set during the deletion.
            let prefix = rows::sealed_of_session(session);
            delete_all(self.ground().store(), rows::SEALED, &prefix, limits::ERASE_PAGE).await?;
        }
        self.write().delete_stored_responses().await?;
        if let Some(performer) = self.work().performer() {
            performer.forget(target.owner()).await;
        }
        // The record was deleted with the intent, unless it was damaged.
        let record = rows::tenant_key(&key);
        if !matches!(self.ground().store().row(target.space(), &record).await, Ok(None)) {
            delete_rows(self.ground().store(), vec![rows::delete(target.space(), record)]).await?;
        }
        let mut rows = vec![rows::delete(rows::ERASING, key.as_str())];
        if let DeletionTarget::Task(_) = target {
            rows.push(rows::delete(rows::TASK_ACTIVE, key));
        }
        delete_rows(self.ground().store(), rows).await?;
        Ok(erased)
    }

    async fn erase_run(&self, run: RunId, by: &str, reason: &str) -> Result<(), Error> {
        let cancel = Command::Cancel { by: CancelledBy::Operator, reason: reason.to_owned() };
        let with = Box::new(CommandWithRows { frees_space: true, ..CommandWithRows::default() });
        let damage = match self.write().writers.ask(run, SubmitWithRows { command: cancel, with }).await {
            Ok(_) => None,
            Err(error) if error.code() == Code::RunEnded => None,
            // A damaged run accepts no events and is erased anyway, unless only a row beside it is damaged.
            Err(error) if error.is_damage() => Some(error),
            Err(error) => return Err(error),
        };
        match (self.write().writers.ask(run, Erase { by: by.to_owned() }).await, damage) {
            (Err(error), Some(damage)) if error.code() == Code::RunActive => Err(damage),
            (erased, _) => erased,
        }
    }

    /// Continues the deletions that were pending when the last process ended.
    pub(crate) fn finish_deletions(&self) {
        let admin = self.clone();
        let tasks = &self.ground().world.tasks;
        tasks.spawn_until_shutdown(Kind::Service, async move { admin.finish_all().await });
    }

    async fn finish_all(&self) {
        while let Err(error) = self.finish_each().await {
            tracing::warn!(%error, "a pending deletion failed; retrying");
            tokio::time::sleep(limits::ERASE_RETRY).await;
        }
    }

    /// A deletion that fails does not block others.
    async fn finish_each(&self) -> Result<(), Error> {
        let mut failed = None;
        let mut pages = RowPages::new(self.ground().store(), rows::ERASING, limits::ERASE_PAGE);
        while let Some(page) = pages.next().await? {
            for row in &page.damaged {
                tracing::error!(%row, "the record of a pending deletion is damaged; send the deletion again");
            }
            for row in page.rows {
                if let Err(error) = self.finish_recorded(&row.key).await {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn finish_recorded(&self, key: &str) -> Result<(), Error> {
        let target = DeletionTarget::parse(key)?;
        let _turn = self.housekeeping.lock().await;
        // A client may have repeated the deletion in the meantime.
        if self.ground().store().row(rows::ERASING, key).await?.is_some() {
            self.finish_erasing(target).await?;
        }
        Ok(())
    }
}
