//! Opens an engine on a store, shuts it down, and returns the handles for its operations.

use std::sync::Arc;

use recount_log::Store;
use recount_redact::Redactor;
use recount_world::World;

use crate::boxed;
use crate::catalogue::rebuild;
use crate::catalogue::store::CataloguedStore;
use crate::ground::context::Ground;
use crate::ground::counters::Counters;
use crate::read::live::Framing;
use crate::read::publish::Publisher;
use crate::work::timers;
use crate::write::context::WriteContext;
use crate::{
    AdminHandle, Caller, CatalogueHandle, Error, ReadHandle, SEAL_KEY_BYTES, WorkHandle, WriteHandle, limits,
};

/// Identifies an engine; see [`Engine::instance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EngineInstance(u64);

/// An open engine. See the crate documentation for its guarantees. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    /// Each handle holds the handles of the lower layers.
    admin: AdminHandle,
}

impl Engine {
    /// Opens an engine. Nothing else may write to the store while it is open. Secrets are recognized by shape only.
    #[boxed]
    pub async fn open(store: Arc<dyn Store>, world: World, framing: Arc<dyn Framing>) -> Result<Self, Error> {
        Engine::open_with(store, world, framing, Arc::new(Redactor::shapes())).await
    }

    /// Opens an engine with a configured redactor.
    #[boxed]
    pub async fn open_with(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
    ) -> Result<Self, Error> {
        Engine::open_with_key(store, world, framing, redactor, None).await
    }

    /// Opens an engine with an external key that seals originals, so that they stay readable after a restart.
    #[boxed]
    pub async fn open_with_key(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
        key: Option<[u8; SEAL_KEY_BYTES]>,
    ) -> Result<Self, Error> {
        let counters = Arc::new(Counters::default());
        let catalogued = CataloguedStore::new(store, counters.clone());
        for damage in catalogued.store.known_damage() {
            counters.findings().damaged(&damage);
        }
        let repairs = catalogued.repairs.clone();
        let ground = Ground::new(Arc::new(catalogued), world, counters.clone());
        let publisher = Publisher::new(framing, counters);
        ground.store.observe(publisher.clone());
        rebuild::restore(ground.store()).await?;
        let context = WriteContext::new(ground.clone(), repairs, publisher.clone(), redactor, key);
        context.timers.load(ground.store(), &ground.world).await?;
        context.dispatch.find_lost_workers(ground.store()).await?;
        let read = ReadHandle::new(CatalogueHandle::new(ground), publisher);
        let write = WriteHandle::new(read, Arc::new(context));
        timers::start(&write);
        let engine = Engine { admin: AdminHandle::new(WorkHandle::new(write)) };
        engine.admin.finish_deletions();
        engine.admin.start_blob_cleanup();
        Ok(engine)
    }

    /// Looks up and lists rows.
    pub fn catalogue(&self) -> &CatalogueHandle {
        self.admin.catalogue()
    }

    /// Reads and follows events.
    pub fn read(&self) -> &ReadHandle {
        self.admin.read()
    }

    /// Changes runs and records.
    pub fn write(&self) -> &WriteHandle {
        self.admin.write()
    }

    /// Executes own runs.
    pub fn work(&self) -> &WorkHandle {
        self.admin.work()
    }

    /// Admin operations.
    pub fn admin(&self) -> &AdminHandle {
        &self.admin
    }

    /// Identifies this engine, and its tenant, in the process. All clones have the same value, and no later engine has it.
    pub fn instance(&self) -> EngineInstance {
        EngineInstance(self.admin.ground().number)
    }

    pub fn world(&self) -> &World {
        &self.admin.ground().world
    }

    /// Completes accepted requests, refuses new ones and closes the store. Returns the number of tasks that did not
    /// end in time.
    #[boxed]
    pub async fn shutdown(&self) -> usize {
        let unfinished = self.world().tasks.end_all(limits::SHUTDOWN_TIMEOUT).await;
        if let Err(fault) = self.admin.ground().store.close().await {
            tracing::warn!(%fault, "the store did not close cleanly; no acknowledged event is lost");
        }
        unfinished
    }
}

/// An authenticated caller and the engine of its tenant; travels with a request.
#[derive(Clone)]
pub struct RequestContext {
    pub engine: Engine,
    pub caller: Caller,
}
