//! The only writer of a run: a task with an inbox.
//!
//! It checks the waiting requests against the state in memory, appends the results once, and then replies. No client,
//! including the sender, sees an event before the store has confirmed it. When an append fails, the state is dropped
//! and read again from the log; there is no other recovery.

use std::sync::Arc;

use recount_event::family::run::Driver;
use recount_event::{Event, RunId, Stamp};
use recount_log::StreamKey;
use recount_run::{Command, State};

use crate::Error;
use crate::catalogue::fold::{Fold, next_deadline};
use crate::catalogue::prompt_rows;
use crate::catalogue::prompt_rows::requested_prompt;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::journal;
use crate::write::context::WriteContext;
use crate::write::ingest::Producers;
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::texts::Texts;

pub(crate) struct Writer {
    pub(super) context: Arc<WriteContext>,
    pub(super) run: RunId,
    pub(super) stream: StreamKey,
    pub(super) loaded: Option<Box<LoadedRun>>,
}

impl Writer {
    pub(crate) fn new(context: Arc<WriteContext>, run: RunId) -> Self {
        Writer { context, run, stream: journal::stream_of(run), loaded: None }
    }

    /// Updates everything outside of the run after an append.
    pub(super) fn settle(&mut self, mut loaded: Box<LoadedRun>, had_ended: bool, looked: bool) {
        loaded.producers.settled();
        // An empty append may finish before the one that starts the run.
        loaded.start_outcome.take_if(|outcome| outcome.peek().is_some());
        if loaded.state.is_ended() && !had_ended {
            self.context.publisher.mark_ended(&self.stream, loaded.state.next_sequence());
        }
        let deadline = next_deadline(&loaded.state);
        if looked || deadline != loaded.deadline {
            loaded.deadline = deadline;
            self.context.timers.set(self.run, deadline, &self.context.ground.world);
        }
        self.update_dispatch(&loaded.state);
        self.loaded = Some(loaded);
    }

    /// The run in memory, read from the log if missing.
    pub(super) async fn take_loaded(&mut self) -> Result<Box<LoadedRun>, Error> {
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
        // These rows are in the store already.
        drop(fold.rows(&state));
        // The last append may have happened without a known outcome: do now what follows a known one.
        if let Some(tail) = self.context.ground.store.end(&self.stream).await? {
            self.context.publisher.mark_stored(&self.stream, tail);
        }
        if state.is_ended() {
            self.context.publisher.mark_ended(&self.stream, state.next_sequence());
        }
        let deadline = next_deadline(&state);
        self.context.timers.set(self.run, deadline, &self.context.ground.world);
        let producers = Producers::default();
        let (allowances, start_outcome) = (Vec::new(), None);
        Ok(Box::new(LoadedRun {
            state,
            fold,
            producers,
            texts,
            redaction,
            deadline,
            allowances,
            start_outcome,
        }))
    }

    /// Notifies dispatch whether an own run has pending work.
    fn update_dispatch(&self, state: &State) {
        if state.driver() == Driver::Own && self.context.admission.get().is_some() {
            let owes = !recount_run::outstanding(state).work.is_empty();
            self.context.dispatch.note_pending(self.run, state.next_sequence(), owes);
        }
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp {
            now_ms: self.context.ground.world.clock.now_ms(),
            entropy: self.context.ground.world.entropy.draw(),
        }
    }

    /// Checks a command and applies its events to the state in memory.
    pub(super) async fn command(
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
    pub(super) async fn check_ids(&self, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let Some((kind, id)) = requested_prompt(event.payload()) else { continue };
            if prompt_rows::is_taken(self.context.ground.store(), kind, id).await? {
                return Err(prompt_rows::id_taken(kind, id));
            }
        }
        Ok(())
    }

    pub(super) async fn position_of(&self, sequence: u64) -> Result<u64, Error> {
        let bound = recount_log::ReadBound { count: 1, bytes: 1 };
        let found = self.context.ground.store.read(&self.stream, sequence, bound).await?;
        match found.first() {
            Some(record) if record.sequence == sequence => Ok(record.position),
            // It was pruned: the store returns the next remaining event.
            Some(record) => Ok(record.position - 1),
            None => Err(Error::bug(format!("{} has no event {sequence} although it was appended", self.run))),
        }
    }
}
