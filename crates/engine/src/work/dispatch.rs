//! Dispatch: assigns pending runs to a limited number of workers, and retries runs that lost their worker. Writers
//! fill the queue, [`PendingRuns`]. Start with [`serve`].

use std::collections::HashSet;
use std::sync::Arc;

use recount_event::family::run::{Queued, Throttled};
use recount_event::{Payload, RunId};
use recount_log::ReadResult as _;
use recount_run::{Command, outstanding};
use recount_world::Kind;

use crate::boxed;
use crate::catalogue::runs::own_open;
use crate::work::handle::WorkHandle;
use crate::write::new_run::Admission;
use crate::write::pending_runs::{LostWorker, Next, Start};
use crate::{Error, NewRun, Performer, Unacceptable, WorkerExit, WorkerSession, limits};

/// The name of the worker queue in `run.throttled`.
const THROTTLED: &str = "runs_at_once";

/// Releases the slot of a worker when it ends in any way.
struct WorkerGuard {
    work: WorkHandle,
    run: RunId,
    seen: Option<u64>,
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        let run = self.run;
        if !self.work.write().context.dispatch.worker_exited(run, self.seen) {
            return;
        }
        let work = self.work.clone();
        let tasks = work.ground().world.tasks.clone();
        tasks.spawn_until_shutdown(Kind::Effect, async move {
            tokio::time::sleep(limits::WORKER_RETRY).await;
            // A store that does not respond is no fault of the run, which must not fail for it.
            if let Err(fault) = work.ground().store().stats().await {
                tracing::warn!(%run, %fault, "a worker was lost while the store does not respond");
                work.write().context.dispatch.excuse(run);
            }
            match work.catalogue().run(run).await {
                Ok(Some(row)) if !row.has_ended() => work.write().context.dispatch.requeue(run),
                Ok(_) => work.write().context.dispatch.forget(run),
                Err(error) => {
                    tracing::warn!(%run, %error, "cannot read a run whose worker was lost; retrying");
                    work.write().context.dispatch.requeue(run);
                }
            }
        });
    }
}

impl WorkHandle {
    /// Executes own runs from now on, with at most `at_once` workers. Pending runs of an earlier process continue;
    /// their workers no longer exist, because the store has one owner.
    #[boxed]
    pub async fn attach_performer(&self, performer: Arc<dyn Performer>, at_once: usize) -> Result<(), Error> {
        self.write().context.dispatch.open(at_once.max(1));
        self.attach_idle_performer(performer.clone())?;
        let work = self.clone();
        let tasks = &self.ground().world.tasks;
        tasks.spawn_until_shutdown(Kind::Service, async move { serve(&work, &performer).await });
        self.find_unfinished().await
    }

    /// Attaches a performer that executes no runs but answers questions about workspaces. Unfinished runs do not
    /// change.
    pub fn attach_idle_performer(&self, performer: Arc<dyn Performer>) -> Result<(), Error> {
        let admission = Box::new(performer.clone());
        let is_first =
            self.write().context.admission.set(admission).is_ok() && self.attached.set(performer).is_ok();
        if is_first { Ok(()) } else { Err(Error::bug("an engine has one performer")) }
    }

    /// Whether own runs are executed here.
    pub fn has_performer(&self) -> bool {
        self.performer().is_some()
    }

    /// Queues the unfinished own runs that have pending work.
    async fn find_unfinished(&self) -> Result<(), Error> {
        let mut after = None;
        while let Some(page) = own_open(self.ground().store(), &mut after).await? {
            for run in page {
                let stream = crate::ground::journal::stream_of(run);
                let replayed = crate::ground::journal::replay(self.ground().store(), &stream, |_| {}).await;
                // A damaged run accepts no events, so it cannot be executed. The others continue.
                let report =
                    |error| tracing::error!(%run, %error, "an unfinished run is damaged and is not resumed");
                let Some(state) = replayed.readable()?.whole_or(report).flatten() else { continue };
                let has_work = !outstanding(&state).work.is_empty();
                self.write().context.dispatch.note_pending(run, state.next_sequence(), has_work);
            }
        }
        Ok(())
    }
}

