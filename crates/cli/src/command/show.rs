//! `recount show RUN`: the account of a run as it stands.

use clap::Args;
use recount_client::reply::Gap;

use super::invocation::{Asking, Invocation};
use super::{apply, lineage, tail};
use crate::failure::Failure;
use crate::render::Account;

/// Show a run's events, one a line
#[derive(Args)]
pub(super) struct Show {
    /// Id of the run
    run: String,
    /// Show streamed text piece by piece, and never shorten text
    #[arg(long)]
    all: bool,
}

impl Show {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let mut account = Account::of_run(self.all);
        let mut after = None;
        loop {
            let page = asking.client.read_run_events(&self.run, after, None).await?;
            if let Some(gap) = page.gap {
                match gap {
                    Gap::Pruned { first_pruned_sequence, last_pruned_sequence } => {
                        tail::tell_gap(&mut asking, first_pruned_sequence, last_pruned_sequence)?;
                    }
                    Gap::Damaged(damaged) => tail::tell_damage(&mut asking, &damaged)?,
                }
            }
            for envelope in &page.data {
                tail::tell(&mut asking, &mut account, envelope.get())?;
            }
            if !page.has_more {
                break;
            }
            let next = page.next.as_ref().and_then(serde_json::Value::as_u64);
            if next.is_none() || next == after {
                return Err(Failure::Protocol(
                    "the server's event pages do not advance past their cursor".to_owned(),
                ));
            }
            after = next;
        }
        tail::finish(&mut asking, &mut account)?;
        if !asking.json {
            lineage::tell(&asking.client, &self.run).await;
            apply::tell_where(&asking.client, &self.run, "").await;
        }
        Ok(())
    }
}
