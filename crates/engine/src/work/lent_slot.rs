//! The slot of a worker that waits for another run. Another run may use the slot meanwhile, so that waiting runs
//! never block the runs they wait for. It must not know what the worker waits for. Start with [`LentSlot`].

use recount_event::RunId;

use crate::WriteHandle;
use crate::boxed;

/// A slot that is lent while its worker waits.
pub struct LentSlot {
    write: WriteHandle,
    run: RunId,
}

impl LentSlot {
    pub(crate) fn lend(write: WriteHandle, run: RunId) -> Self {
        write.context.dispatch.lend(run);
        LentSlot { write, run }
    }

    /// Waits for a slot, with priority over runs that have not started. A worker that is dropped while waiting ends
    /// without one.
    #[boxed]
    pub async fn reclaim(self) {
        self.write.context.dispatch.reclaim(self.run).await;
    }
}
