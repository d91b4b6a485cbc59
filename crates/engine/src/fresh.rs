//! Runs of ours that have just begun, as they stand in memory: who writes to one for the first time, and who sits
//! down at it, need not read back what was known a moment ago.
//!
//! Only what an append was seen to make comes here, and it is handed out once: a writer that has taken a run over
//! owns its state, and one that throws it away reads the log. Nothing is lost with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_event::RunId;
use recount_run::State;

use crate::limits;
use crate::live::List;
use crate::writer::Awake;

/// See the file's head.
#[derive(Default)]
pub(crate) struct Fresh(Mutex<BTreeMap<RunId, Kept>>);

struct Kept {
    /// For who works at it.
    seat: Option<Seat>,
    /// For its writer.
    awake: Option<Box<Awake>>,
}

/// A run, and the list that has heard of everything in it.
pub(crate) struct Seat {
    pub(crate) state: State,
    pub(crate) list: Arc<List>,
}

impl Fresh {
    pub(crate) fn keep(&self, run: RunId, seat: Seat, awake: Awake) {
        let mut runs = self.runs();
        runs.insert(run, Kept { seat: Some(seat), awake: Some(Box::new(awake)) });
        while runs.len() > limits::FRESH_MAX {
            // Their names are in the order they began.
            runs.pop_first();
        }
    }

    /// Whether a run is here that has had no writer yet.
    pub(crate) fn is_asleep(&self, run: RunId) -> bool {
        self.runs().get(&run).is_some_and(|kept| kept.awake.is_some())
    }

    pub(crate) fn take_awake(&self, run: RunId) -> Option<Box<Awake>> {
        self.take(run, |kept| kept.awake.take())
    }

    pub(crate) fn take_seat(&self, run: RunId) -> Option<Seat> {
        self.take(run, |kept| kept.seat.take())
    }

    /// The run is gone.
    pub(crate) fn forget(&self, run: RunId) {
        self.runs().remove(&run);
    }

    fn take<T>(&self, run: RunId, part: impl FnOnce(&mut Kept) -> Option<T>) -> Option<T> {
        let mut runs = self.runs();
        let kept = runs.get_mut(&run)?;
        let taken = part(kept);
        if kept.seat.is_none() && kept.awake.is_none() {
            runs.remove(&run);
        }
        taken
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
