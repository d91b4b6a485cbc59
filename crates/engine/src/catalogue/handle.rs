//! The handle of the catalogue.

use std::sync::{Arc, OnceLock};

use crate::Profiles;
use crate::ground::context::Ground;

/// Looks up and lists what the catalogue knows: runs, tasks, sessions, setups, allowances, profiles. Cheap to clone.
#[derive(Clone)]
pub struct CatalogueHandle {
    ground: Arc<Ground>,
    pub(super) profiles: Arc<OnceLock<Arc<Profiles>>>,
}

impl CatalogueHandle {
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        CatalogueHandle { ground, profiles: Arc::default() }
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        &self.ground
    }
}
