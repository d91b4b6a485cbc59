//! Checkpoints: keeps the write-ahead log short without blocking the writer.
//!
//! A thread with a connection of its own copies the log into the database while the writer goes on. That
//! alone would not bound it: under constant load there is always something left to copy, and SQLite restarts the file
//! only when nothing is left. So when the log is long and very little is left, the writer
//! waits for the rest. What was copied before has reached the disk by then ([`WriteBack`]), so the wait is
//! short. Only a log that is far too long is cut at any cost. [`limits`] has the sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use recount_log::{Fault, FaultKind, Retry};
use rusqlite::Connection;

use crate::fault::FaultContext as _;
use crate::limits;
use crate::write_back::WriteBack;

/// The writer's side: decides after each commit which copy to request.
pub(crate) struct Checkpoints {
    asks: SyncSender<CopyRequest>,
    shared: Arc<CheckpointProgress>,
    /// See [`limits::CHECKPOINT_PAGES`].
    pages: u32,
    /// How often SQLite has restarted the log.
    round: u32,
    /// The log's length after the previous commit.
    previous: u32,
    /// After standing still in vain: the length at which it is tried again.
    again_at: u32,
    /// The file is to be cut, however short it is.
    wanted: bool,
}

#[derive(Default)]
struct CheckpointProgress {
    copied: Copied,
    /// A copy was requested and is not finished.
    at_work: AtomicBool,
}

/// How many pages of the log are in the database already, and in which round of it: a copy may end after
/// the log was restarted.
#[derive(Default)]
struct Copied(AtomicU64);

impl Copied {
    fn note(&self, round: u32, pages: u32) {
        self.0.store(u64::from(round) << 32 | u64::from(pages), Ordering::Relaxed);
    }

    fn pages(&self, round: u32) -> u32 {
        let told = self.0.load(Ordering::Relaxed);
        let pages = u32::try_from(told & u64::from(u32::MAX)).unwrap_or(0);
        if told >> 32 == u64::from(round) { pages } else { 0 }
    }
}

struct CopyRequest {
    what: Copying,
    round: u32,
}

enum Copying {
    /// What can be copied while the writer continues.
    Beside,
    /// The rest, while the writer waits for the answer: whether the next commit begins the log again.
    Rest(SyncSender<bool>),
    /// The same, and the file is cut.
    Cut(SyncSender<bool>),
}

/// What is to be done at a given length.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    Copy,
    Rest,
    Cut,
}

impl Checkpoints {
    /// Starts the thread; it ends when this is dropped, and keeps `held` until it has.
    pub(crate) fn start(
        connection: Connection,
        database: Arc<WriteBack>,
        pages: u32,
        held: impl Send + 'static,
    ) -> (Self, JoinHandle<()>) {
        let (asks, inbox) = sync_channel(limits::CHECKPOINTS_WAITING_MAX);
        let shared = Arc::new(CheckpointProgress::default());
        let theirs = shared.clone();
        let thread = recount_world::thread("recount-checkpt", move || {
            work(&connection, &database, &inbox, &theirs);
            drop(connection);
            drop((database, held));
        });
        let pages = pages.max(1);
        let checkpoints =
            Checkpoints { asks, shared, pages, round: 0, previous: 0, again_at: 0, wanted: false };
        (checkpoints, thread)
    }

    /// To be called after each commit with the length of the log, in pages.
    pub(crate) fn after_commit(&mut self, length: u32) {
        if length < self.previous {
            self.restarted();
        }
        self.previous = length;
        match self.need(length) {
            Need::Nothing => {}
            Need::Copy => {
                let ask = CopyRequest { what: Copying::Beside, round: self.round };
                self.shared.at_work.store(true, Ordering::Relaxed);
                if self.asks.try_send(ask).is_err() {
                    self.shared.at_work.store(false, Ordering::Relaxed);
                }
            }
            Need::Rest => drop(self.stand_still(Copying::Rest, length)),
            Need::Cut => self.cut(length),
        }
    }

    /// Copies all of the log and cuts its file, so that nothing of what it held stays there. Where a reader
    /// of an old state is in the way it is tried again each time [`limits::CHECKPOINT_PAGES`] more were
    /// written, and at the end.
    pub(crate) fn empty(&mut self, length: u32) {
        self.wanted = true;
        self.cut(length);
    }

    fn cut(&mut self, length: u32) {
        if self.stand_still(Copying::Cut, length) {
            self.wanted = false;
        }
    }

    /// Whether the log was restarted. If not, a reader of an old snapshot prevents it.
    fn stand_still(&mut self, what: fn(SyncSender<bool>) -> Copying, length: u32) -> bool {
        let (done, finished) = sync_channel(limits::CHECKPOINT_ANSWERS_MAX);
        let ask = CopyRequest { what: what(done), round: self.round };
        let restarted = self.asks.send(ask).is_ok() && finished.recv() == Ok(true);
        if restarted {
            self.restarted();
            self.previous = 0;
        } else {
            self.again_at = length.saturating_add(self.pages);
        }
        restarted
    }

    fn restarted(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.again_at = 0;
    }

