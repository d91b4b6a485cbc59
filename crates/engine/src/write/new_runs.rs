//! Cache of runs of ours that have just started: the first writer and the first worker of one need not read back
//! what was known a moment ago.
//!
//! Only what an append was seen to make comes here, and it is handed out once: a writer that has taken a run over
//! owns its state, and one that throws it away reads the log. Nothing is lost with it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_event::{Event, RunId, SessionId};
use recount_run::State;

use crate::limits;
use crate::read::live::List;
use crate::write::commit::StartOutcome;
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::Redaction;

/// See the file's head.
#[derive(Default)]
pub(crate) struct NewRunCache {
    runs: Mutex<CachedRuns>,
    lately: Mutex<Lately>,
}

#[derive(Default)]
struct CachedRuns {
    kept: BTreeMap<RunId, CachedRun>,
    bytes: usize,
}

/// Which run of ours began last in a session.
#[derive(Default)]
struct Lately {
    runs: HashMap<SessionId, RunId>,
    order: VecDeque<SessionId>,
}

struct CachedRun {
    /// How long its events are: what is in memory is about as long.
    bytes: usize,
    /// Hears of everything that is written to it.
    list: Arc<List>,
    /// The sequence behind what is known of it here.
    next: u64,
    /// For who works at it.
    seat: Option<WorkerStart>,
    /// For its writer.
    awake: Option<Box<LoadedRun>>,
}

/// A run, and the list that has heard of everything in it.
pub(crate) struct WorkerStart {
    pub(crate) state: State,
    /// With secrets that came with the run and stand in no row yet.
    pub(crate) redaction: Redaction,
    pub(crate) list: Arc<List>,
    /// The run of ours that began before it in its session, where that is remembered.
    pub(crate) previous: Option<RunId>,
    /// Everything that was written to it, where that is known as the log would tell it.
    pub(crate) events: Option<Vec<Event>>,
    /// What becomes of the append that begins it, where that was not known yet.
    pub(crate) fate: Option<StartOutcome>,
}

impl NewRunCache {
    pub(crate) fn keep(&self, run: RunId, seat: WorkerStart, awake: LoadedRun, bytes: usize) {
        let (list, next) = (seat.list.clone(), seat.state.next_sequence());
        let kept = CachedRun { bytes, list, next, seat: Some(seat), awake: Some(Box::new(awake)) };
        let mut runs = self.runs();
        runs.bytes += bytes;
        runs.kept.insert(run, kept);
        while runs.kept.len() > limits::FRESH_MAX || runs.bytes > limits::FRESH_BYTES_MAX {
            // Their names are in the order they began.
            let Some(oldest) = runs.kept.first_key_value().map(|(run, _)| *run) else { break };
            runs.remove(oldest);
        }
    }

    /// A run of ours has started in a session. Answers the one before it. They never begin in the same moment, because a
    /// session is busy with one at a time.
    pub(crate) fn began(&self, session: SessionId, run: RunId) -> Option<RunId> {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = lately.runs.insert(session, run);
        if previous.is_none() {
            lately.order.push_back(session);
            if lately.order.len() > limits::LATELY_MAX
                && let Some(oldest) = lately.order.pop_front()
            {
                lately.runs.remove(&oldest);
            }
        }
        previous
    }

    /// Runs came from elsewhere: what began last is looked up again.
    pub(crate) fn forget_lately(&self) {
        *self.lately.lock().unwrap_or_else(PoisonError::into_inner) = Lately::default();
    }

    /// Whether a run is here that has had no writer yet.
    pub(crate) fn is_asleep(&self, run: RunId) -> bool {
        self.runs().kept.get(&run).is_some_and(|kept| kept.awake.is_some())
    }

    /// Nothing when a client has written to it before it came here.
    pub(crate) fn take_awake(&self, run: RunId) -> Option<Box<LoadedRun>> {
        self.take(run, |kept| {
            let is_new = kept.list.known_next() <= kept.next;
            kept.awake.take().filter(|_| is_new)
        })
    }

    pub(crate) fn take_seat(&self, run: RunId) -> Option<WorkerStart> {
        self.take(run, |kept| kept.seat.take())
    }

    /// The run is gone.
    pub(crate) fn forget(&self, run: RunId) {
        self.runs().remove(run);
    }

    fn take<T>(&self, run: RunId, part: impl FnOnce(&mut CachedRun) -> Option<T>) -> Option<T> {
        let mut runs = self.runs();
        let kept = runs.kept.get_mut(&run)?;
        let taken = part(kept);
        if kept.seat.is_none() && kept.awake.is_none() {
            runs.remove(run);
        }
        taken
    }

    fn runs(&self) -> MutexGuard<'_, CachedRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedRuns {
    fn remove(&mut self, run: RunId) {
        if let Some(kept) = self.kept.remove(&run) {
            self.bytes -= kept.bytes;
        }
    }
}
