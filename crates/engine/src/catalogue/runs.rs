//! Looking runs up and listing them: all, those of a task or a session, the active one, those that have not ended. It
//! reads rows and no events.

use std::sync::Arc;

use recount_event::{RunId, SessionId, TaskId};
use recount_log::{RowRange, Store};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;
use crate::{Error, ListQuery, Listed, Narrowing, RunRow, Whose, limits};

/// Which runs, or which tasks by their latest run, are wanted; where a part is missing it does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub status: Option<String>,
    pub kind: Option<String>,
    /// Whether a person must answer something before it can go on.
    pub needs_attention: Option<bool>,
    /// A part of a title or of a last message, in whatever case.
    pub text: Option<String>,
    /// The beginning of the agent's name, in whatever case.
    pub agent: Option<String>,
}

impl RunFilter {
    pub fn is_open(&self) -> bool {
        *self == RunFilter::default()
    }

    pub fn takes(&self, row: &RunRow) -> bool {
        self.takes_agent(row.agent_name.as_deref())
            && self.takes_what(
                &row.status,
                Some(&row.kind),
                !row.pending.is_empty(),
                &[&row.title, &row.message],
            )
    }

    /// Whether an agent's name begins with the wanted text.
    fn takes_agent(&self, name: Option<&str>) -> bool {
        self.agent.as_deref().is_none_or(|wanted| {
            name.is_some_and(|name| name.to_lowercase().starts_with(&wanted.to_lowercase()))
        })
    }

    /// The same of something that has a run or none.
    pub fn takes_what(
        &self,
        status: &str,
        kind: Option<&str>,
        needs_attention: bool,
        texts: &[&Option<String>],
    ) -> bool {
        let said = |part: &str| {
            let holds = |text: &String| text.to_lowercase().contains(part);
            texts.iter().any(|text| text.as_ref().is_some_and(holds))
        };
        self.status.as_deref().is_none_or(|wanted| wanted == status)
            && self.kind.as_deref().is_none_or(|wanted| Some(wanted) == kind)
            && self.needs_attention.is_none_or(|wanted| wanted == needs_attention)
            && self.text.as_ref().is_none_or(|part| said(&part.to_lowercase()))
    }
}

impl CatalogueHandle {
    #[boxed]
    pub async fn run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        self.row(rows::RUNS, &rows::tenant_key(run)).await
    }

    /// The run that a task, or a session, is busy with: of a session one of ours that has not ended.
    pub async fn active_run(&self, whose: impl Into<Whose>) -> Result<Option<RunId>, Error> {
        let (space, key) = match whose.into() {
            Whose::Task(task) => (rows::TASK_ACTIVE, task.to_string()),
            Whose::Session(session) => (rows::SESSION_ACTIVE, session.to_string()),
        };
        self.row(space, &key).await
    }

    /// Runs that a filter takes, newest first.
    #[boxed]
    pub async fn list_runs_of_interest(
        &self,
        query: &ListQuery,
        filter: &RunFilter,
        within: &Narrowing,
    ) -> Result<Listed<RunRow>, Error> {
        let admits = |row: &RunRow| within.admits(row.task_id, row.session_id);
        let is_filtered = !filter.is_open() || !within.is_none();
        let wants = |row: &RunRow| admits(row) && filter.takes(row);
        self.list_where(rows::RUNS, &rows::tenant_key(""), query, is_filtered, wants).await.map(Listed::from)
    }

    #[boxed]
    pub async fn list_runs(&self, query: &ListQuery) -> Result<Listed<RunRow>, Error> {
        let status = |row: &RunRow| row.status.clone();
        self.list(rows::RUNS, &rows::tenant_key(""), query, status).await.map(Listed::from)
    }

    /// The runs of a task, newest first.
    #[boxed]
    pub async fn list_task_runs(&self, task: TaskId, query: &ListQuery) -> Result<Listed<RunRow>, Error> {
        self.list_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task), query).await
    }

    /// How many runs a task has, counted up to a bound.
    #[boxed]
    pub async fn count_task_runs(&self, task: TaskId) -> Result<u64, Error> {
        self.count_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task)).await
    }

    /// The runs of a session, newest first.
    #[boxed]
    pub async fn list_session_runs(
        &self,
        session: SessionId,
        query: &ListQuery,
    ) -> Result<Listed<RunRow>, Error> {
        self.list_runs_of(rows::SESSION_RUNS, &rows::session_runs_prefix(session), query).await
    }

    /// How many runs a session has, counted up to a bound.
    #[boxed]
    pub async fn count_session_runs(&self, session: SessionId) -> Result<u64, Error> {
        self.count_runs_of(rows::SESSION_RUNS, &rows::session_runs_prefix(session)).await
    }

    /// The runs that retry, resume or continue a run, newest first.
    #[boxed]
    pub async fn list_successors(&self, run: RunId, query: &ListQuery) -> Result<Listed<RunRow>, Error> {
        self.list_runs_of(rows::RUN_SUCCESSORS, &rows::within(run), query).await
    }

    /// The runs that an index names, newest first.
    pub(crate) async fn list_runs_of(
        &self,
        index: &str,
        prefix: &str,
        query: &ListQuery,
    ) -> Result<Listed<RunRow>, Error> {
        let listed = self.list(index, prefix, query, |(): &()| String::new()).await?;
        let mut items = Vec::with_capacity(listed.items.len());
        let mut damaged = listed.damaged;
        for id in &listed.keys {
            let key = rows::tenant_key(id);
            // One that was erased since the list was read does not exist any more.
            items.extend(self.listed_row::<RunRow>(rows::RUNS, &key, &mut damaged).await?);
        }
        Ok(Listed { items, next: listed.next, has_more: listed.has_more, damaged })
    }

    pub(crate) async fn count_runs_of(&self, index: &str, prefix: &str) -> Result<u64, Error> {
        let query = ListQuery { limit: limits::LIST_SCAN_MAX, ..ListQuery::default() };
        let listed = self.list(index, prefix, &query, |(): &()| String::new()).await?;
        Ok(listed.items.len() as u64)
    }

    /// The run of a task that was made last.
    #[boxed]
    pub async fn latest_run(&self, task: TaskId) -> Result<Option<RunRow>, Error> {
        let newest = ListQuery { limit: 1, ..ListQuery::default() };
        Ok(self.list_task_runs(task, &newest).await?.items.pop())
    }

    /// Runs of our own that have not ended. Before a performer is attached, these are what an earlier process left.
    #[boxed]
    pub async fn unfinished(&self) -> Result<Vec<RunRow>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        while let Some(page) = own_open(self.ground().store(), &mut after).await? {
            for run in page {
                match self.run(run).await {
                    Ok(row) => found.extend(row),
                    // The row of a damaged run cannot be made again. That is logged when the store is opened.
                    Err(error) if error.is_damage() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(found)
    }
}

/// A page of the runs of our own that have not ended; `None` after the last. A row that is damaged still, because its run
/// is, is left out.
pub(crate) async fn own_open(
    store: &dyn Store,
    after: &mut Option<Arc<str>>,
) -> Result<Option<Vec<RunId>>, Error> {
    let range = RowRange {
        space: rows::OWN_OPEN.into(),
        prefix: "".into(),
        after: after.take(),
        backwards: false,
        limit: limits::TIMER_PAGE,
    };
    let page = store.whole_rows(range).await?.rows;
    let Some(last) = page.last() else { return Ok(None) };
    *after = Some(last.key.clone());
    let runs = page.iter().map(|row| rows::run_in_key(rows::OWN_OPEN, &row.key, ""));
    runs.collect::<Result<_, _>>().map(Some)
}
