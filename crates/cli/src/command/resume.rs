//! `recount resume RUN`: a new run that goes on from a checkpoint of an ended one.

use clap::Args;
use recount_client::request::ResumeRun;

use super::invocation::Invocation;
use super::lineage::Follow;
use crate::failure::Failure;

/// Resume an ended run from a checkpoint, in a new run, and follow it
#[derive(Args)]
pub(super) struct Resume {
    /// Id of the run
    run: String,
    /// Checkpoint to branch from, as recount show prints it; default: the last one
    #[arg(long, value_name = "ID")]
    checkpoint: Option<String>,
    #[command(flatten)]
    follow: Follow,
}

impl Resume {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Resume { run, checkpoint, follow } = self;
        let request =
            ResumeRun { checkpoint_id: checkpoint, model: follow.model.clone(), ..ResumeRun::default() };
        follow.run(invocation, async move |client| client.resume_run(&run, &request).await)
    }
}
