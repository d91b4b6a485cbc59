//! Group commit: requests to one run that wait together share an append. Each is judged by itself and answered by itself;
//! nobody is answered before the append is durable.

use recount_event::{Code, Event, Stamp};
use std::time::Duration;

use recount_event::family::run::Driver;
use recount_log::RowPut;
use recount_run::Command;

use crate::write::commit::Commit;
use crate::write::ingest;
use crate::write::ingest::{BatchStanding, Landing};
use crate::write::loaded_run::LoadedRun;
use crate::write::request::{Ingest, Job, ReplyTo, Report, Request, Submit, Tick};
use crate::write::run_writer::Writer;
use crate::write::{artifact_uses, blobs};
use crate::{Error, Failure, Receipt, limits};

/// An append in the making.
struct Batch {
    commit: Commit,
    /// The sequence of the next event.
    next: u64,
    bytes: usize,
    driver: Driver,
}

/// A request that was judged and waits for the append, with what it is answered then.
enum Waiting {
    Submit(ReplyTo<Submit>, Result<Option<Placed>, Error>),
    Ingest(ReplyTo<Ingest>, Result<Placed, Error>),
    Report(ReplyTo<Report>, Result<Vec<Event>, Error>),
    Tick(ReplyTo<Tick>, Result<(), Error>),
}

/// Where the events of a request are, by their first and last sequence.
enum Placed {
    InThisCommit(u64, u64),
    /// A batch that came again is in an earlier one.
    Earlier(u64, u64),
}

impl Waiting {
    /// The append failed. What was refused for itself is told so, unless others shared the append.
    fn fail(self, error: &Error, is_shared: bool) {
        fn refuse<J: Job, T>(to: ReplyTo<J>, own: Result<T, Error>, error: &Error, is_shared: bool) {
            to.answer(Err(own.err().filter(|_| !is_shared).unwrap_or_else(|| error.clone())));
        }
        match self {
            Waiting::Submit(to, own) => refuse(to, own, error, is_shared),
            Waiting::Ingest(to, own) => refuse(to, own, error, is_shared),
            Waiting::Report(to, own) => refuse(to, own, error, is_shared),
            Waiting::Tick(to, own) => refuse(to, own, error, is_shared),
        }
    }
}

impl Writer {
    /// Takes requests until an append is full, appends, and answers.
    pub(super) async fn serve_group(&mut self, left: &mut std::vec::Drain<'_, Request>) {
        let mut loaded = match self.take_loaded().await {
            Ok(loaded) => loaded,
            Err(error) => {
                left.for_each(|request| request.refuse(error.clone()));
                return;
            }
        };
        let had_ended = loaded.state.is_ended();
        let mut waiting = Vec::new();
        let (next, driver) = (loaded.state.next_sequence(), loaded.state.driver());
        let mut batch = Batch { commit: Commit::default(), next, bytes: 0, driver };
        // Whether the timers wait to hear what is due next.
        let mut looked = false;
        while batch.bytes < limits::APPEND_BYTES_MAX {
            if left.as_slice().first().is_none_or(Request::is_alone) {
                break;
            }
            let Some(request) = left.next() else { break };
            looked |= matches!(request, Request::Tick(..));
            waiting.extend(self.judge(&mut loaded, &mut batch, request).await);
        }
        let Batch { mut commit, driver, .. } = batch;
        commit.rows.extend(loaded.fold.rows(&loaded.state));
        commit.rows.append(&mut loaded.allowances);
        let named = blobs::named(&commit.rows);
        match self.room.commit(commit).await {
            Ok(landed) => {
                self.room.blobs.named(Some(self.run), named);
                self.settle(loaded, had_ended, looked);
                for waiting in waiting {
                    self.answer(waiting, landed.of(self.run)).await;
                }
            }
            Err(failed) => {
                if driver != Driver::Own {
                    // They were held for this append alone; a run of our own tries again with what it keeps.
                    self.room.blobs.named(Some(self.run), named);
                }
                let mut error = failed.meaning(self.run).into_error();
                // A guard can only fail here when two runs took the same id in the same moment, and a size
                // only be too large when a client sent that much. When several commands shared the append
                // it is not known which was at fault; none has happened, so each may be tried again by its client.
                let is_shared = waiting.len() > 1;
                let blames_one = error.code() == Code::LimitReached || matches!(error, Error::Rejected(_));
                if is_shared && blames_one {
                    error = Error::Failed(Failure {
                        code: Code::StoreBusy,
                        message: "another command in the same batch was rejected; try again".into(),
                        retry_after: Some(Duration::ZERO),
                        damage: None,
                    });
                }
                waiting.into_iter().for_each(|waiting| waiting.fail(&error, is_shared));
            }
        }
    }

