//! `recount health`: checks that the server responds, for health checks of containers that have no other program.

use clap::Args;

use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::render::clean;

/// Check that the server responds
#[derive(Args)]
pub(super) struct HealthCheck {}

impl HealthCheck {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(check)
    }
}

async fn check(mut asking: Asking) -> Result<(), Failure> {
    let health = asking.client.health().await?;
    if asking.json {
        return asking.out.value(&health);
    }
    asking.out.line(&clean::line(&format!("{}: recount {}", health.status, health.version)))
}
