//! What a person says in a session that an application has set up: a message begins a run, or takes the place of one
//! that waits; an answer lets one go on that waits. What changes of the setup with it lasts, in the same append.

use recount_event::{RunId, SessionId};
use recount_log::RowPut;
use recount_run::{CancelledBy, Command};

use crate::boxed;
use crate::write::handle::WriteHandle;
use crate::write::request::SubmitWithRows;
use crate::write::start::Started;
use crate::write::with_rows::{CommandWithRows, SideOutcome};
use crate::{
    CommandOutcome, Error, KeptAnswer, KeyedReply, NewRun, Once, Overrides, Receipt, SetupRow, limits,
};

/// A message that begins a run.
#[derive(Debug, Clone)]
pub struct Saying {
    pub session: SessionId,
    pub new: NewRun,
    /// The setup as the caller has read it; read here when missing.
    pub before: Option<SetupRow>,
    pub overrides: Overrides,
    pub supersedes: Option<Superseded>,
}

/// A waiting run whose person says something else instead of answering.
#[derive(Debug, Clone)]
pub struct Superseded {
    pub run: RunId,
    pub reason: String,
}

/// Answers to a run that waits.
#[derive(Debug, Clone)]
pub struct Answering {
    pub session: SessionId,
    pub run: RunId,
    pub command: Command,
    /// As in [`Saying`].
    pub before: Option<SetupRow>,
    pub overrides: Overrides,
}

impl WriteHandle {
    /// Begins a run in a session; its first event is durable when this answers. With `supersedes` a run that waits ends
    /// in the same append. Refused with `session_busy` while another one of the session is at work.
    #[boxed]
    pub async fn say(&self, saying: Saying, once: Option<&Once>) -> Result<(RunId, Receipt), Error> {
        let Saying { session, mut new, mut before, overrides, mut supersedes } = saying;
        new.session = Some(session);
        self.settle(&mut new)?;
        if let Some(superseded) = &supersedes {
            // The runs of a session are told in the order of their ids.
            self.ground().mint_after(superseded.run.ulid());
        }
        for _ in 0..limits::QUEUE_TRIES {
            let mut new = new.clone();
            let mut rows = self.lasting(session, &mut before, &overrides).await?;
            rows.extend(self.charge(&mut new).await?);
            self.afford(&new)?;
            let redaction = self.redaction_given(session, before.as_ref(), &overrides.secrets).await?;
            let beginning = self.prepare(new, rows, once, redaction)?;
            let run = beginning.run;
            let Some(superseded) = &supersedes else {
                match self.begin(beginning).await? {
                    Started::Here(receipt) => return Ok((run, receipt)),
                    Started::Stale => before = None,
                }
                continue;
            };
            let reason = superseded.reason.clone();
            let command = Command::Cancel { by: CancelledBy::Operator, reason };
            let with = CommandWithRows { successor: Some(beginning), ..CommandWithRows::default() };
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

    /// Answers a run that waits. `None`: there was nothing to write of the run. Where the run goes on is remembered as
    /// what the request made: `RUN/SEQUENCE`, the sequence being that of `run.continued`.
    #[boxed]
    pub async fn answer(&self, answering: Answering, once: Option<&Once>) -> Result<Option<Receipt>, Error> {
        let Answering { session, run, command, mut before, overrides } = answering;
        for _ in 0..limits::QUEUE_TRIES {
            if overrides.is_empty() && once.is_none() {
                return self.submit(run, command).await;
            }
            let mut rows = Vec::new();
            if !overrides.is_empty() {
                rows = self.lasting(session, &mut before, &overrides).await?;
            }
            let secrets = overrides.secrets.values().cloned().collect();
            let with = CommandWithRows { rows, once: once.cloned(), secrets, ..CommandWithRows::default() };
            match self.submit_with_rows(run, command.clone(), with).await? {
                SideOutcome::Stale => before = None,
                SideOutcome::Written { own, .. } => return Ok(own),
                SideOutcome::Ended => return Ok(None),
            }
        }
        Err(Error::too_many_at_once(&format!("the session {session}")))
    }

    /// Submits a command that is a request with a key. The answer, when it was kept with the command's events; `None`
    /// where there was nothing to write, or the answer is too large.
    #[boxed]
    pub async fn submit_keyed(
        &self,
        run: RunId,
        command: Command,
        reply: KeyedReply<CommandOutcome>,
    ) -> Result<Option<KeptAnswer>, Error> {
        let with = CommandWithRows { reply: Some(reply), ..CommandWithRows::default() };
        match self.submit_with_rows(run, command, with).await? {
            SideOutcome::Written { kept, .. } => Ok(kept),
            SideOutcome::Stale | SideOutcome::Ended => Ok(None),
        }
    }

    async fn submit_with_rows(
        &self,
        run: RunId,
        command: Command,
        with: CommandWithRows,
    ) -> Result<SideOutcome, Error> {
        self.writers.ask(run, SubmitWithRows { command, with: Box::new(with) }).await
    }

    /// What makes overrides last. They change the setup as it was looked at, or nothing.
    async fn lasting(
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
