//! The only writer of a run: a task with an inbox.
//!
//! It takes the waiting requests, loads the run if it is not in memory, lets each request contribute to one append,
//! commits the append, updates everything outside of the run, and then replies. No client, including the sender, sees
//! an event before the store has confirmed it. When an append fails, the state is dropped and read again from the log;
//! there is no other recovery.
//!
//! Start with [`Writer::work`]. [`Writer::contribute`] decides what a request adds, except removals: `removal.rs`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Drain;

use recount_event::family::run::Driver;
use recount_event::{Code, Event, Payload, PromptEvent, RunId, Stamp};
use recount_log::{Guard, RowPut, StreamKey};
use recount_run::{Command, State, Status};
use recount_world::Shutdown;
use tokio::sync::mpsc;

use crate::catalogue::fold::{Fold, next_deadline};
use crate::catalogue::prompt_rows;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::{journal, rows};
use crate::write::commit::{Commit, CommitFailure};
use crate::write::context::WriteContext;
use crate::write::ingest::{BatchDigest, BatchRecord, BatchStatus};
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::texts::Texts;
use crate::write::request::{
    CommandWithRows, Contribution, Erase, EventRange, Ingest, KeyEvent, PendingReply, Removal, Report,
    Request, SideOutcome, Submit, SubmitWithRows, Tick,
};
use crate::write::run_start::RunStart;
use crate::write::{artifact_uses, blobs};
use crate::{Error, Failure, Pruned, Receipt, RequestResult, limits};

pub(crate) struct Writer {
    pub(super) context: Arc<WriteContext>,
    pub(super) run: RunId,
    pub(super) stream: StreamKey,
    loaded: Option<Box<LoadedRun>>,
}

/// An append that is being built, with the replies that wait for it.
#[derive(Default)]
pub(super) struct Batch {
    commit: Commit,
    bytes: usize,
    removal: Option<Removal>,
    /// A run of the same session that starts in this append.
    successor: Option<Box<RunStart>>,
    waiting: Vec<PendingReply>,
    /// Whether the timers wait for the next deadline.
    has_tick: bool,
}

impl Batch {
    pub(super) fn add(&mut self, run: RunId, contribution: Contribution, mut reply: PendingReply) {
        let Contribution { events, rows, removal, successor, frees_space } = contribution;
        if let Some(first) = events.first() {
            self.bytes += self.commit.events(run, first.sequence, &events);
        }
        self.commit.rows.extend(rows);
        self.commit.frees_space |= frees_space;
        if let Some(removal) = &removal {
            removal.add_to(run, &mut self.commit);
        }
        self.removal = removal;
        self.successor = successor;
        self.has_tick |= matches!(reply, PendingReply::Tick(..));
        reply.keep(events);
        self.waiting.push(reply);
    }
}

// ---- the loop ---------------------------------------------------------------------------------

impl Writer {
    pub(crate) fn new(context: Arc<WriteContext>, run: RunId) -> Self {
        Writer { context, run, stream: journal::stream_of(run), loaded: None }
    }

    /// Works until it is idle or until shutdown. `retire` is called before it stops, and returns whether no request
    /// has arrived meanwhile.
    pub(crate) async fn work(
        mut self,
        mut inbox: mpsc::Receiver<Request>,
        mut shutdown: Shutdown,
        retire: impl Fn(&mut mpsc::Receiver<Request>) -> bool,
    ) {
        {
            // Created once, because creating and dropping these futures for each command costs more than the command.
            let mut over = pin!(shutdown.requested());
            let mut idle = pin!(tokio::time::sleep(limits::WRITER_IDLE));
            let mut waiting = Vec::new();
            let mut busy_until = recount_world::moment();
            loop {
                tokio::select! {
                    biased;
                    () = &mut over => break,
                    count = inbox.recv_many(&mut waiting, limits::APPEND_COMMANDS_MAX) => {
                        if count == 0 {
                            return;
                        }
                        self.serve(&mut waiting).await;
                        busy_until = recount_world::moment();
                        if self.has_ended() {
                            idle.as_mut().reset(busy_until + limits::WRITER_IDLE_ENDED);
                        }
                    }
                    () = &mut idle => {
                        let now = recount_world::moment();
                        let idle_limit =
                            if self.has_ended() { limits::WRITER_IDLE_ENDED } else { limits::WRITER_IDLE };
                        let idle_since = busy_until + idle_limit;
                        if idle_since <= now && retire(&mut inbox) {
                            break;
                        }
                        idle.as_mut().reset(if idle_since > now { idle_since } else { now + idle_limit });
                    }
                }
            }
        }
        // Requests that arrived before the inbox closed go to another writer, or are refused at shutdown.
        inbox.close();
        while let Some(request) = inbox.recv().await {
            if shutdown.is_requested() {
                request.refuse(Error::shutting_down());
            } else {
                request.give_back();
            }
        }
    }

