//! How runs begin: what is asked for is settled, masked and written to the log before a worker starts.
//! Look at [`WriteHandle::create_run`].

use bytes::Bytes;
use futures_util::FutureExt as _;
use recount_event::family::run::Driver;
use recount_event::{Payload, RunId};
use recount_log::{Guard, RowPut};
use recount_redact::with_paths;
use recount_run::{Command, State};

use crate::boxed;
use crate::catalogue::fold::Fold;
use crate::ground::{journal, rows};
use crate::write::commit::{Commit, CommitFailure};
use crate::write::handle::WriteHandle;
use crate::write::redaction::Redaction;
use crate::write::redaction::texts::Texts;
use crate::write::run_start::{RunStart, RunStartGuard};
use crate::{Error, Made, NewRun, Once, Receipt, limits};

/// What became of it.
pub(crate) enum Started {
    Here(Receipt),
    /// A row has changed since it was looked at: look again.
    Stale,
}

impl WriteHandle {
    pub(crate) async fn queue(
        &self,
        new: NewRun,
        rows: Vec<RowPut>,
        once: Option<&Once>,
    ) -> Result<(RunId, Receipt), Error> {
        self.queue_as(None, new, rows, once).await
    }

    /// The same under an id that was given before.
    pub(crate) async fn queue_as(
        &self,
        id: Option<RunId>,
        mut new: NewRun,
        rows: Vec<RowPut>,
        once: Option<&Once>,
    ) -> Result<(RunId, Receipt), Error> {
        self.settle(&mut new)?;
        for _ in 0..limits::QUEUE_TRIES {
            let (mut new, mut rows) = (new.clone(), rows.clone());
            rows.extend(self.charge(&mut new).await?);
            self.afford(&new)?;
            let redaction = match new.session {
                Some(session) => self.room.redaction_in(session).await?,
                None => self.room.redaction.clone(),
            };
            let beginning = self.prepare_as(id, new, rows, once, redaction)?;
            let run = beginning.run;
            if let Started::Here(receipt) = self.begin(beginning).await? {
                return Ok((run, receipt));
            }
        }
        Err(Error::too_many_at_once("the task"))
    }

    /// Has what a request left open filled in. Without a performer, the client that made the run drives it.
    pub(crate) fn settle(&self, new: &mut NewRun) -> Result<(), Error> {
        if new.queued.driver == Driver::Own
            && let Some(admission) = self.room.admission.get()
        {
            admission.accept(new)?;
        }
        Ok(())
    }

    /// Refuses what could not keep to the budget of its task.
    pub(crate) fn afford(&self, new: &NewRun) -> Result<(), Error> {
        if new.queued.driver == Driver::Own
            && let Some(admission) = self.room.admission.get()
        {
            admission.afford(&new.queued)?;
        }
        Ok(())
    }

    /// Works out how a run begins. Nothing is written.
    pub(crate) fn prepare(
        &self,
        new: NewRun,
        rows: Vec<RowPut>,
        once: Option<&Once>,
        redaction: Redaction,
    ) -> Result<RunStart, Error> {
        self.prepare_as(None, new, rows, once, redaction)
    }

    fn prepare_as(
        &self,
        id: Option<RunId>,
        new: NewRun,
        mut rows: Vec<RowPut>,
        once: Option<&Once>,
        redaction: Redaction,
    ) -> Result<RunStart, Error> {
        let stamp = self.ground().stamp();
        let run = id.unwrap_or_else(|| RunId::new(self.ground().mint(stamp)));
        let mut state = State::blank(run, new.task, new.session);
        let (queued, masked) = redaction.payload(Payload::RunQueued(Box::new(new.queued)))?;
        let Payload::RunQueued(queued) = queued else {
            return Err(Error::bug("masking changed the type of the value"));
        };
        let command = Command::Queue { queued, resumed_from: new.resumed_from.map(Box::new) };
        let mut events = recount_run::decide(&state, command, stamp)?;
        if !masked.is_empty() {
            for event in events.iter_mut().filter(|event| matches!(event.payload(), Payload::RunQueued(_))) {
                event.body.verbatim = Some(with_paths(&event.payload().write(), &masked).into());
            }
        }
        let (mut fold, mut texts) = (Fold::new(run, new.task, new.session), Texts::default());
        for event in &events {
            recount_run::apply(&mut state, event);
            fold.event(event);
            texts.event(event, !redaction.redactor.is_off(), &redaction.redactor);
        }
        rows.extend(fold.rows(&state));
        rows.extend(once.into_iter().flat_map(|once| self.made_once(once, Made::Run(run))));
        if let Some(task) = new.task {
            rows.push(rows::put(rows::TASK_ACTIVE, task.to_string(), Guard::Absent, &run.to_string()));
            rows.push(rows::must_be_absent(rows::TASKS_ERASED, task.to_string()));
        }
        if let Some(session) = new.session {
            rows.push(rows::must_be_absent(rows::SESSIONS_ERASED, session.to_string()));
            if state.driver() == Driver::Own {
                let (key, run) = (session.to_string(), run.to_string());
                rows.push(rows::put(rows::SESSION_ACTIVE, key, Guard::Absent, &run));
            }
        }
        let records = journal::encode(&events, 0);
        let bytes = records.iter().map(Bytes::len).sum();
        Ok(RunStart { run, state, fold, texts, redaction, events, records, bytes, rows })
    }

    /// Writes it down, and gives it to a worker.
    pub(crate) async fn begin(&self, mut beginning: RunStart) -> Result<Started, Error> {
        let run = beginning.run;
        let mut birth = RunStartGuard::of(&self.room, &beginning);
        let mut commit = Commit::default();
        commit.rows = beginning.add_to(&mut commit);
        // It is in line from here on, and whatever else is written of the run comes after it. So workers
        // may begin to think, and their first report waits for the disk together with this.
        let outcome = self.room.commit(commit).shared();
        birth.foreseen(beginning, outcome.clone());
        let landed = match outcome.await {
            Ok(landed) => landed,
            Err(failed) => {
                if failed.is_certain {
                    birth.did_not_happen();
                }
                return match failed.meaning(run) {
                    CommitFailure::Stale => Ok(Started::Stale),
                    CommitFailure::Refused(error) => Err(error),
                };
            }
        };
        let receipt = landed.of(run).ok_or_else(|| Error::bug("an append of one run landed in none"))?;
        birth.is_known = true;
        Ok(Started::Here(receipt))
    }
}

impl WriteHandle {
    /// Creates a run; its first event is durable when this answers.
    #[boxed]
    pub async fn create_run(&self, new: NewRun) -> Result<(RunId, Receipt), Error> {
        self.create_run_once(new, None).await
    }

    /// The same for a request that is to be done once.
    #[boxed]
    pub async fn create_run_once(&self, new: NewRun, once: Option<&Once>) -> Result<(RunId, Receipt), Error> {
        if let Some(task) = new.task
            && self.catalogue().task(task).await?.is_none()
        {
            return Err(self.catalogue().missing_task(task).await);
        }
        if let Some(session) = new.session
            && self.catalogue().session(session).await?.is_none()
        {
            return Err(self.catalogue().missing_session(session).await);
        }
        self.queue(new, Vec::new(), once).await
    }
}
