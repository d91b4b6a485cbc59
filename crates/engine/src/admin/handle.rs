//! The handle of admin operations.

use std::sync::Arc;

use crate::admin::signer::SignerOnce;
use crate::ground::context::Ground;
use crate::{CatalogueHandle, ReadHandle, WorkHandle, WriteHandle};

/// Admin operations: retention, erasure, import, scrub, tokens, checks, statistics. Cheap to clone.
#[derive(Clone)]
pub struct AdminHandle {
    work: WorkHandle,
    /// Serializes prunes and deletions.
    pub(super) housekeeping: Arc<tokio::sync::Mutex<()>>,
    /// Signs heads, if it was started.
    pub(super) signer: SignerOnce,
}

impl AdminHandle {
    pub(crate) fn new(work: WorkHandle) -> Self {
        AdminHandle { work, housekeeping: Arc::default(), signer: SignerOnce::default() }
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
