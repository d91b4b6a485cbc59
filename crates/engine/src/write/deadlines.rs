//! Deadlines of prompts: when each run must be checked next. Writers maintain them; it must not know who reads them.
//!
//! Deadlines are folds of the log, so a crash loses nothing: they are loaded from the catalogue when the engine
//! opens.
//!
//! A deadline is reached by the wall clock or by elapsed time, whichever is first, so that a clock that was set back
//! does not delay a safe default. After a restart only the wall clock counts.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use recount_event::RunId;
use recount_log::Store;
use recount_world::World;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::catalogue::table::read_row;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::{Error, limits};

#[derive(Default)]
pub(crate) struct Deadlines {
    book: Mutex<DeadlineIndex>,
    changed: Notify,
}

#[derive(Default)]
struct DeadlineIndex {
    by_clock: BTreeSet<(u64, RunId)>,
    by_moment: BTreeSet<(Instant, RunId)>,
    by_run: HashMap<RunId, RunDeadline>,
}

/// The first deadline by either measure.
pub(crate) struct FirstDeadline {
    pub(crate) by_clock: (u64, RunId),
    pub(crate) by_moment: Option<(Instant, RunId)>,
}

/// The deadline of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunDeadline {
    at_ms: u64,
    /// `None` if it is too far away to be measured.
    moment: Option<Instant>,
}

impl Deadlines {
    /// Sets or removes the deadline of a run.
    pub(crate) fn set(&self, run: RunId, at_ms: Option<u64>, world: &World) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.by_run.get(&run).map(|armed| armed.at_ms) == at_ms {
            return;
        }
        if let Some(old) = book.by_run.remove(&run) {
            book.by_clock.remove(&(old.at_ms, run));
            if let Some(moment) = old.moment {
                book.by_moment.remove(&(moment, run));
            }
        }
        if let Some(at_ms) = at_ms {
            let wait = Duration::from_millis(at_ms.saturating_sub(world.clock.now_ms()));
            let moment = (wait <= limits::TIMER_WAIT_MAX).then(|| recount_world::moment() + wait);
            book.by_run.insert(run, RunDeadline { at_ms, moment });
            book.by_clock.insert((at_ms, run));
            book.by_moment.extend(moment.map(|moment| (moment, run)));
        }
        drop(book);
        self.changed.notify_one();
    }

    /// Schedules an early check of a run whose last append has an unknown outcome. Its writer then reads the log
    /// again, and with it deadlines and the ending.
    pub(crate) fn look_again(&self, run: RunId, world: &World) {
        let soon = world.clock.now_ms().saturating_add(millis(limits::TIMER_RETRY));
        let known = self.book.lock().unwrap_or_else(PoisonError::into_inner).by_run.get(&run).copied();
        self.set(run, Some(known.map_or(soon, |known| known.at_ms.min(soon))), world);
    }

    /// The first deadline by the clock, and the first by elapsed time.
    pub(crate) fn next(&self) -> Option<FirstDeadline> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        Some(FirstDeadline {
            by_clock: book.by_clock.first().copied()?,
            by_moment: book.by_moment.first().copied(),
        })
    }

    /// The deadline of a run.
    pub(crate) fn at_ms(&self, run: RunId) -> Option<u64> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.by_run.get(&run).map(|armed| armed.at_ms)
    }

    /// Returns when the first deadline may have changed.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Loads the deadlines from the catalogue. Rows of damaged runs are skipped.
    pub(crate) async fn load(&self, store: &dyn Store, world: &World) -> Result<(), Error> {
        let mut pages = RowPages::new(store, rows::DEADLINES, limits::TIMER_PAGE);
        while let Some(page) = pages.next().await? {
            for row in &page.rows {
                let run = rows::run_in_key(rows::DEADLINES, &row.key, "")?;
                let at_ms = read_row(rows::DEADLINES, &row.key, &row.value)?;
                self.set(run, Some(at_ms), world);
            }
        }
        Ok(())
    }
}

pub(crate) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}
