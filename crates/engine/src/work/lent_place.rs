//! The place of a worker that only waits for another run: another run may have it meanwhile, so that runs which wait for
//! runs never keep those from beginning. It must not know what is waited for. Look at [`LentPlace`].

use recount_event::RunId;

use crate::WriteHandle;
use crate::boxed;

/// A place that was given up for a while.
pub struct LentPlace {
    write: WriteHandle,
    run: RunId,
}

impl LentPlace {
    pub(crate) fn lend(write: WriteHandle, run: RunId) -> Self {
        write.room.dispatch.lend(run);
        LentPlace { write, run }
    }

    /// Waits for a place, before any run that has not started. A worker that does not come back leaves without one.
    #[boxed]
    pub async fn take_back(self) {
        self.write.room.dispatch.take_back(self.run).await;
    }
}
