//! The front of the engine: opens it on a store, ends it, and gives the handle of each room. What can be done is in the
//! rooms.

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
use crate::write::room::WriteRoom;
use crate::{
    AdminHandle, Caller, CatalogueHandle, Error, ReadHandle, SEAL_KEY_BYTES, WorkHandle, WriteHandle, limits,
};

/// See [`Engine::instance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EngineInstance(usize);

/// See the crate's head for what it promises. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    /// Each room's handle holds those of the rooms below.
    admin: AdminHandle,
}

impl Engine {
    /// Starts on a store. Nothing else may write to it from now on. Secrets are known by their shapes alone.
    #[boxed]
    pub async fn open(store: Arc<dyn Store>, world: World, framing: Arc<dyn Framing>) -> Result<Self, Error> {
        Engine::open_with(store, world, framing, Arc::new(Redactor::shapes())).await
    }

    /// The same with more, or less, that counts as a secret.
    #[boxed]
    pub async fn open_with(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
    ) -> Result<Self, Error> {
        Engine::open_with_key(store, world, framing, redactor, None).await
    }

    /// The same with a key that is kept elsewhere, under which originals are sealed that stay when the process ends.
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
        let room = WriteRoom::new(ground.clone(), repairs, publisher.clone(), redactor, key);
        room.timers.load(ground.store(), &ground.world).await?;
        room.dispatch.find_lost(ground.store()).await?;
        let read = ReadHandle::new(CatalogueHandle::new(ground), publisher);
        let write = WriteHandle::new(read, Arc::new(room));
        timers::start(&write);
        let engine = Engine { admin: AdminHandle::new(WorkHandle::new(write)) };
        engine.admin.finish_deletions();
        engine.admin.look_after_blobs();
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

    /// Has our own runs executed.
    pub fn work(&self) -> &WorkHandle {
        self.admin.work()
    }

    /// Does what an operator asks for.
    pub fn admin(&self) -> &AdminHandle {
        &self.admin
    }

    /// What tells this engine, and so its tenant, from the others of the process. The same for all clones.
    pub fn instance(&self) -> EngineInstance {
        EngineInstance(Arc::as_ptr(self.admin.ground()) as usize)
    }

    pub fn world(&self) -> &World {
        &self.admin.ground().world
    }

    /// Finishes what was accepted, refuses what comes, and ends. Answers how many tasks did not end in time.
    #[boxed]
    pub async fn shutdown(&self) -> usize {
        let left = self.world().tasks.end_all(limits::SHUTDOWN_PATIENCE).await;
        if let Err(fault) = self.admin.ground().store.close().await {
            tracing::warn!(%fault, "the store did not close cleanly; no acknowledged event is lost");
        }
        left
    }
}

/// A caller that was let in, and the engine of its tenant. Travels with a request.
#[derive(Clone)]
pub struct Visitor {
    pub engine: Engine,
    pub caller: Caller,
}
