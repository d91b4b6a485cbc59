//! `recount pin RUN` and `recount unpin RUN`: whether a run may be pruned.

use clap::Args;

use super::Asking;
use crate::exit::Failure;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Pin {
    /// The run's id
    run: String,
}

impl Pin {
    pub(super) async fn run(self, mut asking: Asking, pin: bool) -> Result<(), Failure> {
        let (run, word) = if pin {
            (asking.client.pin_run(&self.run).await?, "pinned")
        } else {
            (asking.client.unpin_run(&self.run).await?, "not pinned")
        };
        if asking.json {
            return asking.out.value(&run);
        }
        asking.out.line(&clean::line(&format!("{} {word}", run.id)))
    }
}
