//! Tasks and their budgets.
//!
//! A budget applies to all runs of a task together and can only be raised. An own run is queued with the budget and
//! the usage of earlier runs ([`WriteHandle::queue`] calls [`WriteHandle::charge`]), so that its own log is enough to
//! keep the budget. The append that starts a run ensures that a task has one active run.

use recount_event::family::run::{Driver, Queued};
use recount_event::{Code, RunId, TaskId, time};
use recount_log::{Append, AppendError, Guard, RowPut};

use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::{Budget, Error, IdempotencyKey, NewRun, RequestResult, TaskRow, limits};

/// A task to create.
#[derive(Debug, Clone, Default)]
pub struct NewTask {
    pub title: Option<String>,
    pub budget_micros_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
}

/// Changes of a task. Missing fields do not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskChange {
    pub title: Option<String>,
    pub budget_micros_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
}

impl WriteHandle {
    /// Creates a task, and its first run if given.
    #[boxed]
    pub async fn create_task(
        &self,
        title: Option<String>,
        first_run: Option<Queued>,
    ) -> Result<(TaskRow, Option<RunId>), Error> {
        self.create_task_keyed(NewTask { title, ..NewTask::default() }, first_run, None).await
    }

    /// The same with a budget, for a request with an idempotency key. It stores the first run, or a task without runs.
    #[boxed]
    pub async fn create_task_keyed(
        &self,
        new: NewTask,
        first_run: Option<Queued>,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<(TaskRow, Option<RunId>), Error> {
        let (row, mut rows) = self.new_task(new);
        let task = row.id;
        match first_run {
            Some(mut queued) => {
                if queued.driver == Driver::Own {
                    (queued.task_budget_micros_usd, queued.task_budget_tokens) =
                        (row.budget_micros_usd, row.budget_tokens);
                }
                let new = NewRun { queued, task: Some(task), session: None, resumed_from: None };
                let (run, _) = self.queue(None, new, rows, idempotency).await?;
                Ok((row, Some(run)))
            }
            None => {
                rows.extend(self.result_rows(idempotency, RequestResult::Task(task)));
                let append = Append { rows, ..Append::default() };
                self.ground().store().append(append).await?;
                Ok((row, None))
            }
        }
    }

    /// A new task and the rows that create it.
    pub(crate) fn new_task(&self, new: NewTask) -> (TaskRow, Vec<RowPut>) {
        let stamp = self.ground().stamp();
        let row = TaskRow {
            id: TaskId::new(self.ground().mint(stamp)),
            title: new.title.map(|title| self.redactor().text(&title).into_owned()),
            created_at: time::format_ms(stamp.now_ms),
            budget_micros_usd: new.budget_micros_usd,
            budget_tokens: new.budget_tokens,
        };
        let rows = vec![rows::put(rows::TASKS, rows::tenant_key(row.id), Guard::Absent, &row)];
        (row, rows)
    }

    /// Changes the title of a task or raises its budget. A missing budget can be set.
    #[boxed]
    pub async fn change_task(&self, task: TaskId, change: TaskChange) -> Result<TaskRow, Error> {
        let key = rows::tenant_key(task);
        for _ in 0..limits::QUEUE_TRIES {
            let Some(found) = self.ground().store().row(rows::TASKS, &key).await? else {
                return Err(self.catalogue().missing_task(task).await);
            };
            let mut row: TaskRow = read_row(rows::TASKS, &found.key, &found.value)?;
            let before = row.clone();
            if let Some(title) = &change.title {
                row.title = Some(self.redactor().text(title).into_owned());
            }
            row.budget_micros_usd =
                raised("budget_micros_usd", row.budget_micros_usd, change.budget_micros_usd)?;
            row.budget_tokens = raised("budget_tokens", row.budget_tokens, change.budget_tokens)?;
            if row == before {
                return Ok(row);
            }
            let rows = vec![rows::put(rows::TASKS, key.as_str(), Guard::Version(found.version), &row)];
            match self.ground().store().append(Append { rows, ..Append::default() }).await {
                Ok(_) => return Ok(row),
                // Another client changed it, or a run was queued for it.
                Err(AppendError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::too_many_at_once(&format!("task {task}")))
    }

    /// Fills in the budget of an own run. The returned row makes the append fail if the task changes meanwhile, by
    /// another run or a raised budget.
    pub(crate) async fn charge(&self, new: &mut NewRun) -> Result<Option<RowPut>, Error> {
        let Some(task) = new.task.filter(|_| new.queued.driver == Driver::Own) else { return Ok(None) };
        let key = rows::tenant_key(task);
        // A task that is created in the same append has no usage, and its budget is part of the request.
        let Some(found) = self.ground().store().row(rows::TASKS, &key).await? else { return Ok(None) };
        let row: TaskRow = read_row(rows::TASKS, &found.key, &found.value)?;
        let latest = self.catalogue().latest_run(task).await?;
        if let Some(active) = latest.as_ref().filter(|run| !run.has_ended()) {
            let message = format!(
                "task {task} already has the active run {}; wait for it to end or cancel it",
                active.id
            );
            return Err(Error::rejected(Code::TaskBusy, message));
        }
        let spent = Budget::of(&row, latest.as_ref());
        // Without an earlier run, the usage is left out.
        let some = |number: u64| latest.as_ref().map(|_| number);
        let queued = &mut new.queued;
        queued.task_budget_micros_usd = spent.micros_usd;
        queued.task_budget_tokens = spent.tokens;
        queued.prior_cost_micros_usd = some(spent.spent_micros_usd);
        queued.prior_input_tokens = some(spent.input_tokens);
        queued.prior_output_tokens = some(spent.output_tokens);
        queued.budget_warned = spent.warned.then_some(true);
        if let Some(latest) = latest {
            // The latest run is found by its id, so the next run needs a greater id.
            self.ground().mint_after(latest.id.ulid());
            queued.prior_run_id.get_or_insert(latest.id.to_string());
        }
        Ok(Some(rows::put(rows::TASKS, key, Guard::Version(found.version), &row)))
    }
}

fn raised(name: &str, is: Option<u64>, wanted: Option<u64>) -> Result<Option<u64>, Error> {
    match (is, wanted) {
        (Some(is), Some(wanted)) if wanted < is => Err(Error::rejected(
            Code::BudgetNotRaised,
            format!("{name} is {is} and cannot be lowered to {wanted}; a budget can only be raised"),
        )),
        (is, wanted) => Ok(wanted.or(is)),
    }
}
