//! The engine as faces see it: create, submit, read, follow, list, shut down.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recount_event::{Minter, Stamp};
use recount_log::Store;
use recount_redact::Redactor;
use recount_world::World;

use crate::catalogue::rebuild;
use crate::catalogue::store::CataloguedStore;
use crate::ground::counters::Counters;
use crate::read::live::Framing;
use crate::read::publish::Publisher;
use crate::work::timers;
use crate::write::artifacts::blobs::Blobs;
use crate::write::artifacts::keep::Quotas;
use crate::write::deadlines::Deadlines;
use crate::write::idempotency::InFlight;
use crate::write::new_runs::NewRunCache;
use crate::write::owed_runs::OwedRuns;
use crate::write::redaction::Redaction;
use crate::write::redaction::session::SessionRedactions;
use crate::write::seal::Seal;
use crate::write::tools::Tools;
use crate::write::writers::Writers;
use crate::{Caller, Error, Performer, SEAL_KEY_BYTES, limits};

/// See [`Engine::instance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EngineInstance(usize);

/// See the crate's head for what it promises. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) tools: Arc<Tools>,
    pub(crate) writers: Arc<Writers>,
    minter: Arc<Mutex<Minter>>,
    /// One prune or deletion at a time.
    pub(crate) housekeeping: Arc<tokio::sync::Mutex<()>>,
    pub(crate) doing: Arc<InFlight>,
    pub(crate) performer: Arc<OnceLock<Arc<dyn Performer>>>,
}

impl Engine {
    /// Starts on a store. Nothing else may write to it from now on. Secrets are known by their shapes alone.
    pub async fn open(store: Arc<dyn Store>, world: World, framing: Arc<dyn Framing>) -> Result<Self, Error> {
        Engine::open_with(store, world, framing, Arc::new(Redactor::shapes())).await
    }

    /// The same with more, or less, that counts as a secret.
    pub async fn open_with(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
    ) -> Result<Self, Error> {
        Engine::open_with_key(store, world, framing, redactor, None).await
    }

    /// The same with a key that is kept elsewhere, under which originals are sealed that stay when the process ends.
    pub async fn open_with_key(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
        key: Option<[u8; SEAL_KEY_BYTES]>,
    ) -> Result<Self, Error> {
        let meters = Arc::new(Counters::default());
        let metered = CataloguedStore::new(store, meters.clone());
        let repairs = metered.repairs.clone();
        let store: Arc<dyn Store> = Arc::new(metered);
        let publisher = Publisher::new(framing, meters.clone());
        store.observe(publisher.clone());
        let timers = Arc::new(Deadlines::default());
        rebuild::restore(&*store).await?;
        timers.load(&*store, &world).await?;
        let redaction = Redaction::new(redactor);
        let dispatch = OwedRuns::default();
        let (blobs, quotas, seal) = (Blobs::new(store.clone()), Quotas::default(), Seal::new(key));
        let tools = Arc::new(Tools {
            store,
            repairs,
            world,
            counters: meters,
            publisher,
            timers,
            redaction,
            session_redactions: SessionRedactions::default(),
            blobs,
            quotas,
            seal,
            dispatch,
            admission: OnceLock::new(),
            profiles: OnceLock::new(),
            fresh: NewRunCache::default(),
        });
        tools.dispatch.find_lost(&*tools.store).await?;
        let writers = Writers::new(tools.clone());
        timers::start(&tools.timers, &tools.world, &writers);
        let engine = Engine {
            tools,
            writers,
            minter: Arc::default(),
            housekeeping: Arc::default(),
            doing: Arc::default(),
            performer: Arc::default(),
        };
        engine.finish_deletions();
        engine.look_after_blobs();
        Ok(engine)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.tools.store
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { now_ms: self.tools.world.clock.now_ms(), entropy: self.tools.world.entropy.draw() }
    }

    /// What is minted from now on is later than this, although the clock may have been set back.
    pub(crate) fn mint_after(&self, other: ulid::Ulid) {
        // The ids right behind it may be taken, also by what was erased since: so it is one of the next millisecond.
        let later = ulid::Ulid::from_parts(other.timestamp_ms() + 1, self.tools.world.entropy.draw());
        self.minter.lock().unwrap_or_else(PoisonError::into_inner).pass(later);
    }

    pub(crate) fn mint(&self, stamp: Stamp) -> ulid::Ulid {
        self.minter.lock().unwrap_or_else(PoisonError::into_inner).mint(stamp)
    }

    /// What tells this engine, and so its tenant, from the others of the process. The same for all clones.
    pub fn instance(&self) -> EngineInstance {
        EngineInstance(Arc::as_ptr(&self.tools) as usize)
    }

    pub fn world(&self) -> &World {
        &self.tools.world
    }

    /// Finishes what was accepted, refuses what comes, and ends. Answers how many tasks did not end in time.
    pub async fn shutdown(&self) -> usize {
        let left = self.tools.world.tasks.end_all(limits::SHUTDOWN_PATIENCE).await;
        if let Err(fault) = self.store().close().await {
            tracing::warn!(%fault, "the store did not close cleanly; nothing acknowledged is lost");
        }
        left
    }
}

/// Somebody who was let in, and the engine that keeps what is theirs: that of their tenant. Travels with a request.
#[derive(Clone)]
pub struct Visitor {
    pub engine: crate::Engine,
    pub caller: Caller,
}
