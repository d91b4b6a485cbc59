//! Cache of new own runs, so that their first writer and worker do not read them from the store.
//!
//! It contains only results of appends, and each entry is taken once: a writer then owns the state. Losing an entry
//! has no effect, because the log has everything.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_event::{Event, RunId, SessionId};
use recount_run::State;

use crate::limits;
use crate::read::live::List;
use crate::write::commit::StartOutcome;
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::Redaction;

/// A cache of new own runs.
#[derive(Default)]
pub(crate) struct NewRunCache {
    runs: Mutex<CachedRuns>,
    latest: Mutex<LatestRuns>,
}

#[derive(Default)]
struct CachedRuns {
    by_id: BTreeMap<RunId, CachedRun>,
    bytes: usize,
}

/// The latest own run of each session.
#[derive(Default)]
struct LatestRuns {
    runs: HashMap<SessionId, RunId>,
    order: VecDeque<SessionId>,
}

struct CachedRun {
    /// Bytes of its events, about the size in memory.
    bytes: usize,
    /// Receives every append to the run.
    list: Arc<List>,
    /// The sequence after the cached events.
    next: u64,
    /// For the first worker.
    worker_start: Option<WorkerStart>,
    /// For the first writer.
    loaded: Option<Box<LoadedRun>>,
}

/// The state for a worker, and a list that has received every append to the run.
pub(crate) struct WorkerStart {
    pub(crate) state: State,
    /// Includes secrets of the request that are in no row yet.
    pub(crate) redaction: Redaction,
    pub(crate) list: Arc<List>,
    /// The own run that started before it in its session, if cached.
    pub(crate) previous: Option<RunId>,
    /// All its events, if they equal the stored ones.
    pub(crate) events: Option<Vec<Event>>,
    /// The outcome of the append that starts the run, if it is unknown.
    pub(crate) start_outcome: Option<StartOutcome>,
}

impl NewRunCache {
    pub(crate) fn keep(&self, run: RunId, worker_start: WorkerStart, loaded: LoadedRun, bytes: usize) {
        let (list, next) = (worker_start.list.clone(), worker_start.state.next_sequence());
        let cached =
            CachedRun { bytes, list, next, worker_start: Some(worker_start), loaded: Some(Box::new(loaded)) };
        let mut runs = self.runs();
        runs.bytes += bytes;
        runs.by_id.insert(run, cached);
        while runs.by_id.len() > limits::FRESH_MAX || runs.bytes > limits::FRESH_BYTES_MAX {
            // Run ids sort by start time.
            let Some(oldest) = runs.by_id.first_key_value().map(|(run, _)| *run) else { break };
            runs.remove(oldest);
        }
    }

    /// Records a new own run of a session, and returns the previous one. Starts never overlap, because a session has
    /// one active own run.
    pub(crate) fn record_latest(&self, session: SessionId, run: RunId) -> Option<RunId> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = latest.runs.insert(session, run);
        if previous.is_none() {
            latest.order.push_back(session);
            if latest.order.len() > limits::LATEST_RUNS_MAX
                && let Some(oldest) = latest.order.pop_front()
            {
                latest.runs.remove(&oldest);
            }
        }
        previous
    }

    /// Runs were imported, so the latest runs must be looked up again.
    pub(crate) fn forget_latest_runs(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = LatestRuns::default();
    }

    /// Whether a cached run has had no writer yet.
    pub(crate) fn is_unwritten(&self, run: RunId) -> bool {
        self.runs().by_id.get(&run).is_some_and(|cached| cached.loaded.is_some())
    }

    /// `None` if another writer has appended to the run since.
    pub(crate) fn take_loaded_run(&self, run: RunId) -> Option<Box<LoadedRun>> {
        self.take(run, |cached| {
            let is_new = cached.list.known_next() <= cached.next;
            cached.loaded.take().filter(|_| is_new)
        })
    }

    pub(crate) fn take_worker_start(&self, run: RunId) -> Option<WorkerStart> {
        self.take(run, |cached| cached.worker_start.take())
    }

    /// The run was erased.
    pub(crate) fn forget(&self, run: RunId) {
        self.runs().remove(run);
    }

    fn take<T>(&self, run: RunId, part: impl FnOnce(&mut CachedRun) -> Option<T>) -> Option<T> {
        let mut runs = self.runs();
        let cached = runs.by_id.get_mut(&run)?;
        let value = part(cached);
        if cached.worker_start.is_none() && cached.loaded.is_none() {
            runs.remove(run);
        }
        value
    }

    fn runs(&self) -> MutexGuard<'_, CachedRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedRuns {
    fn remove(&mut self, run: RunId) {
        if let Some(cached) = self.by_id.remove(&run) {
            self.bytes -= cached.bytes;
        }
    }
}
