//! `recount resume RUN`: a new run that goes on from a checkpoint of an ended one, with the files of that checkpoint.

use clap::Args;
use recount_client::request::ResumeRun;

use super::ids::{self, IdKind};
use super::invocation::Invocation;
use super::lineage::{Follow, choose_files};
use crate::failure::Failure;

/// Resume an ended run from a checkpoint, in a new run, and follow it
#[derive(Args)]
pub(super) struct Resume {
    /// Id of the run
    run: String,
    /// Checkpoint to branch from, as recount show prints it; default: the last one
    #[arg(long, value_name = "ID")]
    checkpoint: Option<String>,
    /// Start with the files as they are now, in the folder of the ended run; default: the files as they were then, in a new
    /// copy
    #[arg(long)]
    keep_files: bool,
    #[command(flatten)]
    follow: Follow,
}

impl Resume {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Resume { run, checkpoint, keep_files, follow } = self;
        let request =
            ResumeRun { checkpoint_id: checkpoint, model: follow.model.clone(), ..ResumeRun::default() };
        follow.run(invocation, async move |client| {
            let run = ids::full(client, IdKind::Run, &run).await?;
            let resume = async |files| client.resume_run(&run, &ResumeRun { files, ..request.clone() }).await;
            choose_files(keep_files, resume).await
        })
    }
}
