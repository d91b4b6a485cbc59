//! Reads everything that is stored, through the servers. It must not know what was acknowledged. See [`StoredLog::read`].

use std::collections::BTreeMap;

use recount_client::Listing;

use super::load::insist;
use super::tenant::Tenant;

/// The largest pages of lists, and of events.
const LIST_PAGE: usize = 200;
const PAGE: usize = 1_000;

/// All events, by position and by run.
pub(super) struct StoredLog {
    pub(super) feed: Vec<String>,
    pub(super) runs: BTreeMap<String, Vec<String>>,
    /// Titles of all runs.
    pub(super) titles: Vec<String>,
}

impl StoredLog {
    /// Reads everything. `None`: a guarantee was broken.
    pub(super) async fn read(tenant: &Tenant) -> Option<StoredLog> {
        let mut runs = BTreeMap::new();
        let mut titles = Vec::new();
        let mut listing = Listing { limit: Some(LIST_PAGE), ..Listing::default() };
        loop {
            let page = insist(tenant, async |client| client.list_runs(&listing).await).await?;
            for run in page.data {
                titles.extend(run.title);
                runs.insert(run.id, Vec::new());
            }
            listing.after = page.next.filter(|_| page.has_more);
            if listing.after.is_none() {
                break;
            }
        }
        for (run, events) in &mut runs {
            read_pages(tenant, Some(run), events).await?;
        }
        let mut feed = Vec::new();
        read_pages(tenant, None, &mut feed).await?;
        Some(StoredLog { feed, runs, titles })
    }
}

/// Reads a run or the feed. Positions begin with 1, sequences with 0, and neither has a gap.
async fn read_pages(tenant: &Tenant, run: Option<&String>, events: &mut Vec<String>) -> Option<()> {
    let first = u64::from(run.is_none());
    loop {
        let after = (events.len() as u64 + first).checked_sub(1).filter(|_| !events.is_empty());
        let page = insist(tenant, async |client| match run {
            Some(run) => client.read_run_events(run, after, Some(PAGE)).await,
            None => client.read_feed(after, Some(PAGE)).await,
        });
        let page = page.await?;
        events.extend(page.data.iter().map(|envelope| envelope.get().to_owned()));
        let name = run.map_or("the feed", String::as_str);
        if let Some(gap) = page.gap {
            tenant.broke(format!("{name} has a gap: {gap:?}"));
            return None;
        }
        let last = (events.len() as u64 + first).wrapping_sub(1);
        if let Some(next) = page.next.and_then(|next| next.as_u64()).filter(|_| page.has_more)
            && next != last
        {
            tenant.broke(format!("{name} has {} events up to number {next}", events.len()));
            return None;
        }
        if !page.has_more {
            return Some(());
        }
    }
}
