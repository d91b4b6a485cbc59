//! A worker's session with one run: the state of the run, and reports to its log.
//!
//! A session has its own fold of the run. A report returns all events since the last one, including those of others,
//! so the events of a session are the events of the run. A session whose claim was taken over cannot report.

use std::sync::Arc;

use recount_event::{Draft, Event, ForeignId, Payload, RunId};
use recount_log::ReadBound;
use recount_redact::Redactor;
use recount_run::{Command, State};
use recount_world::World;
use tokio::sync::watch;

use crate::boxed;
use crate::ground::journal;
use crate::read::live::{List, ListState};
use crate::write::commit::StartOutcome;
use crate::write::new_runs::WorkerStart;
use crate::write::redaction::Redaction;
use crate::write::request::Report;
use crate::{CatalogueHandle, Error, ReadHandle, WriteHandle, limits};

/// A worker's session with one run.
pub struct WorkerSession {
    write: WriteHandle,
    run: RunId,
    worker_id: String,
    state: State,
    /// Receives every append to the run since the session was opened.
    list: Arc<List>,
    previous: Option<RunId>,
    /// All events of the run, while they are in memory.
    beginning: Option<Vec<Event>>,
    /// The outcome of the append that starts the run, until it is known.
    start_outcome: Option<StartOutcome>,
    /// Masks data of the run.
    redaction: Redaction,
}

