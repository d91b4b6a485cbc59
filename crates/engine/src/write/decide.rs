//! Decides what each kind of request contributes to the append of a run. It must not write. Start with
//! [`Writer::contribute`].

use recount_event::{Code, Event, Payload, PromptEvent, Stamp};
use recount_run::{Command, Status};

use crate::catalogue::prompt_rows;
use crate::write::artifact_uses;
use crate::write::contribution::{Contribution, EventRange, PendingReply};
use crate::write::ingest::{BatchDigest, BatchRecord, BatchStatus};
use crate::write::loaded_run::LoadedRun;
use crate::write::request::{
    CommandWithRows, Ingest, KeyEvent, Report, Request, Submit, SubmitWithRows, Tick,
};
use crate::write::writer::Writer;
use crate::{Error, RequestResult};

/// A contribution with the result for its reply; nothing is contributed with an error.
fn split<T>(decided: Result<(Contribution, T), Error>) -> (Contribution, Result<T, Error>) {
    match decided {
        Ok((contribution, own)) => (contribution, Ok(own)),
        Err(error) => (Contribution::default(), Err(error)),
    }
}

impl Writer {
    /// Checks a request against the state in memory, and applies its events there.
    pub(super) async fn contribute(
        &self,
        loaded: &mut LoadedRun,
        request: Request,
    ) -> (Contribution, PendingReply) {
        match request {
            Request::Submit(Submit(command), to) => {
                let (contribution, own) = split(self.submit(loaded, command, self.stamp()).await);
                (contribution, PendingReply::Submit(to, own))
            }
            Request::Tick(Tick { at_ms }, to) => {
                // The timer fired, so the time has come even if the clock was set back.
                let stamp = self.stamp();
                let stamp = Stamp { now_ms: stamp.now_ms.max(at_ms), ..stamp };
                let (contribution, own) = split(self.submit(loaded, Command::Tick, stamp).await);
                (contribution, PendingReply::Tick(to, own.map(drop)))
            }
            Request::Report(report, to) => {
                let (contribution, own) = split(self.report(loaded, report).await);
                (contribution, PendingReply::Report(to, own.map(|_| Vec::new())))
            }
            Request::Ingest(ingest, to) => {
                let (contribution, own) = split(self.ingest(loaded, ingest).await);
                (contribution, PendingReply::Ingest(to, own))
            }
            Request::SubmitWithRows(SubmitWithRows { command, with }, to) => {
                let (contribution, own) = split(self.submit_with_rows(loaded, command, *with).await);
                (contribution, PendingReply::SubmitWithRows(to, own))
            }
            Request::Prune(prune, to) => {
                let (contribution, own) = split(self.prune(loaded, prune).await);
                (contribution, PendingReply::Prune(to, own))
            }
            Request::Erase(_, to) => {
                let own = Err(Error::bug("an erasure was batched with other requests"));
                (Contribution::default(), PendingReply::Erase(to, own))
            }
        }
    }

    async fn submit(
        &self,
        loaded: &mut LoadedRun,
        command: Command,
        stamp: Stamp,
    ) -> Result<(Contribution, Option<EventRange>), Error> {
        let events = self.command(loaded, command, stamp).await?;
        let range = EventRange::of(&events);
        Ok((self.contribution(loaded, events).await, range))
    }

    async fn report(
        &self,
        loaded: &mut LoadedRun,
        Report { claim, drafts }: Report,
    ) -> Result<(Contribution, Option<EventRange>), Error> {
        if claim != loaded.state.claim() {
            let message = format!("another worker has taken over {}; stop this one", self.run);
            return Err(Error::rejected(Code::EventRefused, message));
        }
        self.submit(loaded, Command::Progress { drafts }, self.stamp()).await
    }

    async fn ingest(
        &self,
        loaded: &mut LoadedRun,
        Ingest { batch_id, mut drafts }: Ingest,
    ) -> Result<(Contribution, EventRange), Error> {
        let digest = BatchDigest::of(&drafts);
        let status =
            loaded.producers.judge(self.context.ground.store(), self.run, &batch_id, &digest).await?;
        if let BatchStatus::Repeated(BatchRecord { first, last, .. }) = status {
            return Ok((Contribution::default(), EventRange { first, last, is_earlier: true }));
        }
        let masking = loaded.redaction.drafts(&loaded.texts, &loaded.state, &mut drafts)?;
        let events = recount_run::decide(&loaded.state, Command::Append { drafts }, self.stamp())?;
        let range = EventRange::of(&events).ok_or_else(|| Error::bug("an accepted batch has no events"))?;
        self.check_ids(&events).await?;
        let digest = digest.stored(masking.masked);
        let record = BatchRecord { first: range.first, last: range.last, digest };
        let row = loaded.producers.note(self.run, &batch_id, record);
        loaded.apply(&events, masking);
        let mut contribution = self.contribution(loaded, events).await;
        contribution.rows.push(row);
        Ok((contribution, range))
    }

