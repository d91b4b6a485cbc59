//! Gives runs that are owed something to workers, a bounded number at a time, and sees to runs whose worker was lost.
//! Which runs these are is in the book that writers fill, [`OwedRuns`]. Look at [`serve`].

use std::collections::HashSet;
use std::sync::Arc;

use recount_event::family::run::Throttled;
use recount_event::{Payload, RunId};
use recount_run::{Command, outstanding};
use recount_world::Kind;

use crate::boxed;
use crate::catalogue::runs::own_open;
use crate::work::admission::PerformerAdmission;
use crate::work::handle::WorkHandle;
use crate::write::owed_runs::{Lost, Next, Start};
use crate::{Desk, Error, Left, Performer, limits};

/// What waiting for a place is called in `run.throttled`.
const THROTTLED: &str = "runs_at_once";

/// What is left to do when a worker ends, in whatever way.
struct Leave {
    work: WorkHandle,
    run: RunId,
    seen: Option<u64>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let run = self.run;
        if !self.work.write().room.dispatch.left(run, self.seen) {
            return;
        }
        let work = self.work.clone();
        let tasks = work.ground().world.tasks.clone();
        tasks.spawn(Kind::Effect, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = tokio::time::sleep(limits::WORKER_RETRY) => {
                    match work.catalogue().run(run).await {
                        Ok(Some(row)) if !row.has_ended() => work.write().room.dispatch.again(run),
                        Ok(_) => work.write().room.dispatch.forget(run),
                        Err(error) => {
                            tracing::warn!(%run, %error, "cannot read a run whose worker was lost; retrying");
                            work.write().room.dispatch.again(run);
                        }
                    }
                }
            }
        });
    }
}

impl WorkHandle {
    /// From now on what our own runs are owed is done, by at most `at_once` workers at a time. Runs of before that
    /// are owed something go on; their workers are gone, because the store has one owner.
    #[boxed]
    pub async fn employ(&self, performer: Arc<dyn Performer>, at_once: usize) -> Result<(), Error> {
        self.write().room.dispatch.open(at_once.max(1));
        self.attach_idle_performer(performer.clone())?;
        let work = self.clone();
        self.ground().world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = serve(&work, &performer) => {}
            }
        });
        self.find_unfinished().await
    }

    /// Attaches a performer that executes no runs, but answers what is asked about their workspaces. Unfinished runs
    /// stay as they are.
    pub fn attach_idle_performer(&self, performer: Arc<dyn Performer>) -> Result<(), Error> {
        let admission = Box::new(PerformerAdmission(performer.clone()));
        let is_first =
            self.write().room.admission.set(admission).is_ok() && self.attached.set(performer).is_ok();
        if is_first { Ok(()) } else { Err(Error::bug("an engine has one performer")) }
    }

    /// Whether anybody does what our own runs are owed.
    pub fn has_performer(&self) -> bool {
        self.performer().is_some()
    }

    /// Gives what is owed to runs of our own that have not ended to the workers here.
    async fn find_unfinished(&self) -> Result<(), Error> {
        let mut after = None;
        while let Some(page) = own_open(self.ground().store(), &mut after).await? {
            for run in page {
                let stream = crate::ground::journal::stream_of(run);
                let replayed = crate::ground::journal::replay(self.ground().store(), &stream, |_| {}).await;
                let state = match replayed {
                    Ok(Some(state)) => state,
                    Ok(None) => continue,
                    // It accepts no more events, so nobody can work at it. The others go on.
                    Err(error) if error.is_damage() => {
                        tracing::error!(%run, %error, "an unfinished run is damaged and is not resumed");
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let owes = !outstanding(&state).work.is_empty();
                self.write().room.dispatch.owed(run, state.next_sequence(), owes);
            }
        }
        Ok(())
    }
}

/// Gives runs that are owed something to workers.
async fn serve(work: &WorkHandle, performer: &Arc<dyn Performer>) {
    let dispatch = &work.write().room.dispatch;
    let mut told = HashSet::new();
    let mut serial = 0_u64;
    loop {
        let changed = dispatch.changed();
        match dispatch.next(&mut told) {
            Next::Start(start) => {
                serial += 1;
                start_worker(work, performer, start, serial);
            }
            Next::Full(late) => {
                throttle(work, late);
                changed.await;
            }
            Next::Nothing => changed.await,
        }
    }
}

/// Says in the log of each that it waits for a place.
fn throttle(work: &WorkHandle, late: Vec<(u64, RunId)>) {
    for (place, run) in late {
        let work = work.clone();
        let tasks = work.ground().world.tasks.clone();
        tasks.spawn(Kind::Effect, move |_| async move {
            let throttled = Payload::RunThrottled(Box::new(Throttled::new(THROTTLED.to_owned(), place)));
            let told = work.write().submit(run, Command::Progress { drafts: vec![throttled.into()] }).await;
            if let Err(error) = told {
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
        let mut leave = Leave { work: work.clone(), run, seen: None };
        let worker_id = format!("local-{serial}-{}", start.place);
        tokio::select! {
            biased;
            // The next process takes over: going down is the same as dying.
            () = shutdown.requested() => leave.seen = Some(u64::MAX),
            seen = at_work(&work, &*performer, &start, worker_id) => leave.seen = seen,
        }
    });
}

/// Answers up to where the worker saw the run, or `None` when it could not go on.
async fn at_work(
    work: &WorkHandle,
    performer: &dyn Performer,
    start: &Start,
    worker_id: String,
) -> Option<u64> {
    let run = start.run;
    let mut desk = match Desk::open(work.write().clone(), run, worker_id).await {
        Ok(desk) => desk,
        Err(Error::Rejected(gone)) => {
            tracing::debug!(%run, %gone, "a run with outstanding work is missing");
            return Some(u64::MAX);
        }
        // It accepts no more events, so nobody can work at it before the store was restored.
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
        && desk.state().claim().is_some()
        && let Err(left) = take_over(&mut desk, lost).await
    {
        return match left {
            Left::Ended => Some(u64::MAX),
            left => {
                tracing::warn!(%run, %left, "cannot take over a run; retrying");
                None
            }
        };
    }
    if desk.state().is_ended() {
        return Some(u64::MAX);
    }
    performer.perform(desk).await.map(|desk| desk.state().next_sequence())
}

async fn take_over(desk: &mut Desk, lost: Lost) -> Result<(), Left> {
    desk.take_over(lost.reason).await?;
    if lost.times < limits::WORKERS_LOST_MAX || desk.state().is_ended() {
        return Ok(());
    }
    // What kills its worker every time would do so for ever.
    let message = format!("{} consecutive workers of this run were lost", lost.times);
    desk.fail("worker_lost", message, true).await
}
