//! Lists of the server, read page by page. Look at [`collect`].

use std::collections::BTreeSet;

use recount_client::prompt::Prompt;
use recount_client::query::LIST_LIMIT_MAX;
use recount_client::reply::Page;
use recount_client::{Client, ClientError, Listing};

use crate::failure::Failure;
use crate::output::note;
use crate::render::clean;

/// A part of a list, and the cursor of the next part if there is one.
pub(crate) struct ListPart<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// Reads a whole list, and passes each damaged row of it, once, to `damaged`.
pub(crate) async fn gather_all<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    damaged: &mut dyn FnMut(String),
) -> Result<Vec<T>, Failure> {
    Ok(read_pages(fetch, None, usize::MAX, &Listing::default(), damaged).await?.items)
}

/// Reads up to `count_max` items.
pub(crate) async fn gather<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    count_max: usize,
    status: Option<String>,
) -> Result<Vec<T>, Failure> {
    let filter = Listing { status, ..Listing::default() };
    Ok(collect(fetch, None, count_max, &filter).await?.items)
}

/// Reads up to `count_max` pending prompts of one kind.
pub(crate) async fn open_prompts<P: Prompt>(client: &Client, count_max: usize) -> Result<Vec<P>, Failure> {
    let fetch = async |listing: Listing| client.list_prompts(&listing).await;
    gather(fetch, count_max, Some("pending".to_owned())).await
}

/// Reads up to `count_max` items after a cursor.
pub(crate) async fn collect<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    after: Option<String>,
    count_max: usize,
    filter: &Listing,
) -> Result<ListPart<T>, Failure> {
    let mut name = |row: String| note(&format!("damaged and not listed: {}", clean::line(&row)));
    read_pages(fetch, after, count_max, filter, &mut name).await
}

async fn read_pages<T>(
    fetch: impl AsyncFn(Listing) -> Result<Page<T>, ClientError>,
    after: Option<String>,
    count_max: usize,
    filter: &Listing,
    damaged: &mut dyn FnMut(String),
) -> Result<ListPart<T>, Failure> {
    let mut found = ListPart { items: Vec::new(), next: None };
    let mut named = BTreeSet::new();
    let mut after = after.map(serde_json::Value::String);
    while found.items.len() < count_max {
        let limit = Some((count_max - found.items.len()).clamp(1, LIST_LIMIT_MAX));
        let page = fetch(Listing { after: after.clone(), limit, ..filter.clone() }).await?;
        page.damaged.into_iter().filter(|row| named.insert(row.clone())).for_each(&mut *damaged);
        let stuck = page.next == after;
        found.items.extend(page.data);
        found.next = match page.next.as_ref().filter(|_| page.has_more) {
            Some(serde_json::Value::String(next)) => Some(next.clone()),
            Some(other) => Some(other.to_string()),
            None => None,
        };
        if !page.has_more {
            break;
        }
        if stuck {
            return Err(Failure::Protocol(
                "the server returned a list page that does not advance past its cursor".to_owned(),
            ));
        }
        after = page.next;
    }
    found.items.truncate(count_max);
    Ok(found)
}
