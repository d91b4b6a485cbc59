//! A command whose append carries more than the run's own events: rows of its session, or the beginning of the run that
//! takes its place. All of it happens, or nothing.
//!
//! It is served by itself, so that what it brings can be refused without anybody else being to blame.

use std::sync::{Arc, Mutex, PoisonError};

use recount_event::{Code, Payload};
use recount_log::{Append, Guard, RowPut, StreamAppend};
use recount_run::{Command, Status};

use crate::ground::append::{may_have_happened, receipt};
use crate::ground::{journal, rows};
use crate::write::artifacts::blobs;
use crate::write::run_writer::{Decided, LoadedRun, Writer};
use crate::write::start::{Begun, RunStart, RunStartGuard, not_begun};
use crate::{CommandOutcome, Error, KeptAnswer, KeyedReply, Once, Receipt};

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
    pub(crate) out: Told,
}

/// Where it is found what became of what was brought, because a receipt only tells of the command.
pub(crate) type Told = Arc<Mutex<Option<SideOutcome>>>;

pub(crate) enum SideOutcome {
    /// The successor is there.
    Begun(Receipt),
    /// The answer that was kept with the events.
    Replied(KeptAnswer),
    /// A row was changed by somebody else meanwhile, and nothing was written: look again.
    Stale,
    /// The run has ended by itself, and nothing was written.
    Ended,
}

impl Writer {
    pub(super) async fn beside(
        &mut self,
        mut awake: Box<LoadedRun>,
        command: Command,
        beside: CommandWithRows,
    ) -> Result<Option<Receipt>, Error> {
        let CommandWithRows { mut rows, mut successor, once, secrets, reply, frees_space, out } = beside;
        let tell = |beyond| *out.lock().unwrap_or_else(PoisonError::into_inner) = Some(beyond);
        if successor.is_some() && awake.state.status() != Status::Waiting {
            let ended = awake.state.is_ended();
            self.awake = Some(awake);
            if ended {
                tell(SideOutcome::Ended);
                return Ok(None);
            }
            let busy = format!("{} was answered meanwhile and goes on; wait for it, or cancel it", self.run);
            return Err(Error::rejected(Code::SessionBusy, busy));
        }
        awake.redaction = awake.redaction.knowing(&secrets);
        let first = awake.state.next_sequence();
        let had_ended = awake.state.is_ended();
        let decided = self.command(&mut awake, command, self.stamp()).await;
        let events = match decided {
            Ok(Decided::Events(events)) => events,
            Ok(Decided::Landed(_)) => return Err(Error::bug("a command is no batch that came again")),
            Err(error) => {
                self.awake = Some(awake);
                return Err(error);
            }
        };
        let goes_on = events.iter().find(|event| matches!(event.payload(), Payload::RunContinued(_)));
        if let (Some(once), Some(goes_on)) = (once, goes_on) {
            let made = format!("{}/{}", self.run, goes_on.sequence);
            rows.extend(once.rows(self.tools.world.clock.now_ms(), Some(made), None));
        }
        rows.extend(awake.fold.rows(&awake.state));
        rows.append(&mut awake.allowances);
        let mut replied = None;
        if let (Some(reply), Some(last), Some(run)) = (reply, events.last(), awake.fold.run()) {
            let made = format!("{}/{}", self.run, last.sequence);
            let outcome = CommandOutcome::of(run.clone(), &rows);
            let (kept, answer) = reply.rows(self.tools.world.clock.now_ms(), made, &outcome);
            rows.extend(kept);
            replied = answer;
        }
        let named = blobs::named(&rows);
        let mut append = Append { frees_space, ..Append::default() };
        if !events.is_empty() {
            let records = journal::encode(&events, first);
            append.streams.push(StreamAppend { stream: self.stream.clone(), expected_tail: first, records });
        }
        let tools = self.tools.clone();
        let mut birth = None;
        if let Some(successor) = &mut successor {
            birth = Some(RunStartGuard::of(&tools, successor));
            append.streams.push(successor.stream());
            rows = self.handed_over(rows, successor.take_rows()).await?;
        }
        append.rows = rows;
        if append.streams.is_empty() && append.rows.is_empty() {
            self.awake = Some(awake);
            return Ok(None);
        }
        let committed = match tools.store.append(append).await {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(run = %self.run, %error, "append failed; the run is read again from the log");
                let unclear = may_have_happened(&error);
                if unclear {
                    tools.timers.look_again(self.run, &tools.world);
                }
                if let Some(birth) = &mut birth {
                    birth.is_known = !unclear;
                }
                if let Begun::Stale = not_begun(error)? {
                    tell(SideOutcome::Stale);
                }
                return Ok(None);
            }
        };
        tools.blobs.named(Some(self.run), named);
        self.landed(awake, had_ended, false);
        if let Some(answer) = replied {
            tell(SideOutcome::Replied(answer));
        }
        let mut landed = committed.streams.iter();
        let own = if events.is_empty() { None } else { landed.next().map(receipt) };
        if let (Some(birth), Some(successor), Some(landed)) = (birth, successor, landed.next()) {
            birth.happened(successor);
            tell(SideOutcome::Begun(receipt(landed)));
        }
        Ok(own)
    }

    /// The rows of both runs together. That the session is busy passes from one to the other in one change of one
    /// row, which must still be as this run left it.
    async fn handed_over(&self, ending: Vec<RowPut>, beginning: Vec<RowPut>) -> Result<Vec<RowPut>, Error> {
        let mut rows = ending;
        for mut put in beginning {
            if &*put.space == rows::SESSION_ACTIVE {
                rows.retain(|other| other.space != put.space || other.key != put.key);
                let found = self.tools.store.row(&put.space, &put.key).await?;
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