    /// Judges one request against the state in memory, and adds what was decided to the batch.
    async fn judge(&self, loaded: &mut LoadedRun, batch: &mut Batch, request: Request) -> Option<Waiting> {
        Some(match request {
            Request::Submit(Submit(command), to) => {
                let events = self.command(loaded, command, self.stamp()).await;
                Waiting::Submit(to, self.place(loaded, batch, events).await.map(|(placed, _)| placed))
            }
            Request::Tick(Tick { at_ms }, to) => {
                // The timer says that it is time, whatever the clock says by now.
                let stamp = self.stamp();
                let stamp = Stamp { now_ms: stamp.now_ms.max(at_ms), ..stamp };
                let events = self.command(loaded, Command::Tick, stamp).await;
                Waiting::Tick(to, self.place(loaded, batch, events).await.map(drop))
            }
            Request::Report(report, to) => {
                let events = self.report(loaded, report).await;
                Waiting::Report(to, self.place(loaded, batch, events).await.map(|(_, events)| events))
            }
            Request::Ingest(ingest, to) => Waiting::Ingest(to, self.ingest(loaded, batch, ingest).await),
            alone => {
                alone.refuse(Error::bug("a request that must run alone was batched with others"));
                return None;
            }
        })
    }

    /// Adds events to the batch.
    async fn place(
        &self,
        loaded: &LoadedRun,
        batch: &mut Batch,
        events: Result<Vec<Event>, Error>,
    ) -> Result<(Option<Placed>, Vec<Event>), Error> {
        let events = events?;
        if events.is_empty() {
            return Ok((None, events));
        }
        batch.driver = loaded.state.driver();
        batch.commit.rows.extend(self.used(batch.driver, &events).await);
        batch.bytes += batch.commit.events(self.run, batch.next, &events);
        let first = batch.next;
        batch.next += events.len() as u64;
        Ok((Some(Placed::InThisCommit(first, batch.next - 1)), events))
    }

    async fn report(&self, loaded: &mut LoadedRun, report: Report) -> Result<Vec<Event>, Error> {
        if report.claim != loaded.state.claim() {
            let message = format!("another worker has taken over {}; stop this one", self.run);
            return Err(Error::rejected(Code::EventRefused, message));
        }
        self.command(loaded, Command::Progress { drafts: report.drafts }, self.stamp()).await
    }

    async fn ingest(
        &self,
        loaded: &mut LoadedRun,
        batch: &mut Batch,
        Ingest { triple, mut drafts }: Ingest,
    ) -> Result<Placed, Error> {
        let said = ingest::Said::by(&drafts);
        let standing = loaded.producers.judge(self.room.ground.store(), self.run, &triple, &said).await?;
        if let BatchStanding::Repeated(landing) = standing {
            return Ok(Placed::Earlier(landing.first, landing.last));
        }
        let masking = loaded.redaction.drafts(&loaded.texts, &loaded.state, &mut drafts)?;
        let events = recount_run::decide(&loaded.state, Command::Append { drafts }, self.stamp())?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(Error::bug("an accepted batch has no events"));
        };
        self.check_ids(&events).await?;
        let digest = said.digest(masking.masked);
        let landing = Landing { first: first.sequence, last: last.sequence, digest };
        batch.commit.rows.push(loaded.producers.note(self.run, &triple, landing));
        loaded.apply(&events, masking);
        let (placed, _) = self.place(loaded, batch, Ok(events)).await?;
        placed.ok_or_else(|| Error::bug("an accepted batch has no place"))
    }

    /// What was sent in and is an artifact of this run now: see [`uploads::used`]. Where that cannot be seen it is
    /// forgotten in its time, or is not known to have been here.
    async fn used(&self, driver: Driver, events: &[Event]) -> Vec<RowPut> {
        let mut changes = Vec::new();
        for event in events {
            match artifact_uses::used(self.room.ground.store(), &self.room.blobs, driver, event).await {
                Ok(rows) => changes.extend(rows),
                Err(error) => {
                    tracing::warn!(
                        run = %self.run,
                        %error,
                        "cannot record that an upload is used; it still counts as unused"
                    )
                }
            }
        }
        changes
    }

    /// The append has happened.
    async fn answer(&self, waiting: Waiting, landed: Option<Receipt>) {
        match waiting {
            Waiting::Submit(to, Ok(Some(placed))) => to.answer(self.receipt(placed, landed).await.map(Some)),
            Waiting::Submit(to, Ok(None)) => to.answer(Ok(None)),
            Waiting::Submit(to, Err(error)) => to.answer(Err(error)),
            Waiting::Ingest(to, Ok(placed)) => to.answer(self.receipt(placed, landed).await),
            Waiting::Ingest(to, Err(error)) => to.answer(Err(error)),
            Waiting::Report(to, events) => to.answer(events),
            Waiting::Tick(to, done) => to.answer(done),
        }
    }

    async fn receipt(&self, placed: Placed, landed: Option<Receipt>) -> Result<Receipt, Error> {
        let (first_sequence, last_sequence, position) = match (placed, landed) {
            (Placed::InThisCommit(first, last), Some(all)) => {
                (first, last, all.position - (all.last_sequence - last))
            }
            (Placed::InThisCommit(..), None) => {
                return Err(Error::bug("an append of one run landed in none"));
            }
            (Placed::Earlier(first, last), _) => (first, last, self.position_of(last).await?),
        };
        Ok(Receipt { first_sequence, last_sequence, position })
    }
}
