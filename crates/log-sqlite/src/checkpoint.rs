//! Checkpoints: keeps the write-ahead log short without blocking the writer.
//!
//! A thread with its own connection copies the log into the database while the writer continues. That alone would not
//! bound the log: under constant load some pages always remain, and SQLite restarts the file only when none remain. So
//! when the log is long and few pages remain, the writer waits for the rest. The copied pages are on the disk by then
//! ([`WriteBack`]), so the wait is short. Only a log that is far too long is cut at any cost. [`limits`] has the sizes.

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
    requests: SyncSender<CopyRequest>,
    shared: Arc<CheckpointProgress>,
    /// See [`limits::CHECKPOINT_PAGES`].
    pages: u32,
    /// How often SQLite has restarted the log.
    round: u32,
    /// The log's length after the previous commit.
    previous: u32,
    /// The log length for the next attempt after a wait in vain.
    again_at: u32,
    /// The file must be cut, however short it is.
    cut_requested: bool,
}

#[derive(Default)]
struct CheckpointProgress {
    copied: CopiedPages,
    /// A copy was requested and is not finished.
    is_copying: AtomicBool,
}

/// How many pages of the log are in the database, and in which round of the log: a copy may end after a restart.
#[derive(Default)]
struct CopiedPages(AtomicU64);

impl CopiedPages {
    fn note(&self, round: u32, pages: u32) {
        self.0.store(u64::from(round) << 32 | u64::from(pages), Ordering::Relaxed);
    }

    fn pages(&self, round: u32) -> u32 {
        let stored = self.0.load(Ordering::Relaxed);
        let pages = u32::try_from(stored & u64::from(u32::MAX)).unwrap_or(0);
        if stored >> 32 == u64::from(round) { pages } else { 0 }
    }
}

struct CopyRequest {
    mode: CopyMode,
    round: u32,
}

enum CopyMode {
    /// Copies while the writer continues.
    Concurrent,
    /// Copies the rest while the writer waits. The reply is whether the next commit restarts the log.
    Rest(SyncSender<bool>),
    /// Copies the rest and cuts the file.
    Cut(SyncSender<bool>),
}

/// The action at a given log length.
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
        let (requests, inbox) = sync_channel(limits::CHECKPOINTS_WAITING_MAX);
        let shared = Arc::new(CheckpointProgress::default());
        let theirs = shared.clone();
        let thread = recount_world::thread("recount-checkpt", move || {
            work(&connection, &database, &inbox, &theirs);
            drop(connection);
            drop((database, held));
        });
        let pages = pages.max(1);
        let checkpoints =
            Checkpoints { requests, shared, pages, round: 0, previous: 0, again_at: 0, cut_requested: false };
        (checkpoints, thread)
    }

    /// Call it after each commit with the length of the log in pages.
    pub(crate) fn after_commit(&mut self, length: u32) {
        if length < self.previous {
            self.restarted();
        }
        self.previous = length;
        match self.need(length) {
            Need::Nothing => {}
            Need::Copy => {
                let request = CopyRequest { mode: CopyMode::Concurrent, round: self.round };
                self.shared.is_copying.store(true, Ordering::Relaxed);
                if self.requests.try_send(request).is_err() {
                    self.shared.is_copying.store(false, Ordering::Relaxed);
                }
            }
            Need::Rest => drop(self.wait_for_copy(CopyMode::Rest, length)),
            Need::Cut => self.cut(length),
        }
    }

    /// Copies all of the log and cuts its file, so that no removed content remains in it. If a reader of an old
    /// snapshot prevents it, it is retried after every [`limits::CHECKPOINT_PAGES`] written pages, and at shutdown.
    pub(crate) fn empty(&mut self, length: u32) {
        self.cut_requested = true;
        self.cut(length);
    }

    fn cut(&mut self, length: u32) {
        if self.wait_for_copy(CopyMode::Cut, length) {
            self.cut_requested = false;
        }
    }

    /// Waits for a copy; returns whether the log was restarted. A reader of an old snapshot prevents it.
    fn wait_for_copy(&mut self, mode: fn(SyncSender<bool>) -> CopyMode, length: u32) -> bool {
        let (done, finished) = sync_channel(limits::CHECKPOINT_ANSWERS_MAX);
        let request = CopyRequest { mode: mode(done), round: self.round };
        let restarted = self.requests.send(request).is_ok() && finished.recv() == Ok(true);
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

    /// The number of pages that the writer may wait for.
    fn short_rest(&self) -> u32 {
        self.pages / limits::RESTART_LEFT_DIVISOR
    }

    fn need(&self, length: u32) -> Need {
        let remaining = length.saturating_sub(self.shared.copied.pages(self.round));
        let long = length >= self.pages.saturating_mul(limits::RESTART_FACTOR);
        let very_long = length >= self.pages.saturating_mul(limits::TRUNCATE_FACTOR);
        let may_wait = length >= self.again_at;
        if may_wait && (self.cut_requested || very_long) {
            Need::Cut
        } else if self.shared.is_copying.load(Ordering::Acquire) {
            // A request now would wait for the whole running copy.
            Need::Nothing
        } else if may_wait && long && remaining <= self.short_rest() {
            Need::Rest
        } else if remaining >= self.pages || (long && remaining > self.short_rest()) {
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
    while let Ok(CopyRequest { mode, round }) = inbox.recv() {
        // Only a waiting writer waits for readers of an old snapshot, and only briefly.
        let (how, wait) = match &mode {
            CopyMode::Concurrent => ("PASSIVE", Duration::ZERO),
            CopyMode::Rest(_) => ("RESTART", limits::RESTART_WAIT),
            CopyMode::Cut(_) => ("TRUNCATE", limits::TRUNCATE_WAIT),
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
        match mode {
            CopyMode::Concurrent => {
                database.reach_the_disk();
                shared.is_copying.store(false, Ordering::Release);
            }
            CopyMode::Rest(answer) | CopyMode::Cut(answer) => {
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
        let (requests, _inbox) = sync_channel(1);
        let shared = Arc::new(CheckpointProgress::default());
        shared.copied.note(7, copied);
        Checkpoints { requests, shared, pages: 160, round: 7, previous: 0, again_at, cut_requested: false }
    }

    #[test]
    fn each_log_length_has_its_action() {
        let need = |length, copied, again_at| at(copied, again_at).need(length);
        assert_eq!(need(159, 0, 0), Need::Nothing);
        assert_eq!(need(160, 0, 0), Need::Copy);
        assert_eq!(need(250, 160, 0), Need::Nothing);
        assert_eq!(need(639, 639, 0), Need::Nothing, "short enough");
        assert_eq!(need(640, 630, 0), Need::Rest);
        assert_eq!(need(640, 629, 0), Need::Copy, "long, and too many pages remain");
        assert_eq!(need(640, 635, 800), Need::Nothing, "tried in vain recently");
        assert_eq!(need(2559, 0, 0), Need::Copy);
        assert_eq!(need(2560, 0, 0), Need::Cut);
        assert_eq!(need(2600, 0, 2700), Need::Copy);
        assert_eq!(need(u32::MAX, 0, 0), Need::Cut);
    }

    #[test]
    fn during_a_copy_only_a_cut_is_requested() {
        let checkpoints = at(630, 0);
        checkpoints.shared.is_copying.store(true, Ordering::Relaxed);
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