/// Why a session ends.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WorkerExit {
    /// The run has ended, or its start was refused.
    #[error("the run has ended")]
    Ended,
    /// Another worker has the run.
    #[error("another worker has taken over the run")]
    TakenOver,
    /// The rules reject the report: an error of the performer.
    #[error("the reported events are rejected: {0}")]
    Refused(recount_run::Rejection),
    /// A failure of the store; the run has not changed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl WorkerSession {
    /// Opens a session with the logged state of the run.
    pub(crate) async fn open(
        write: WriteHandle,
        run: RunId,
        worker_id: String,
    ) -> Result<WorkerSession, Error> {
        if let Some(WorkerStart { state, redaction, list, previous, events, start_outcome }) =
            write.context.fresh.take_worker_start(run)
        {
            let mut session = WorkerSession {
                write,
                run,
                worker_id,
                state,
                list,
                previous,
                beginning: events,
                start_outcome,
                redaction,
            };
            // The list has received every append since before the run started.
            if session.list.known_next() > session.state.next_sequence() {
                session.read_until(u64::MAX, &mut Vec::new()).await?;
            }
            return Ok(session);
        }
        let stream = journal::stream_of(run);
        let list = write.read().publisher.run(&stream);
        let state = journal::replay(write.ground().store(), &stream, |_| {}).await?;
        let state = state.ok_or_else(|| crate::ground::error::run_not_found(run))?;
        if state.is_ended() {
            list.mark_ended(state.next_sequence());
        }
        let redaction = match state.session_id() {
            Some(chat) => write.context.redaction_in(chat).await?,
            None => write.context.redaction.clone(),
        };
        let (previous, beginning, start_outcome) = (None, None, None);
        Ok(WorkerSession {
            write,
            run,
            worker_id,
            state,
            list,
            previous,
            beginning,
            start_outcome,
            redaction,
        })
    }

    /// The own run that started before this one in its session, if it is cached.
    pub fn previous(&self) -> Option<RunId> {
        self.previous
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    pub fn worker_id(&self) -> &str {
        &self.worker_id
    }

    /// The run as known to this session.
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn catalogue(&self) -> &CatalogueHandle {
        self.write.catalogue()
    }

    pub fn read(&self) -> &ReadHandle {
        self.write.read()
    }

    pub fn write(&self) -> &WriteHandle {
        &self.write
    }

    pub fn world(&self) -> &World {
        &self.write.ground().world
    }

    /// The redactor of the run, for texts that are built before they are reported.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redaction.redactor
    }

    /// Whether a report of this payload would be masked.
    pub fn masks(&self, payload: &Payload) -> bool {
        self.redaction.payload(payload.clone()).is_ok_and(|(_, masked)| !masked.is_empty())
    }

    /// Waits until the start of the run is confirmed. A new run is assigned to a worker before the store confirms it.
    /// The worker may report before that, because a report is written after the start or not at all. It must wait
    /// here before it causes effects or reads rows of the run.
    #[boxed]
    pub async fn wait_until_started(&mut self) -> Result<(), WorkerExit> {
        let Some(start_outcome) = self.start_outcome.take() else { return Ok(()) };
        match start_outcome.await {
            Ok(_) => Ok(()),
            Err(failed) if !failed.is_certain => {
                Err(WorkerExit::Failed(failed.meaning(self.run).into_error()))
            }
            Err(_) => Err(WorkerExit::Ended),
        }
    }

    /// Calls `each` for all stored events of the run, in order, up to the state of this session.
    pub async fn history(&self, mut each: impl FnMut(&Event)) -> Result<(), WorkerExit> {
        if let Some(events) = &self.beginning {
            events.iter().for_each(each);
            return Ok(());
        }
        let next = self.state.next_sequence();
        let stream = journal::stream_of(self.run);
        journal::replay(self.write.ground().store(), &stream, |event| {
            if event.sequence < next {
                each(event);
            }
        })
        .await?;
        Ok(())
    }

    /// Reports events. They are durable when this returns. Returns all events since the last call, in order, with the
    /// reported ones at the end.
    #[boxed]
    pub async fn report(&mut self, drafts: Vec<Draft>) -> Result<Vec<Event>, WorkerExit> {
        if self.state.is_ended() {
            return Err(WorkerExit::Ended);
        }
        let claim = self.state.claim();
        let reported = self.write.writers.ask(self.run, Report { claim, drafts }).await;
        match reported {
            Ok(events) => {
                self.start_outcome = None;
                self.apply_reported(events).await
            }
            Err(error) => {
                // If the start was refused, the report was refused for that reason.
                self.wait_until_started().await?;
                Err(self.exit_reason(error).await)
            }
        }
    }

    /// Takes over a run that lost its worker.
    pub(crate) async fn take_over(&mut self, reason: &str) -> Result<(), WorkerExit> {
        let lease_until_ms = Some(self.lease_until_ms());
        let worker_id = self.worker_id.clone();
        let command = Command::TakeOver { worker_id, lease_until_ms, reason: reason.to_owned() };
        self.write.submit(self.run, command).await?;
        self.catch_up().await.map(drop)
    }

    /// Fails a run that cannot continue, and closes its open items.
    #[boxed]
    pub async fn fail(&mut self, code: &str, message: String, retriable: bool) -> Result<(), WorkerExit> {
        let command = Command::Fail { code: code.to_owned(), message, retriable };
        if let Err(error) = self.write.submit(self.run, command).await {
            return Err(self.exit_reason(error).await);
        }
        self.catch_up().await.map(drop)
    }

    /// A new unique id with this prefix.
    pub fn mint(&self, prefix: &str) -> ForeignId {
        ForeignId::minted(prefix, self.write.ground().mint(self.write.ground().stamp()))
    }

    /// The expiry of a claim that is made now.
    pub fn lease_until_ms(&self) -> u64 {
        let lease = u64::try_from(limits::LEASE.as_millis()).unwrap_or(u64::MAX);
        self.world().clock.now_ms().saturating_add(lease)
    }

    /// Events that others appended since the last call.
    #[boxed]
    pub async fn catch_up(&mut self) -> Result<Vec<Event>, WorkerExit> {
        let mut seen = Vec::new();
        self.read_until(u64::MAX, &mut seen).await?;
        Ok(seen)
    }

    /// Lends the slot of this worker while it waits for another run.
    pub fn lend_slot(&self) -> LentSlot {
        self.write.context.dispatch.lend(self.run);
        LentSlot { write: self.write.clone(), run: self.run }
    }

    /// Subscribes to the ending of the run.
    pub fn watch(&self) -> Watch {
        Watch(self.list.watch())
    }

    async fn apply_reported(&mut self, events: Vec<Event>) -> Result<Vec<Event>, WorkerExit> {
        let mut seen = Vec::new();
        let Some(first) = events.first().map(|event| event.sequence) else { return Ok(seen) };
        self.read_until(first, &mut seen).await?;
        self.beginning = None;
        for event in events {
            recount_run::apply(&mut self.state, &event);
            seen.push(event);
        }
        Ok(seen)
    }

    /// Applies events before `end`.
    async fn read_until(&mut self, end: u64, seen: &mut Vec<Event>) -> Result<(), Error> {
        if self.state.next_sequence() < end {
            self.beginning = None;
        }
        let stream = journal::stream_of(self.run);
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        while self.state.next_sequence() < end {
            let page = self.write.ground().store().read(&stream, self.state.next_sequence(), bound).await;
            let page = page?;
            if page.is_empty() {
                break;
            }
            for record in page.into_iter().take_while(|record| record.sequence < end) {
                let event = journal::decode(&record.bytes, &stream, record.sequence)?;
                recount_run::apply(&mut self.state, &event);
                seen.push(event);
            }
        }
        Ok(())
    }

    async fn exit_reason(&mut self, error: Error) -> WorkerExit {
        let Error::Rejected(rejection) = error else { return WorkerExit::Failed(error) };
        let claim = self.state.claim();
        if let Err(exit) = self.catch_up().await {
            return exit;
        }
        if self.state.is_ended() {
            WorkerExit::Ended
        } else if self.state.claim() != claim {
            WorkerExit::TakenOver
        } else {
            WorkerExit::Refused(rejection)
        }
    }
}

/// Waits for the ending of a run; see [`WorkerSession::watch`].
#[derive(Clone)]
pub struct Watch(watch::Receiver<ListState>);

impl Watch {
    /// Returns when the run has ended.
    #[boxed]
    pub async fn ended(&mut self) {
        if self.0.wait_for(|state| state.end.is_some()).await.is_err() {
            // The list lives as long as its session. After that, the run counts as ended.
        }
    }

    pub fn has_ended(&self) -> bool {
        self.0.borrow().end.is_some()
    }
}

/// A slot that is lent while its worker waits for another run. Another run may use the slot meanwhile, so that waiting
/// runs never block the runs they wait for.
pub struct LentSlot {
    write: WriteHandle,
    run: RunId,
}

impl LentSlot {
    /// Waits for a slot, with priority over runs that have not started. A worker that is dropped while waiting ends
    /// without one.
    #[boxed]
    pub async fn reclaim(self) {
        self.write.context.dispatch.reclaim(self.run).await;
    }
}
