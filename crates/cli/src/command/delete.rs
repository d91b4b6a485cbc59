//! `recount delete TASK`: erases the runs of a task, for good.

use clap::Args;

use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::render::{clean, list};

/// Delete a task and erase its runs
#[derive(Args)]
pub(super) struct Delete {
    /// Id of the task
    task: String,
    /// Confirm the deletion, which cannot be undone
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        if !self.yes {
            let task = asking.client.get_task(&self.task).await?;
            let runs = list::count_of_runs(task.runs);
            return Err(Failure::Usage(format!(
                "{} has {runs}, which would be erased permanently; confirm with --yes",
                task.id
            )));
        }
        let deleted = asking.client.delete_task(&self.task).await?;
        if asking.json {
            return asking.out.value(&deleted);
        }
        let runs = list::count_of_runs(deleted.runs);
        asking.out.line(&clean::line(&format!("{} deleted, {runs} erased", deleted.task_id)))
    }
}
