//! Starts runs: the request is completed, masked and written to the log before a worker starts. Start with
//! [`WriteHandle::create_run`].

use recount_event::family::run::{Driver, Queued};
use recount_event::{Payload, RunId};
use recount_log::{Guard, RowPut};
use recount_redact::with_paths;
use recount_run::{Command, State};

use crate::boxed;
use crate::catalogue::fold::Fold;
use crate::ground::rows;
use crate::write::commit::{Commit, CommitFailure};
use crate::write::handle::WriteHandle;
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::Redaction;
use crate::write::redaction::texts::Texts;
use crate::write::run_start::RunStart;
use crate::{Error, IdempotencyKey, NewRun, NewTask, Receipt, RequestResult, limits};

impl WriteHandle {
    /// Starts a run, with this id if given.
    pub(crate) async fn queue(
        &self,
        id: Option<RunId>,
        mut new: NewRun,
        rows: Vec<RowPut>,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<(RunId, Receipt), Error> {
        self.settle(&mut new)?;
        // It may work in another copy than the session's newest run: before and after its start that is unknown.
        let forget_copy = |session| self.context.session_copies.remove(session);
        new.session.into_iter().for_each(forget_copy);
        for _ in 0..limits::QUEUE_TRIES {
            let (mut new, mut rows) = (new.clone(), rows.clone());
            rows.extend(self.charge(&mut new).await?);
            self.afford(&new)?;
            let session = new.session;
            let redaction = match session {
                Some(session) => self.context.redaction_in(session).await?,
                None => self.context.redaction.clone(),
            };
            let start = self.prepare(id, new, rows, idempotency, redaction)?;
            let run = start.run;
            match self.begin(start).await {
                Ok(receipt) => {
                    session.into_iter().for_each(forget_copy);
                    return Ok((run, receipt));
                }
                Err(CommitFailure::Stale) => {}
                Err(CommitFailure::Refused(error)) => return Err(error),
            }
        }
        Err(Error::too_many_at_once("the task"))
    }

    /// Fills in missing options. Without a performer, the client that created the run drives it.
    pub(crate) fn settle(&self, new: &mut NewRun) -> Result<(), Error> {
        if new.queued.driver == Driver::Own
            && let Some(admission) = self.context.admission.get()
        {
            admission.accept(new)?;
        }
        Ok(())
    }

    /// Refuses a run that cannot keep the budget of its task.
    pub(crate) fn afford(&self, new: &NewRun) -> Result<(), Error> {
        if new.queued.driver == Driver::Own
            && let Some(admission) = self.context.admission.get()
        {
            admission.afford(&new.queued)?;
        }
        Ok(())
    }

    /// Prepares the start of a run. Writes nothing.
    pub(crate) fn prepare(
        &self,
        id: Option<RunId>,
        new: NewRun,
        mut rows: Vec<RowPut>,
        idempotency: Option<&IdempotencyKey>,
        redaction: Redaction,
    ) -> Result<Box<RunStart>, Error> {
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
        rows.extend(self.result_rows(idempotency, RequestResult::Run(run)));
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
        let loaded = LoadedRun::new(state, fold, texts, redaction);
        Ok(Box::new(RunStart { run, loaded, events, bytes: 0, rows }))
    }

    /// Appends the start, and assigns the run to a worker.
    pub(crate) async fn begin(&self, mut start: Box<RunStart>) -> Result<Receipt, CommitFailure> {
        let run = start.run;
        let mut commit = Commit::default();
        commit.rows = start.add_to(&mut commit);
        let landed = self.context.commit_with_start(commit, Some(start)).await;
        let landed = landed.map_err(|failed| failed.meaning(run))?.remove(&run);
        landed.ok_or_else(|| CommitFailure::Refused(Error::bug("an append of one run landed in none")))
    }
}

impl WriteHandle {
    /// Creates a run; its first event is durable when this returns.
    #[boxed]
    pub async fn create_run(&self, new: NewRun) -> Result<(RunId, Receipt), Error> {
        self.create_run_keyed(new, None).await
    }

    /// The same for a request with an idempotency key.
    #[boxed]
    pub async fn create_run_keyed(
        &self,
        new: NewRun,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<(RunId, Receipt), Error> {
        if let Some(task) = new.task {
            self.catalogue().existing_task(task).await?;
        }
        if let Some(session) = new.session {
            self.catalogue().existing_session(session).await?;
        }
        self.queue(None, new, Vec::new(), idempotency).await
    }

    /// Starts a child run in its own task, under an id that the log of the parent already has, unless the id exists. So
    /// a run is started once, even if the call is repeated after a crash. Its first event is durable when this returns.
    #[boxed]
    pub async fn start_child(&self, run: RunId, task: NewTask, mut queued: Queued) -> Result<(), Error> {
        if self.read().tail(run).await?.is_some() {
            return Ok(());
        }
        let (row, rows) = self.new_task(task);
        (queued.task_budget_micros_usd, queued.task_budget_tokens) =
            (row.budget_micros_usd, row.budget_tokens);
        let new = NewRun { queued, task: Some(row.id), session: None, resumed_from: None };
        self.queue(Some(run), new, rows, None).await.map(drop)
    }
}
