//! Reads from the first events of a run how it was queued and which run it resumes.

use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{Payload, RunId};
use recount_log::ReadBound;

use crate::boxed;
use crate::ground::journal;
use crate::read::handle::ReadHandle;
use crate::{Error, limits};

/// `run.queued` is the first event of a run, or the second if it resumes another run.
const BEGINNING: usize = 2;

impl ReadHandle {
    /// The queued data of a run; `None` if they were pruned or the run does not exist.
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
    /// The event in another run from which this run continues; `None` if it does not, or if its beginning was pruned.
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
