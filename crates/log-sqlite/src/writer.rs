//! The one thread that writes: it takes what waits, commits it as one group, tells the observer, answers.
//!
//! ```text
//!   take what waits ─▶ begin ─▶ judge and write each append ─▶ commit (one sync) ─▶ observer ─▶ answers
//!                        └────────── anything fails ──────────▶ roll back, every append of the group
//!                                                               gets the fault, and on we go
//! ```
//!
//! There is no timer. After a failure it forgets what it remembered and reads it again, so that service
//! returns by itself when the cause is gone. It must not know what tables look like.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver as Latch;
use std::sync::{Arc, OnceLock};

use recount_log::limits::{GROUP_APPENDS_MAX, GROUP_BYTES_MAX};
use recount_log::{Append, AppendError, Committed, Fault, Observer, Retry};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::checkpoint::Checkpoints;
use crate::connection::{Place, Role};
use crate::fault::Doing as _;
use crate::group::{Group, Proof, Written};
use crate::layout::{self, Ends};
use crate::limits;
use crate::tails::Tails;

/// One append in line.
pub(crate) struct Job {
    pub(crate) append: Append,
    pub(crate) bytes: usize,
    pub(crate) answer: oneshot::Sender<Result<Committed, AppendError>>,
}

/// The writer's own things. [`Writer::run`] is its life.
pub(crate) struct Writer {
    place: Place,
    /// `None` after a failure that left the connection in doubt; opened again for the next group.
    connection: Option<Connection>,
    tails: Tails,
    /// What was last known of the store's ends, and the data version it was read in.
    known: Option<(Ends, i64)>,
    observer: Arc<OnceLock<Arc<dyn Observer>>>,
    waiting_bytes: Arc<AtomicUsize>,
    checkpoints: Checkpoints,
    /// Pages in the write-ahead log after the last commit, as SQLite told.
    wal_pages: Arc<AtomicU32>,
}

/// What a group came to: a fate for each append, in order.
type Fates = Vec<Result<Committed, AppendError>>;

impl Writer {
    pub(crate) fn new(
        place: Place,
        mut connection: Connection,
        observer: Arc<OnceLock<Arc<dyn Observer>>>,
        waiting_bytes: Arc<AtomicUsize>,
        checkpoints: Checkpoints,
    ) -> Result<Self, Fault> {
        let wal_pages = Arc::new(AtomicU32::new(0));
        watch_wal(&mut connection, &wal_pages)?;
        Ok(Writer {
            place,
            connection: Some(connection),
            tails: Tails::new(limits::TAILS_KEPT_MAX),
            known: None,
            observer,
            waiting_bytes,
            checkpoints,
            wal_pages,
        })
    }

    /// Works until nobody can append any more and everything accepted is answered; then waits until the
    /// others that use the database have ended (`others` hangs up), and leaves it tidy.
    pub(crate) fn run(mut self, mut jobs: mpsc::Receiver<Job>, others: &Latch<()>) {
        raise_priority();
        let mut waiting = VecDeque::new();
        let mut arrived = Vec::with_capacity(GROUP_APPENDS_MAX);
        loop {
            if waiting.is_empty() {
                if jobs.blocking_recv_many(&mut arrived, GROUP_APPENDS_MAX) == 0 {
                    break;
                }
                waiting.extend(arrived.drain(..));
            } else {
                while waiting.len() < GROUP_APPENDS_MAX
                    && let Ok(job) = jobs.try_recv()
                {
                    waiting.push_back(job);
                }
            }
            let group = self.take(&mut waiting);
            self.commit(group);
        }
        drop(self.checkpoints);
        // Nobody ever sends: this returns when the last of the others has let go.
        if others.recv().is_err() {
            tracing::trace!("the other threads of the store have ended");
        }
        if let Some(connection) = self.connection {
            leave(connection, &self.place);
        }
    }

    /// The longest beginning of the line that fits into one group; at least one append.
    fn take(&self, waiting: &mut VecDeque<Job>) -> Vec<Job> {
        let mut bytes = 0;
        let fits = |job: &&Job| {
            let begins = bytes == 0;
            bytes += job.bytes.max(1);
            begins || bytes <= GROUP_BYTES_MAX
        };
        let count = waiting.iter().take_while(fits).count();
        let group: Vec<Job> = waiting.drain(..count).collect();
        let taken = group.iter().map(|job| job.bytes).sum();
        self.waiting_bytes.fetch_sub(taken, Ordering::Relaxed);
        group
    }

    fn commit(&mut self, group: Vec<Job>) {
        match self.write(&group) {
            Ok((mut written, fates)) => {
                written.remember(&mut self.tails);
                if let Some(observer) = self.observer.get()
                    && !written.records.is_empty()
                {
                    observer.committed(&written.records);
                }
                for (job, fate) in group.into_iter().zip(fates) {
                    // Whoever asked may have left.
                    drop(job.answer.send(fate));
                }
                self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
            }
            Err(fault) => {
                tracing::warn!(appends = group.len(), %fault, "a group of appends failed");
                self.tails.clear();
                self.known = None;
                for job in group {
                    drop(job.answer.send(Err(fault.clone().into())));
                }
            }
        }
    }

