//! `recount retry RUN`: the same request once more, from the beginning or from a turn.

use clap::Args;
use recount_client::request::{RetryRun, RetryRunFromTurn};

use super::invocation::Invocation;
use super::lineage::Follow;
use crate::failure::Failure;

/// Repeat an ended run as a new run, and follow it
#[derive(Args)]
pub(super) struct Retry {
    /// Id of the run
    run: String,
    /// Keep everything before turn N and call the model again from there; recount show prints the turns
    #[arg(long, value_name = "N")]
    from_turn: Option<u64>,
    #[command(flatten)]
    follow: Follow,
}

impl Retry {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Retry { run, from_turn, follow } = self;
        let model = follow.model.clone();
        follow.run(invocation, async move |client| match from_turn {
            None => client.retry_run(&run, &RetryRun { model }).await,
            Some(turn_index) => {
                let request = RetryRunFromTurn { turn_index, model, ..RetryRunFromTurn::default() };
                client.retry_run_from_turn(&run, &request).await
            }
        })
    }
}
