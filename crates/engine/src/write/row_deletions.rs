//! Deletes rows that may be damaged. An append cannot change a damaged row.
//!
//! It must not know the purpose of rows.

use recount_log::{DamagedRow, ReadResult as _, Readable, RowPut, RowRange, RowRepair, Store};

use crate::Error;
use crate::ground::rows::{self, deletion};

/// Deletes rows, damaged or not.
pub(crate) async fn delete_rows(store: &dyn Store, deletions: Vec<RowPut>) -> Result<(), Error> {
    match store.append(deletion(deletions.clone())).await.map_err(Error::from) {
        Err(error) if error.is_damage() && delete_damaged_rows(store, &deletions).await? => {
            store.append(deletion(deletions)).await?;
            Ok(())
        }
        taken => taken.map(drop),
    }
}

/// Deletes all rows of a space whose keys begin with a prefix, page by page.
pub(crate) async fn delete_all(
    store: &dyn Store,
    space: &str,
    prefix: &str,
    page: usize,
) -> Result<(), Error> {
    loop {
        let found = store.rows(RowRange::first(space, prefix, page)).await?;
        if found.is_empty() {
            return Ok(());
        }
        let rows = found.into_iter().map(|row| rows::delete(space, row.key)).collect();
        store.append(deletion(rows)).await?;
    }
}

/// Whether the row with this name is damaged.
pub(crate) async fn is_damaged(store: &dyn Store, space: &str, key: &str) -> Result<bool, Error> {
    let damaged = store.damaged_rows().await?;
    Ok(damaged.iter().any(|row| row.space == space.as_bytes() && row.key == key.as_bytes()))
}

/// Whether a row exists, readable or not.
pub(crate) async fn exists(store: &dyn Store, space: &str, key: &str) -> Result<bool, Error> {
    match store.row(space, key).await.readable()? {
        Readable::Whole(row) => Ok(row.is_some()),
        Readable::Damaged(_) if is_damaged(store, space, key).await? => Ok(true),
        Readable::Damaged(fault) => Err(fault.into()),
    }
}

/// Deletes those of these rows that are damaged. Returns whether there was any.
pub(crate) async fn delete_damaged_rows(store: &dyn Store, deletions: &[RowPut]) -> Result<bool, Error> {
    let is_deleted = |row: &DamagedRow| {
        deletions.iter().any(|put| put.space.as_bytes() == row.space && put.key.as_bytes() == row.key)
    };
    let damaged: Vec<_> = store.damaged_rows().await?.into_iter().filter(is_deleted).collect();
    if damaged.is_empty() {
        return Ok(false);
    }
    Ok(store.repair_rows(RowRepair { damaged, rows: Vec::new() }).await?)
}
