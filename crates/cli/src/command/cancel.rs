//! `recount cancel RUN`: stops a run.

use clap::Args;
use recount_client::request;

use super::Asking;
use crate::exit::Failure;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Cancel {
    /// The run's id
    run: String,
    /// Why, in your words; it becomes part of the account
    #[arg(long)]
    reason: Option<String>,
}

impl Cancel {
    pub(super) async fn run(self, mut asking: Asking) -> Result<(), Failure> {
        let run = asking.client.cancel_run(&self.run, &request::Cancel { reason: self.reason }).await?;
        if asking.json {
            return asking.out.value(&run);
        }
        asking.out.line(&clean::line(&format!("{} {}", run.id, run.status)))
    }
}
