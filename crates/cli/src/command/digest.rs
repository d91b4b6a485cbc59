//! `recount digest RUN`: what a run's bytes add up to, to be noted elsewhere.

use clap::Args;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use super::reach;
use crate::failure::Failure;
use crate::render::clean;

/// Print a run's digest: run, events, head
#[derive(Args)]
pub(super) struct Digest {
    /// Id of the run
    run: String,
    /// Print the signed head, as one line of JSON: at the end of the run it was signed by the server
    #[arg(long)]
    signed: bool,
}

impl Digest {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        reach::ask(invocation, |asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let run = ids::full(&asking.client, IdKind::Run, &self.run).await?;
        let digest = asking.client.get_run_digest(&run).await?;
        if self.signed {
            let Some(signed) = &digest.signed else {
                return Err(Failure::Refused(format!("the server has no signed head of {run}")));
            };
            return asking.out.value(signed);
        }
        if asking.json {
            return asking.out.value(&digest);
        }
        asking.out.line(&clean::line(&format!("{} {} {}", digest.run_id, digest.events, digest.head)))
    }
}
