//! Stores in a data folder, each an SQLite database in a folder of its own.
//!
//! The only module that opens such a store. It must not know which tenant a store belongs to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recount_log::{Fault, Store};
pub use recount_log_sqlite::Durability;
use recount_log_sqlite::{SqliteOptions, SqliteStore};

use crate::tenant_folder::{loss_of_tenants, remove_list, tenant_folders};
use crate::{StartError, boxed};

/// How stores in a data folder are opened.
#[derive(Debug, Clone, Default)]
pub struct SqliteSettings {
    pub durability: Durability,
    /// Positions after which acknowledged events may be missing.
    pub accept_loss_after: Vec<u64>,
    /// How many events of a store may be unsealed. For tests that want much sealing.
    #[doc(hidden)]
    pub hot_events_max: Option<u64>,
}

/// Opens the store in this folder; a missing one is created.
pub(super) fn open(folder: PathBuf, settings: &SqliteSettings) -> Result<Arc<dyn Store>, Fault> {
    let mut options = SqliteOptions::new(folder);
    options.durability = settings.durability;
    options.accept_loss_after.clone_from(&settings.accept_loss_after);
    if let Some(events) = settings.hot_events_max {
        options.hot_records_max = events;
    }
    Ok(Arc::new(SqliteStore::open(options)?))
}

/// Opens the store in this folder, which no server holds, for offline work.
pub(crate) fn open_folder(folder: &Path) -> Result<Arc<dyn Store>, Fault> {
    open(folder.to_owned(), &SqliteSettings::default())
}

/// The version of SQLite.
pub(super) fn version() -> &'static str {
    recount_log_sqlite::sqlite_version()
}

/// SQLite and the schema of its stores for people.
pub(crate) fn sqlite_words() -> String {
    format!("SQLite {}, schema {}", version(), recount_log_sqlite::SCHEMA)
}

/// The names of the stores below a data folder. Refuses a backup that lost one; from now on the folder is in use, and
/// stores may be added.
pub(super) fn others(data: &Path) -> Result<Vec<String>, StartError> {
    let folders = tenant_folders(data)
        .map_err(|why| StartError::failed(format!("cannot read the folder of tenants: {why}")))?;
    if let Some(loss) = loss_of_tenants(data).map_err(|why| StartError::failed(why.to_string()))? {
        return Err(StartError::damaged(loss));
    }
    if let Err(error) = remove_list(data) {
        tracing::warn!(%error, "cannot remove the list of the tenants of a backup");
    }
    Ok(folders.into_keys().collect())
}

/// Seals all records of a folder at once. For tests of damage to sealed records.
#[doc(hidden)]
#[boxed]
pub async fn seal_now(folder: &Path) -> Result<(), StartError> {
    let failed = |fault: Fault| StartError::failed(fault.to_string());
    let store = SqliteStore::open(SqliteOptions::new(folder)).map_err(failed)?;
    store.seal_now().await.map_err(failed)?;
    store.close().await.map_err(failed)
}
