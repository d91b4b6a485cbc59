//! A run that nobody knows of yet: its first events and the rows that come with them, to be appended by itself or beside
//! what ends another run; and what is left to do when it was to begin. Look at [`RunStart`].

use std::sync::Arc;

use bytes::Bytes;
use recount_event::family::run::Driver;
use recount_event::{Event, RunId};
use recount_log::RowPut;
use recount_run::State;

use crate::catalogue::fold::Fold;
use crate::ground::journal;
use crate::read::live::List;
use crate::write::commit::{Commit, StartOutcome};
use crate::write::loaded_run::LoadedRun;
use crate::write::new_runs::WorkerStart;
use crate::write::redaction::Redaction;
use crate::write::redaction::texts::Texts;
use crate::write::room::WriteRoom;

/// A run that is about to begin.
pub(crate) struct RunStart {
    pub(crate) run: RunId,
    pub(super) state: State,
    pub(super) fold: Fold,
    pub(super) texts: Texts,
    pub(super) redaction: Redaction,
    pub(super) events: Vec<Event>,
    pub(super) records: Vec<Bytes>,
    /// Bytes of those.
    pub(super) bytes: usize,
    pub(super) rows: Vec<RowPut>,
}

impl RunStart {
    /// Adds its events to a commit, and answers the rows that belong to them.
    pub(crate) fn add_to(&mut self, commit: &mut Commit) -> Vec<RowPut> {
        commit.records(self.run, 0, std::mem::take(&mut self.records));
        std::mem::take(&mut self.rows)
    }
}

/// What is left to do when a run was to begin: it is given to a worker, or, where nobody heard whether it
/// began, looked at again. So a caller that goes away in the middle leaves no run behind that waits for ever.
pub(crate) struct RunStartGuard<'a> {
    room: &'a WriteRoom,
    run: RunId,
    /// Made before the append, so that it hears of it. `None` where nobody works here.
    list: Option<Arc<List>>,
    /// Whether it is known what became of it.
    pub(crate) is_known: bool,
}

impl<'a> RunStartGuard<'a> {
    pub(crate) fn of(room: &'a WriteRoom, beginning: &RunStart) -> Self {
        let is_ours = beginning.state.driver() == Driver::Own && room.admission.get().is_some();
        let list = is_ours.then(|| room.publisher.run(&journal::stream_of(beginning.run)));
        RunStartGuard { room, run: beginning.run, list, is_known: false }
    }

    pub(crate) fn happened(mut self, beginning: RunStart) {
        self.is_known = true;
        self.hand_over(beginning, None);
    }

    /// The append that begins it is in line.
    pub(super) fn foreseen(&mut self, beginning: RunStart, fate: StartOutcome) {
        self.hand_over(beginning, Some(fate));
    }

    /// It was refused. Who was given it finds out by its fate.
    pub(super) fn did_not_happen(&mut self) {
        self.is_known = true;
        self.room.fresh.forget(self.run);
        self.room.fresh.forget_lately();
    }

    fn hand_over(&mut self, beginning: RunStart, fate: Option<StartOutcome>) {
        let RunStart { run, state, fold, texts, redaction, events, bytes, .. } = beginning;
        if let Some(list) = self.list.take() {
            let previous = state.session_id().and_then(|session| self.room.fresh.began(session, run));
            let next = state.next_sequence();
            // What was masked says so only in its stored form.
            let is_as_stored = events.iter().all(|event| event.body.verbatim.is_none());
            let events = is_as_stored.then_some(events);
            let awake = LoadedRun::started(state.clone(), fold, texts, redaction.clone(), fate.clone());
            let seat = WorkerStart { state, redaction, list, previous, events, fate };
            self.room.fresh.keep(run, seat, awake, bytes);
            self.room.dispatch.owed(run, next, true);
        }
    }
}

impl Drop for RunStartGuard<'_> {
    fn drop(&mut self) {
        if !self.is_known {
            self.room.fresh.forget_lately();
            self.room.timers.look_again(self.run, &self.room.ground.world);
        }
    }
}