    /// A command whose append has more than the run's own events: rows of its session, or the start of a successor. All
    /// is written or nothing. Returns the last event of the run; `None`: a run that a successor replaces has ended.
    async fn submit_with_rows(
        &self,
        loaded: &mut LoadedRun,
        command: Command,
        with: CommandWithRows,
    ) -> Result<(Contribution, Option<u64>), Error> {
        let CommandWithRows { mut rows, successor, idempotency, secrets, frees_space } = with;
        if successor.is_some() && loaded.state.status() != Status::Waiting {
            if loaded.state.is_ended() {
                return Ok((Contribution::default(), None));
            }
            let busy = format!(
                "{} was answered in the meantime and is running; wait for it to end or cancel it",
                self.run
            );
            return Err(Error::rejected(Code::SessionBusy, busy));
        }
        loaded.redaction = loaded.redaction.with_secrets(&secrets);
        let events = self.command(loaded, command, self.stamp()).await?;
        let last_sequence = loaded.state.next_sequence().saturating_sub(1);
        if let Some((idempotency, key_event)) = idempotency {
            let continues = |event: &&Event| matches!(event.payload(), Payload::RunContinued(_));
            let sequence = match key_event {
                KeyEvent::Continuation => events.iter().find(continues).map(|event| event.sequence),
                KeyEvent::Last => Some(last_sequence),
            };
            let now_ms = self.context.ground.world.clock.now_ms();
            let result = sequence.map(|sequence| RequestResult::ChangedAt(self.run, sequence));
            rows.extend(result.into_iter().flat_map(|result| idempotency.rows(now_ms, result)));
        }
        let mut contribution = self.contribution(loaded, events).await;
        contribution.rows.append(&mut rows);
        Ok((Contribution { successor, frees_space, ..contribution }, Some(last_sequence)))
    }

    /// Checks a command and applies its events to the state in memory.
    async fn command(
        &self,
        loaded: &mut LoadedRun,
        mut command: Command,
        stamp: Stamp,
    ) -> Result<Vec<Event>, Error> {
        let masking = loaded.redaction.command(&loaded.texts, &loaded.state, &mut command)?;
        let mut events = recount_run::decide(&loaded.state, command, stamp)?;
        self.check_ids(&events).await?;
        self.context.add_created_allowances(&loaded.state, &events, &mut loaded.allowances).await?;
        masking.list_masked_paths(&mut events);
        loaded.apply(&events, masking);
        Ok(events)
    }

    /// Prompts are answered by id alone, so an id is unique for its kind in the whole store. The row guard enforces
    /// this for approvals too; this check gives a better error.
    async fn check_ids(&self, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let Some(PromptEvent { kind, id, .. }) = PromptEvent::requested(event.payload()) else {
                continue;
            };
            if prompt_rows::is_taken(self.context.ground.store(), kind, id).await? {
                return Err(prompt_rows::id_taken(kind, id));
            }
        }
        Ok(())
    }

    /// Events with the rows of uploads and blobs that they use: see [`artifact_uses::use_rows`]. If these cannot be
    /// read, the upload expires as unused, or a loss of its bytes is not noticed.
    async fn contribution(&self, loaded: &LoadedRun, events: Vec<Event>) -> Contribution {
        let (store, driver) = (self.context.ground.store(), loaded.state.driver());
        let mut rows = Vec::new();
        for event in &events {
            match artifact_uses::use_rows(store, &self.context.blobs, driver, event).await {
                Ok(used) => rows.extend(used),
                Err(error) => {
                    tracing::warn!(
                        run = %self.run,
                        %error,
                        "cannot record that an upload is used; it still counts as unused"
                    )
                }
            }
        }
        Contribution { events, rows, ..Contribution::default() }
    }
}
