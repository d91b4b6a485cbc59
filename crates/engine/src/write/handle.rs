//! The handle of the writing room.

use std::sync::Arc;

use crate::ground::context::Ground;
use crate::write::room::WriteRoom;
use crate::write::writers::Writers;
use crate::{CatalogueHandle, ReadHandle};

/// Changes runs and records: starts runs, submits commands, ingests batches, keeps artifacts. Cheap to clone.
#[derive(Clone)]
pub struct WriteHandle {
    read: ReadHandle,
    pub(crate) room: Arc<WriteRoom>,
    pub(crate) writers: Arc<Writers>,
}

impl WriteHandle {
    pub(crate) fn new(read: ReadHandle, room: Arc<WriteRoom>) -> Self {
        let writers = Writers::new(room.clone());
        WriteHandle { read, room, writers }
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
