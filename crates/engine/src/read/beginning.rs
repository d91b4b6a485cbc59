//! How a run was queued and where it goes on from, read from its first events. No more of it is read than these.

use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{Payload, RunId};
use recount_log::ReadBound;

use crate::boxed;
use crate::ground::journal;
use crate::read::handle::ReadHandle;
use crate::{Error, limits};

/// `run.queued` is the first event of a run, or the second where it goes on from another.
const BEGINNING: usize = 2;

impl ReadHandle {
    /// How a run started; `None` when that was pruned, or when there is no such run.
    #[boxed]
    pub async fn queued(&self, run: RunId) -> Result<Option<Queued>, Error> {
        let stream = journal::stream_of(run);
        let bound = ReadBound { count: BEGINNING, bytes: limits::PAGE_BYTES };
        for record in self.ground().store().read(&stream, 0, bound).await? {
            let event = journal::decode(&record.bytes, &stream, record.sequence)?;
            if let Payload::RunQueued(queued) = event.payload() {
                return Ok(Some((**queued).clone()));
            }
        }
        Ok(None)
    }
    /// Where in another run this one goes on; `None` when it does not, or when its beginning was pruned.
    #[boxed]
    pub async fn resumed_from(&self, run: RunId) -> Result<Option<ResumedFromEvent>, Error> {
        let stream = journal::stream_of(run);
        let bound = ReadBound { count: 1, bytes: limits::PAGE_BYTES };
        let Some(record) = self.ground().store().read(&stream, 0, bound).await?.into_iter().next() else {
            return Ok(None);
        };
        let event = journal::decode(&record.bytes, &stream, record.sequence)?;
        match event.payload() {
            Payload::RunResumedFromEvent(resumed) => Ok(Some((**resumed).clone())),
            _ => Ok(None),
        }
    }
}
