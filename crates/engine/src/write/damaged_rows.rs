//! Takes rows away that may be damaged: an append cannot change a damaged row.
//!
//! It must never know what rows are for.

use recount_log::{DamagedRow, RowPut, RowRepair, Store};

use crate::Error;
use crate::ground::rows::taking_away;

/// Takes rows away, whole or damaged.
pub(crate) async fn take_away(store: &dyn Store, gone: Vec<RowPut>) -> Result<(), Error> {
    match store.append(taking_away(gone.clone())).await.map_err(Error::from) {
        Err(error) if error.is_damage() && damaged_go(store, &gone).await? => {
            store.append(taking_away(gone)).await?;
            Ok(())
        }
        taken => taken.map(drop),
    }
}

/// Whether a row has this name and is damaged.
pub(crate) async fn is_damaged(store: &dyn Store, space: &str, key: &str) -> Result<bool, Error> {
    let damaged = store.damaged_rows().await?;
    Ok(damaged.iter().any(|row| row.space == space.as_bytes() && row.key == key.as_bytes()))
}

/// Takes away which of these rows are damaged. Whether any was.
pub(crate) async fn damaged_go(store: &dyn Store, gone: &[RowPut]) -> Result<bool, Error> {
    let is_gone = |row: &DamagedRow| {
        gone.iter().any(|put| put.space.as_bytes() == row.space && put.key.as_bytes() == row.key)
    };
    let damaged: Vec<_> = store.damaged_rows().await?.into_iter().filter(is_gone).collect();
    if damaged.is_empty() {
        return Ok(false);
    }
    Ok(store.repair_rows(RowRepair { damaged, rows: Vec::new() }).await?)
}