/// The `write` module asks the performer whether a run may start.
impl Admission for Arc<dyn Performer> {
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        (**self).accept(new)
    }

    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable> {
        (**self).afford(queued)
    }
}

/// Assigns pending runs to workers.
async fn serve(work: &WorkHandle, performer: &Arc<dyn Performer>) {
    let dispatch = &work.write().context.dispatch;
    let mut announced = HashSet::new();
    let mut serial = 0_u64;
    loop {
        let changed = dispatch.changed();
        match dispatch.next(&mut announced) {
            Next::Start(start) => {
                serial += 1;
                start_worker(work, performer, start, serial);
            }
            Next::Full(waiting) => {
                throttle(work, waiting);
                changed.await;
            }
            Next::Nothing => changed.await,
        }
    }
}

/// Appends to the log of each run that it waits for a worker.
fn throttle(work: &WorkHandle, waiting: Vec<(u64, RunId)>) {
    for (position, run) in waiting {
        let work = work.clone();
        let tasks = work.ground().world.tasks.clone();
        tasks.spawn(Kind::Effect, move |_| async move {
            let throttled = Payload::RunThrottled(Box::new(Throttled::new(THROTTLED.to_owned(), position)));
            let submitted =
                work.write().submit(run, Command::Progress { drafts: vec![throttled.into()] }).await;
            if let Err(error) = submitted {
                tracing::debug!(%run, %error, "cannot record that a run waits for a worker");
            }
        });
    }
}

/// Starts a worker.
fn start_worker(work: &WorkHandle, performer: &Arc<dyn Performer>, start: Start, serial: u64) {
    let (work, performer) = (work.clone(), performer.clone());
    let tasks = work.ground().world.tasks.clone();
    tasks.spawn(Kind::Effect, move |mut shutdown| async move {
        let run = start.run;
        let mut guard = WorkerGuard { work: work.clone(), run, seen: None };
        let worker_id = format!("local-{serial}-{}", start.slot);
        tokio::select! {
            biased;
            // The next process takes over: a shutdown equals a crash.
            () = shutdown.requested() => guard.seen = Some(u64::MAX),
            seen = run_worker(&work, &*performer, &start, worker_id) => guard.seen = seen,
        }
    });
}

/// Returns the sequence up to which the worker saw the run, or `None` if it failed.
async fn run_worker(
    work: &WorkHandle,
    performer: &dyn Performer,
    start: &Start,
    worker_id: String,
) -> Option<u64> {
    let run = start.run;
    let mut session = match WorkerSession::open(work.write().clone(), run, worker_id).await {
        Ok(session) => session,
        Err(Error::Rejected(rejection)) => {
            tracing::debug!(%run, %rejection, "a run with outstanding work is missing");
            return Some(u64::MAX);
        }
        // A damaged run accepts no events, so it cannot be executed until the store is restored.
        Err(error) if error.is_damage() => {
            tracing::error!(%run, %error, "an unfinished run is damaged and is no longer executed");
            return Some(u64::MAX);
        }
        Err(Error::Failed(failure)) => {
            tracing::warn!(%run, %failure, "cannot read a run; retrying");
            return None;
        }
    };
    if let Some(lost) = start.lost
        && session.state().claim().is_some()
        && let Err(exit) = take_over(&mut session, lost).await
    {
        return match exit {
            WorkerExit::Ended => Some(u64::MAX),
            exit => {
                tracing::warn!(%run, %exit, "cannot take over a run; retrying");
                None
            }
        };
    }
    if session.state().is_ended() {
        return Some(u64::MAX);
    }
    performer.perform(session).await.map(|session| session.state().next_sequence())
}

async fn take_over(session: &mut WorkerSession, lost: LostWorker) -> Result<(), WorkerExit> {
    session.take_over(lost.reason).await?;
    if lost.times < limits::WORKERS_LOST_MAX || session.state().is_ended() {
        return Ok(());
    }
    // A run that loses its worker every time would do so forever.
    let message = format!("{} consecutive workers of this run were lost", lost.times);
    session.fail("worker_lost", message, true).await
}
