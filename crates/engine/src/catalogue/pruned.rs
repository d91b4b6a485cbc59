//! The highest position that was ever pruned.

use recount_log::Store;

use crate::Error;
use crate::catalogue::table::read_row;
use crate::ground::rows;

/// The highest position that was ever pruned.
pub(crate) async fn pruned_up_to(store: &dyn Store) -> Result<u64, Error> {
    match store.row(rows::PRUNED, rows::PRUNED_LAST).await? {
        Some(row) => read_row(rows::PRUNED, &row.key, &row.value),
        None => Ok(0),
    }
}
