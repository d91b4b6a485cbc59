//! Reads rows: one by its key, or a page of a list. An unreadable row is a fault of the store. It must not know the
//! content of rows. Start with [`read_row`].

use recount_event::Code;
use recount_log::{RowRange, WholeRows};
use serde::de::DeserializeOwned;

use crate::catalogue::handle::CatalogueHandle;
use crate::ground::error::damaged_row;
use crate::{Error, limits};

/// The requested part of a list. Lists are ordered from newest to oldest.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only items older than the one with this id.
    pub after: Option<String>,
    pub limit: usize,
    pub status: Option<String>,
}

/// A page of a list. `next` continues it, also if no scanned item matched.
#[derive(Debug, Clone)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
    pub has_more: bool,
    /// Rows (space and key) that may belong to the list and whose bytes are damaged.
    pub damaged: Vec<String>,
}

impl<T> ListPage<T> {
    /// Adds damaged rows without duplicates.
    pub(crate) fn name_damaged(&mut self, rows: Vec<String>) {
        rows.into_iter().for_each(|row| {
            if !self.damaged.contains(&row) {
                self.damaged.push(row);
            }
        });
    }
}

impl<T> From<ListedRows<T>> for ListPage<T> {
    fn from(listed: ListedRows<T>) -> Self {
        let ListedRows { items, next, has_more, damaged, .. } = listed;
        ListPage { items, next, has_more, damaged }
    }
}

pub(crate) struct ListedRows<T> {
    pub(crate) items: Vec<T>,
    /// The keys of the items, without their prefix.
    pub(crate) keys: Vec<String>,
    pub(crate) next: Option<String>,
    pub(crate) has_more: bool,
    /// See [`ListPage::damaged`].
    pub(crate) damaged: Vec<String>,
}

impl<T> Default for ListedRows<T> {
    fn default() -> Self {
        ListedRows { items: Vec::new(), keys: Vec::new(), next: None, has_more: false, damaged: Vec::new() }
    }
}

/// Lists skip an unreadable row and name it, whether its bytes or its content are damaged.
impl CatalogueHandle {
    pub(crate) async fn row<T: DeserializeOwned>(&self, space: &str, key: &str) -> Result<Option<T>, Error> {
        let Some(row) = self.ground().store().row(space, key).await? else { return Ok(None) };
        read_row(space, &row.key, &row.value).map(Some)
    }

    /// Reads a row for a list, which skips a damaged row and names it.
    pub(crate) async fn listed_row<T: DeserializeOwned>(
        &self,
        space: &str,
        key: &str,
        damaged: &mut Vec<String>,
    ) -> Result<Option<T>, Error> {
        match self.row(space, key).await {
            Err(error) if error.code() == Code::StoreCorrupt => {
                damaged.push(format!("{space}/{key}"));
                Ok(None)
            }
            found => found,
        }
    }

    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        space: &str,
        prefix: &str,
        query: &ListQuery,
        status: impl Fn(&T) -> String,
    ) -> Result<ListedRows<T>, Error> {
        let matches = |item: &T| query.status.as_deref().is_none_or(|wanted| status(item) == wanted);
        self.list_where(space, prefix, query, query.status.is_some(), matches).await
    }

    pub(crate) async fn list_where<T: DeserializeOwned>(
        &self,
        space: &str,
        prefix: &str,
        query: &ListQuery,
        is_filtered: bool,
        matches: impl Fn(&T) -> bool,
    ) -> Result<ListedRows<T>, Error> {
        let mut listed = ListedRows { next: query.after.clone(), has_more: true, ..ListedRows::default() };
        let mut looked_at = 0;
        while listed.items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && listed.has_more {
            // A filter may match few rows, so more are read at once.
            let missing = query.limit - listed.items.len();
            let wanted = if is_filtered { missing.max(limits::LIST_CHUNK) } else { missing };
            let range = RowRange {
                space: space.into(),
                prefix: prefix.into(),
                after: listed.next.as_deref().map(|id| format!("{prefix}{id}").into()),
                backwards: true,
                // One more row shows whether there are more.
                limit: wanted + 1,
            };
            let WholeRows { rows: page, damaged } = self.ground().store().whole_rows(range).await?;
            for row in damaged.iter().map(ToString::to_string) {
                if !listed.damaged.contains(&row) {
                    listed.damaged.push(row);
                }
            }
            let mut remaining = page.len();
            for row in page.into_iter().take(wanted) {
                if listed.items.len() == query.limit {
                    break;
                }
                looked_at += 1;
                remaining -= 1;
                let id = row.key.strip_prefix(prefix).unwrap_or(&row.key).to_owned();
                listed.next = Some(id.clone());
                let Ok(item) = read_row::<T>(space, &row.key, &row.value) else {
                    listed.damaged.push(format!("{space}/{}", row.key));
                    continue;
                };
                if matches(&item) {
                    listed.items.push(item);
                    listed.keys.push(id);
                }
            }
            listed.has_more = remaining > 0;
        }
        Ok(listed)
    }
}

pub(crate) fn read_row<T: DeserializeOwned>(space: &str, key: &str, value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|why| damaged_row(space, key, why))
}
