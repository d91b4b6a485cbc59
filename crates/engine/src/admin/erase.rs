//! Deleting a task or a session: its runs are cancelled, then erased one by one, and nothing of them is left but
//! a tombstone.
//!
//! The intent is written first, and with it the whole is gone: no run can be made for it any more, and a
//! process that dies in the middle goes on where it was when it starts again. Look at [`AdminHandle::delete_task`]
//! and at [`Whole`].

use recount_event::{Code, RunId, SessionId, TaskId};
use recount_log::{AppendError, FaultKind, Guard, RowRange, WholeRows};
use recount_run::{CancelledBy, Command};
use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::ground::error::{damaged_row, session_erased, task_erased};
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::ground::rows::taking_away;
use crate::write::damaged_rows::{is_damaged, take_away};
use crate::write::request::{Erase, SubmitWithRows};
use crate::write::with_rows::CommandWithRows;
use crate::{Erased, Error, Whose, limits};

/// What runs belong to and are deleted with.
#[derive(Debug, Clone, Copy)]
enum Whole {
    Task(TaskId),
    Session(SessionId),
}

impl Whole {
    fn parse(key: &str) -> Result<Whole, Error> {
        let whole = key.parse().map(Whole::Task).or_else(|_| key.parse().map(Whole::Session));
        whole.map_err(|why| damaged_row(rows::ERASING, key, why))
    }

    /// Its own key, and where it was noted.
    fn key(self) -> String {
        match self {
            Whole::Task(task) => task.to_string(),
            Whole::Session(session) => session.to_string(),
        }
    }

    fn space(self) -> &'static str {
        match self {
            Whole::Task(_) => rows::TASKS,
            Whole::Session(_) => rows::SESSIONS,
        }
    }

    /// Where it is noted for good that it was deleted.
    fn space_erased(self) -> &'static str {
        match self {
            Whole::Task(_) => rows::TASKS_ERASED,
            Whole::Session(_) => rows::SESSIONS_ERASED,
        }
    }

    /// The index of its runs, and what the keys of these begin with.
    fn runs(self) -> (&'static str, String) {
        match self {
            Whole::Task(task) => (rows::TASK_RUNS, rows::task_runs_prefix(task)),
            Whole::Session(session) => (rows::SESSION_RUNS, rows::session_runs_prefix(session)),
        }
    }

    fn erased(self, by: &str, erased_at: String) -> Erased {
        let (task_id, session_id) = match self {
            Whole::Task(task) => (Some(task), None),
            Whole::Session(session) => (None, Some(session)),
        };
        Erased { task_id, session_id, by: by.to_owned(), erased_at }
    }

    /// Why its runs are cancelled.
    fn reason(self) -> &'static str {
        match self {
            Whole::Task(_) => "the task was deleted",
            Whole::Session(_) => "the session was deleted",
        }
    }

    fn whose(self) -> Whose {
        match self {
            Whole::Task(task) => Whose::Task(task),
            Whole::Session(session) => Whose::Session(session),
        }
    }

    fn is_erased(self) -> Error {
        match self {
            Whole::Task(task) => task_erased(task),
            Whole::Session(session) => session_erased(session),
        }
    }
}

impl AdminHandle {
    /// Deletes a task and erases its runs; those that go on are cancelled first. Answers how many runs were
    /// erased by this call. Asked again in the middle of it, or after it failed, it goes on.
    #[boxed]
    pub async fn delete_task(&self, task: TaskId, by: &str) -> Result<u64, Error> {
        self.delete(Whole::Task(task), by).await
    }

    /// The same for a session.
    #[boxed]
    pub async fn delete_session(&self, session: SessionId, by: &str) -> Result<u64, Error> {
        self.delete(Whole::Session(session), by).await
    }

    async fn delete(&self, whole: Whole, by: &str) -> Result<u64, Error> {
        let _turn = self.housekeeping.lock().await;
        if self.ground().store().row(rows::ERASING, &whole.key()).await?.is_none() {
            self.intend(whole, &self.write().redactor().text(by)).await?;
        }
        self.finish_erasing(whole).await
    }

    async fn intend(&self, whole: Whole, by: &str) -> Result<(), Error> {
        let key = whole.key();
        let (store, record) = (self.ground().store(), rows::tenant_key(&key));
        match store.row(whole.space(), &record).await.map_err(Error::from) {
            Ok(Some(_)) => {}
            Ok(None) => {
                return Err(match whole {
                    Whole::Task(task) => self.catalogue().missing_task(task).await,
                    Whole::Session(session) => self.catalogue().missing_session(session).await,
                });
            }
            // What it says is lost, and that it is there is not.
            Err(error) if error.is_damage() && is_damaged(store, whole.space(), &record).await? => {}
            Err(error) => return Err(error),
        }
        let erased_at = recount_event::time::format_ms(self.ground().world.clock.now_ms());
        let erased = whole.erased(by, erased_at);
        let mut rows = vec![
            rows::put(whole.space_erased(), key.as_str(), Guard::Absent, &erased),
            rows::put(rows::ERASING, key.as_str(), Guard::Absent, &by),
        ];
        if let Whole::Session(session) = whole {
            rows.extend(self.write().setup_gone(session).await?);
        }
        let mut with_record = rows.clone();
        with_record.push(rows::delete(whole.space(), record.as_str()));
        let mut intended = store.append(taking_away(with_record)).await;
        if let Err(AppendError::Fault(fault)) = &intended
            && fault.kind == FaultKind::Corrupt
            && is_damaged(store, whole.space(), &record).await?
        {
            // It goes at the end, with what else is damaged.
            intended = store.append(taking_away(rows)).await;
        }
        match intended {
            Ok(_) => Ok(()),
            Err(AppendError::GuardFailed { .. }) => Err(whole.is_erased()),
            Err(error) => Err(error.into()),
        }
    }

