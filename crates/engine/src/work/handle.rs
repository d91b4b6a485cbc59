//! The handle of the work room.

use std::sync::{Arc, OnceLock};

use crate::ground::context::Ground;
use crate::{CatalogueHandle, Performer, ReadHandle, WriteHandle};

/// Attaches a performer, and asks it for what runs changed in their workspaces. Cheap to clone.
#[derive(Clone)]
pub struct WorkHandle {
    write: WriteHandle,
    pub(super) attached: Arc<OnceLock<Arc<dyn Performer>>>,
}

impl WorkHandle {
    pub(crate) fn new(write: WriteHandle) -> Self {
        WorkHandle { write, attached: Arc::default() }
    }

    pub(crate) fn performer(&self) -> Option<&Arc<dyn Performer>> {
        self.attached.get()
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        self.write.ground()
    }

    pub fn catalogue(&self) -> &CatalogueHandle {
        self.write.catalogue()
    }

    pub fn read(&self) -> &ReadHandle {
        self.write.read()
    }

    pub fn write(&self) -> &WriteHandle {
        &self.write
    }
}
