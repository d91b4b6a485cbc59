//! Looks up and lists runs: all, by task or session, active, and unfinished. Reads rows only, no events.

use std::sync::Arc;

use recount_event::{RunId, SessionId, TaskId};
use recount_log::{ReadResult as _, RowRange, Store};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;
use crate::{Error, ListPage, ListQuery, Narrowing, RunRow, limits};

/// The owner of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOwner {
    Task(TaskId),
    Session(SessionId),
}

impl From<TaskId> for RunOwner {
    fn from(task: TaskId) -> Self {
        RunOwner::Task(task)
    }
}

impl From<SessionId> for RunOwner {
    fn from(session: SessionId) -> Self {
        RunOwner::Session(session)
    }
}

/// Selects runs, or tasks by their latest run. A missing field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub status: Option<String>,
    pub kind: Option<String>,
    /// Whether a prompt is pending.
    pub needs_attention: Option<bool>,
    /// A part of the title or of the last message, ignoring case.
    pub text: Option<String>,
    /// The beginning of the agent's name, ignoring case.
    pub agent: Option<String>,
    /// The beginning of the name of the source that recorded it, ignoring case.
    pub source: Option<String>,
}

impl RunFilter {
    pub fn is_open(&self) -> bool {
        *self == RunFilter::default()
    }

    pub fn takes(&self, row: &RunRow) -> bool {
        name_begins(row.agent_name.as_deref(), self.agent.as_deref())
            && name_begins(row.source.as_deref(), self.source.as_deref())
            && self.takes_fields(
                &row.status,
                Some(&row.kind),
                !row.pending.is_empty(),
                &[&row.title, &row.message],
            )
    }

    /// Applies the filter to separate fields, for a task that may have no run.
    pub fn takes_fields(
        &self,
        status: &str,
        kind: Option<&str>,
        needs_attention: bool,
        texts: &[&Option<String>],
    ) -> bool {
        let contains = |part: &str| {
            let holds = |text: &String| text.to_lowercase().contains(part);
            texts.iter().any(|text| text.as_ref().is_some_and(holds))
        };
        self.status.as_deref().is_none_or(|wanted| wanted == status)
            && self.kind.as_deref().is_none_or(|wanted| Some(wanted) == kind)
            && self.needs_attention.is_none_or(|wanted| wanted == needs_attention)
            && self.text.as_ref().is_none_or(|part| contains(&part.to_lowercase()))
    }
}

/// Whether a name begins with the filter text, ignoring case.
pub fn name_begins(name: Option<&str>, wanted: Option<&str>) -> bool {
    wanted
        .is_none_or(|wanted| name.is_some_and(|name| name.to_lowercase().starts_with(&wanted.to_lowercase())))
}

