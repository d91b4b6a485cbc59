//! Opens, lists and creates the stores of a server: of the default tenant, of other tenants and of the audit trail.
//!
//! Only this module chooses the engine of a store; other modules get a [`Store`]. Offline work on the files of a data
//! folder (backup, salvage, checks of pages) does not go through it. It must not know requests, or what a store
//! contains. Start at [`Stores`].

mod note;
mod postgres;
mod sqlite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recount_engine::SEAL_KEY_BYTES;
use recount_log::{Fault, Store};
use recount_log_postgres::{StoreOwner, Survey};
use recount_world::{Kind, World};

pub(crate) use self::note::{database_of, missing_store};
use self::postgres::PostgresStores;
pub use self::postgres::survey;
pub use self::sqlite::{Durability, SqliteSettings, seal_now};
pub(crate) use self::sqlite::{open_folder, sqlite_words};
use crate::database_url::DatabaseUrl;
use crate::tenant_folder::{TENANT_DEFAULT, folder_within};
use crate::{StartError, seal};

/// The stores of a server, and its data folder.
#[derive(Clone)]
pub struct Stores {
    data: PathBuf,
    engine: StoreEngine,
}

#[derive(Clone)]
enum StoreEngine {
    /// In the data folder, the stores of tenants below it.
    Sqlite(SqliteSettings),
    /// In a database; the data folder has what belongs to one server only.
    Postgres(PostgresStores),
}

impl Stores {
    /// Stores in a data folder, the stores of tenants below it.
    pub fn in_folder(data: impl Into<PathBuf>, sqlite: SqliteSettings) -> Self {
        Stores { data: data.into(), engine: StoreEngine::Sqlite(sqlite) }
    }

    /// Stores in a database. `url_here` is where other servers and people reach this one. Blocks until the
    /// database responds.
    pub(crate) fn in_database(
        data: impl Into<PathBuf>,
        url: &DatabaseUrl,
        url_here: Option<&str>,
    ) -> Result<Self, StartError> {
        let stores = PostgresStores::connect(url, url_here)?;
        Ok(Stores { data: data.into(), engine: StoreEngine::Postgres(stores) })
    }

    /// Waits until another server owns the stores.
    pub(crate) async fn lost(&self) {
        match &self.engine {
            StoreEngine::Sqlite(_) => std::future::pending().await,
            StoreEngine::Postgres(stores) => stores.lost().await,
        }
    }

    /// The server that owns a store. Blocks.
    pub(crate) fn owner(&self, name: &str) -> Result<Option<StoreOwner>, Fault> {
        match &self.engine {
            StoreEngine::Sqlite(_) => Ok(None),
            StoreEngine::Postgres(stores) => stores.owner(name),
        }
    }

    /// The name of this server in its database.
    pub(crate) fn node(&self) -> Option<&str> {
        match &self.engine {
            StoreEngine::Sqlite(_) => None,
            StoreEngine::Postgres(stores) => Some(stores.database().node()),
        }
    }

    /// All servers and stores of the database. Blocks.
    pub(crate) fn survey(&self) -> Result<Survey, Fault> {
        match &self.engine {
            StoreEngine::Sqlite(_) => Ok(Survey { nodes: Vec::new(), stores: Vec::new() }),
            StoreEngine::Postgres(stores) => stores.database().survey_now(),
        }
    }

    /// The data folder of the server.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The database that has the stores, if one does.
    pub(crate) fn database(&self) -> Option<&DatabaseUrl> {
        match &self.engine {
            StoreEngine::Sqlite(_) => None,
            StoreEngine::Postgres(stores) => Some(stores.url()),
        }
    }

    /// Refuses a data folder whose stores are noted to be in a database.
    pub(crate) fn check_note(&self) -> Result<(), StartError> {
        match &self.engine {
            StoreEngine::Sqlite(_) => note::check(&self.data),
            StoreEngine::Postgres(_) => Ok(()),
        }
    }

