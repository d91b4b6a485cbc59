//! What a performer works at: one run, as it stands, and the way to report on it.
//!
//! A desk keeps its own fold of the run. What is reported comes back as it was written down, behind whatever
//! others wrote in the meantime, so that who follows the events of a desk follows the run. A desk whose claim was
//! taken over can report nothing any more.

use std::sync::Arc;

use recount_event::{Draft, Event, ForeignId, Payload, RunId};
use recount_log::ReadBound;
use recount_redact::Redactor;
use recount_run::{Command, State};
use recount_world::World;
use tokio::sync::watch;

use crate::boxed;
use crate::ground::journal;
use crate::read::live::{Level, List};
use crate::work::lent_place::LentPlace;
use crate::write::commit::StartOutcome;
use crate::write::new_runs::WorkerStart;
use crate::write::redaction::Redaction;
use crate::write::request::Report;
use crate::{CatalogueHandle, Error, ReadHandle, WriteHandle, limits};

/// See the file's head.
pub struct Desk {
    write: WriteHandle,
    run: RunId,
    worker_id: String,
    state: State,
    /// Heard of every append to the run since the desk was made.
    list: Arc<List>,
    previous: Option<RunId>,
    /// Everything in the run, while it is young and known here.
    beginning: Option<Vec<Event>>,
    /// What becomes of the append that begins the run, until that is known here.
    fate: Option<StartOutcome>,
    /// What masks in the run.
    redaction: Redaction,
}