    async fn finish_erasing(&self, whole: Whole) -> Result<u64, Error> {
        let key = whole.key();
        let by: String = self
            .catalogue()
            .row(rows::ERASING, &key)
            .await?
            .ok_or_else(|| Error::bug(format!("no deletion of {key} is recorded")))?;
        let (index, prefix) = whole.runs();
        let mut erased = 0;
        loop {
            let range = RowRange {
                space: index.into(),
                prefix: prefix.as_str().into(),
                after: None,
                backwards: false,
                limit: limits::ERASE_PAGE,
            };
            let WholeRows { rows: page, damaged } = self.ground().store().whole_rows(range).await?;
            if page.is_empty() {
                // Damaged rows of runs that could be erased went with these.
                if let Some(row) = damaged.first() {
                    let why = format!("{row} is damaged and may belong to a run of {key}");
                    return Err(damaged_row(index, &prefix, why));
                }
                break;
            }
            for row in page {
                let run = rows::run_in_key(index, &row.key, &prefix)?;
                self.erase_run(run, &by, whole.reason()).await?;
                erased += 1;
            }
        }
        if let Whole::Session(session) = whole {
            self.forget_secrets(session).await?;
        }
        self.write().forget_answers().await?;
        if let Some(performer) = self.work().performer() {
            performer.forget(whole.whose()).await;
        }
        // The record itself went with the intent, unless it was damaged.
        let record = rows::tenant_key(&key);
        if !matches!(self.ground().store().row(whole.space(), &record).await, Ok(None)) {
            take_away(self.ground().store(), vec![rows::delete(whole.space(), record)]).await?;
        }
        let mut rows = vec![rows::delete(rows::ERASING, key.as_str())];
        if let Whole::Task(_) = whole {
            rows.push(rows::delete(rows::TASK_ACTIVE, key));
        }
        take_away(self.ground().store(), rows).await?;
        Ok(erased)
    }

    /// Takes away what is sealed with a session. Most of it went with its setup; what was given in the moment of the
    /// deletion goes here.
    async fn forget_secrets(&self, session: SessionId) -> Result<(), Error> {
        loop {
            let range = RowRange {
                space: rows::SEALED.into(),
                prefix: rows::sealed_of_session(session).into(),
                after: None,
                backwards: false,
                limit: limits::ERASE_PAGE,
            };
            let page = self.ground().store().rows(range).await?;
            if page.is_empty() {
                return Ok(());
            }
            let rows = page.into_iter().map(|row| rows::delete(rows::SEALED, row.key)).collect();
            self.ground().store().append(taking_away(rows)).await?;
        }
    }

    async fn erase_run(&self, run: RunId, by: &str, reason: &str) -> Result<(), Error> {
        let cancel = Command::Cancel { by: CancelledBy::Operator, reason: reason.to_owned() };
        let with = Box::new(CommandWithRows { frees_space: true, ..CommandWithRows::default() });
        let damage = match self.write().writers.ask(run, SubmitWithRows { command: cancel, with }).await {
            Ok(_) => None,
            Err(error) if error.code() == Code::RunEnded => None,
            // Nothing can be appended to it, and it goes all the same, unless only something beside it is damaged.
            Err(error) if error.is_damage() => Some(error),
            Err(error) => return Err(error),
        };
        match (self.write().writers.ask(run, Erase { by: by.to_owned() }).await, damage) {
            (Err(error), Some(damage)) if error.code() == Code::RunActive => Err(damage),
            (erased, _) => erased,
        }
    }

    /// Continues the deletions that were open when the last process died.
    pub(crate) fn finish_deletions(&self) {
        let admin = self.clone();
        self.ground().world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = admin.finish_all() => {}
            }
        });
    }

    async fn finish_all(&self) {
        while let Err(error) = self.finish_each().await {
            tracing::warn!(%error, "a pending deletion failed; retrying");
            tokio::time::sleep(limits::ERASE_RETRY).await;
        }
    }

    /// One that cannot be finished does not prevent others.
    async fn finish_each(&self) -> Result<(), Error> {
        let mut failed = None;
        let mut pages = RowPages::new(self.ground().store(), rows::ERASING, limits::ERASE_PAGE);
        while let Some(page) = pages.next().await? {
            for row in &page.damaged {
                tracing::error!(%row, "the record of a pending deletion is damaged; send the deletion again");
            }
            for row in page.rows {
                if let Err(error) = self.finish_noted(&row.key).await {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn finish_noted(&self, key: &str) -> Result<(), Error> {
        let whole = Whole::parse(key)?;
        let _turn = self.housekeeping.lock().await;
        // A client may have asked again in the meantime.
        if self.ground().store().row(rows::ERASING, key).await?.is_some() {
            self.finish_erasing(whole).await?;
        }
        Ok(())
    }
}
