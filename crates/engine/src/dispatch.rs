//! Who works at which run. Keeps the number of runs at work on this node within bounds, calls the performer when a
//! run is owed something, and sees to runs whose worker was lost.
//!
//! What a run is owed stands in its state, so nothing here needs to be kept: after a restart it is found again
//! from the runs of our own that have not ended. Look at [`Dispatch::owed`], which writers call with what they know,
//! and at [`serve`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::family::run::Throttled;
use recount_event::{Payload, RunId};
use recount_log::{RowRange, Store};
use recount_run::{Command, Status, outstanding};
use recount_world::Kind;
use tokio::sync::Notify;

use crate::desk::Left;
use crate::engine::read_row;
use crate::{Desk, Engine, Error, Performer, RunRow, limits, rows};

/// Why the worker of a run was lost, as `gap.run_disconnected` says it.
const RESTARTED: &str = "server_restarted";
const WORKER_LOST: &str = "worker_lost";

/// What waiting for a place is called in `run.throttled`.
const THROTTLED: &str = "runs_at_once";

#[derive(Default)]
pub(crate) struct Dispatch {
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Default)]
struct Book {
    /// Whether anybody works here at all.
    is_open: bool,
    places: usize,
    working: HashMap<RunId, Working>,
    queue: VecDeque<RunId>,
    queued: HashSet<RunId>,
    /// Runs whose last worker did not leave by itself, and how often in a row.
    lost: HashMap<RunId, Lost>,
}

/// A run with a worker.
#[derive(Default)]
struct Working {
    /// Up to where the newest append reached that left something owed.
    owed_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Lost {
    times: u32,
    reason: &'static str,
}

/// A run to be worked at now.
struct Start {
    run: RunId,
    place: usize,
    lost: Option<Lost>,
}

impl Dispatch {
    /// A run of our own was written to; `owes` says whether it is owed work in the state it is in now.
    pub(crate) fn owed(&self, run: RunId, next_sequence: u64, owes: bool) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if !book.is_open || !owes {
            return;
        }
        if let Some(working) = book.working.get_mut(&run) {
            working.owed_at = next_sequence;
            return;
        }
        if book.queued.insert(run) {
            book.queue.push_back(run);
            drop(book);
            self.changed.notify_one();
        }
    }

    /// Notes which runs had a worker when the last process ended: those that were running then. To be asked before
    /// anything is written, because what a timer lets go on in this process has lost nobody.
    pub(crate) async fn find_lost(&self, store: &dyn Store) -> Result<(), Error> {
        let mut after = None;
        while let Some(page) = own_open(store, &mut after).await? {
            for run in page {
                let Some(row) = store.row(rows::RUNS, &rows::tenant_key(run)).await? else { continue };
                let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
                if row.status == Status::Running.as_str() {
                    let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
                    book.lost.insert(run, Lost { times: 0, reason: RESTARTED });
                }
            }
        }
        Ok(())
    }

    /// The next run to be worked at, when there is a place; else those that have just come too late.
    fn next(&self, told: &mut HashSet<RunId>) -> Next {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.queue.is_empty() {
            told.clear();
            return Next::Nothing;
        }
        if book.working.len() >= book.places {
            let waiting = (1..).zip(&book.queue).filter(|(_, run)| !told.contains(*run));
            let waiting: Vec<(u64, RunId)> = waiting.map(|(place, run)| (place, *run)).collect();
            told.extend(waiting.iter().map(|(_, run)| *run));
            return Next::Full(waiting);
        }
        let Some(run) = book.queue.pop_front() else { return Next::Nothing };
        book.queued.remove(&run);
        told.remove(&run);
        book.working.insert(run, Working::default());
        let lost = book.lost.get(&run).copied();
        Next::Start(Start { run, place: book.working.len(), lost })
    }