impl CatalogueHandle {
    #[boxed]
    pub async fn run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        self.row(rows::RUNS, &rows::tenant_key(run)).await
    }

    /// A run that must exist. The error names why it is missing.
    #[boxed]
    pub async fn existing_run(&self, run: RunId) -> Result<RunRow, Error> {
        match self.run(run).await? {
            Some(row) => Ok(row),
            None => Err(self.missing_run(run).await),
        }
    }

    /// The active run of a task, or the active own run of a session.
    pub async fn active_run(&self, owner: impl Into<RunOwner>) -> Result<Option<RunId>, Error> {
        let (space, key) = match owner.into() {
            RunOwner::Task(task) => (rows::TASK_ACTIVE, task.to_string()),
            RunOwner::Session(session) => (rows::SESSION_ACTIVE, session.to_string()),
        };
        self.row(space, &key).await
    }

    /// Runs that match a filter, newest first.
    #[boxed]
    pub async fn list_matching_runs(
        &self,
        query: &ListQuery,
        filter: &RunFilter,
        within: &Narrowing,
    ) -> Result<ListPage<RunRow>, Error> {
        let admits = |row: &RunRow| within.admits(row.task_id, row.session_id);
        let is_filtered = !filter.is_open() || !within.is_none();
        let matches = |row: &RunRow| admits(row) && filter.takes(row);
        self.list_where(rows::RUNS, &rows::tenant_key(""), query, is_filtered, matches)
            .await
            .map(ListPage::without_keys)
    }

    #[boxed]
    pub async fn list_runs(&self, query: &ListQuery) -> Result<ListPage<RunRow>, Error> {
        let status = |row: &RunRow| row.status.clone();
        self.list(rows::RUNS, &rows::tenant_key(""), query, status).await.map(ListPage::without_keys)
    }

    /// The runs of a task, newest first.
    #[boxed]
    pub async fn list_task_runs(&self, task: TaskId, query: &ListQuery) -> Result<ListPage<RunRow>, Error> {
        self.list_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task), query).await
    }

    /// The number of runs of a task, up to a limit.
    #[boxed]
    pub async fn count_task_runs(&self, task: TaskId) -> Result<u64, Error> {
        self.count_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task), None).await
    }

    /// The same when this run was the newest.
    #[boxed]
    pub async fn count_task_runs_up_to(&self, task: TaskId, run: RunId) -> Result<u64, Error> {
        let before = self.count_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task), Some(run)).await?;
        Ok(before.saturating_add(1).min(limits::LIST_SCAN_MAX as u64))
    }

    /// The runs of a session, newest first.
    #[boxed]
    pub async fn list_session_runs(
        &self,
        session: SessionId,
        query: &ListQuery,
    ) -> Result<ListPage<RunRow>, Error> {
        self.list_runs_of(rows::SESSION_RUNS, &rows::session_runs_prefix(session), query).await
    }

    /// The number of runs of a session, up to a limit.
    #[boxed]
    pub async fn count_session_runs(&self, session: SessionId) -> Result<u64, Error> {
        self.count_runs_of(rows::SESSION_RUNS, &rows::session_runs_prefix(session), None).await
    }

    /// The runs that retry, resume or continue a run, newest first.
    #[boxed]
    pub async fn list_successors(&self, run: RunId, query: &ListQuery) -> Result<ListPage<RunRow>, Error> {
        self.list_runs_of(rows::RUN_SUCCESSORS, &rows::within(run), query).await
    }

    /// The runs that an index names, newest first.
    pub(crate) async fn list_runs_of(
        &self,
        index: &str,
        prefix: &str,
        query: &ListQuery,
    ) -> Result<ListPage<RunRow>, Error> {
        let ListPage { items: listed, mut end } =
            self.list(index, prefix, query, |(): &()| String::new()).await?;
        let mut items = Vec::with_capacity(listed.len());
        for (id, ()) in listed {
            // A run that was erased after the index was read is skipped.
            items.extend(self.listed_row::<RunRow>(rows::RUNS, &rows::tenant_key(id), &mut end).await?);
        }
        Ok(ListPage { items, end })
    }

    async fn count_runs_of(&self, index: &str, prefix: &str, before: Option<RunId>) -> Result<u64, Error> {
        let after = before.map(|run| run.to_string());
        let query = ListQuery { after, limit: limits::LIST_SCAN_MAX, status: None };
        let listed = self.list(index, prefix, &query, |(): &()| String::new()).await?;
        Ok(listed.items.len() as u64)
    }

    /// The newest run of a task.
    #[boxed]
    pub async fn latest_run(&self, task: TaskId) -> Result<Option<RunRow>, Error> {
        let newest = ListQuery { limit: 1, ..ListQuery::default() };
        Ok(self.list_task_runs(task, &newest).await?.items.pop())
    }

    /// Own runs that have not ended. Before a performer is attached, these are from an earlier process.
    #[boxed]
    pub async fn unfinished(&self) -> Result<Vec<RunRow>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        while let Some(page) = own_open(self.ground().store(), &mut after).await? {
            for run in page {
                // The row of an unreadable run cannot be rebuilt; this is logged when the store is opened.
                found.extend(self.run(run).await.readable()?.whole().flatten());
            }
        }
        Ok(found)
    }
}

/// A page of the unfinished own runs; `None` after the last. Rows of unreadable runs are skipped.
pub(crate) async fn own_open(
    store: &dyn Store,
    after: &mut Option<Arc<str>>,
) -> Result<Option<Vec<RunId>>, Error> {
    let range = RowRange { after: after.take(), ..RowRange::first(rows::OWN_OPEN, "", limits::TIMER_PAGE) };
    let page = store.whole_rows(range).await?.rows;
    let Some(last) = page.last() else { return Ok(None) };
    *after = Some(last.key.clone());
    let runs = page.iter().map(|row| rows::run_in_key(rows::OWN_OPEN, &row.key, ""));
    runs.collect::<Result<_, _>>().map(Some)
}
