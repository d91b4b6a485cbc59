//! The handle for writing.

use std::sync::Arc;

use crate::ground::context::Ground;
use crate::write::context::WriteContext;
use crate::write::writers::Writers;
use crate::{CatalogueHandle, ReadHandle};

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

    pub fn catalogue(&self) -> &CatalogueHandle {
        self.read.catalogue()
    }

    pub fn read(&self) -> &ReadHandle {
        &self.read
    }
}
