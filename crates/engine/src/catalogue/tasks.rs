//! Tasks as rows, and their budgets. It changes nothing; see `write::tasks`.

use recount_event::TaskId;
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;
use crate::{Error, ListPage, ListQuery, RunRow};

/// A task record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    pub id: TaskId,
    pub title: Option<String>,
    pub created_at: String,
    /// The cost limit of all runs together, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    /// The token limit of all runs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
}

/// The budget of a task and its usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    pub micros_usd: Option<u64>,
    pub tokens: Option<u64>,
    pub spent_micros_usd: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Whether the warning was reported.
    pub warned: bool,
}

impl Budget {
    /// Combines the budget with the usage of the latest run, which includes earlier runs.
    pub fn of(row: &TaskRow, latest: Option<&RunRow>) -> Self {
        Budget {
            micros_usd: row.budget_micros_usd,
            tokens: row.budget_tokens,
            spent_micros_usd: latest.map_or(0, |run| run.cost_micros_usd),
            input_tokens: latest.map_or(0, |run| run.input_tokens),
            output_tokens: latest.map_or(0, |run| run.output_tokens),
            warned: latest.is_some_and(|run| run.budget_warned),
        }
    }

    pub fn tokens_used(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The remaining money, if it is limited.
    pub fn micros_usd_left(&self) -> Option<u64> {
        self.micros_usd.map(|budget| budget.saturating_sub(self.spent_micros_usd))
    }

    /// The remaining tokens, if they are limited.
    pub fn tokens_left(&self) -> Option<u64> {
        self.tokens.map(|budget| budget.saturating_sub(self.tokens_used()))
    }
}

impl CatalogueHandle {
    #[boxed]
    pub async fn task(&self, task: TaskId) -> Result<Option<TaskRow>, Error> {
        self.row(rows::TASKS, &rows::tenant_key(task)).await
    }

    /// A task that must exist. The error names why it is missing.
    #[boxed]
    pub async fn existing_task(&self, task: TaskId) -> Result<TaskRow, Error> {
        match self.task(task).await? {
            Some(row) => Ok(row),
            None => Err(self.missing_task(task).await),
        }
    }

    #[boxed]
    pub async fn list_tasks(&self, query: &ListQuery) -> Result<ListPage<TaskRow>, Error> {
        self.list(rows::TASKS, &rows::tenant_key(""), query, |_: &TaskRow| String::new())
            .await
            .map(ListPage::without_keys)
    }

    /// The budget of a task and its current usage.
    #[boxed]
    pub async fn task_budget(&self, task: TaskId) -> Result<Budget, Error> {
        let row = self.existing_task(task).await?;
        let latest = self.latest_run(task).await?;
        Ok(Budget::of(&row, latest.as_ref()))
    }
}
