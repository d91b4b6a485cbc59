//! Reads all rows of a space page by page. It must not know the content of rows.

use std::sync::Arc;

use recount_log::{Fault, RowRange, Store, WholeRows};

/// Call [`RowPages::next`] until it returns `None`.
pub(crate) struct RowPages<'s> {
    store: &'s dyn Store,
    space: &'s str,
    limit: usize,
    after: Option<Arc<str>>,
    has_ended: bool,
}

impl<'s> RowPages<'s> {
    pub(crate) fn new(store: &'s dyn Store, space: &'s str, limit: usize) -> Self {
        RowPages { store, space, limit, after: None, has_ended: false }
    }

    /// The next rows, and the damaged rows of the space. The last page may be empty.
    pub(crate) async fn next(&mut self) -> Result<Option<WholeRows>, Fault> {
        if self.has_ended {
            return Ok(None);
        }
        let range = RowRange { after: self.after.take(), ..RowRange::first(self.space, "", self.limit) };
        let page = self.store.whole_rows(range).await?;
        self.after = page.rows.last().map(|row| row.key.clone());
        self.has_ended = page.rows.len() < self.limit;
        Ok(Some(page))
    }
}