    /// Opens the store of a tenant or of the audit trail; a missing one is created. Blocks.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn Store>, Fault> {
        match (&self.engine, name) {
            (StoreEngine::Sqlite(settings), TENANT_DEFAULT) => sqlite::open(self.data.clone(), settings),
            (StoreEngine::Sqlite(settings), name) => sqlite::open(folder_within(&self.data, name), settings),
            (StoreEngine::Postgres(stores), name) => stores.open(name),
        }
    }

    /// The same after waiting for a server that gives its stores back. Blocks.
    pub(crate) fn open_when_given_back(&self, name: &str) -> Result<Arc<dyn Store>, Fault> {
        match &self.engine {
            StoreEngine::Sqlite(_) => self.open(name),
            StoreEngine::Postgres(stores) => stores.open_when_given_back(name),
        }
    }

    /// Creates the data folder of a server whose stores are in a database, notes the database, and returns the checked key.
    /// Blocks.
    pub(crate) fn prepare_folder(&self, world: &World) -> Result<[u8; SEAL_KEY_BYTES], StartError> {
        note::create_folder(&self.data)?;
        let key = self.key(world)?;
        self.note_database();
        Ok(key)
    }

    /// Creates the data folder for its owner only, unless it exists.
    pub(crate) fn create_folder(&self) -> Result<(), StartError> {
        note::create_folder(&self.data)
    }

    /// Removes the note that a database has the stores of the data folder.
    pub(crate) fn forget_database(&self) -> Result<(), StartError> {
        note::remove(&self.data)
    }

    /// Notes in the data folder that a database has its stores.
    pub(crate) fn note_database(&self) {
        if let Some(url) = self.database() {
            note::write(&self.data, url);
        }
    }

    /// The names of all stores, when they are taken into use. An incomplete backup is refused. Blocks.
    pub(crate) fn names(&self) -> Result<Vec<String>, StartError> {
        match &self.engine {
            StoreEngine::Sqlite(_) => {
                let others = sqlite::others(&self.data)?;
                Ok(std::iter::once(TENANT_DEFAULT.to_owned()).chain(others).collect())
            }
            StoreEngine::Postgres(stores) => stores.names(),
        }
    }

    /// The key that seals originals of masked input; the first call creates it. A database accepts only the key that it
    /// was first used with. Blocks.
    pub(crate) fn key(&self, world: &World) -> Result<[u8; SEAL_KEY_BYTES], StartError> {
        match &self.engine {
            StoreEngine::Sqlite(_) => seal::key(&self.data, world),
            StoreEngine::Postgres(stores) => stores.key(&self.data, world),
        }
    }

    /// Runs work that waits for the engine. A database may be slow to respond, and must not hold up the runtime.
    pub(crate) async fn wait_for<T: Send + 'static>(
        &self,
        world: &World,
        work: impl FnOnce(&Stores) -> T + Send + 'static,
    ) -> T {
        match self.engine {
            // Blocks on the disk, but only when a tenant is new or the server starts.
            StoreEngine::Sqlite(_) => work(self),
            StoreEngine::Postgres(_) => {
                let stores = self.clone();
                let done = world.tasks.block(Kind::Effect, move || work(&stores)).await;
                done.expect("opening and listing stores never panics")
            }
        }
    }

    /// The engine as the label of a metric, and its version.
    pub(crate) fn engine(&self) -> (&'static str, &str) {
        match &self.engine {
            StoreEngine::Sqlite(_) => ("sqlite", sqlite::version()),
            StoreEngine::Postgres(stores) => ("postgresql", stores.version()),
        }
    }

    /// The engine and its version for people.
    pub(crate) fn engine_words(&self) -> String {
        match &self.engine {
            StoreEngine::Sqlite(_) => sqlite_words(),
            StoreEngine::Postgres(stores) => format!("PostgreSQL {} at {}", stores.version(), stores.url()),
        }
    }

    /// The durability of stores in the data folder. A database has its own.
    pub(crate) fn durability(&self) -> Option<Durability> {
        match &self.engine {
            StoreEngine::Sqlite(settings) => Some(settings.durability),
            StoreEngine::Postgres(_) => None,
        }
    }

    /// Warnings about the settings of the database. Blocks.
    pub(crate) fn warnings(&self) -> Result<Vec<String>, Fault> {
        match &self.engine {
            StoreEngine::Sqlite(_) => Ok(Vec::new()),
            StoreEngine::Postgres(stores) => stores.warnings(),
        }
    }

    /// Disconnects from the database, so that other servers can own its stores at once. Call it after closing all stores.
    /// Blocks.
    pub(crate) fn disconnect(&self) {
        if let StoreEngine::Postgres(stores) = &self.engine {
            stores.disconnect();
        }
    }
}
