//! Which runs of ours are owed something, and which have a worker. Writers fill this book, and a service takes runs from
//! it; it must not know who works.
//!
//! What a run is owed is in its state, so nothing here needs to be kept: after a restart it is found again from the runs of
//! our own that have not ended. Look at [`OwedRuns::owed`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use recount_event::RunId;
use recount_log::Store;
use recount_run::Status;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::catalogue::runs::own_open;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, RunRow};

/// Why the worker of a run was lost, as `gap.run_disconnected` says it.
const RESTARTED: &str = "server_restarted";

const WORKER_LOST: &str = "worker_lost";

#[derive(Default)]
pub(crate) struct OwedRuns {
    book: Mutex<OwedQueue>,
    changed: Notify,
    /// A worker has left.
    freed: Notify,
}

#[derive(Default)]
struct OwedQueue {
    /// Whether anybody works here at all.
    is_open: bool,
    places: usize,
    working: HashMap<RunId, Working>,
    /// How many of them have lent their places, and how many of those wait to have them back.
    lent: usize,
    returning: usize,
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
    /// Whether it only waits for another run, which may have its place.
    has_lent: bool,
}

/// A worker that waits to have its place back.
struct Returning<'a>(&'a OwedRuns);

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        let mut book = self.0.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.returning -= 1;
        drop(book);
        self.0.changed.notify_one();
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) times: u32,
    pub(crate) reason: &'static str,
}

/// A run to be worked at now.
pub(crate) struct Start {
    pub(crate) run: RunId,
    pub(crate) place: usize,
    pub(crate) lost: Option<Lost>,
}

impl OwedRuns {
    /// From now on runs are worked at, so many at a time.
    pub(crate) fn open(&self, places: usize) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        (book.is_open, book.places) = (true, places);
    }

    /// Returns when there may be something to do that there was not when this was called.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

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
                let row = match store.row(rows::RUNS, &rows::tenant_key(run)).await.map_err(Error::from) {
                    Ok(Some(row)) => row,
                    Ok(None) => continue,
                    // The row of a damaged run cannot be made again.
                    Err(error) if error.is_damage() => {
                        tracing::error!(%run, %error, "the state of an unfinished run cannot be read");
                        continue;
                    }
                    Err(error) => return Err(error),
                };
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
    pub(crate) fn next(&self, told: &mut HashSet<RunId>) -> Next {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.queue.is_empty() {
            told.clear();
            return Next::Nothing;
        }
        if book.taken() + book.returning >= book.places {
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
    pub(crate) fn left(&self, run: RunId, seen: Option<u64>) -> bool {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let working = book.working.remove(&run).unwrap_or_default();
        book.lent -= usize::from(working.has_lent);
        let owed_at = working.owed_at;
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
        self.freed.notify_waiters();
        seen.is_none()
    }

    /// The worker of a run only waits for another run from here on, which may have its place.
    pub(crate) fn lend(&self, run: RunId) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(working) = book.working.get_mut(&run) else { return };
        if !std::mem::replace(&mut working.has_lent, true) {
            book.lent += 1;
            drop(book);
            self.changed.notify_one();
        }
    }

    /// Returns when the worker of a run has a place again.
    pub(crate) async fn take_back(&self, run: RunId) {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).returning += 1;
        let _returning = Returning(self);
        loop {
            let freed = self.freed.notified();
            if self.takes_back(run) {
                return;
            }
            freed.await;
        }
    }

    fn takes_back(&self, run: RunId) -> bool {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.taken() >= book.places {
            return false;
        }
        if book.working.get_mut(&run).is_some_and(|working| std::mem::take(&mut working.has_lent)) {
            book.lent -= 1;
        }
        true
    }

    /// Queues a run whose worker was lost.
    pub(crate) fn again(&self, run: RunId) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if !book.working.contains_key(&run) && book.queued.insert(run) {
            book.queue.push_back(run);
        }
        drop(book);
        self.changed.notify_one();
    }

    pub(crate) fn forget(&self, run: RunId) {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).lost.remove(&run);
    }

    /// Runs at work, and runs that wait for a place.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        (book.working.len(), book.queue.len())
    }
}

impl OwedQueue {
    /// Places that are taken.
    fn taken(&self) -> usize {
        self.working.len() - self.lent
    }
}

pub(crate) enum Next {
    Nothing,
    /// No place is left; these have not been told yet, each with its place in the queue.
    Full(Vec<(u64, RunId)>),
    Start(Start),
}
