//! Queue of own runs with pending work, and the runs that have a worker. Writers add runs and a service takes them;
//! it must not know the workers.
//!
//! Pending work follows from the state of a run, so nothing here is stored: after a restart the queue is rebuilt from
//! the unfinished own runs. Start with [`PendingRuns::note_pending`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use recount_event::RunId;
use recount_log::{ReadResult as _, Store};
use recount_run::Status;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::catalogue::runs::own_open;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, RunRow};

/// Why a worker was lost, as in `gap.run_disconnected`.
const RESTARTED: &str = "server_restarted";

const WORKER_LOST: &str = "worker_lost";

#[derive(Default)]
pub(crate) struct PendingRuns {
    queue: Mutex<PendingQueue>,
    changed: Notify,
    /// Notified when a worker exits.
    slot_freed: Notify,
}

#[derive(Default)]
struct PendingQueue {
    /// Whether runs are executed here.
    is_open: bool,
    slots: usize,
    working: HashMap<RunId, WorkerSlot>,
    /// Workers that have lent their slots, and those that wait to reclaim one.
    lent: usize,
    returning: usize,
    waiting: VecDeque<RunId>,
    queued: HashSet<RunId>,
    /// Runs that lost their last worker, and how often in a row.
    lost: HashMap<RunId, LostWorker>,
}

/// A run with a worker.
#[derive(Default)]
struct WorkerSlot {
    /// The sequence after the last append that left pending work.
    pending_at: u64,
    /// Whether it waits for another run, which may use its slot.
    has_lent_slot: bool,
}

/// A worker that waits to reclaim a slot.
struct ReclaimGuard<'a>(&'a PendingRuns);

impl Drop for ReclaimGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.returning -= 1;
        drop(queue);
        self.0.changed.notify_one();
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LostWorker {
    pub(crate) times: u32,
    pub(crate) reason: &'static str,
}

/// A run to execute now.
pub(crate) struct Start {
    pub(crate) run: RunId,
    pub(crate) slot: usize,
    pub(crate) lost: Option<LostWorker>,
}

impl PendingRuns {
    /// Starts executing runs, with this many slots.
    pub(crate) fn open(&self, slots: usize) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        (queue.is_open, queue.slots) = (true, slots);
    }

    /// Returns when there may be new work since this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Called after an append to an own run; `has_work` is whether its state has pending work.
    pub(crate) fn note_pending(&self, run: RunId, next_sequence: u64, has_work: bool) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.is_open || !has_work {
            return;
        }
        if let Some(working) = queue.working.get_mut(&run) {
            working.pending_at = next_sequence;
            return;
        }
        if queue.queued.insert(run) {
            queue.waiting.push_back(run);
            drop(queue);
            self.changed.notify_one();
        }
    }

    /// Finds runs that had a worker when the last process ended: those with the status running. Called before
    /// anything is written, because a run that a timer continues later has not lost a worker.
    pub(crate) async fn find_lost_workers(&self, store: &dyn Store) -> Result<(), Error> {
        let mut after = None;
        while let Some(page) = own_open(store, &mut after).await? {
            for run in page {
                let row = store.row(rows::RUNS, &rows::tenant_key(run)).await.readable()?;
                // The row of an unreadable run cannot be rebuilt.
                let report =
                    |error| tracing::error!(%run, %error, "the state of an unfinished run cannot be read");
                let Some(row) = row.whole_or(report).flatten() else { continue };
                let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
                if row.status == Status::Running.as_str() {
                    let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                    queue.lost.insert(run, LostWorker { times: 0, reason: RESTARTED });
                }
            }
        }
        Ok(())
    }

    /// The next run to execute, if a slot is free; otherwise the runs that wait and were not announced yet.
    pub(crate) fn next(&self, announced: &mut HashSet<RunId>) -> Next {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.is_empty() {
            announced.clear();
            return Next::Nothing;
        }
        if queue.used_slots() + queue.returning >= queue.slots {
            let late = (1..).zip(&queue.waiting).filter(|(_, run)| !announced.contains(*run));
            let late: Vec<(u64, RunId)> = late.map(|(position, run)| (position, *run)).collect();
            announced.extend(late.iter().map(|(_, run)| *run));
            return Next::Full(late);
        }
        let Some(run) = queue.waiting.pop_front() else { return Next::Nothing };
        queue.queued.remove(&run);
        announced.remove(&run);
        queue.working.insert(run, WorkerSlot::default());
        let lost = queue.lost.get(&run).copied();
        Next::Start(Start { run, slot: queue.working.len(), lost })
    }

    /// A worker exited after it saw everything before `seen`, or was lost. Returns whether it was lost.
    pub(crate) fn worker_exited(&self, run: RunId, seen: Option<u64>) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let working = queue.working.remove(&run).unwrap_or_default();
        queue.lent -= usize::from(working.has_lent_slot);
        let pending_at = working.pending_at;
        let again = match seen {
            Some(seen) => {
                queue.lost.remove(&run);
                pending_at > seen
            }
            None => {
                let lost = queue.lost.entry(run).or_insert(LostWorker { times: 0, reason: WORKER_LOST });
                lost.times += 1;
                lost.reason = WORKER_LOST;
                false
            }
        };
        if again && queue.queued.insert(run) {
            queue.waiting.push_back(run);
        }
        drop(queue);
        self.changed.notify_one();
        self.slot_freed.notify_waiters();
        seen.is_none()
    }

    /// The last loss of a worker of this run does not count.
    pub(crate) fn excuse(&self, run: RunId) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lost) = queue.lost.get_mut(&run) {
            lost.times = lost.times.saturating_sub(1);
        }
    }

    /// The worker of a run waits for another run, which may use its slot.
    pub(crate) fn lend(&self, run: RunId) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(working) = queue.working.get_mut(&run) else { return };
        if !std::mem::replace(&mut working.has_lent_slot, true) {
            queue.lent += 1;
            drop(queue);
            self.changed.notify_one();
        }
    }

    /// Returns when the worker of a run has a slot again.
    pub(crate) async fn reclaim(&self, run: RunId) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).returning += 1;
        let _returning = ReclaimGuard(self);
        loop {
            let slot_freed = self.slot_freed.notified();
            if self.try_reclaim(run) {
                return;
            }
            slot_freed.await;
        }
    }

    fn try_reclaim(&self, run: RunId) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.used_slots() >= queue.slots {
            return false;
        }
        if queue.working.get_mut(&run).is_some_and(|working| std::mem::take(&mut working.has_lent_slot)) {
            queue.lent -= 1;
        }
        true
    }

    /// Queues a run that lost its worker.
    pub(crate) fn requeue(&self, run: RunId) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.working.contains_key(&run) && queue.queued.insert(run) {
            queue.waiting.push_back(run);
        }
        drop(queue);
        self.changed.notify_one();
    }

    pub(crate) fn forget(&self, run: RunId) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).lost.remove(&run);
    }

    /// Active runs and waiting runs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        (queue.working.len(), queue.waiting.len())
    }
}

impl PendingQueue {
    /// Used slots.
    fn used_slots(&self) -> usize {
        self.working.len() - self.lent
    }
}

pub(crate) enum Next {
    Nothing,
    /// No slot is free; waiting runs that were not announced yet, with their queue positions.
    Full(Vec<(u64, RunId)>),
    Start(Start),
}
