//! The one writer of a run: a task with a closed inbox.
//!
//! It decides what is waiting against the state in hand, appends the outcome once, and only then answers:
//! nobody, not even who sent a command, learns of an event before the store has confirmed it. When an
//! append fails the state in hand is thrown away and read again from the log; there is no other repair.

use std::sync::Arc;

use recount_event::family::run::Driver;
use recount_event::{Event, RunId, Stamp};
use recount_log::StreamKey;
use recount_run::{Command, State};

use crate::Error;
use crate::catalogue::fold::{Fold, next_deadline};
use crate::catalogue::prompt_rows;
use crate::catalogue::prompt_rows::asked_for;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::journal;
use crate::write::ingest::Producers;
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::texts::Texts;
use crate::write::room::WriteRoom;

pub(crate) struct Writer {
    pub(super) room: Arc<WriteRoom>,
    pub(super) run: RunId,
    pub(super) stream: StreamKey,
    pub(super) loaded: Option<Box<LoadedRun>>,
}

impl Writer {
    pub(crate) fn new(room: Arc<WriteRoom>, run: RunId) -> Self {
        Writer { room, run, stream: journal::stream_of(run), loaded: None }
    }

    /// An append has happened: what follows from it outside of the run.
    pub(super) fn settle(&mut self, mut loaded: Box<LoadedRun>, had_ended: bool, looked: bool) {
        loaded.producers.settled();
        // An append of nothing happens before the one that begins the run.
        loaded.fate.take_if(|fate| fate.peek().is_some());
        if loaded.state.is_ended() && !had_ended {
            self.room.publisher.mark_ended(&self.stream, loaded.state.next_sequence());
        }
        let deadline = next_deadline(&loaded.state);
        if looked || deadline != loaded.deadline {
            loaded.deadline = deadline;
            self.room.timers.set(self.run, deadline, &self.room.ground.world);
        }
        self.tell_dispatch(&loaded.state);
        self.loaded = Some(loaded);
    }

    /// The run in memory, read from the log when it is missing.
    pub(super) async fn take_loaded(&mut self) -> Result<Box<LoadedRun>, Error> {
        match self.loaded.take() {
            Some(loaded) if !loaded.is_void() => Ok(loaded),
            _ => self.load().await,
        }
    }

    async fn load(&self) -> Result<Box<LoadedRun>, Error> {
        if let Some(loaded) = self.room.fresh.take_awake(self.run).filter(|loaded| !loaded.is_void()) {
            // Nobody has written to it yet, and what is due of it was never told.
            self.room.timers.set(self.run, loaded.deadline, &self.room.ground.world);
            return Ok(loaded);
        }
        let mut fold: Option<Fold> = None;
        let mut texts = Texts::default();
        let redaction = self.room.redaction_of(self.run).await?;
        let redactor = &redaction.redactor;
        let state = journal::replay(self.room.ground.store(), &self.stream, |event| {
            texts.event(event, !redactor.is_off(), redactor);
            fold.get_or_insert_with(|| Fold::new(event.run_id, event.task_id, event.session_id)).event(event);
        })
        .await?;
        let (Some(state), Some(mut fold)) = (state, fold) else {
            let tail = self.room.ground.store.end(&self.stream).await?;
            let erased = tail.is_some_and(|tail| tail.erased);
            return Err(if erased { run_erased(self.run) } else { run_not_found(self.run) });
        };
        // These rows are in the store already.
        drop(fold.rows(&state));
        // The last append may have happened without anybody hearing of it: make up for what follows from
        // one that is known to have happened.
        if let Some(tail) = self.room.ground.store.end(&self.stream).await? {
            self.room.publisher.mark_stored(&self.stream, tail);
        }
        if state.is_ended() {
            self.room.publisher.mark_ended(&self.stream, state.next_sequence());
        }
        let deadline = next_deadline(&state);
        self.room.timers.set(self.run, deadline, &self.room.ground.world);
        let producers = Producers::default();
        let (allowances, fate) = (Vec::new(), None);
        Ok(Box::new(LoadedRun { state, fold, producers, texts, redaction, deadline, allowances, fate }))
    }

    /// Says whether one of our own runs is owed anything as it stands.
    fn tell_dispatch(&self, state: &State) {
        if state.driver() == Driver::Own && self.room.admission.get().is_some() {
            let owes = !recount_run::outstanding(state).work.is_empty();
            self.room.dispatch.owed(self.run, state.next_sequence(), owes);
        }
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp {
            now_ms: self.room.ground.world.clock.now_ms(),
            entropy: self.room.ground.world.entropy.draw(),
        }
    }

    /// Judges a command and applies what was decided to the state in hand.
    pub(super) async fn command(
        &self,
        loaded: &mut LoadedRun,
        mut command: Command,
        stamp: Stamp,
    ) -> Result<Vec<Event>, Error> {
        let masking = loaded.redaction.command(&loaded.texts, &loaded.state, &mut command)?;
        let mut events = recount_run::decide(&loaded.state, command, stamp)?;
        self.check_ids(&events).await?;
        self.room.allowances_made(&loaded.state, &events, &mut loaded.allowances).await?;
        masking.name_places(&mut events);
        loaded.apply(&events, masking);
        Ok(events)
    }

    /// Prompts are answered by their id alone, so an id names one of its kind in the whole store. Of approvals
    /// the row's guard holds this too; looking first lets the answer name the event that is at fault.
    pub(super) async fn check_ids(&self, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let Some((kind, id)) = asked_for(event.payload()) else { continue };
            if prompt_rows::is_taken(self.room.ground.store(), kind, id).await? {
                return Err(prompt_rows::taken(kind, id));
            }
        }
        Ok(())
    }

    pub(super) async fn position_of(&self, sequence: u64) -> Result<u64, Error> {
        let bound = recount_log::ReadBound { count: 1, bytes: 1 };
        let found = self.room.ground.store.read(&self.stream, sequence, bound).await?;
        match found.first() {
            Some(record) if record.sequence == sequence => Ok(record.position),
            // It was pruned: a read gives what is left behind it.
            Some(record) => Ok(record.position - 1),
            None => Err(Error::bug(format!("{} has no event {sequence} although it was appended", self.run))),
        }
    }
}