    /// Whether the run has ended, so that few requests can follow.
    fn has_ended(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.state.is_ended())
    }

    async fn serve(&mut self, requests: &mut Vec<Request>) {
        let mut pending = requests.drain(..);
        let erases = |pending: &Drain<'_, Request>| {
            pending.as_slice().first().map(|next| matches!(next, Request::Erase(..)))
        };
        while let Some(erases_next) = erases(&pending) {
            match self.take_loaded().await {
                loaded if erases_next => {
                    if let Some(Request::Erase(Erase { by }, to)) = pending.next() {
                        self.erase(loaded, by, to).await;
                    }
                }
                Ok(loaded) => self.append(loaded, &mut pending).await,
                Err(error) => {
                    while erases(&pending) == Some(false) {
                        pending.next().into_iter().for_each(|request| request.refuse(error.clone()));
                    }
                }
            }
        }
    }

    /// Lets requests contribute until the append is full, and commits it.
    async fn append(&mut self, mut loaded: Box<LoadedRun>, requests: &mut Drain<'_, Request>) {
        let had_ended = loaded.state.is_ended();
        let mut batch = Batch::default();
        while let Some(next) = requests.as_slice().first() {
            let is_alone = next.is_alone();
            if batch.bytes >= limits::APPEND_BYTES_MAX || is_alone && !batch.waiting.is_empty() {
                break;
            }
            let Some(request) = requests.next() else { break };
            let (contribution, reply) = self.contribute(&mut loaded, request).await;
            batch.add(self.run, contribution, reply);
            if is_alone {
                break;
            }
        }
        batch.commit.rows.extend(loaded.fold.rows(&loaded.state));
        batch.commit.rows.append(&mut loaded.allowances);
        self.commit(Some(loaded), had_ended, batch).await;
    }

    // ---- decide -------------------------------------------------------------------------------

    /// Checks a request against the state in memory, and applies its events there.
    pub(super) async fn contribute(
        &self,
        loaded: &mut LoadedRun,
        request: Request,
    ) -> (Contribution, PendingReply) {
        match request {
            Request::Submit(Submit(command), to) => {
                let decided = self.submit(loaded, command, self.context.ground.stamp()).await;
                pending(decided, |own| PendingReply::Submit(to, own))
            }
            Request::Tick(Tick { at_ms }, to) => {
                // The timer fired, so the time has come even if the clock was set back.
                let stamp = self.context.ground.stamp();
                let stamp = Stamp { now_ms: stamp.now_ms.max(at_ms), ..stamp };
                let decided = self.submit(loaded, Command::Tick, stamp).await;
                pending(decided, |own| PendingReply::Tick(to, own.map(drop)))
            }
            Request::Report(report, to) => {
                let decided = self.report(loaded, report).await;
                pending(decided, |own| PendingReply::Report(to, own.map(|_| Vec::new())))
            }
            Request::Ingest(ingest, to) => {
                pending(self.ingest(loaded, ingest).await, |own| PendingReply::Ingest(to, own))
            }
            Request::SubmitWithRows(SubmitWithRows { command, with }, to) => {
                let decided = self.submit_with_rows(loaded, command, *with).await;
                pending(decided, |own| PendingReply::SubmitWithRows(to, own))
            }
            Request::Prune(prune, to) => {
                pending(self.prune(loaded, prune).await, |own| PendingReply::Prune(to, own))
            }
            Request::Erase(_, to) => {
                let alone = Error::bug("an erasure was batched with other requests");
                pending(Err(alone), |own| PendingReply::Erase(to, own))
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
        self.submit(loaded, Command::Progress { drafts }, self.context.ground.stamp()).await
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
        let events =
            recount_run::decide(&loaded.state, Command::Append { drafts }, self.context.ground.stamp())?;
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
        let events = self.command(loaded, command, self.context.ground.stamp()).await?;
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

    // ---- commit, publish, answer --------------------------------------------------------------

    /// Commits a batch, then replies. The state of an erased run is dropped.
    pub(super) async fn commit(&mut self, loaded: Option<Box<LoadedRun>>, had_ended: bool, batch: Batch) {
        let Batch { mut commit, removal, mut successor, waiting, has_tick, .. } = batch;
        let named = blobs::named(&commit.rows);
        let context = self.context.clone();
        let successor_run = successor.as_ref().map(|successor| successor.run);
        if let Some(successor) = &mut successor {
            let beginning = successor.add_to(&mut commit);
            match self.combined_rows(std::mem::take(&mut commit.rows), beginning).await {
                Ok(rows) => commit.rows = rows,
                Err(error) => return waiting.into_iter().for_each(|reply| reply.fail(&error, false)),
            }
        }
        let landed = match context.commit_with_start(commit, successor).await {
            Ok(landed) => landed,
            Err(failed) => {
                if loaded.is_some_and(|loaded| loaded.state.driver() != Driver::Own) {
                    // They were held for this append only. An own run retries with its stored bytes.
                    context.blobs.named(Some(self.run), named);
                }
                return fail_all(waiting, failed.meaning(self.run));
            }
        };
        context.blobs.named(Some(self.run), named);
        if let Some(removal) = &removal {
            context.publisher.forget(&self.stream, removal.last_position);
            context.publisher.mark_ended(&self.stream, removal.next_sequence);
        }
        if let Some(loaded) = loaded {
            self.settle(loaded, had_ended, has_tick);
        }
        let started = successor_run.and_then(|run| landed.get(&run).copied());
        if let Some(removal) = removal {
            self.removed(removal).await;
        }
        let own = landed.get(&self.run).copied();
        for reply in waiting {
            self.answer(reply, own, started).await;
        }
    }

    /// Combines the rows of both runs. The active run of the session changes in one row, which must still name this
    /// run.
    async fn combined_rows(&self, ending: Vec<RowPut>, beginning: Vec<RowPut>) -> Result<Vec<RowPut>, Error> {
        let mut rows = ending;
        for mut put in beginning {
            if &*put.space == rows::SESSION_ACTIVE {
                rows.retain(|other| other.space != put.space || other.key != put.key);
                let found = self.context.ground.store.row(&put.space, &put.key).await?;
                // Older stores may lack this row.
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

    /// Updates everything outside of the run after an append.
    fn settle(&mut self, mut loaded: Box<LoadedRun>, had_ended: bool, has_tick: bool) {
        loaded.producers.settled();
        for wait in loaded.fold.take_waits() {
            self.context.ground.counters.waited(wait.kind, wait.outcome, wait.ms);
        }
        // An empty append may finish before the one that starts the run.
        loaded.start_outcome.take_if(|outcome| outcome.peek().is_some());
        if loaded.state.is_ended() && !had_ended {
            self.context.publisher.mark_ended(&self.stream, loaded.state.next_sequence());
        }
        let deadline = next_deadline(&loaded.state);
        if has_tick || deadline != loaded.deadline {
            loaded.deadline = deadline;
            self.context.timers.set(self.run, deadline, &self.context.ground.world);
        }
        self.update_dispatch(&loaded.state);
        self.loaded = Some(loaded);
    }

    /// Notifies dispatch whether an own run has pending work.
    fn update_dispatch(&self, state: &State) {
        if state.driver() == Driver::Own && self.context.admission.get().is_some() {
            let owes = !recount_run::outstanding(state).work.is_empty();
            self.context.dispatch.note_pending(self.run, state.next_sequence(), owes);
        }
    }

    /// The append is durable: `landed` has the events of this run, `started` those of its successor.
    async fn answer(&self, reply: PendingReply, landed: Option<Receipt>, started: Option<Receipt>) {
        match reply {
            PendingReply::Submit(to, own) => to.reply(match own {
                Ok(Some(range)) => self.receipt(range, landed).await.map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            }),
            PendingReply::Ingest(to, own) => to.reply(match own {
                Ok(range) => self.receipt(range, landed).await,
                Err(error) => Err(error),
            }),
            PendingReply::Report(to, own) => to.reply(own),
            PendingReply::Tick(to, own) => to.reply(own),
            PendingReply::SubmitWithRows(to, own) => to.reply(own.map(|own| match own {
                Some(last_sequence) => SideOutcome::Written { own: landed, started, last_sequence },
                None => SideOutcome::Ended,
            })),
            PendingReply::Prune(to, own) => to.reply(own.map(|own| Pruned { receipt: landed, ..own })),
            PendingReply::Erase(to, own) => to.reply(own),
        }
    }

    /// The receipt of a request whose events landed with those of the whole append.
    async fn receipt(&self, range: EventRange, landed: Option<Receipt>) -> Result<Receipt, Error> {
        let position = match (range, landed) {
            (EventRange { last, is_earlier: false, .. }, Some(all)) => {
                all.position - (all.last_sequence - last)
            }
            (EventRange { is_earlier: false, .. }, None) => {
                return Err(Error::bug("an append of one run landed in none"));
            }
            (EventRange { last, is_earlier: true, .. }, _) => self.position_of(last).await?,
        };
        Ok(Receipt { first_sequence: range.first, last_sequence: range.last, position })
    }

    async fn position_of(&self, sequence: u64) -> Result<u64, Error> {
        let bound = recount_log::ReadBound { count: 1, bytes: 1 };
        let found = self.context.ground.store.read(&self.stream, sequence, bound).await?;
        match found.first() {
            Some(record) if record.sequence == sequence => Ok(record.position),
            // It was pruned: the store returns the next remaining event.
            Some(record) => Ok(record.position - 1),
            None => Err(Error::bug(format!("{} has no event {sequence} although it was appended", self.run))),
        }
    }

    /// Keeps the state of a run that nothing has changed.
    pub(super) fn keep(&mut self, loaded: Option<Box<LoadedRun>>) {
        self.loaded = loaded;
    }

    // ---- load ---------------------------------------------------------------------------------

    /// The run in memory, read from the log if missing.
    async fn take_loaded(&mut self) -> Result<Box<LoadedRun>, Error> {
        match self.loaded.take() {
            Some(loaded) if !loaded.is_void() => Ok(loaded),
            _ => self.load().await,
        }
    }

    async fn load(&self) -> Result<Box<LoadedRun>, Error> {
        if let Some(loaded) = self.context.fresh.take_loaded_run(self.run).filter(|loaded| !loaded.is_void())
        {
            // No other writer has used it, and its deadline is not set yet.
            self.context.timers.set(self.run, loaded.deadline, &self.context.ground.world);
            return Ok(loaded);
        }
        let mut fold: Option<Fold> = None;
        let mut texts = Texts::default();
        let redaction = self.context.redaction_of(self.run).await?;
        let redactor = &redaction.redactor;
        let state = journal::replay(self.context.ground.store(), &self.stream, |event| {
            texts.event(event, !redactor.is_off(), redactor);
            fold.get_or_insert_with(|| Fold::new(event.run_id, event.task_id, event.session_id)).event(event);
        })
        .await?;
        let (Some(state), Some(mut fold)) = (state, fold) else {
            let tail = self.context.ground.store.end(&self.stream).await?;
            let erased = tail.is_some_and(|tail| tail.erased);
            return Err(if erased { run_erased(self.run) } else { run_not_found(self.run) });
        };
        // These rows are in the store already, and these waits were counted.
        drop((fold.rows(&state), fold.take_waits()));
        // The last append may have happened without a known outcome: do now what follows a known one.
        if let Some(tail) = self.context.ground.store.end(&self.stream).await? {
            self.context.publisher.mark_stored(&self.stream, tail);
        }
        if state.is_ended() {
            self.context.publisher.mark_ended(&self.stream, state.next_sequence());
        }
        let loaded = LoadedRun::new(state, fold, texts, redaction);
        self.context.timers.set(self.run, loaded.deadline, &self.context.ground.world);
        Ok(Box::new(loaded))
    }
}

/// A contribution with the reply that waits for it; nothing is contributed with an error.
fn pending<T>(
    decided: Result<(Contribution, T), Error>,
    reply: impl FnOnce(Result<T, Error>) -> PendingReply,
) -> (Contribution, PendingReply) {
    match decided {
        Ok((contribution, own)) => (contribution, reply(Ok(own))),
        Err(error) => (Contribution::default(), reply(Err(error))),
    }
}

/// Replies after a failed append. A guard fails here only if two runs use the same id at the same time, and the size is
/// too large only if a client sent that much. If several requests shared the append, the cause is unknown. None was
/// written, so each client may retry.
fn fail_all(waiting: Vec<PendingReply>, failure: CommitFailure) {
    let is_stale = matches!(failure, CommitFailure::Stale);
    let mut error = failure.into_error();
    let is_shared = waiting.len() > 1;
    let blames_one = error.code() == Code::LimitReached || matches!(error, Error::Rejected(_));
    if is_shared && blames_one {
        let message = "another command in the same batch was rejected; try again";
        error = Failure::for_now(Code::StoreBusy, message, Duration::ZERO).into();
    }
    for reply in waiting {
        match reply {
            PendingReply::SubmitWithRows(to, _) if is_stale => to.reply(Ok(SideOutcome::Stale)),
            reply => reply.fail(&error, is_shared),
        }
    }
}
