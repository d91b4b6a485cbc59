//! The handle for executing own runs.

use std::sync::{Arc, OnceLock};

use crate::ground::context::Ground;
use crate::{CatalogueHandle, ForeignMcpCall, ForeignVerdict, Performer, ReadHandle, WriteHandle};

/// Attaches a performer, and asks it about workspace changes and policy verdicts. Cheap to clone.
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

    /// The policy's verdict on a call of another agent; `None` without a policy.
    pub fn judge_mcp_call(&self, call: &ForeignMcpCall) -> Option<ForeignVerdict> {
        self.performer()?.judge_mcp_call(call)
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
