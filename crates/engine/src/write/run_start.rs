//! A run that is about to start: its first events and rows, for an append of their own or together with the end of
//! another run. Start with [`RunStart`] and [`WriteContext::commit_with_start`].

use std::sync::Arc;

use futures_util::FutureExt as _;
use recount_event::family::run::Driver;
use recount_event::{Event, RunId};
use recount_log::RowPut;

use crate::ground::journal;
use crate::read::live::List;
use crate::write::commit::{Commit, NotCommitted, Receipts, StartOutcome};
use crate::write::context::WriteContext;
use crate::write::loaded_run::LoadedRun;
use crate::write::new_runs::WorkerStart;

/// A run that is about to start.
pub(crate) struct RunStart {
    pub(crate) run: RunId,
    pub(super) loaded: LoadedRun,
    pub(super) events: Vec<Event>,
    /// The bytes of its events in a commit.
    pub(super) bytes: usize,
    pub(super) rows: Vec<RowPut>,
}

impl RunStart {
    /// Adds its events to a commit, and returns their rows.
    pub(crate) fn add_to(&mut self, commit: &mut Commit) -> Vec<RowPut> {
        self.bytes = commit.events(self.run, 0, &self.events);
        std::mem::take(&mut self.rows)
    }
}

impl WriteContext {
    /// Commits, and assigns the run that starts in the append, if any, to a worker.
    pub(super) async fn commit_with_start(
        &self,
        commit: Commit,
        start: Option<Box<RunStart>>,
    ) -> Result<Receipts, NotCommitted> {
        let Some(start) = start else { return self.commit(commit).await };
        let mut guard = RunStartGuard::of(self, &start);
        let is_alone = commit.is_only_of(start.run);
        let outcome = self.commit(commit).shared();
        let mut start = Some(start);
        // The append is queued from here on, and later appends of the run follow it. So a worker may start at once,
        // and its first report shares the disk write. If the append ends another run, the worker has to see that.
        if is_alone {
            start.take().into_iter().for_each(|start| guard.hand_over(*start, Some(outcome.clone())));
        }
        let landed = outcome.await;
        match &landed {
            Ok(_) => {
                guard.is_known = true;
                start.into_iter().for_each(|start| guard.hand_over(*start, None));
            }
            // The worker learns it from the outcome.
            Err(failed) if failed.is_certain => {
                guard.is_known = true;
                self.fresh.forget(guard.run);
                self.fresh.forget_latest_runs();
            }
            Err(_) => {}
        }
        landed
    }
}

/// Assigns a started run to a worker, or schedules a check if the outcome is unknown. So a cancelled caller leaves no
/// run that waits forever.
struct RunStartGuard<'a> {
    context: &'a WriteContext,
    run: RunId,
    /// Created before the append, to receive it. `None` if runs are not executed here.
    list: Option<Arc<List>>,
    /// Whether the outcome is known.
    is_known: bool,
}

impl<'a> RunStartGuard<'a> {
    fn of(context: &'a WriteContext, start: &RunStart) -> Self {
        let is_ours = start.loaded.state.driver() == Driver::Own && context.admission.get().is_some();
        let list = is_ours.then(|| context.publisher.run(&journal::stream_of(start.run)));
        RunStartGuard { context, run: start.run, list, is_known: false }
    }

    fn hand_over(&mut self, start: RunStart, outcome: Option<StartOutcome>) {
        let RunStart { run, mut loaded, events, bytes, .. } = start;
        let Some(list) = self.list.take() else { return };
        let state = loaded.state.clone();
        let previous = state.session_id().and_then(|session| self.context.fresh.record_latest(session, run));
        let next = state.next_sequence();
        // Only the stored form of a masked event lists the masked paths.
        let is_as_stored = events.iter().all(|event| event.body.verbatim.is_none());
        let events = is_as_stored.then_some(events);
        loaded.start_outcome = outcome.clone();
        let redaction = loaded.redaction.clone();
        let worker_start = WorkerStart { state, redaction, list, previous, events, start_outcome: outcome };
        self.context.fresh.keep(run, worker_start, loaded, bytes);
        self.context.dispatch.note_pending(run, next, true);
    }
}

impl Drop for RunStartGuard<'_> {
    fn drop(&mut self) {
        if !self.is_known {
            self.context.fresh.forget_latest_runs();
            self.context.timers.look_again(self.run, &self.context.ground.world);
        }
    }
}
