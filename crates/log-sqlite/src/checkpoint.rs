//! Keeping the write-ahead log short, away from the writer.
//!
//! A thread with a connection of its own copies the log into the database while the writer goes on. That
//! alone would not bound it: under constant load there is always something left to copy, and only when
//! nothing is left does SQLite begin the file again. So when nearly all is copied (or the file is very
//! long) the writer stands still for the rest. [`limits`] names the sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use recount_log::Fault;
use rusqlite::Connection;

use crate::fault::Doing as _;
use crate::limits;

/// The writer's side: decides what is asked for, after each commit.
pub(crate) struct Checkpoints {
    asks: SyncSender<Ask>,
    shared: Arc<Shared>,
    /// See [`limits::CHECKPOINT_PAGES`].
    pages: u32,
    /// The log's length after the previous commit.
    previous: u32,
    /// After standing still in vain: the length at which it is tried again.
    again_at: u32,
    /// The file is to be cut, however short it is.
    wanted: bool,
}

#[derive(Default)]
struct Shared {
    /// Pages of the log that are in the database already.
    copied: AtomicU32,
    /// A copy was asked for and has not begun.
    asked: AtomicBool,
}

enum Ask {
    /// Copy what can be copied beside the writer.
    Copy,
    /// Copy the rest and begin the log again, while the writer waits for `done`.
    Restart { truncate: bool, done: SyncSender<bool> },
}

/// What is to be done at a given length.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    Copy,
    Restart { truncate: bool },
}

impl Checkpoints {
    /// Starts the thread; it ends when this is dropped, and keeps `held` until it has.
    pub(crate) fn start(
        connection: Connection,
        pages: u32,
        held: impl Send + 'static,
    ) -> (Self, JoinHandle<()>) {
        let (asks, inbox) = sync_channel(limits::CHECKPOINTS_WAITING_MAX);
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = recount_world::thread("recount-checkpt", move || {
            work(&connection, &inbox, &theirs);
            drop(connection);
            drop(held);
        });
        let checkpoints =
            Checkpoints { asks, shared, pages: pages.max(1), previous: 0, again_at: 0, wanted: false };
        (checkpoints, thread)
    }

    /// To be called after each commit with the length of the log, in pages.
    pub(crate) fn after_commit(&mut self, length: u32) {
        if length < self.previous {
            // SQLite has begun the log again.
            self.shared.copied.store(0, Ordering::Relaxed);
            self.again_at = 0;
        }
        self.previous = length;
        match self.need(length) {
            Need::Nothing => {}
            Need::Copy => {
                if !self.shared.asked.swap(true, Ordering::Relaxed) && self.asks.try_send(Ask::Copy).is_err()
                {
                    self.shared.asked.store(false, Ordering::Relaxed);
                }
            }
            Need::Restart { truncate } => self.restart(truncate, length),
        }
    }

    fn restart(&mut self, truncate: bool, length: u32) {
        let (done, finished) = sync_channel(limits::CHECKPOINT_ANSWERS_MAX);
        let restarted =
            self.asks.send(Ask::Restart { truncate, done }).is_ok() && finished.recv() == Ok(true);
        if restarted {
            self.previous = 0;
            self.again_at = 0;
            self.wanted &= !truncate;
            self.shared.copied.store(0, Ordering::Relaxed);
        } else {
            self.again_at = length.saturating_add(self.pages);
        }
    }

    /// Copies all of the log and cuts its file, so that nothing of what it held stays there. Where a reader
    /// of an old state is in the way it is tried again each time [`limits::CHECKPOINT_PAGES`] more were
    /// written, and at the end.
    pub(crate) fn empty(&mut self, length: u32) {
        self.wanted = true;
        self.restart(true, length);
    }

    fn need(&self, length: u32) -> Need {
        let left = length.saturating_sub(self.shared.copied.load(Ordering::Relaxed));
        let nearly_all = left <= self.pages / limits::RESTART_LEFT_DIVISOR;
        let long = length >= self.pages.saturating_mul(limits::RESTART_FACTOR);
        let very_long = length >= self.pages.saturating_mul(limits::TRUNCATE_FACTOR);
        if length >= self.again_at && (self.wanted || very_long || (long && nearly_all)) {
            Need::Restart { truncate: self.wanted || very_long }
        } else if left >= self.pages || (long && !nearly_all) {
            Need::Copy
        } else {
            Need::Nothing
        }
    }
}

fn work(connection: &Connection, inbox: &Receiver<Ask>, shared: &Shared) {
    while let Ok(ask) = inbox.recv() {
        match ask {
            Ask::Copy => {
                shared.asked.store(false, Ordering::Relaxed);
                match checkpoint(connection, "PASSIVE") {
                    Ok(outcome) => shared.copied.store(outcome.copied, Ordering::Relaxed),
                    // The log grows meanwhile; nothing is lost, and it is asked again.
                    Err(fault) => tracing::warn!(%fault, "copying the write-ahead log failed"),
                }
            }
            Ask::Restart { truncate, done } => {
                let how = if truncate { "TRUNCATE" } else { "RESTART" };
                let restarted = connection
                    .busy_timeout(limits::RESTART_WAIT)
                    .doing("waiting for readers")
                    .and_then(|()| checkpoint(connection, how));
                let restarted = match restarted {
                    Ok(outcome) => {
                        shared.copied.store(outcome.copied, Ordering::Relaxed);
                        !outcome.hindered
                    }
                    Err(fault) => {
                        tracing::warn!(%fault, "beginning the write-ahead log again failed");
                        false
                    }
                };
                if done.send(restarted).is_err() {
                    tracing::debug!("the writer has gone while the write-ahead log was begun again");
                }
            }
        }
    }
}

struct Outcome {
    hindered: bool,
    copied: u32,
}

fn checkpoint(connection: &Connection, how: &str) -> Result<Outcome, Fault> {
    let outcome = |row: &rusqlite::Row<'_>| {
        let copied = u32::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
        Ok(Outcome { hindered: row.get::<_, i64>(0)? != 0, copied })
    };
    connection
        .query_row(&format!("PRAGMA wal_checkpoint({how})"), [], outcome)
        .doing("copying the write-ahead log into the database")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_at_each_length() {
        let (asks, _inbox) = sync_channel(1);
        let need = |length, copied, again_at| {
            let shared = Arc::new(Shared { copied: AtomicU32::new(copied), asked: AtomicBool::new(false) });
            let asks = asks.clone();
            let wanted = false;
            Checkpoints { asks, shared, pages: 100, previous: 0, again_at, wanted }.need(length)
        };
        assert_eq!(need(99, 0, 0), Need::Nothing);
        assert_eq!(need(100, 0, 0), Need::Copy);
        assert_eq!(need(150, 100, 0), Need::Nothing);
        assert_eq!(need(399, 399, 0), Need::Nothing, "short enough");
        assert_eq!(need(400, 375, 0), Need::Restart { truncate: false });
        assert_eq!(need(400, 374, 0), Need::Copy, "long, and a little too much is left");
        assert_eq!(need(400, 390, 500), Need::Nothing, "tried in vain a short while ago");
        assert_eq!(need(1599, 0, 0), Need::Copy);
        assert_eq!(need(1600, 0, 0), Need::Restart { truncate: true });
        assert_eq!(need(1650, 0, 1700), Need::Copy);
        assert_eq!(need(u32::MAX, 0, 0), Need::Restart { truncate: true });
    }
}