    /// A worker has left, having seen everything before `seen`, or was lost.
    fn left(&self, run: RunId, seen: Option<u64>) -> bool {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let owed_at = book.working.remove(&run).map_or(0, |working| working.owed_at);
        let again = match seen {
            Some(seen) => {
                book.lost.remove(&run);
                owed_at > seen
            }
            None => {
                let lost = book.lost.entry(run).or_insert(Lost { times: 0, reason: WORKER_LOST });
                lost.times += 1;
                lost.reason = WORKER_LOST;
                false
            }
        };
        if again && book.queued.insert(run) {
            book.queue.push_back(run);
        }
        drop(book);
        self.changed.notify_one();
        seen.is_none()
    }

    /// Queues a run whose worker was lost.
    fn again(&self, run: RunId) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if !book.working.contains_key(&run) && book.queued.insert(run) {
            book.queue.push_back(run);
        }
        drop(book);
        self.changed.notify_one();
    }

    fn forget(&self, run: RunId) {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).lost.remove(&run);
    }

    /// Runs at work, and runs that wait for a place.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        (book.working.len(), book.queue.len())
    }
}

enum Next {
    Nothing,
    /// No place is left; these have not been told yet, each with its place in the queue.
    Full(Vec<(u64, RunId)>),
    Start(Start),
}

impl Engine {
    /// From now on what our own runs are owed is done, by at most `at_once` workers at a time. Runs of before that
    /// are owed something go on; whoever worked at them is gone, because the store has one owner.
    pub async fn employ(&self, performer: Arc<dyn Performer>, at_once: usize) -> Result<(), Error> {
        let dispatch = &self.tools.dispatch;
        {
            let mut book = dispatch.book.lock().unwrap_or_else(PoisonError::into_inner);
            (book.is_open, book.places) = (true, at_once.max(1));
        }
        if self.tools.performer.set(performer.clone()).is_err() {
            return Err(Error::bug("an engine has one performer"));
        }
        let engine = self.clone();
        self.tools.world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = serve(&engine, &performer) => {}
            }
        });
        self.find_unfinished().await
    }

    /// Attaches a performer that executes no runs, but answers what is asked about their workspaces. Unfinished runs
    /// stay as they are.
    pub fn attach_idle_performer(&self, performer: Arc<dyn Performer>) -> Result<(), Error> {
        self.tools.performer.set(performer).map_err(|_| Error::bug("an engine has one performer"))
    }

    /// Whether anybody does what our own runs are owed.
    pub fn has_performer(&self) -> bool {
        self.tools.performer.get().is_some()
    }

    /// Runs of our own that have not ended. Before somebody works here, these are what an earlier process left.
    pub async fn unfinished(&self) -> Result<Vec<RunRow>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        while let Some(page) = own_open(self.store(), &mut after).await? {
            for run in page {
                found.extend(self.run(run).await?);
            }
        }
        Ok(found)
    }

    /// Gives what is owed to runs of our own that have not ended to whoever works here.
    async fn find_unfinished(&self) -> Result<(), Error> {
        let mut after = None;
        while let Some(page) = own_open(self.store(), &mut after).await? {
            for run in page {
                let stream = crate::journal::stream_of(run);
                let Some(state) = crate::journal::replay(self.store(), &stream, |_| {}).await? else {
                    continue;
                };
                let owes = !outstanding(&state).work.is_empty();
                self.tools.dispatch.owed(run, state.next_sequence(), owes);
            }
        }
        Ok(())
    }
}

/// A page of the runs of our own that have not ended. `None` behind the last.
async fn own_open(store: &dyn Store, after: &mut Option<Arc<str>>) -> Result<Option<Vec<RunId>>, Error> {
    let range = RowRange {
        space: rows::OWN_OPEN.into(),
        prefix: "".into(),
        after: after.take(),
        backwards: false,
        limit: limits::TIMER_PAGE,
    };
    let page = store.rows(range).await?;
    let Some(last) = page.last() else { return Ok(None) };
    *after = Some(last.key.clone());
    let unread = |key: &str| Error::bug(format!("the row of the open run {key} cannot be read"));
    page.iter().map(|row| row.key.parse().map_err(|_| unread(&row.key))).collect::<Result<_, _>>().map(Some)
}

