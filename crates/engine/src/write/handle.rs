//! The handle for writing: submits commands and batches of events to the writer of a run.

use std::sync::Arc;

use recount_event::{Code, Draft, RunId};
use recount_log::{Fault, FaultKind, Retry};
use recount_run::Command;

use crate::boxed;
use crate::ground::context::Ground;
use crate::write::context::WriteContext;
use crate::write::request::{CommandWithRows, Ingest, KeyEvent, SideOutcome, Submit, SubmitWithRows};
use crate::write::writers::Writers;
use crate::{BatchId, CatalogueHandle, Error, IdempotencyKey, ReadHandle, Receipt, limits};

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

    /// Refuses an effect outside of the log while another process may own the store. To be called directly before each.
    pub fn check_owner(&self) -> Result<(), Error> {
        if self.ground().store().is_owner() {
            return Ok(());
        }
        let message = "this node may not own the store any more, so nothing is executed for it";
        Err(Error::from(Fault::new(FaultKind::Fenced, Retry::Maybe, message)))
    }

    pub fn catalogue(&self) -> &CatalogueHandle {
        self.read.catalogue()
    }

    pub fn read(&self) -> &ReadHandle {
        &self.read
    }

    /// Submits a command to a run. `None`: there was nothing to write.
    pub async fn submit(&self, run: RunId, command: Command) -> Result<Option<Receipt>, Error> {
        self.writers.ask(run, Submit(command)).await
    }

    /// Submits a command for a request with a key. Returns the last event of the run then, which the key stores.
    #[boxed]
    pub async fn submit_keyed(
        &self,
        run: RunId,
        command: Command,
        idempotency: IdempotencyKey,
    ) -> Result<Option<u64>, Error> {
        let idempotency = Some((idempotency, KeyEvent::Last));
        let with = CommandWithRows { idempotency, ..CommandWithRows::default() };
        match self.submit_with_rows(run, command, with).await? {
            SideOutcome::Written { last_sequence, .. } => Ok(Some(last_sequence)),
            SideOutcome::Stale | SideOutcome::Ended => Ok(None),
        }
    }

    /// Submits a command with rows or events of others in the same append.
    pub(super) async fn submit_with_rows(
        &self,
        run: RunId,
        command: Command,
        with: CommandWithRows,
    ) -> Result<SideOutcome, Error> {
        self.writers.ask(run, SubmitWithRows { command, with: Box::new(with) }).await
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
