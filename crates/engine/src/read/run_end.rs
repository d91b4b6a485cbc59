//! Waits for the ending of a run. It must not know what the ending says. Entry point: [`ReadHandle::run_end`].

use std::sync::Arc;

use recount_event::RunId;

use crate::Error;
use crate::boxed;
use crate::ground::error::run_not_found;
use crate::ground::journal;
use crate::read::handle::ReadHandle;
use crate::read::live::List;

/// A listener to the ending of one run.
pub struct RunEnd(Arc<List>);

impl RunEnd {
    /// Returns when the run has ended.
    #[boxed]
    pub async fn reached(&self) {
        if self.0.watch().wait_for(|level| level.end.is_some()).await.is_err() {
            // The list is held here, so it cannot go away.
        }
    }
}

impl ReadHandle {
    /// A listener to the ending of a run, also of one that has ended.
    #[boxed]
    pub async fn run_end(&self, run: RunId) -> Result<RunEnd, Error> {
        // First the list, then whether the run has ended: an ending after that is published to the list.
        let list = self.publisher.run(&journal::stream_of(run));
        let Some(row) = self.catalogue().run(run).await? else { return Err(run_not_found(run)) };
        if row.has_ended() {
            list.mark_ended(self.tail(run).await?.unwrap_or(0));
        }
        Ok(RunEnd(list))
    }
}
