//! The handle for writing.

use std::sync::Arc;

use recount_log::{Fault, FaultKind, Retry};

use crate::ground::context::Ground;
use crate::write::context::WriteContext;
use crate::write::writers::Writers;
use crate::{CatalogueHandle, Error, ReadHandle};

/// Changes runs and records: starts runs, submits commands, ingests batches, stores artifacts. Cheap to clone.
#[derive(Clone)]
pub struct WriteHandle {
    read: ReadHandle,
    pub(crate) context: Arc<WriteContext>,
    pub(crate) writers: Arc<Writers>,
}

impl WriteHandle {
    pub(crate) fn new(read: ReadHandle, context: Arc<WriteContext>) -> Self {
        let writers = Writers::new(context.clone());
        WriteHandle { read, context, writers }
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        self.read.ground()
    }

    /// Refuses an effect outside of the log while another process may own the store. To be called directly before each.
    pub fn check_owner(&self) -> Result<(), Error> {
        if self.ground().store().is_owner() {
            return Ok(());
        }
        let message = "this node may not own the store any more, so nothing is executed for it";
        Err(Error::from(Fault::new(FaultKind::Fenced, Retry::Maybe, message)))
    }

    pub fn catalogue(&self) -> &CatalogueHandle {
        self.read.catalogue()
    }

    pub fn read(&self) -> &ReadHandle {
        &self.read
    }
}
