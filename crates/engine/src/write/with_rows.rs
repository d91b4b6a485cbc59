//! A command whose append carries more than the run's own events: rows of its session, or the beginning of the run that
//! takes its place. All of it happens, or nothing.
//!
//! It is served by itself, so that what it brings can be refused without anybody else being to blame.

use recount_event::{Code, Payload};
use recount_log::{Guard, RowPut};
use recount_run::{Command, Status};

use crate::ground::rows;
use crate::write::blobs;
use crate::write::commit::{Commit, CommitFailure};
use crate::write::loaded_run::LoadedRun;
use crate::write::run_start::{RunStart, RunStartGuard};
use crate::write::run_writer::Writer;
use crate::{CommandOutcome, Error, KeptAnswer, KeyedReply, Made, Once, Receipt};

/// See the file's head.
#[derive(Default)]
pub(crate) struct CommandWithRows {
    pub(crate) rows: Vec<RowPut>,
    /// A run of the same session. The command ends the one before it, which must be waiting.
    pub(crate) successor: Option<RunStart>,
    /// The request that lets the run go on, to be remembered with the place where it does.
    pub(crate) once: Option<Once>,
    /// Values of secret options that the rows bring: masked from this command on.
    pub(crate) secrets: Vec<String>,
    /// The request that the command is, to be remembered with its answer.
    pub(crate) reply: Option<KeyedReply<CommandOutcome>>,
    /// Whether the command is part of a deletion, which must work on a full disk, too.
    pub(crate) frees_space: bool,
}

/// What became of it.
pub(crate) enum SideOutcome {
    Written {
        /// Where the command's own events are. `None`: there was nothing to write.
        own: Option<Receipt>,
        /// Where the successor starts.
        started: Option<Receipt>,
        /// The answer that was kept with the events.
        kept: Option<KeptAnswer>,
    },
    /// A row was changed by another client meanwhile, and nothing was written: look again.
    Stale,
    /// The run has ended by itself, and nothing was written.
    Ended,
}

impl Writer {
    pub(super) async fn submit_with_rows(
        &mut self,
        mut loaded: Box<LoadedRun>,
        command: Command,
        with: CommandWithRows,
    ) -> Result<SideOutcome, Error> {
        let CommandWithRows { mut rows, mut successor, once, secrets, reply, frees_space } = with;
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
        loaded.redaction = loaded.redaction.knowing(&secrets);
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
        let goes_on = events.iter().find(|event| matches!(event.payload(), Payload::RunContinued(_)));
        if let (Some(once), Some(goes_on)) = (once, goes_on) {
            let made = Made::At(self.run, goes_on.sequence);
            rows.extend(once.rows(self.room.ground.world.clock.now_ms(), Some(made), None));
        }
        rows.extend(loaded.fold.rows(&loaded.state));
        rows.append(&mut loaded.allowances);
        let mut replied = None;
        if let (Some(reply), Some(last), Some(run)) = (reply, events.last(), loaded.fold.run()) {
            let made = Made::At(self.run, last.sequence);
            let outcome = CommandOutcome::of(run.clone(), &rows);
            let (kept, answer) = reply.rows(self.room.ground.world.clock.now_ms(), made, &outcome);
            rows.extend(kept);
            replied = answer;
        }
        let named = blobs::named(&rows);
        let mut commit = Commit::default();
        commit.frees_space = frees_space;
        commit.events(self.run, first, &events);
        let room = self.room.clone();
        let mut birth = None;
        if let Some(successor) = &mut successor {
            birth = Some(RunStartGuard::of(&room, successor));
            let beginning = successor.add_to(&mut commit);
            rows = self.handed_over(rows, beginning).await?;
        }
        commit.rows = rows;
        if commit.is_empty() {
            self.loaded = Some(loaded);
            return Ok(SideOutcome::Written { own: None, started: None, kept: None });
        }
        let landed = match room.commit(commit).await {
            Ok(landed) => landed,
            Err(failed) => {
                if let Some(birth) = &mut birth {
                    birth.is_known = failed.is_certain;
                }
                return match failed.meaning(self.run) {
                    CommitFailure::Stale => Ok(SideOutcome::Stale),
                    CommitFailure::Refused(error) => Err(error),
                };
            }
        };
        room.blobs.named(Some(self.run), named);
        self.settle(loaded, had_ended, false);
        let own = landed.of(self.run);
        let mut started = None;
        if let (Some(birth), Some(successor)) = (birth, successor) {
            started = landed.of(successor.run);
            birth.happened(successor);
        }
        Ok(SideOutcome::Written { own, started, kept: replied })
    }

    /// The rows of both runs together. That the session is busy passes from one to the other in one change of one
    /// row, which must still be as this run left it.
    async fn handed_over(&self, ending: Vec<RowPut>, beginning: Vec<RowPut>) -> Result<Vec<RowPut>, Error> {
        let mut rows = ending;
        for mut put in beginning {
            if &*put.space == rows::SESSION_ACTIVE {
                rows.retain(|other| other.space != put.space || other.key != put.key);
                let found = self.room.ground.store.row(&put.space, &put.key).await?;
                // One of a store that did not note this yet has none.
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
