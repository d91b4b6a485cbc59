//! Group commit: requests to one run that wait together share an append. Each is checked separately and gets its own
//! reply, after the append is durable.

use recount_event::{Code, Event, Stamp};
use std::time::Duration;

use recount_event::family::run::Driver;
use recount_log::RowPut;
use recount_run::Command;

use crate::write::commit::Commit;
use crate::write::ingest;
use crate::write::ingest::{BatchRecord, BatchStatus};
use crate::write::loaded_run::LoadedRun;
use crate::write::request::{Ingest, Job, ReplyTo, Report, Request, Submit, Tick};
use crate::write::run_writer::Writer;
use crate::write::{artifact_uses, blobs};
use crate::{Error, Failure, Receipt, limits};

/// An append that is being built.
struct Batch {
    commit: Commit,
    /// The sequence of the next event.
    next: u64,
    bytes: usize,
    driver: Driver,
}

/// A checked request that waits for the append, with its reply.
enum PendingReply {
    Submit(ReplyTo<Submit>, Result<Option<EventRange>, Error>),
    Ingest(ReplyTo<Ingest>, Result<EventRange, Error>),
    Report(ReplyTo<Report>, Result<Vec<Event>, Error>),
    Tick(ReplyTo<Tick>, Result<(), Error>),
}

/// The first and last sequence of a request's events.
enum EventRange {
    ThisCommit(u64, u64),
    /// The events of a repeated batch, in an earlier commit.
    Earlier(u64, u64),
}

