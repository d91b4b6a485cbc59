//! User messages in a session of an application: a message starts a run or supersedes a waiting one; an answer
//! continues a waiting run. Overrides of the setup are stored in the same append.

use recount_event::family::run::RunKind;
use recount_event::{RunId, SessionId};
use recount_log::RowPut;
use recount_run::{CancelledBy, Command};

use crate::boxed;
use crate::write::commit::CommitFailure;
use crate::write::handle::WriteHandle;
use crate::write::request::{CommandWithRows, KeyEvent, SideOutcome};
use crate::{Error, IdempotencyKey, ListQuery, NewRun, Overrides, Receipt, SetupRow, limits};

/// A message that starts a run.
#[derive(Debug, Clone)]
pub struct UserMessage {
    pub session: SessionId,
    pub new: NewRun,
    /// The setup as read by the caller; read here if missing.
    pub before: Option<SetupRow>,
    pub overrides: Overrides,
    pub supersedes: Option<SupersededRun>,
}

/// A waiting run whose user sends another message instead of an answer.
#[derive(Debug, Clone)]
pub struct SupersededRun {
    pub run: RunId,
    pub reason: String,
}

/// Answers to a waiting run.
#[derive(Debug, Clone)]
pub struct RunReply {
    pub session: SessionId,
    pub run: RunId,
    pub command: Command,
    /// As in [`UserMessage`].
    pub before: Option<SetupRow>,
    pub overrides: Overrides,
}

impl WriteHandle {
    /// Starts a run in a session; its first event is durable when this returns. With `supersedes`, a waiting run ends
    /// in the same append. Refused with `session_busy` while another run of the session is active.
    #[boxed]
    pub async fn send_message(
        &self,
        message: UserMessage,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<(RunId, Receipt), Error> {
        let UserMessage { session, mut new, mut before, overrides, mut supersedes } = message;
        new.session = Some(session);
        self.stay_in_copy(session, &mut new).await?;
        self.settle(&mut new)?;
        if let Some(superseded) = &supersedes {
            // The runs of a session are ordered by their ids.
            self.ground().mint_after(superseded.run.ulid());
        }
        for _ in 0..limits::QUEUE_TRIES {
            let mut new = new.clone();
            let mut rows = self.setup_rows(session, &mut before, &overrides).await?;
            rows.extend(self.charge(&mut new).await?);
            self.afford(&new)?;
            let redaction = self.redaction_with_secrets(session, before.as_ref(), &overrides.secrets).await?;
            let start = self.prepare(None, new, rows, idempotency, redaction)?;
            let run = start.run;
            let Some(superseded) = &supersedes else {
                match self.begin(start).await {
                    Ok(receipt) => return Ok((run, receipt)),
                    Err(CommitFailure::Stale) => before = None,
                    Err(CommitFailure::Refused(error)) => return Err(error),
                }
                continue;
            };
            let reason = superseded.reason.clone();
            let command = Command::Cancel { by: CancelledBy::Operator, reason };
            let with = CommandWithRows { successor: Some(start), ..CommandWithRows::default() };
            match self.submit_with_rows(superseded.run, command, with).await? {
                SideOutcome::Written { started: Some(receipt), .. } => return Ok((run, receipt)),
                SideOutcome::Stale => before = None,
                SideOutcome::Ended => supersedes = None,
                SideOutcome::Written { started: None, .. } => {
                    return Err(Error::bug(format!("the outcome of {run} is unknown")));
                }
            }
        }
        Err(Error::too_many_at_once(&format!("the session {session}")))
    }

    /// A message after a branch continues in its copy.
    async fn stay_in_copy(&self, session: SessionId, new: &mut NewRun) -> Result<(), Error> {
        let copies = &self.context.session_copies;
        let newest = match copies.get(session) {
            Some(known) => known,
            None => {
                let newest = ListQuery { limit: limits::SESSION_RUNS_SEARCHED_MAX, ..ListQuery::default() };
                let runs = self.catalogue().list_session_runs(session, &newest).await?.items;
                let last = runs.into_iter().find(|row| row.kind == RunKind::AgentLoop.as_str());
                let newest = last.map(|last| (last.task_id, last.workspace_path));
                copies.insert(session, newest.clone());
                newest
            }
        };
        if let Some((_, path)) = newest.filter(|(task, _)| *task == new.task) {
            new.queued.workspace_path = path;
        }
        Ok(())
    }

    /// Answers a waiting run. `None`: there was nothing to write. If the run continues, the key stores `RUN/SEQUENCE`
    /// with the sequence of `run.continued`.
    #[boxed]
    pub async fn reply(
        &self,
        reply: RunReply,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<Option<Receipt>, Error> {
        let RunReply { session, run, command, mut before, overrides } = reply;
        for _ in 0..limits::QUEUE_TRIES {
            if overrides.is_empty() && idempotency.is_none() {
                return self.submit(run, command).await;
            }
            let mut rows = Vec::new();
            if !overrides.is_empty() {
                rows = self.setup_rows(session, &mut before, &overrides).await?;
            }
            let secrets = overrides.secrets.values().cloned().collect();
            let with = CommandWithRows {
                rows,
                idempotency: idempotency.cloned().map(|key| (key, KeyEvent::Continuation)),
                secrets,
                ..CommandWithRows::default()
            };
            match self.submit_with_rows(run, command.clone(), with).await? {
                SideOutcome::Stale => before = None,
                SideOutcome::Written { own, .. } => return Ok(own),
                SideOutcome::Ended => return Ok(None),
            }
        }
        Err(Error::too_many_at_once(&format!("the session {session}")))
    }

    /// The rows that store overrides. They apply to the setup that was read, or fail.
    async fn setup_rows(
        &self,
        session: SessionId,
        before: &mut Option<SetupRow>,
        overrides: &Overrides,
    ) -> Result<Vec<RowPut>, Error> {
        if before.is_none() {
            *before = self.catalogue().setup(session).await?;
        }
        match before {
            Some(before) => self.override_rows(session, before, overrides),
            None if overrides.is_empty() && self.catalogue().session(session).await?.is_some() => {
                Ok(Vec::new())
            }
            None => Err(self.catalogue().missing_session(session).await),
        }
    }
}
