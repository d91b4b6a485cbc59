//! The handle of the catalogue.

use std::sync::{Arc, LazyLock, OnceLock};

use crate::Profiles;
use crate::ground::context::Ground;

/// Looks up and lists what the catalogue knows: runs, tasks, sessions, setups, allowances, profiles. Cheap to clone.
#[derive(Clone)]
pub struct CatalogueHandle {
    ground: Arc<Ground>,
    profiles: Arc<OnceLock<Arc<Profiles>>>,
}

impl CatalogueHandle {
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        CatalogueHandle { ground, profiles: Arc::default() }
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        &self.ground
    }

    /// The agents that applications may work with. The first to say so is right.
    pub fn introduce(&self, profiles: Arc<Profiles>) {
        if self.profiles.set(profiles).is_err() {
            tracing::warn!("the agents were registered before; the first registration stays");
        }
    }

    /// The agents that were introduced; none before that.
    pub fn profiles(&self) -> &Profiles {
        static NONE: LazyLock<Profiles> = LazyLock::new(Profiles::default);
        self.profiles.get().map_or(&NONE, |profiles| profiles)
    }
}
