//! `recount digest RUN`: what a run's bytes add up to, to be noted elsewhere.

use clap::Args;

use super::Asking;
use crate::exit::Failure;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Digest {
    /// The run's id
    run: String,
}

impl Digest {
    pub(super) async fn run(self, mut asking: Asking) -> Result<(), Failure> {
        let digest = asking.client.get_run_digest(&self.run).await?;
        if asking.json {
            return asking.out.value(&digest);
        }
        asking.out.line(&clean::line(&format!("{} {} {}", digest.run_id, digest.events, digest.head)))
    }
}
