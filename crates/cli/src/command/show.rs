//! `recount show RUN`: the account of a run as it stands.

use clap::Args;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use super::{apply, lineage, reach, tail};
use crate::failure::Failure;
use crate::render::Account;

/// Show a run's events, one per line
#[derive(Args)]
pub(super) struct Show {
    /// Id of the run
    run: String,
    /// Show each piece of streamed text, and never shorten text
    #[arg(long)]
    all: bool,
}

impl Show {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        reach::ask(invocation, |asking| self.ask(asking))
    }

    async fn ask(mut self, mut asking: Asking) -> Result<(), Failure> {
        self.run = ids::full(&asking.client, IdKind::Run, &self.run).await?;
        let mut account = Account::of_run(self.all);
        let mut after = None;
        loop {
            let page = asking.client.read_run_events(&self.run, after, None).await?;
            if let Some(gap) = &page.gap {
                tail::print_gap(&mut asking, gap)?;
            }
            for envelope in &page.data {
                tail::print_event(&mut asking, &mut account, envelope.get())?;
            }
            if !page.has_more {
                break;
            }
            let next = page.next.as_ref().and_then(serde_json::Value::as_u64);
            if next.is_none() || next == after {
                return Err(Failure::Protocol(
                    "the server returned an event page that does not advance past its cursor".to_owned(),
                ));
            }
            after = next;
        }
        tail::finish(&mut asking, &mut account)?;
        if !asking.json {
            lineage::report_lineage(&asking.client, &self.run).await;
            apply::report_changes(&asking.client, &self.run, "").await;
        }
        Ok(())
    }
}
