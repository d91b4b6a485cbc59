//! The handle for reading.

use std::sync::Arc;

use crate::CatalogueHandle;
use crate::ground::context::Ground;
use crate::read::publish::Publisher;

/// Reads and follows events, and lists prompts and artifacts. Cheap to clone.
#[derive(Clone)]
pub struct ReadHandle {
    catalogue: CatalogueHandle,
    pub(crate) publisher: Arc<Publisher>,
}

impl ReadHandle {
    pub(crate) fn new(catalogue: CatalogueHandle, publisher: Arc<Publisher>) -> Self {
        ReadHandle { catalogue, publisher }
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        self.catalogue.ground()
    }

    pub fn catalogue(&self) -> &CatalogueHandle {
        &self.catalogue
    }
}
