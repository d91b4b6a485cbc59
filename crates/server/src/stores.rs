//! Opens, lists and creates the stores of a server: of the default tenant, of other tenants and of the audit trail.
//!
//! Only this module chooses the engine of a store; other modules get a [`Store`]. Offline work on the files of a data
//! folder (backup, salvage, checks of pages) does not go through it. It must not know requests, or what a store
//! contains. Start at [`Stores`].

mod sqlite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recount_engine::SEAL_KEY_BYTES;
use recount_log::{Fault, Store};
use recount_world::World;

pub(crate) use self::sqlite::open_folder;
pub use self::sqlite::{Durability, SqliteSettings, seal_now};
use crate::tenant_folder::{TENANT_DEFAULT, folder_within};
use crate::{StartError, seal};

/// The stores of a server, and its data folder.
#[derive(Debug, Clone)]
pub struct Stores {
    data: PathBuf,
    sqlite: SqliteSettings,
}

impl Stores {
    /// Stores in a data folder, the stores of tenants below it.
    pub fn in_folder(data: impl Into<PathBuf>, sqlite: SqliteSettings) -> Self {
        Stores { data: data.into(), sqlite }
    }

    /// The data folder of the server.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Opens the store of a tenant or of the audit trail; a missing one is created. Blocks.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn Store>, Fault> {
        let folder = match name {
            TENANT_DEFAULT => self.data.clone(),
            name => folder_within(&self.data, name),
        };
        sqlite::open(folder, &self.sqlite)
    }

    /// The names of all stores but that of the default tenant, when a server starts. An incomplete backup is refused.
    pub(crate) fn others(&self) -> Result<Vec<String>, StartError> {
        sqlite::others(&self.data)
    }

    /// The key that seals originals of masked input; the first call creates it.
    pub(crate) fn key(&self, world: &World) -> Result<[u8; SEAL_KEY_BYTES], StartError> {
        seal::key(&self.data, world)
    }

    pub(crate) fn durability(&self) -> Durability {
        self.sqlite.durability
    }
}
