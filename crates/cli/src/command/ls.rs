//! `recount ls`: runs or tasks, newest first.

use clap::Args;
use recount_client::query::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use recount_client::reply::Page;
use recount_client::{ClientError, Listing};
use serde::Serialize;

use super::Asking;
use crate::exit::Failure;
use crate::render::list;

#[derive(Args)]
pub(super) struct Ls {
    /// List tasks
    #[arg(long)]
    tasks: bool,
    /// Only those with this status, such as running, waiting or failed
    #[arg(long)]
    status: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = LIST_LIMIT_DEFAULT)]
    limit: usize,
}

impl Ls {
    pub(super) async fn run(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        if self.tasks {
            let fetch = async |listing: Listing| client.list_tasks(&listing).await;
            let tasks = gather(fetch, self.limit, self.status).await?;
            print(&mut asking, &tasks, list::tasks)
        } else {
            let fetch = async |listing: Listing| client.list_runs(&listing).await;
            let runs = gather(fetch, self.limit, self.status).await?;
            print(&mut asking, &runs, list::runs)
        }
    }
}

fn print<T: Serialize>(
    asking: &mut Asking,
    things: &[T],
    lines: fn(&[T]) -> Vec<String>,
) -> Result<(), Failure> {
    if asking.json {
        return things.iter().try_for_each(|thing| asking.out.value(thing));
    }
    asking.out.lines(&lines(things))
}

/// Page after page until so many things were found, or there are no more.
pub(crate) async fn gather<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    count_max: usize,
    status: Option<String>,
) -> Result<Vec<T>, Failure> {
    let mut found = Vec::new();
    let mut after = None;
    while found.len() < count_max {
        let limit = Some((count_max - found.len()).clamp(1, LIST_LIMIT_MAX));
        let page = fetch(Listing { after: after.clone(), limit, status: status.clone() }).await?;
        let stuck = page.next == after;
        found.extend(page.data);
        if !page.has_more {
            break;
        }
        if stuck {
            return Err(Failure::Protocol("a list does not move on".to_owned()));
        }
        after = page.next;
    }
    found.truncate(count_max);
    Ok(found)
}
