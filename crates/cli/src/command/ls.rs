//! `recount ls`: runs or tasks, newest first.

use std::collections::BTreeSet;

use clap::Args;
use recount_client::query::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use recount_client::reply::Page;
use recount_client::{ClientError, Listing};
use serde::Serialize;

use super::invocation::{Asking, Invocation};
use crate::exit::Failure;
use crate::output::note;
use crate::render::{clean, list};

/// List runs or tasks, newest first
#[derive(Args)]
pub(super) struct Ls {
    /// List tasks
    #[arg(long)]
    tasks: bool,
    /// Only those with this status, such as running, waiting or failed
    #[arg(long)]
    status: Option<String>,
    /// Only those that wait for somebody's answer
    #[arg(long)]
    needs_attention: bool,
    /// Only runs of this kind, such as external
    #[arg(long, conflicts_with = "tasks")]
    kind: Option<String>,
    /// Only those with this in their title or message
    #[arg(long)]
    text: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = LIST_LIMIT_DEFAULT)]
    limit: usize,
    /// Only those that follow this one in the list, which a list that is not whole names at its end
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
    found: &Found<T>,
    lines: fn(&[T]) -> Vec<String>,
) -> Result<(), Failure> {
    asking.things(&found.things, lines)?;
    if let Some(next) = &found.next {
        note(&format!("there are more; --limit N lists more, --after {next} lists what follows"));
    }
    Ok(())
}

/// A part of a list, and the cursor of what follows if there is more.
struct Found<T> {
    things: Vec<T>,
    next: Option<String>,
}

/// Page after page until so many things were found, or there are no more.
pub(crate) async fn gather<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    count_max: usize,
    status: Option<String>,
) -> Result<Vec<T>, Failure> {
    let wanted = Listing { status, ..Listing::default() };
    Ok(collect(fetch, None, count_max, &wanted).await?.things)
}

/// The same from behind `after`, and whether there is more.
async fn collect<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    after: Option<String>,
    count_max: usize,
    wanted: &Listing,
) -> Result<Found<T>, Failure> {
    let mut found = Found { things: Vec::new(), next: None };
    let mut damaged = BTreeSet::new();
    let mut after = after.map(serde_json::Value::String);
    while found.things.len() < count_max {
        let limit = Some((count_max - found.things.len()).clamp(1, LIST_LIMIT_MAX));
        let page = fetch(Listing { after: after.clone(), limit, ..wanted.clone() }).await?;
        for row in page.damaged.iter().filter(|row| damaged.insert((*row).clone())) {
            note(&format!("not listed, because it is damaged: {}", clean::line(row)));
        }
        let stuck = page.next == after;
        found.things.extend(page.data);
        found.next = match page.next.as_ref().filter(|_| page.has_more) {
            Some(serde_json::Value::String(next)) => Some(next.clone()),
            Some(other) => Some(other.to_string()),
            None => None,
        };
        if !page.has_more {
            break;
        }
        if stuck {
            return Err(Failure::Protocol("a list does not move on".to_owned()));
        }
        after = page.next;
    }
    found.things.truncate(count_max);
    Ok(found)
}