/// Why a desk has to be left.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Left {
    /// The run has ended for any reason, or what was to begin it was refused.
    #[error("the run has ended")]
    Ended,
    /// Another worker has the run now.
    #[error("another worker has taken over the run")]
    TakenOver,
    /// The rules refuse what was reported, which is a mistake of the performer.
    #[error("the reported events are rejected: {0}")]
    Refused(recount_run::Rejection),
    /// The world failed; the run stands as it stood.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Desk {
    /// Sits down at a run as the log has it.
    pub(crate) async fn open(write: WriteHandle, run: RunId, worker_id: String) -> Result<Desk, Error> {
        if let Some(WorkerStart { state, redaction, list, previous, events, fate }) =
            write.room.fresh.take_seat(run)
        {
            let mut desk =
                Desk { write, run, worker_id, state, list, previous, beginning: events, fate, redaction };
            // The list has heard of everything since before the run began.
            if desk.list.known_next() > desk.state.next_sequence() {
                desk.read_on(u64::MAX, &mut Vec::new()).await?;
            }
            return Ok(desk);
        }
        let stream = journal::stream_of(run);
        let list = write.read().publisher.run(&stream);
        let state = journal::replay(write.ground().store(), &stream, |_| {}).await?;
        let state = state.ok_or_else(|| crate::ground::error::run_not_found(run))?;
        if state.is_ended() {
            list.mark_ended(state.next_sequence());
        }
        let redaction = match state.session_id() {
            Some(session) => write.room.redaction_in(session).await?,
            None => write.room.redaction.clone(),
        };
        let (previous, beginning, fate) = (None, None, None);
        Ok(Desk { write, run, worker_id, state, list, previous, beginning, fate, redaction })
    }

    /// The run of ours that began before this one in its session, where that is remembered.
    pub fn previous(&self) -> Option<RunId> {
        self.previous
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    pub fn worker_id(&self) -> &str {
        &self.worker_id
    }

    /// The run as far as this desk knows it.
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

    /// What is masked in the run, for what is put into words before it is reported.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redaction.redactor
    }

    /// Whether something of this would be masked when it is reported.
    pub fn masks(&self, payload: &Payload) -> bool {
        self.redaction.payload(payload.clone()).is_ok_and(|(_, masked)| !masked.is_empty())
    }

    /// Waits until it is certain that the run began. A run that was asked for a moment ago is given to a worker
    /// before the store has confirmed it: it may think and report, for a report is written after the beginning,
    /// or not at all. Before it acts, or looks for rows that came with the run, it waits here.
    #[boxed]
    pub async fn settled(&mut self) -> Result<(), Left> {
        let Some(fate) = self.fate.take() else { return Ok(()) };
        match fate.await {
            Ok(_) => Ok(()),
            Err(failed) if !failed.is_certain => Err(Left::Failed(failed.meaning(self.run).into_error())),
            Err(_) => Err(Left::Ended),
        }
    }

    /// Everything that is left of the run, in order, up to where this desk stands.
    pub async fn history(&self, mut each: impl FnMut(&Event)) -> Result<(), Left> {
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

    /// Reports what was done. Durable when this answers: everything since the desk last looked, in order, with what
    /// was reported at its end.
    #[boxed]
    pub async fn report(&mut self, drafts: Vec<Draft>) -> Result<Vec<Event>, Left> {
        if self.state.is_ended() {
            return Err(Left::Ended);
        }
        let claim = self.state.claim();
        let reported = self.write.writers.ask(self.run, Report { claim, drafts }).await;
        match reported {
            Ok(events) => {
                self.fate = None;
                self.take_in(events).await
            }
            Err(error) => {
                // Where the beginning was refused, what was to stand behind it was refused for that.
                self.settled().await?;
                Err(self.why_not(error).await)
            }
        }
    }

    /// Takes a run over whose worker was lost.
    pub(crate) async fn take_over(&mut self, reason: &str) -> Result<(), Left> {
        let lease_until_ms = Some(self.lease_until_ms());
        let worker_id = self.worker_id.clone();
        let command = Command::TakeOver { worker_id, lease_until_ms, reason: reason.to_owned() };
        self.write.submit(self.run, command).await?;
        self.catch_up().await.map(drop)
    }

    /// Ends a run that cannot go on, and closes what is open in it.
    #[boxed]
    pub async fn fail(&mut self, code: &str, message: String, retriable: bool) -> Result<(), Left> {
        let command = Command::Fail { code: code.to_owned(), message, retriable };
        if let Err(error) = self.write.submit(self.run, command).await {
            return Err(self.why_not(error).await);
        }
        self.catch_up().await.map(drop)
    }

    /// A name that nothing has yet, with this prefix.
    pub fn mint(&self, prefix: &str) -> ForeignId {
        ForeignId::minted(prefix, self.write.ground().mint(self.write.ground().stamp()))
    }

    /// Until when a claim made now is good without being renewed.
    pub fn lease_until_ms(&self) -> u64 {
        let lease = u64::try_from(limits::LEASE.as_millis()).unwrap_or(u64::MAX);
        self.world().clock.now_ms().saturating_add(lease)
    }

    /// What others wrote since the desk last looked.
    #[boxed]
    pub async fn catch_up(&mut self) -> Result<Vec<Event>, Left> {
        let mut seen = Vec::new();
        self.read_on(u64::MAX, &mut seen).await?;
        Ok(seen)
    }

    /// Gives up the place of this worker while it only waits for another run.
    pub fn lend_place(&self) -> LentPlace {
        LentPlace::lend(self.write.clone(), self.run)
    }

    /// A listener to what becomes of the run while the desk is at work.
    pub fn watch(&self) -> Watch {
        Watch(self.list.watch())
    }

    async fn take_in(&mut self, events: Vec<Event>) -> Result<Vec<Event>, Left> {
        let mut seen = Vec::new();
        let Some(first) = events.first().map(|event| event.sequence) else { return Ok(seen) };
        self.read_on(first, &mut seen).await?;
        self.beginning = None;
        for event in events {
            recount_run::apply(&mut self.state, &event);
            seen.push(event);
        }
        Ok(seen)
    }

    /// Reads what comes before `end`.
    async fn read_on(&mut self, end: u64, seen: &mut Vec<Event>) -> Result<(), Error> {
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

    async fn why_not(&mut self, error: Error) -> Left {
        let Error::Rejected(rejection) = error else { return Left::Failed(error) };
        let claim = self.state.claim();
        if let Err(left) = self.catch_up().await {
            return left;
        }
        if self.state.is_ended() {
            Left::Ended
        } else if self.state.claim() != claim {
            Left::TakenOver
        } else {
            Left::Refused(rejection)
        }
    }
}

/// See [`Desk::watch`].
#[derive(Clone)]
pub struct Watch(watch::Receiver<Level>);

impl Watch {
    /// Returns when the run has ended.
    #[boxed]
    pub async fn ended(&mut self) {
        if self.0.wait_for(|level| level.end.is_some()).await.is_err() {
            // The list lives as long as its desk; who listens longer hears that it is over.
        }
    }

    pub fn has_ended(&self) -> bool {
        self.0.borrow().end.is_some()
    }
}
