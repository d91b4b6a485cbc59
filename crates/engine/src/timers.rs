//! Deadlines of prompts: one service that wakes a run's writer when something in it is due.
//!
//! Deadlines are folds of the log, so nothing is lost when the process dies: they are loaded again from
//! the catalogue when the engine opens.
//!
//! While the process lives a deadline comes by the wall clock or by the time that really passed, whichever
//! is first, so that a clock set back does not withhold a safe default. A process that starts later has only
//! the wall clock to go by.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recount_event::RunId;
use recount_log::{RowRange, Store};
use recount_world::{Kind, World};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::writer::Work;
use crate::writers::Writers;
use crate::{Error, limits, rows};

#[derive(Default)]
pub(crate) struct Timers {
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Default)]
struct Book {
    by_clock: BTreeSet<(u64, RunId)>,
    by_moment: BTreeSet<(Instant, RunId)>,
    by_run: HashMap<RunId, Armed>,
}

/// Who is due first, by either measure.
struct First {
    by_clock: (u64, RunId),
    by_moment: Option<(Instant, RunId)>,
}

/// When one run is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Armed {
    at_ms: u64,
    /// `None` when that is too far away to be measured.
    moment: Option<Instant>,
}

impl Timers {
    /// Says when a run must be looked at next, or that it need not be.
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
            book.by_run.insert(run, Armed { at_ms, moment });
            book.by_clock.insert((at_ms, run));
            book.by_moment.extend(moment.map(|moment| (moment, run)));
        }
        drop(book);
        self.changed.notify_one();
    }

    /// Has a run looked at soon, because nobody knows what became of its last append: whoever wakes its
    /// writer has the log read again, and with it deadlines and an ending that nobody heard of.
    pub(crate) fn look_again(&self, run: RunId, world: &World) {
        let soon = world.clock.now_ms().saturating_add(millis(limits::TIMER_RETRY));
        let known = self.book.lock().unwrap_or_else(PoisonError::into_inner).by_run.get(&run).copied();
        self.set(run, Some(known.map_or(soon, |known| known.at_ms.min(soon))), world);
    }

    /// What is due first by the clock, and what is due first by the time that passes.
    fn next(&self) -> Option<First> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        Some(First { by_clock: book.by_clock.first().copied()?, by_moment: book.by_moment.first().copied() })
    }

    /// What a run was armed for.
    fn at_ms(&self, run: RunId) -> Option<u64> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.by_run.get(&run).map(|armed| armed.at_ms)
    }

    /// Loads what the catalogue knows.
    pub(crate) async fn load(&self, store: &dyn Store, world: &World) -> Result<(), Error> {
        let mut after = None;
        loop {
            let range = RowRange {
                space: rows::DEADLINES.into(),
                prefix: "".into(),
                after: after.take(),
                backwards: false,
                limit: limits::TIMER_PAGE,
            };
            let page = store.rows(range).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key.clone());
            for row in &page {
                match (row.key.parse(), serde_json::from_slice(&row.value)) {
                    (Ok(run), Ok(at_ms)) => self.set(run, Some(at_ms), world),
                    _ => return Err(Error::bug(format!("the deadline row {} cannot be read", row.key))),
                }
            }
        }
    }

    /// Starts the service.
    pub(crate) fn start(self: &Arc<Self>, world: &World, writers: &Arc<Writers>) {
        let (timers, writers, clock) = (self.clone(), writers.clone(), world.clone());
        world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = timers.serve(&clock, &writers) => {}
            }
        });
    }

    async fn serve(&self, world: &World, writers: &Arc<Writers>) {
        loop {
            let Some(First { by_clock: (clock_ms, by_clock), by_moment }) = self.next() else {
                self.changed.notified().await;
                continue;
            };
            // In this order whenever several are ready: what happens under one seed can be repeated.
            let run = tokio::select! {
                biased;
                () = world.sleep_until_ms(clock_ms) => by_clock,
                run = passed(by_moment) => run,
                () = self.changed.notified() => continue,
            };
            let Some(at_ms) = self.at_ms(run) else { continue };
            let settled = writers.ask(run, Work::Due { at_ms }).await;
            match settled {
                // The writer has set the next deadline itself, if there is one.
                Ok(_) => {}
                Err(Error::Rejected(rejection)) => {
                    tracing::debug!(%run, %rejection, "a run that was to be looked at is not there");
                    self.set(run, None, world);
                }
                Err(Error::Failed(failure)) => {
                    tracing::warn!(%run, %failure, "a run could not be looked at yet");
                    let dies = failure.code == recount_event::Code::Internal;
                    let wait = if dies { limits::TIMER_RETRY_BROKEN } else { limits::TIMER_RETRY };
                    self.set(run, Some(world.clock.now_ms().saturating_add(millis(wait))), world);
                }
            }
        }
    }
}

/// The run whose moment comes first, when it has come.
async fn passed(first: Option<(Instant, RunId)>) -> RunId {
    match first {
        Some((moment, run)) => {
            tokio::time::sleep_until(moment).await;
            run
        }
        None => std::future::pending().await,
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}
