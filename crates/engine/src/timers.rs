//! Deadlines of prompts: one service that wakes a run's writer when something in it is due.
//!
//! Deadlines are folds of the log, so nothing is lost when the process dies: they are loaded again from
//! the catalogue when the engine opens.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::RunId;
use recount_log::{RowRange, Store};
use recount_run::Command;
use recount_world::{Kind, World};
use tokio::sync::Notify;

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
    by_time: BTreeSet<(u64, RunId)>,
    by_run: HashMap<RunId, u64>,
}

impl Timers {
    /// Says when a run must be looked at next, or that it need not be.
    pub(crate) fn set(&self, run: RunId, at_ms: Option<u64>) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.by_run.get(&run).copied() == at_ms {
            return;
        }
        if let Some(old) = book.by_run.remove(&run) {
            book.by_time.remove(&(old, run));
        }
        if let Some(at_ms) = at_ms {
            book.by_run.insert(run, at_ms);
            book.by_time.insert((at_ms, run));
        }
        drop(book);
        self.changed.notify_one();
    }

    /// Has a run looked at soon, because nobody knows what became of its last append: whoever wakes its
    /// writer has the log read again, and with it deadlines and an ending that nobody heard of.
    pub(crate) fn look_again(&self, run: RunId, world: &World) {
        let soon = world.clock.now_ms().saturating_add(millis(limits::TIMER_RETRY));
        let known = self.book.lock().unwrap_or_else(PoisonError::into_inner).by_run.get(&run).copied();
        self.set(run, Some(known.map_or(soon, |known| known.min(soon))));
    }

    fn next(&self) -> Option<(u64, RunId)> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.by_time.first().copied()
    }

    /// Loads what the catalogue knows.
    pub(crate) async fn load(&self, store: &dyn Store) -> Result<(), Error> {
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
                    (Ok(run), Ok(at_ms)) => self.set(run, Some(at_ms)),
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
            let Some((at_ms, run)) = self.next() else {
                self.changed.notified().await;
                continue;
            };
            // In this order whenever both are ready: what happens under one seed can be repeated.
            tokio::select! {
                biased;
                () = world.sleep_until_ms(at_ms) => {}
                () = self.changed.notified() => continue,
            }
            let settled = writers.ask(run, Work::Command(Command::Tick)).await;
            match settled {
                // The writer has set the next deadline itself, if there is one. It may be this one again:
                // the clock can step back between our look at it and the writer's.
                Ok(_) => {}
                Err(Error::Rejected(rejection)) => {
                    tracing::debug!(%run, %rejection, "a run that was to be looked at is not there");
                    self.set(run, None);
                }
                Err(Error::Failed(failure)) => {
                    tracing::warn!(%run, %failure, "a run could not be looked at yet");
                    let dies = failure.code == recount_event::Code::Internal;
                    let wait = if dies { limits::TIMER_RETRY_BROKEN } else { limits::TIMER_RETRY };
                    self.set(run, Some(world.clock.now_ms().saturating_add(millis(wait))));
                }
            }
        }
    }
}

fn millis(wait: std::time::Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}