impl PendingReply {
    /// The append failed. A request with its own error gets that error, unless others shared the append.
    fn fail(self, error: &Error, is_shared: bool) {
        fn refuse<J: Job, T>(to: ReplyTo<J>, own: Result<T, Error>, error: &Error, is_shared: bool) {
            to.reply(Err(own.err().filter(|_| !is_shared).unwrap_or_else(|| error.clone())));
        }
        match self {
            PendingReply::Submit(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Ingest(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Report(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Tick(to, own) => refuse(to, own, error, is_shared),
        }
    }
}

impl Writer {
    /// Takes requests until the append is full, appends, and replies.
    pub(super) async fn serve_group(&mut self, requests: &mut std::vec::Drain<'_, Request>) {
        let mut loaded = match self.take_loaded().await {
            Ok(loaded) => loaded,
            Err(error) => {
                requests.for_each(|request| request.refuse(error.clone()));
                return;
            }
        };
        let had_ended = loaded.state.is_ended();
        let mut waiting = Vec::new();
        let (next, driver) = (loaded.state.next_sequence(), loaded.state.driver());
        let mut batch = Batch { commit: Commit::default(), next, bytes: 0, driver };
        // Whether the timers wait for the next deadline.
        let mut has_tick = false;
        while batch.bytes < limits::APPEND_BYTES_MAX {
            if requests.as_slice().first().is_none_or(Request::is_alone) {
                break;
            }
            let Some(request) = requests.next() else { break };
            has_tick |= matches!(request, Request::Tick(..));
            waiting.extend(self.judge(&mut loaded, &mut batch, request).await);
        }
        let Batch { mut commit, driver, .. } = batch;
        commit.rows.extend(loaded.fold.rows(&loaded.state));
        commit.rows.append(&mut loaded.allowances);
        let named = blobs::named(&commit.rows);
        match self.context.commit(commit).await {
            Ok(landed) => {
                self.context.blobs.named(Some(self.run), named);
                self.settle(loaded, had_ended, has_tick);
                for waiting in waiting {
                    self.answer(waiting, landed.of(self.run)).await;
                }
            }
            Err(failed) => {
                if driver != Driver::Own {
                    // They were held for this append only. An own run retries with its stored bytes.
                    self.context.blobs.named(Some(self.run), named);
                }
                let mut error = failed.meaning(self.run).into_error();
                // A guard fails here only if two runs use the same id at the same time, and the size is too large
                // only if a client sent that much. If several commands shared the append, the cause is unknown. None
                // was written, so each client may retry.
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

    /// Checks one request against the state in memory, and adds its events to the batch.
    async fn judge(
        &self,
        loaded: &mut LoadedRun,
        batch: &mut Batch,
        request: Request,
    ) -> Option<PendingReply> {
        Some(match request {
            Request::Submit(Submit(command), to) => {
                let events = self.command(loaded, command, self.stamp()).await;
                PendingReply::Submit(to, self.place(loaded, batch, events).await.map(|(placed, _)| placed))
            }
            Request::Tick(Tick { at_ms }, to) => {
                // The timer fired, so the time has come even if the clock was set back.
                let stamp = self.stamp();
                let stamp = Stamp { now_ms: stamp.now_ms.max(at_ms), ..stamp };
                let events = self.command(loaded, Command::Tick, stamp).await;
                PendingReply::Tick(to, self.place(loaded, batch, events).await.map(drop))
            }
            Request::Report(report, to) => {
                let events = self.report(loaded, report).await;
                PendingReply::Report(to, self.place(loaded, batch, events).await.map(|(_, events)| events))
            }
            Request::Ingest(ingest, to) => PendingReply::Ingest(to, self.ingest(loaded, batch, ingest).await),
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
    ) -> Result<(Option<EventRange>, Vec<Event>), Error> {
        let events = events?;
        if events.is_empty() {
            return Ok((None, events));
        }
        batch.driver = loaded.state.driver();
        batch.commit.rows.extend(self.artifact_use_rows(batch.driver, &events).await);
        batch.bytes += batch.commit.events(self.run, batch.next, &events);
        let first = batch.next;
        batch.next += events.len() as u64;
        Ok((Some(EventRange::ThisCommit(first, batch.next - 1)), events))
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
        Ingest { batch_id, mut drafts }: Ingest,
    ) -> Result<EventRange, Error> {
        let digest = ingest::BatchDigest::of(&drafts);
        let status =
            loaded.producers.judge(self.context.ground.store(), self.run, &batch_id, &digest).await?;
        if let BatchStatus::Repeated(record) = status {
            return Ok(EventRange::Earlier(record.first, record.last));
        }
        let masking = loaded.redaction.drafts(&loaded.texts, &loaded.state, &mut drafts)?;
        let events = recount_run::decide(&loaded.state, Command::Append { drafts }, self.stamp())?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(Error::bug("an accepted batch has no events"));
        };
        self.check_ids(&events).await?;
        let digest = digest.stored(masking.masked);
        let record = BatchRecord { first: first.sequence, last: last.sequence, digest };
        batch.commit.rows.push(loaded.producers.note(self.run, &batch_id, record));
        loaded.apply(&events, masking);
        let (placed, _) = self.place(loaded, batch, Ok(events)).await?;
        placed.ok_or_else(|| Error::bug("an accepted batch has no place"))
    }

    /// The rows of uploads and blobs that these events use: see [`artifact_uses::use_rows`]. If they cannot be read,
    /// the upload expires as unused, or a loss of its bytes is not noticed.
    async fn artifact_use_rows(&self, driver: Driver, events: &[Event]) -> Vec<RowPut> {
        let mut changes = Vec::new();
        for event in events {
            match artifact_uses::use_rows(self.context.ground.store(), &self.context.blobs, driver, event)
                .await
            {
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

    /// Replies after the append.
    async fn answer(&self, waiting: PendingReply, landed: Option<Receipt>) {
        match waiting {
            PendingReply::Submit(to, Ok(Some(placed))) => {
                to.reply(self.receipt(placed, landed).await.map(Some))
            }
            PendingReply::Submit(to, Ok(None)) => to.reply(Ok(None)),
            PendingReply::Submit(to, Err(error)) => to.reply(Err(error)),
            PendingReply::Ingest(to, Ok(placed)) => to.reply(self.receipt(placed, landed).await),
            PendingReply::Ingest(to, Err(error)) => to.reply(Err(error)),
            PendingReply::Report(to, events) => to.reply(events),
            PendingReply::Tick(to, done) => to.reply(done),
        }
    }

    async fn receipt(&self, placed: EventRange, landed: Option<Receipt>) -> Result<Receipt, Error> {
        let (first_sequence, last_sequence, position) = match (placed, landed) {
            (EventRange::ThisCommit(first, last), Some(all)) => {
                (first, last, all.position - (all.last_sequence - last))
            }
            (EventRange::ThisCommit(..), None) => {
                return Err(Error::bug("an append of one run landed in none"));
            }
            (EventRange::Earlier(first, last), _) => (first, last, self.position_of(last).await?),
        };
        Ok(Receipt { first_sequence, last_sequence, position })
    }
}