    /// One transaction. `Ok`: durable. `Err`: nothing of it is there.
    fn write(&mut self, group: &[Job]) -> Result<(Written, Fates), Fault> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = self.place.open(Role::Writer)?;
                watch_wal(&mut connection, &self.wal_pages)?;
                connection
            }
        };
        let prepared = self.prepare(&connection, group);
        let (written, fates) = match prepared {
            Ok(prepared) => prepared,
            Err(fault) => {
                // Without a commit nothing counts, whatever reached the disk.
                if rolled_back(&connection) {
                    self.connection = Some(connection);
                }
                return Err(fault);
            }
        };
        if let Err(error) = execute(&connection, "COMMIT") {
            let landed = settle(&connection, &error, &written.proof);
            if rolled_back(&connection) {
                self.connection = Some(connection);
            }
            landed?;
        } else {
            self.connection = Some(connection);
        }
        if let Some((ends, _)) = &mut self.known {
            *ends = written.ends;
        }
        Ok((written, fates))
    }

    /// Everything up to the commit.
    fn prepare(&mut self, connection: &Connection, group: &[Job]) -> Result<(Written, Fates), Fault> {
        execute(connection, "BEGIN IMMEDIATE").doing("beginning a commit")?;
        let ends = self.ends(connection)?;
        let mut together = Group::begin(connection, &mut self.tails, ends);
        let mut fates = Vec::with_capacity(group.len());
        for job in group {
            fates.push(together.land(&job.append)?);
        }
        Ok((together.finish()?, fates))
    }

    /// Where the store ends. If anybody else has written, what was remembered is read again.
    fn ends(&mut self, connection: &Connection) -> Result<Ends, Fault> {
        let doing = "reading where the store ends";
        let version = layout::data_version(connection).doing(doing)?;
        if let Some((ends, known)) = self.known
            && known == version
        {
            return Ok(ends);
        }
        self.tails.clear();
        let ends = layout::ends(connection).doing(doing)?;
        self.known = Some((ends, version));
        Ok(ends)
    }
}

/// Learns what became of a commit that failed. `Ok`: it landed after all, and is durable. `Err`: it did
/// not; the words say so if a doubt is left.
///
/// SQLite undoes a failed commit for everyone who looks, but its pages may lie in the file, whole though
/// not counted; a machine that stopped now could find them at its next start. A further commit
/// overwrites them, and its sync is the proof.
fn settle(connection: &Connection, error: &rusqlite::Error, proof: &Proof) -> Result<(), Fault> {
    let mut fault = crate::fault::of_sqlite("committing", error);
    let sound = rolled_back(connection);
    let landed = sound && proof.holds(connection).unwrap_or(false);
    let buried = sound && bury(connection).is_ok();
    if landed && buried {
        tracing::warn!(%error, "a commit was told to have failed, but is there");
        return Ok(());
    }
    // A write that failed means that the end of the commit was never in the file.
    let unwritten = matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.code == ErrorCode::DiskFull || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE);
    if !buried && !unwritten {
        fault.message += "; should the machine stop before the next append succeeds, this one may be found to have happened";
        fault.retry = Retry::Maybe;
    }
    Err(fault)
}

fn bury(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")?;
    layout::raise_fence(connection)?;
    execute(connection, "COMMIT")
}

/// Rolls back what is open. `false`: the connection is in doubt and must not be used again.
fn rolled_back(connection: &Connection) -> bool {
    if !connection.is_autocommit()
        && let Err(error) = execute(connection, "ROLLBACK")
    {
        tracing::warn!(%error, "rolling back failed");
    }
    connection.is_autocommit()
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Has SQLite note, after each commit, how many pages the write-ahead log holds.
fn watch_wal(connection: &mut Connection, pages: &Arc<AtomicU32>) -> Result<(), Fault> {
    let pages = pages.clone();
    let note = move |_: &mut rusqlite::hooks::Wal, count| {
        pages.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    };
    connection.wal_hook(Some(note)).doing("watching the write-ahead log")
}

/// Puts everything into the database file, so that it alone is the whole store.
fn leave(connection: Connection, place: &Place) {
    // Another program that reads may be in the way; ending does not wait long for it.
    let emptied = connection.busy_timeout(limits::RESTART_WAIT).and_then(|()| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
    });
    if let Err(error) = emptied {
        // Nothing is lost: the next open reads the write-ahead log.
        tracing::warn!(database = place.name(), %error, "the write-ahead log could not be emptied");
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(database = place.name(), %error, "closing failed");
    }
}

/// Asks to be scheduled before others, where that is allowed: the tail of latencies is made of waiting
/// for a turn. On Linux this speaks for the thread alone; elsewhere it would speak for the process.
fn raise_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, limits::WRITER_NICENESS) {
        tracing::debug!(%error, "the writer keeps its usual priority");
    }
}
