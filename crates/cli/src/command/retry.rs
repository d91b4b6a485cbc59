//! `recount retry RUN`: the same request once more, from the beginning or from a turn.

use clap::Args;
use recount_client::request::{RetryRun, RetryRunFromTurn};

use super::ids::{self, IdKind};
use super::invocation::Invocation;
use super::lineage::{Follow, choose_files};
use crate::failure::Failure;

/// Repeat an ended run as a new run, and follow it
#[derive(Args)]
pub(super) struct Retry {
    /// Id of the run
    run: String,
    /// Keep everything before turn N and call the model again from there; recount show prints the turns
    #[arg(long, value_name = "N")]
    from_turn: Option<u64>,
    /// Start with the files as they are now, in the folder of the ended run; default: the files as they were then, in a new
    /// copy
    #[arg(long, requires = "from_turn")]
    keep_files: bool,
    #[command(flatten)]
    follow: Follow,
}

impl Retry {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Retry { run, from_turn, keep_files, follow } = self;
        let model = follow.model.clone();
        follow.run(invocation, async move |client| {
            let run = ids::full(client, IdKind::Run, &run).await?;
            let Some(turn_index) = from_turn else {
                return Ok(client.retry_run(&run, &RetryRun { model }).await?);
            };
            let request = RetryRunFromTurn { turn_index, model, ..RetryRunFromTurn::default() };
            let retry = async |files| {
                client.retry_run_from_turn(&run, &RetryRunFromTurn { files, ..request.clone() }).await
            };
            choose_files(keep_files, retry).await
        })
    }
}
