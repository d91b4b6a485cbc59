//! The handle of the operator's room.

use std::sync::Arc;

use crate::ground::context::Ground;
use crate::{CatalogueHandle, ReadHandle, WorkHandle, WriteHandle};

/// Does what an operator asks for: retention, erasure, import, scrubbing, tokens, checks, statistics. Cheap to clone.
#[derive(Clone)]
pub struct AdminHandle {
    work: WorkHandle,
    /// One prune or deletion at a time.
    pub(super) housekeeping: Arc<tokio::sync::Mutex<()>>,
}

impl AdminHandle {
    pub(crate) fn new(work: WorkHandle) -> Self {
        AdminHandle { work, housekeeping: Arc::default() }
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        self.work.ground()
    }

    pub fn catalogue(&self) -> &CatalogueHandle {
        self.work.catalogue()
    }

    pub fn read(&self) -> &ReadHandle {
        self.work.read()
    }

    pub fn write(&self) -> &WriteHandle {
        self.work.write()
    }

    pub fn work(&self) -> &WorkHandle {
        &self.work
    }
}
