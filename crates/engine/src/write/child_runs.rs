//! Starts a child run in its own task, under an id that the log of the parent already has.
//!
//! So a run is started once, even if the call is repeated after a crash. It must not know why a run starts another.
//! Start with [`WriteHandle::start_child`].

use recount_event::RunId;
use recount_event::family::run::Queued;

use crate::boxed;
use crate::write::handle::WriteHandle;
use crate::{Error, NewRun, NewTask};

impl WriteHandle {
    /// Starts the run, unless the id exists. Its first event is durable when this returns.
    #[boxed]
    pub async fn start_child(&self, run: RunId, task: NewTask, mut queued: Queued) -> Result<(), Error> {
        if self.read().tail(run).await?.is_some() {
            return Ok(());
        }
        let (row, rows) = self.new_task(task);
        (queued.task_budget_micros_usd, queued.task_budget_tokens) =
            (row.budget_micros_usd, row.budget_tokens);
        let new = NewRun { queued, task: Some(row.id), session: None, resumed_from: None };
        self.queue(Some(run), new, rows, None).await.map(drop)
    }
}
