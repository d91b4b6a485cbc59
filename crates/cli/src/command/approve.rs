//! `recount approve` and `recount deny`: answer a request for permission. The first valid answer wins.

use clap::Args;
use recount_client::request::{ResolveApproval, Verdict};

use super::Asking;
use crate::exit::Failure;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Answer {
    /// The approval's id; recount show RUN tells it
    approval: String,
    /// Words for the account
    #[arg(long)]
    comment: Option<String>,
}

impl Answer {
    pub(super) async fn run(self, mut asking: Asking, decision: Verdict) -> Result<(), Failure> {
        let answer = ResolveApproval { decision, comment: self.comment };
        let approval = asking.client.resolve_approval(&self.approval, &answer).await?;
        if asking.json {
            return asking.out.value(&approval);
        }
        asking.out.line(&clean::line(&format!("{} {}", approval.id, approval.status)))
    }
}
