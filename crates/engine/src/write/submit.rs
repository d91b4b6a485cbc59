//! Submits commands and batches of events to the writer of a run.

use recount_event::{Code, Draft, RunId};
use recount_run::Command;

use crate::write::handle::WriteHandle;
use crate::write::request::{Ingest, Submit};
use crate::{BatchId, Error, Receipt, limits};

impl WriteHandle {
    /// Submits a command to a run. `None`: there was nothing to write.
    pub async fn submit(&self, run: RunId, command: Command) -> Result<Option<Receipt>, Error> {
        self.writers.ask(run, Submit(command)).await
    }

    /// Appends a batch from the producer of an external run, exactly once for each batch id.
    pub async fn ingest(&self, run: RunId, batch_id: BatchId, drafts: Vec<Draft>) -> Result<Receipt, Error> {
        if drafts.is_empty() {
            return Err(Error::rejected(Code::BodyMalformed, "the batch has no events; send at least one"));
        }
        if drafts.len() > limits::BATCH_EVENTS_MAX {
            return Err(Error::rejected(
                Code::LimitReached,
                format!("the batch has {} events; send at most {}", drafts.len(), limits::BATCH_EVENTS_MAX),
            ));
        }
        self.writers.ask(run, Ingest { batch_id, drafts }).await
    }
}
