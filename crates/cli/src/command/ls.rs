//! `recount ls`: runs or tasks, newest first.

use clap::Args;
use recount_client::Listing;
use recount_client::query::LIST_LIMIT_DEFAULT;
use serde::Serialize;

use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::pages::{ListPart, collect};
use crate::render::list;

/// List runs or tasks, newest first
#[derive(Args)]
pub(super) struct Ls {
    /// List tasks
    #[arg(long)]
    tasks: bool,
    /// Only runs with this status, such as running, waiting or failed
    #[arg(long)]
    status: Option<String>,
    /// Only runs that wait for an answer
    #[arg(long)]
    needs_attention: bool,
    /// Only runs of this kind, such as external
    #[arg(long, conflicts_with = "tasks")]
    kind: Option<String>,
    /// Only runs of agents whose name begins with this, such as claude
    #[arg(long, value_name = "NAME", conflicts_with = "tasks")]
    agent: Option<String>,
    /// Only runs with this text in their title or message
    #[arg(long)]
    text: Option<String>,
    /// List at most N
    #[arg(long, value_name = "N", default_value_t = LIST_LIMIT_DEFAULT)]
    limit: usize,
    /// Continue after this cursor, which an incomplete list prints at its end
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Ls {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        let wanted = Listing {
            status: self.status,
            kind: self.kind,
            needs_attention: self.needs_attention.then_some(true),
            text: self.text,
            agent: self.agent,
            ..Listing::default()
        };
        if self.tasks {
            let fetch = async |listing: Listing| client.list_tasks(&listing).await;
            let tasks = collect(fetch, self.after, self.limit, &wanted).await?;
            print(&mut asking, &tasks, list::tasks)
        } else {
            let fetch = async |listing: Listing| client.list_runs(&listing).await;
            let runs = collect(fetch, self.after, self.limit, &wanted).await?;
            print(&mut asking, &runs, list::runs)
        }
    }
}

fn print<T: Serialize>(
    asking: &mut Asking,
    found: &ListPart<T>,
    lines: fn(&[T]) -> Vec<String>,
) -> Result<(), Failure> {
    asking.things(&found.things, lines)?;
    if let Some(next) = &found.next {
        note(&format!("more items exist: use --limit N, or --after {next} to continue"));
    }
    Ok(())
}
