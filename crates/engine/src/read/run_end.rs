//! Waits for the ending of a run. It must not know the kind of ending. Start with [`ReadHandle::run_end`].

use std::sync::Arc;

use recount_event::RunId;

use crate::Error;
use crate::boxed;
use crate::ground::error::run_not_found;
use crate::ground::journal;
use crate::read::handle::ReadHandle;
use crate::read::live::List;

/// Waits for the ending of one run.
pub struct RunEnd(Arc<List>);

impl RunEnd {
    /// Returns when the run has ended.
    #[boxed]
    pub async fn reached(&self) {
        if self.0.watch().wait_for(|state| state.end.is_some()).await.is_err() {
            // The list lives as long as this value, so the channel stays open.
        }
    }
}

impl ReadHandle {
    /// Subscribes to the ending of a run, also of one that has ended.
    #[boxed]
    pub async fn run_end(&self, run: RunId) -> Result<RunEnd, Error> {
        // First the list, then the row: a later ending is published to the list.
        let list = self.publisher.run(&journal::stream_of(run));
        let Some(row) = self.catalogue().run(run).await? else { return Err(run_not_found(run)) };
        if row.has_ended() {
            list.mark_ended(self.tail(run).await?.unwrap_or(0));
        }
        Ok(RunEnd(list))
    }
}
