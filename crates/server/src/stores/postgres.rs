//! Stores in a PostgreSQL database, each owned by one server at a time.
//!
//! The only module that opens such a store. It must not know tenants.

use std::path::Path;
use std::sync::Arc;

use recount_engine::SEAL_KEY_BYTES;
use recount_log::{Fault, FaultKind, Retry, Store};
use recount_log_postgres::{Database, PostgresOptions, StoreOwner, Survey};
use recount_world::World;

use crate::database_url::DatabaseUrl;
use crate::{StartError, limits, seal};

/// The name under which a database notes the fingerprint of the seal key.
const SEAL_KEY: &str = "seal-key";

/// A database with stores, and its version when this server connected.
#[derive(Clone)]
pub(super) struct PostgresStores {
    database: Database,
    url: DatabaseUrl,
    version: String,
}

impl PostgresStores {
    /// Connects, and creates or migrates what all stores share.
    pub(super) fn connect(url: &DatabaseUrl, url_here: Option<&str>) -> Result<Self, StartError> {
        let failed = |fault: Fault| unusable(url, &fault);
        let options = PostgresOptions {
            node: recount_world::platform::machine_name(),
            address: url_here.unwrap_or_default().to_owned(),
            ..PostgresOptions::new(url.reveal())
        };
        let database = Database::open(options).map_err(failed)?;
        let version = database.server_version().map_err(failed)?;
        Ok(PostgresStores { database, url: url.clone(), version })
    }

    pub(super) fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn names(&self) -> Result<Vec<String>, StartError> {
        self.database.stores().map_err(|fault| unusable(&self.url, &fault))
    }

    /// Waits for a server that stops, which gives its stores back one after the other.
    pub(super) fn open_when_given_back(&self, name: &str) -> Result<Arc<dyn Store>, Fault> {
        let patience = recount_world::moment() + limits::HANDOVER_WAIT;
        loop {
            match self.open(name) {
                Err(fault)
                    if fault.kind == FaultKind::Locked
                        && fault.retry != Retry::Never
                        && recount_world::moment() < patience => {}
                opened => return opened,
            }
        }
    }

    pub(super) fn open(&self, name: &str) -> Result<Arc<dyn Store>, Fault> {
        Ok(Arc::new(self.database.open_store(name)?))
    }

    pub(super) fn owner(&self, name: &str) -> Result<Option<StoreOwner>, Fault> {
        self.database.owner(name)
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    pub(super) async fn lost(&self) {
        self.database.lost().await;
    }

    pub(super) fn warnings(&self) -> Result<Vec<String>, Fault> {
        self.database.advice()
    }

    pub(super) fn disconnect(&self) {
        self.database.close();
    }

    /// The key of the data folder, if the database was first used with it. With another one, sealed originals could not
    /// be opened.
    pub(super) fn key(&self, data: &Path, world: &World) -> Result<[u8; SEAL_KEY_BYTES], StartError> {
        let existed = seal::exists(data);
        let key = seal::key(data, world)?;
        let found = seal::fingerprint(&key);
        let noted = self.database.note_once(SEAL_KEY, &found).map_err(|fault| unusable(&self.url, &fault))?;
        if noted == found {
            return Ok(key);
        }
        let (url, path) = (&self.url, seal::path(data));
        let shown = path.display();
        if existed {
            return Err(StartError::usage(format!(
                "the seal key {shown} has the fingerprint {found}, but the database {url} was first used with the key \
                 {noted}; replace the file by keys/seal of a server that uses this database"
            )));
        }
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, key = %shown, "cannot remove a new seal key that the database refused");
        }
        Err(StartError::usage(format!(
            "the seal key {shown} is missing, and the database {url} was first used with the key {noted}; copy keys/seal \
             from the data folder of a server that uses this database to {shown}"
        )))
    }
}

/// The nodes and stores of a database, without joining it.
pub fn survey(url: &str) -> Result<Survey, StartError> {
    let refused = || StartError::usage("the database is not named by a URL such as postgres://user@host/db");
    let url = DatabaseUrl::parse(url).ok_or_else(refused)?;
    Database::survey(url.reveal()).map_err(|fault| unusable(&url, &fault))
}

fn unusable(url: &DatabaseUrl, fault: &Fault) -> StartError {
    let advice = match fault.retry {
        // The fault names what to do.
        Retry::Never => "",
        _ => {
            "; check that PostgreSQL runs there and accepts this user, for example with psql, or name another database \
              with --store"
        }
    };
    StartError::failed(format!("cannot use the database {url}: {fault}{advice}"))
}
