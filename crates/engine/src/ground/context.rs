//! The state that all layers share: store, world, counters and the id generator. It must not know what is stored.
//! Start with [`Ground`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::{Minter, Stamp};
use recount_log::Store;
use recount_world::World;

use crate::ground::counters::Counters;

/// Shared state; one for each engine.
pub(crate) struct Ground {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) world: World,
    pub(crate) counters: Arc<Counters>,
    minter: Mutex<Minter>,
    /// No other engine of this process ever has it.
    pub(crate) number: u64,
}

/// Engines that were opened.
static ENGINES: AtomicU64 = AtomicU64::new(0);

impl Ground {
    pub(crate) fn new(store: Arc<dyn Store>, world: World, counters: Arc<Counters>) -> Arc<Self> {
        let number = ENGINES.fetch_add(1, Ordering::Relaxed);
        Arc::new(Ground { store, world, counters, minter: Mutex::default(), number })
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { now_ms: self.world.clock.now_ms(), entropy: self.world.entropy.draw() }
    }

    /// Makes all later ids greater than this one, even if the clock was set back.
    pub(crate) fn mint_after(&self, other: ulid::Ulid) {
        // The next ids of that millisecond may be in use, also by erased runs, so this continues in the next
        // millisecond.
        let later = ulid::Ulid::from_parts(other.timestamp_ms() + 1, self.world.entropy.draw());
        self.minter.lock().unwrap_or_else(PoisonError::into_inner).pass(later);
    }

    pub(crate) fn mint(&self, stamp: Stamp) -> ulid::Ulid {
        self.minter.lock().unwrap_or_else(PoisonError::into_inner).mint(stamp)
    }
}
