//! A command whose append has more than the run's own events: rows of its session, or the start of a superseding run.
//! All is written or nothing.
//!
//! It has its own append, so that a refusal does not affect other requests.

use recount_event::{Code, Payload};
use recount_log::{Guard, RowPut};
use recount_run::{Command, Status};

use crate::ground::rows;
use crate::write::blobs;
use crate::write::commit::{Commit, CommitFailure};
use crate::write::loaded_run::LoadedRun;
use crate::write::run_start::{RunStart, RunStartGuard};
use crate::write::run_writer::Writer;
use crate::{CommandOutcome, Error, IdempotencyKey, KeyedReply, Receipt, RequestResult, StoredResponse};

/// The additional content of the append.
#[derive(Default)]
pub(crate) struct CommandWithRows {
    pub(crate) rows: Vec<RowPut>,
    /// A run of the same session. The command ends the previous one, which must be waiting.
    pub(crate) successor: Option<RunStart>,
    /// The key of the request, stored with the event that continues the run.
    pub(crate) idempotency: Option<IdempotencyKey>,
    /// Values of secret options in the rows: masked from this command on.
    pub(crate) secrets: Vec<String>,
    /// The key of the request, stored with its response.
    pub(crate) reply: Option<KeyedReply<CommandOutcome>>,
    /// Whether the command is part of a deletion, which must work on a full disk.
    pub(crate) frees_space: bool,
}

/// The outcome of such a command.
pub(crate) enum SideOutcome {
    Written {
        /// The receipt of the command's events. `None`: there was nothing to write.
        own: Option<Receipt>,
        /// The receipt of the successor's start.
        started: Option<Receipt>,
        /// The response that was stored with the events.
        kept: Option<StoredResponse>,
    },
    /// Another client changed a row meanwhile, and nothing was written: read it again.
    Stale,
    /// The run has ended on its own, and nothing was written.
    Ended,
}

impl Writer {
    pub(super) async fn submit_with_rows(
        &mut self,
        mut loaded: Box<LoadedRun>,
        command: Command,
        with: CommandWithRows,
    ) -> Result<SideOutcome, Error> {
        let CommandWithRows { mut rows, mut successor, idempotency, secrets, reply, frees_space } = with;
        if successor.is_some() && loaded.state.status() != Status::Waiting {
            let ended = loaded.state.is_ended();
            self.loaded = Some(loaded);
            if ended {
                return Ok(SideOutcome::Ended);
            }
            let busy = format!(
                "{} was answered in the meantime and is running; wait for it to end or cancel it",
                self.run
            );
            return Err(Error::rejected(Code::SessionBusy, busy));
        }
        loaded.redaction = loaded.redaction.with_secrets(&secrets);
        let first = loaded.state.next_sequence();
        let had_ended = loaded.state.is_ended();
        let decided = self.command(&mut loaded, command, self.stamp()).await;
        let events = match decided {
            Ok(events) => events,
            Err(error) => {
                self.loaded = Some(loaded);
                return Err(error);
            }
        };
        let continued = events.iter().find(|event| matches!(event.payload(), Payload::RunContinued(_)));
        if let (Some(idempotency), Some(continued)) = (idempotency, continued) {
            let result = RequestResult::ChangedAt(self.run, continued.sequence);
            rows.extend(idempotency.rows(self.context.ground.world.clock.now_ms(), Some(result), None));
        }
        rows.extend(loaded.fold.rows(&loaded.state));
        rows.append(&mut loaded.allowances);
        let mut replied = None;
        if let (Some(reply), Some(last), Some(run)) = (reply, events.last(), loaded.fold.run()) {
            let result = RequestResult::ChangedAt(self.run, last.sequence);
            let outcome = CommandOutcome::of(run.clone(), &rows);
            let (reply_rows, response) =
                reply.rows(self.context.ground.world.clock.now_ms(), result, &outcome);
            rows.extend(reply_rows);
            replied = response;
        }
        let named = blobs::named(&rows);
        let mut commit = Commit::default();
        commit.frees_space = frees_space;
        commit.events(self.run, first, &events);
        let context = self.context.clone();
        let mut guard = None;
        if let Some(successor) = &mut successor {
            guard = Some(RunStartGuard::of(&context, successor));
            let beginning = successor.add_to(&mut commit);
            rows = self.combined_rows(rows, beginning).await?;
        }
        commit.rows = rows;
        if commit.is_empty() {
            self.loaded = Some(loaded);
            return Ok(SideOutcome::Written { own: None, started: None, kept: None });
        }
        let landed = match context.commit(commit).await {
            Ok(landed) => landed,
            Err(failed) => {
                if let Some(guard) = &mut guard {
                    guard.is_known = failed.is_certain;
                }
                return match failed.meaning(self.run) {
                    CommitFailure::Stale => Ok(SideOutcome::Stale),
                    CommitFailure::Refused(error) => Err(error),
                };
            }
        };
        context.blobs.named(Some(self.run), named);
        self.settle(loaded, had_ended, false);
        let own = landed.of(self.run);
        let mut started = None;
        if let (Some(guard), Some(successor)) = (guard, successor) {
            started = landed.of(successor.run);
            guard.happened(successor);
        }
        Ok(SideOutcome::Written { own, started, kept: replied })
    }

    /// Combines the rows of both runs. The active run of the session changes in one row, which must still name this
    /// run.
    async fn combined_rows(&self, ending: Vec<RowPut>, beginning: Vec<RowPut>) -> Result<Vec<RowPut>, Error> {
        let mut rows = ending;
        for mut put in beginning {
            if &*put.space == rows::SESSION_ACTIVE {
                rows.retain(|other| other.space != put.space || other.key != put.key);
                let found = self.context.ground.store.row(&put.space, &put.key).await?;
                // Older stores may lack this row.
                let is_own = |value: &[u8]| value == rows::written(&self.run.to_string());
                put.guard = match found {
                    Some(row) if is_own(&row.value) => Guard::Version(row.version),
                    _ => Guard::Absent,
                };
            }
            rows.push(put);
        }
        Ok(rows)
    }
}