/// Gives runs that are owed something to workers.
async fn serve(engine: &Engine, performer: &Arc<dyn Performer>) {
    let dispatch = &engine.tools.dispatch;
    let mut told = HashSet::new();
    let mut serial = 0_u64;
    loop {
        let changed = dispatch.changed.notified();
        match dispatch.next(&mut told) {
            Next::Start(start) => {
                serial += 1;
                work(engine, performer, start, serial);
            }
            Next::Full(late) => {
                throttle(engine, late);
                changed.await;
            }
            Next::Nothing => changed.await,
        }
    }
}

/// Says in the log of each that it waits for a place.
fn throttle(engine: &Engine, late: Vec<(u64, RunId)>) {
    for (place, run) in late {
        let engine = engine.clone();
        let tasks = engine.tools.world.tasks.clone();
        tasks.spawn(Kind::Effect, move |_| async move {
            let throttled = Payload::RunThrottled(Box::new(Throttled::new(THROTTLED.to_owned(), place)));
            let told = engine.submit(run, Command::Progress { drafts: vec![throttled.into()] }).await;
            if let Err(error) = told {
                tracing::debug!(%run, %error, "a run that waits for a place could not be told so");
            }
        });
    }
}

/// Starts a worker.
fn work(engine: &Engine, performer: &Arc<dyn Performer>, start: Start, serial: u64) {
    let (engine, performer) = (engine.clone(), performer.clone());
    let tasks = engine.tools.world.tasks.clone();
    tasks.spawn(Kind::Effect, move |mut shutdown| async move {
        let run = start.run;
        let mut leave = Leave { engine: engine.clone(), run, seen: None };
        let worker_id = format!("local-{serial}-{}", start.place);
        tokio::select! {
            biased;
            // Whoever starts next takes over: going down is the same as dying.
            () = shutdown.requested() => leave.seen = Some(u64::MAX),
            seen = at_work(&engine, &*performer, &start, worker_id) => leave.seen = seen,
        }
    });
}

/// Answers up to where the worker saw the run, or `None` when it could not go on.
async fn at_work(
    engine: &Engine,
    performer: &dyn Performer,
    start: &Start,
    worker_id: String,
) -> Option<u64> {
    let run = start.run;
    let mut desk = match Desk::open(engine.clone(), run, worker_id).await {
        Ok(desk) => desk,
        Err(Error::Rejected(gone)) => {
            tracing::debug!(%run, %gone, "a run that was owed something is not there");
            return Some(u64::MAX);
        }
        Err(Error::Failed(failure)) => {
            tracing::warn!(%run, %failure, "a run cannot be read, and is tried again");
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
                tracing::warn!(%run, %left, "a run could not be taken over, and is tried again");
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
    let message = format!("{} workers in a row were lost with this run", lost.times);
    desk.fail("worker_lost", message, true).await
}

/// What is left to do when a worker ends, in whatever way.
struct Leave {
    engine: Engine,
    run: RunId,
    seen: Option<u64>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let run = self.run;
        if !self.engine.tools.dispatch.left(run, self.seen) {
            return;
        }
        let engine = self.engine.clone();
        let tasks = engine.tools.world.tasks.clone();
        tasks.spawn(Kind::Effect, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = tokio::time::sleep(limits::WORKER_RETRY) => {
                    match engine.run(run).await {
                        Ok(Some(row)) if !row.has_ended() => engine.tools.dispatch.again(run),
                        Ok(_) => engine.tools.dispatch.forget(run),
                        Err(error) => {
                            tracing::warn!(%run, %error, "a run whose worker was lost cannot be looked at");
                            engine.tools.dispatch.again(run);
                        }
                    }
                }
            }
        });
    }
}
