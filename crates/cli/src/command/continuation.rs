//! `recount continue RUN PROMPT`: a new prompt after an ended run.

use clap::Args;
use recount_client::request::ContinueRun;

use super::invocation::Invocation;
use super::lineage::Follow;
use crate::failure::Failure;

/// Continue an ended run with a new prompt, in a new run, and follow it
#[derive(Args)]
pub(super) struct Continue {
    /// Id of the run
    run: String,
    /// What the agent is to do next
    #[arg(required = true)]
    prompt: Vec<String>,
    #[command(flatten)]
    follow: Follow,
}

impl Continue {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Continue { run, prompt, follow } = self;
        let request =
            ContinueRun { prompt: prompt.join(" "), model: follow.model.clone(), ..ContinueRun::default() };
        follow.run(invocation, async move |client| client.continue_run(&run, &request).await)
    }
}