    /// So few pages that the writer may wait for them.
    fn little(&self) -> u32 {
        self.pages / limits::RESTART_LEFT_DIVISOR
    }

    fn need(&self, length: u32) -> Need {
        let left = length.saturating_sub(self.shared.copied.pages(self.round));
        let long = length >= self.pages.saturating_mul(limits::RESTART_FACTOR);
        let very_long = length >= self.pages.saturating_mul(limits::TRUNCATE_FACTOR);
        let may_stand_still = length >= self.again_at;
        if may_stand_still && (self.wanted || very_long) {
            Need::Cut
        } else if self.shared.at_work.load(Ordering::Acquire) {
            // What is left is known when it is done, and asking now would mean waiting for all of it.
            Need::Nothing
        } else if may_stand_still && long && left <= self.little() {
            Need::Rest
        } else if left >= self.pages || (long && left > self.little()) {
            Need::Copy
        } else {
            Need::Nothing
        }
    }
}

fn work(
    connection: &Connection,
    database: &WriteBack,
    inbox: &Receiver<CopyRequest>,
    shared: &CheckpointProgress,
) {
    while let Ok(CopyRequest { what, round }) = inbox.recv() {
        // Only a standing writer waits for readers of an old state, and not for long.
        let (how, wait) = match &what {
            Copying::Beside => ("PASSIVE", Duration::ZERO),
            Copying::Rest(_) => ("RESTART", limits::RESTART_WAIT),
            Copying::Cut(_) => ("TRUNCATE", limits::TRUNCATE_WAIT),
        };
        let prepared = connection.busy_timeout(wait).context("waiting for readers");
        let outcome = prepared.and_then(|()| checkpoint(connection, how));
        let done = match outcome {
            Ok(outcome) => {
                shared.copied.note(round, outcome.copied);
                !outcome.hindered
            }
            Err(fault) => {
                // The log grows meanwhile; nothing is lost, and the copy is requested again.
                tracing::warn!(%fault, "copying the write-ahead log into the database failed");
                false
            }
        };
        match what {
            Copying::Beside => {
                database.reach_the_disk();
                shared.at_work.store(false, Ordering::Release);
            }
            Copying::Rest(answer) | Copying::Cut(answer) => {
                if answer.send(done).is_err() {
                    tracing::debug!("the writer ended while the write-ahead log was copied");
                }
            }
        }
    }
}

/// Copies all of the log and cuts its file, at open.
pub(crate) fn empty(connection: &Connection) -> Result<(), Fault> {
    let hindered = checkpoint(connection, "TRUNCATE")?.hindered;
    if hindered {
        let message =
            "another program reads the database, so its write-ahead log cannot be emptied; stop that program";
        return Err(Fault::new(FaultKind::Busy, Retry::Maybe, message));
    }
    Ok(())
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
        .context("copying the write-ahead log into the database")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(copied: u32, again_at: u32) -> Checkpoints {
        let (asks, _inbox) = sync_channel(1);
        let shared = Arc::new(CheckpointProgress::default());
        shared.copied.note(7, copied);
        Checkpoints { asks, shared, pages: 160, round: 7, previous: 0, again_at, wanted: false }
    }

    #[test]
    fn what_is_needed_at_each_length() {
        let need = |length, copied, again_at| at(copied, again_at).need(length);
        assert_eq!(need(159, 0, 0), Need::Nothing);
        assert_eq!(need(160, 0, 0), Need::Copy);
        assert_eq!(need(250, 160, 0), Need::Nothing);
        assert_eq!(need(639, 639, 0), Need::Nothing, "short enough");
        assert_eq!(need(640, 630, 0), Need::Rest);
        assert_eq!(need(640, 629, 0), Need::Copy, "long, and a little too much is left");
        assert_eq!(need(640, 635, 800), Need::Nothing, "tried in vain a short while ago");
        assert_eq!(need(2559, 0, 0), Need::Copy);
        assert_eq!(need(2560, 0, 0), Need::Cut);
        assert_eq!(need(2600, 0, 2700), Need::Copy);
        assert_eq!(need(u32::MAX, 0, 0), Need::Cut);
    }

    #[test]
    fn while_a_copy_is_at_work_nothing_is_asked_but_to_cut_what_is_far_too_long() {
        let checkpoints = at(630, 0);
        checkpoints.shared.at_work.store(true, Ordering::Relaxed);
        for length in [160, 640, 700, 2559] {
            assert_eq!(checkpoints.need(length), Need::Nothing, "{length}");
        }
        assert_eq!(checkpoints.need(2560), Need::Cut);
    }

    #[test]
    fn a_copy_that_ends_after_a_restart_of_the_log_does_not_count() {
        let mut checkpoints = at(4000, 0);
        checkpoints.previous = 4000;
        checkpoints.after_commit(20);
        assert_eq!(checkpoints.need(160), Need::Copy);
        checkpoints.shared.copied.note(7, 4000);
        assert_eq!(checkpoints.need(160), Need::Copy);
        checkpoints.shared.copied.note(8, 10);
        assert_eq!(checkpoints.need(160), Need::Nothing);
    }
}
