//! `recount cancel RUN`: stops a run.

use clap::Args;
use recount_client::request;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::render::clean;

/// Cancel a run
#[derive(Args)]
pub(super) struct Cancel {
    /// Id of the run
    run: String,
    /// Reason to record in the run
    #[arg(long)]
    reason: Option<String>,
}

impl Cancel {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let run = ids::full(&asking.client, IdKind::Run, &self.run).await?;
        let run = asking.client.cancel_run(&run, &request::Cancel { reason: self.reason }).await?;
        if asking.json {
            return asking.out.value(&run);
        }
        asking.out.line(&clean::line(&format!("{} {}", run.id, run.status)))
    }
}
