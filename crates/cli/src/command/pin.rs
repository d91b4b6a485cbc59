//! `recount pin RUN` and `recount unpin RUN`: whether a run may be pruned.

use clap::Args;
use recount_client::reply::Run;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::render::clean;

/// Protect a run from pruning
#[derive(Args)]
pub(super) struct Pin {
    /// Id of the run
    run: String,
}

/// Allow a run to be pruned again
#[derive(Args)]
pub(super) struct Unpin {
    /// Id of the run
    run: String,
}

impl Pin {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(async |asking: Asking| {
            let run = ids::full(&asking.client, IdKind::Run, &self.run).await?;
            let run = asking.client.pin_run(&run).await?;
            show(asking, &run, "pinned")
        })
    }
}

impl Unpin {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(async |asking: Asking| {
            let run = ids::full(&asking.client, IdKind::Run, &self.run).await?;
            let run = asking.client.unpin_run(&run).await?;
            show(asking, &run, "not pinned")
        })
    }
}

fn show(mut asking: Asking, run: &Run, state: &str) -> Result<(), Failure> {
    if asking.json {
        return asking.out.value(run);
    }
    asking.out.line(&clean::line(&format!("{} {state}", run.id)))
}
