//! Tasks: what operators asked for, and what may be spent on them.
//!
//! A budget holds for all runs of a task together and is only ever raised. A run of ours is queued with what its task
//! may spend and what earlier runs have spent ([`WriteHandle::queue`] asks [`WriteHandle::charge`]), so that its own log is
//! enough to keep to it. Which run a task is busy with, and that there is one at most, is in `engine`.

use recount_event::family::run::{Driver, Queued};
use recount_event::{Code, RunId, TaskId, time};
use recount_log::{Append, AppendError, Guard, RowPut};

use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::{Budget, Error, Made, NewRun, Once, TaskRow, limits};

/// A task to be.
#[derive(Debug, Clone, Default)]
pub struct NewTask {
    pub title: Option<String>,
    pub budget_micros_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
}

/// What is to change of a task. What is missing stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Raise {
    pub title: Option<String>,
    pub budget_micros_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
}

impl WriteHandle {
    /// Creates a task, and its first run when one is given.
    #[boxed]
    pub async fn create_task(
        &self,
        title: Option<String>,
        first_run: Option<Queued>,
    ) -> Result<(TaskRow, Option<RunId>), Error> {
        self.create_task_once(NewTask { title, ..NewTask::default() }, first_run, None).await
    }

    /// The same with a budget, for a request that is to be done once.
    #[boxed]
    pub async fn create_task_once(
        &self,
        new: NewTask,
        first_run: Option<Queued>,
        once: Option<&Once>,
    ) -> Result<(TaskRow, Option<RunId>), Error> {
        let (row, mut made) = self.new_task(new);
        let task = row.id;
        made.extend(once.into_iter().flat_map(|once| self.made_once(once, Made::Task(task))));
        match first_run {
            Some(mut queued) => {
                if queued.driver == Driver::Own {
                    (queued.task_budget_micros_usd, queued.task_budget_tokens) =
                        (row.budget_micros_usd, row.budget_tokens);
                }
                let new = NewRun { queued, task: Some(task), session: None, resumed_from: None };
                let (run, _) = self.queue(new, made, None).await?;
                Ok((row, Some(run)))
            }
            None => {
                let append = Append { rows: made, ..Append::default() };
                self.ground().store().append(append).await?;
                Ok((row, None))
            }
        }
    }

    /// A task to be, and the rows that make it.
    pub(crate) fn new_task(&self, new: NewTask) -> (TaskRow, Vec<RowPut>) {
        let stamp = self.ground().stamp();
        let row = TaskRow {
            id: TaskId::new(self.ground().mint(stamp)),
            title: new.title.map(|title| self.redactor().text(&title).into_owned()),
            created_at: time::format_ms(stamp.now_ms),
            budget_micros_usd: new.budget_micros_usd,
            budget_tokens: new.budget_tokens,
        };
        let made = vec![rows::put(rows::TASKS, rows::tenant_key(row.id), Guard::Absent, &row)];
        (row, made)
    }

    /// Gives a task another title, or more to spend. A budget that is there is only raised; one that is not may be
    /// set, which bounds what was not bounded.
    #[boxed]
    pub async fn change_task(&self, task: TaskId, raise: Raise) -> Result<TaskRow, Error> {
        let key = rows::tenant_key(task);
        for _ in 0..limits::QUEUE_TRIES {
            let Some(found) = self.ground().store().row(rows::TASKS, &key).await? else {
                return Err(self.catalogue().missing_task(task).await);
            };
            let mut row: TaskRow = read_row(rows::TASKS, &found.key, &found.value)?;
            let before = row.clone();
            if let Some(title) = &raise.title {
                row.title = Some(self.redactor().text(title).into_owned());
            }
            row.budget_micros_usd =
                raised("budget_micros_usd", row.budget_micros_usd, raise.budget_micros_usd)?;
            row.budget_tokens = raised("budget_tokens", row.budget_tokens, raise.budget_tokens)?;
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

    /// Fills in what a run of ours may spend of its task's budget. The row that comes with it lets the run be queued
    /// only while the task stays as it was looked at: no other run was queued meanwhile, and no budget raised.
    pub(crate) async fn charge(&self, new: &mut NewRun) -> Result<Option<RowPut>, Error> {
        let Some(task) = new.task.filter(|_| new.queued.driver == Driver::Own) else { return Ok(None) };
        let key = rows::tenant_key(task);
        // A task that is made in the same append has spent nothing, and is part of the request.
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
        // Where nothing came before, nothing is said of it.
        let some = |number: u64| latest.as_ref().map(|_| number);
        let queued = &mut new.queued;
        queued.task_budget_micros_usd = spent.micros_usd;
        queued.task_budget_tokens = spent.tokens;
        queued.prior_cost_micros_usd = some(spent.spent_micros_usd);
        queued.prior_input_tokens = some(spent.input_tokens);
        queued.prior_output_tokens = some(spent.output_tokens);
        queued.budget_warned = spent.warned.then_some(true);
        if let Some(latest) = latest {
            // The last run is known by its id, so the next one must have a later one.
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
