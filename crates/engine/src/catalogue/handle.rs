//! The handle of the catalogue.

use std::sync::{Arc, LazyLock, OnceLock};

use crate::Profiles;
use crate::ground::context::Ground;

/// Looks up and lists rows: runs, tasks, sessions, setups, allowances, profiles. Cheap to clone.
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

    /// Registers the agents that applications may use. Only the first call has an effect.
    pub fn register_profiles(&self, profiles: Arc<Profiles>) {
        if self.profiles.set(profiles).is_err() {
            tracing::warn!("the agents were registered before; the first registration stays");
        }
    }

    /// The registered agents.
    pub fn profiles(&self) -> &Profiles {
        static NONE: LazyLock<Profiles> = LazyLock::new(Profiles::default);
        self.profiles.get().map_or(&NONE, |profiles| profiles)
    }
}
