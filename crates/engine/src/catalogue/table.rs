//! Reads rows: one by its key, or a page of a list. An unreadable row is a fault of the store. It must not know the
//! content of rows. Start with [`read_row`].

use recount_log::{ReadResult as _, RowRange, WholeRows};
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

/// A page of a list.
#[derive(Debug, Clone)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    pub end: PageEnd,
}

/// How a list continues after a page.
#[derive(Debug, Clone, Default)]
pub struct PageEnd {
    /// Continues the list, also if no scanned item matched.
    pub next: Option<String>,
    pub has_more: bool,
    /// Rows (space and key) that may belong to the list and whose bytes are damaged, each once.
    pub damaged: Vec<String>,
}

impl PageEnd {
    /// Before the first item of a query.
    pub(crate) fn before(query: &ListQuery) -> Self {
        PageEnd { next: query.after.clone(), has_more: true, damaged: Vec::new() }
    }

    /// Names an unreadable row, which the list skips.
    pub(crate) fn name(&mut self, row: String) {
        if !self.damaged.contains(&row) {
            self.damaged.push(row);
        }
    }

    /// Continues to the end of the next page.
    pub fn advance(&mut self, page: PageEnd) {
        (self.next, self.has_more) = (page.next, page.has_more);
        page.damaged.into_iter().for_each(|row| self.name(row));
    }
}

impl<T> ListPage<(String, T)> {
    /// Drops the keys of the items.
    pub(crate) fn without_keys(self) -> ListPage<T> {
        ListPage { items: self.items.into_iter().map(|(_, item)| item).collect(), end: self.end }
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
        end: &mut PageEnd,
    ) -> Result<Option<T>, Error> {
        let row = self.row(space, key).await.readable()?;
        Ok(row.whole_or(|_| end.name(format!("{space}/{key}"))).flatten())
    }

    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        space: &str,
        prefix: &str,
        query: &ListQuery,
        status: impl Fn(&T) -> String,
    ) -> Result<ListPage<(String, T)>, Error> {
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
    ) -> Result<ListPage<(String, T)>, Error> {
        let (mut items, mut end) = (Vec::new(), PageEnd::before(query));
        let mut looked_at = 0;
        while items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && end.has_more {
            // A filter may match few rows, so more are read at once.
            let missing = query.limit - items.len();
            let wanted = if is_filtered { missing.max(limits::LIST_CHUNK) } else { missing };
            let range = RowRange {
                space: space.into(),
                prefix: prefix.into(),
                after: end.next.as_deref().map(|id| format!("{prefix}{id}").into()),
                backwards: true,
                // One more row shows whether there are more.
                limit: wanted + 1,
            };
            let WholeRows { rows: page, damaged } = self.ground().store().whole_rows(range).await?;
            damaged.iter().for_each(|row| end.name(row.to_string()));
            let mut remaining = page.len();
            for row in page.into_iter().take(wanted) {
                if items.len() == query.limit {
                    break;
                }
                looked_at += 1;
                remaining -= 1;
                let id = row.key.strip_prefix(prefix).unwrap_or(&row.key).to_owned();
                end.next = Some(id.clone());
                let Ok(item) = read_row::<T>(space, &row.key, &row.value) else {
                    end.name(format!("{space}/{}", row.key));
                    continue;
                };
                if matches(&item) {
                    items.push((id, item));
                }
            }
            end.has_more = remaining > 0;
        }
        Ok(ListPage { items, end })
    }
}

pub(crate) fn read_row<T: DeserializeOwned>(space: &str, key: &str, value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|why| damaged_row(space, key, why))
}
