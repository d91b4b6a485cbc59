//! `recount delete TASK|RUN`: erases the runs of a task, or one run without a task, for good.

use clap::Args;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::render::{clean, list};

/// Delete a task and erase its runs, or erase one run that belongs to no task and no session
#[derive(Args)]
pub(super) struct Delete {
    /// Id of the task or the run
    #[arg(value_name = "TASK|RUN")]
    subject: String,
    /// Confirm the deletion, which cannot be undone
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(mut self, asking: Asking) -> Result<(), Failure> {
        ids::named(&self.subject, self.yes)?;
        let mut is_run = self.subject.starts_with("run_") || self.subject == "last";
        let first = if is_run { IdKind::Run } else { IdKind::Task };
        let mut id = ids::full(&asking.client, first, &self.subject).await?;
        if !self.subject.starts_with("task_") && !is_run {
            let run = ids::full(&asking.client, IdKind::Run, &self.subject).await?;
            is_run = run != self.subject;
            if is_run && id != self.subject {
                return Err(Failure::Usage(format!(
                    "{:?} is the end of {id} and of {run}; give more of it",
                    clean::line(&self.subject)
                )));
            }
            if is_run {
                id = run;
            }
        }
        self.subject = id;
        match is_run {
            true => self.run_alone(asking).await,
            false => self.task(asking).await,
        }
    }

    async fn run_alone(self, mut asking: Asking) -> Result<(), Failure> {
        if !self.yes {
            let run = asking.client.get_run(&self.subject).await?;
            let title = list::title_within(run.title.as_deref(), list::TITLE_COLUMNS_MAX);
            return Err(Failure::Usage(format!(
                "{} ({title}) would be erased permanently; confirm with --yes",
                run.id
            )));
        }
        let deleted = asking.client.delete_run(&self.subject).await?;
        if asking.json {
            return asking.out.value(&deleted);
        }
        asking.out.line(&clean::line(&format!("{} erased", deleted.run_id)))
    }

    async fn task(self, mut asking: Asking) -> Result<(), Failure> {
        if !self.yes {
            let task = asking.client.get_task(&self.subject).await?;
            let runs = list::count_of_runs(task.runs);
            return Err(Failure::Usage(format!(
                "{} has {runs}, which would be erased permanently; confirm with --yes",
                task.id
            )));
        }
        let deleted = asking.client.delete_task(&self.subject).await?;
        if asking.json {
            return asking.out.value(&deleted);
        }
        let runs = list::count_of_runs(deleted.runs);
        asking.out.line(&clean::line(&format!("{} deleted, {runs} erased", deleted.task_id)))
    }
}
