//! `recount ls`: runs or tasks, newest first.

use clap::Args;
use recount_client::Listing;
use recount_client::query::LIST_LIMIT_DEFAULT;
use recount_client::reply::Page;
use serde::Serialize;

use super::invocation::{Asking, Invocation};
use super::{reach, today};
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
    /// Only runs that failed
    #[arg(long, conflicts_with_all = ["status", "tasks"])]
    failed: bool,
    /// Only runs created since: a duration such as 12h or 7d, a date, or a time; without an offset it is in UTC
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
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
        reach::ask(invocation, |asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        let now = today::now()?;
        let since = self.since.as_deref().map(|since| today::beginning(since, now)).transpose();
        let since = since.map_err(Failure::Usage)?.map(today::written);
        let filter = Listing {
            status: if self.failed { Some("failed".to_owned()) } else { self.status },
            kind: self.kind,
            needs_attention: self.needs_attention.then_some(true),
            text: self.text,
            agent: self.agent,
            ..Listing::default()
        };
        let is_filtered = filter.status.is_some()
            || filter.kind.is_some()
            || filter.needs_attention.is_some()
            || filter.text.is_some()
            || filter.agent.is_some()
            || since.is_some();
        let none = match (self.after.is_some(), is_filtered, self.tasks) {
            (true, _, true) => "no more tasks",
            (true, _, false) => "no more runs",
            (_, true, true) => "no matching tasks; without filters, recount ls --tasks lists all",
            (_, true, false) => "no matching runs; without filters, recount ls lists all",
            (_, _, true) => "no tasks; recount run --budget USD creates one",
            (_, _, false) => "no runs; recount run starts one, recount demo shows an example",
        };
        if self.tasks {
            let fetch = async |listing: Listing| {
                Ok(not_before(client.list_tasks(&listing).await?, since.as_deref(), |task| &task.created_at))
            };
            let tasks = collect(fetch, self.after, self.limit, &filter).await?;
            print(&mut asking, &tasks, list::tasks, none)
        } else {
            let fetch = async |listing: Listing| {
                Ok(not_before(client.list_runs(&listing).await?, since.as_deref(), |run| &run.created_at))
            };
            let runs = collect(fetch, self.after, self.limit, &filter).await?;
            print(&mut asking, &runs, |runs| list::runs(runs, now), none)
        }
    }
}

/// A page of a list, newest first, up to the first that is older.
fn not_before<T>(mut page: Page<T>, since: Option<&str>, created_at: fn(&T) -> &String) -> Page<T> {
    let Some(since) = since else { return page };
    if let Some(older) = page.data.iter().position(|one| created_at(one).as_str() < since) {
        page.data.truncate(older);
        (page.has_more, page.next) = (false, None);
    }
    page
}

fn print<T: Serialize>(
    asking: &mut Asking,
    found: &ListPart<T>,
    lines: impl FnOnce(&[T]) -> Vec<String>,
    none: &str,
) -> Result<(), Failure> {
    asking.print_items(&found.items, lines, none)?;
    if let Some(next) = &found.next {
        note(&format!("there are more; use --limit N, or --after {next} to continue"));
    }
    Ok(())
}
