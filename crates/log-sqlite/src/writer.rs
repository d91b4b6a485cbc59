//! The writer thread: takes the queued appends, commits them as one group, calls the observer, and replies.
//!
//! ```text
//!   take the queue ─▶ begin ─▶ check and write each append ─▶ commit (one sync) ─▶ observer ─▶ replies
//!                        └────────── anything fails ──────────▶ roll back, every append of the group
//!                                                               gets the fault, and the writer continues
//!   queue empty, or too much is hot ─▶ begin ─▶ seal some ─▶ commit
//!   queue empty for a while         ─▶ begin ─▶ write changed rows to their table ─▶ commit
//! ```
//!
//! Under many concurrent appends it waits a little for more of them ([`GroupCommitPolicy`]).
//! Another thread prepares sealing, and the writer seals in small transactions: when the queue is empty and the oldest
//! group is old enough, between commits when much is hot, and before a commit when the hot part is too large.
//!
//! After a failure with an unknown outcome the writer drops its cache and reads it again, so that service resumes by
//! itself when the cause ends. It must not know the tables.

mod sealing;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver as Latch, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use recount_log::limits::{GROUP_APPENDS_MAX, GROUP_BYTES_MAX};
use recount_log::{Append, AppendError, Fault, FaultKind, Meters, Observer, Retry, RowRepair};
use recount_world::moment;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::sealing::{SealStep, Sealing};
use crate::changes::{self, ChangeJournal};
use crate::checkpoint::Checkpoints;
use crate::connection::{DatabaseFile, Role, execute};
use crate::fault::{FaultContext as _, no_space};
use crate::group::{self, CommitProof, Group, GroupOutcome};
use crate::high_water::HighWater;
use crate::hot::Hot;
use crate::layout;
use crate::limits;
use crate::load;
use crate::options::SqliteOptions;
use crate::pending_rows::{PendingRows, RowStates};
use crate::reserve::Reserve;
use crate::rows;
use crate::sealer::SealRequest;
use crate::tails::Tails;
use crate::writer_queue::{GroupCommitPolicy, TakeResult, WriterQueue};

/// A task of the writer.
pub(crate) enum Task {
    Append(Job),
    /// Seals everything hot.
    Seal(oneshot::Sender<Result<(), Fault>>),
    /// Replaces damaged rows. The reply `false` means that a stream has changed, and no row was replaced.
    Repair(RowRepair, oneshot::Sender<Result<bool, Fault>>),
}

/// One append in the queue.
pub(crate) struct Job {
    pub(crate) append: Append,
    pub(crate) bytes: usize,
    pub(crate) since: Instant,
    pub(crate) answer: oneshot::Sender<Result<CompletedAppend, AppendError>>,
}

/// A committed append.
pub(crate) struct CompletedAppend {
    /// The position of its first record; the others follow in order.
    pub(crate) first_position: u64,
    /// Returned, so that the caller's thread drops it and not the writer's.
    pub(crate) append: Append,
}

impl Task {
    fn bytes(&self) -> usize {
        match self {
            Task::Append(job) => job.bytes,
            Task::Repair(repair, _) => repair.bytes(),
            Task::Seal(_) => 0,
        }
    }

    fn can_share_commit(&self) -> bool {
        match self {
            Task::Append(job) => job.can_share_commit(),
            Task::Seal(_) | Task::Repair(..) => false,
        }
    }
}

impl Job {
    /// Whether it may share a commit with others. A removal reads committed data only, and an append that may use
    /// the reserve must be alone.
    fn can_share_commit(&self) -> bool {
        !self.append.may_use_reserve()
    }
}

/// What the writer shares with the rest of the store.
#[derive(Clone)]
pub(crate) struct WriterContext {
    pub(crate) hot: Arc<Hot>,
    pub(crate) pending_rows: Arc<PendingRows>,
    pub(crate) observer: Arc<OnceLock<Arc<dyn Observer>>>,
    pub(crate) queue: Arc<WriterQueue<Task>>,
    pub(crate) meters: Arc<Meters>,
    /// While it is spent, only removals are written.
    pub(crate) reserve: Reserve,
}

/// The other threads that the writer uses.
pub(crate) struct WriterThreads {
    pub(crate) checkpoints: Checkpoints,
    pub(crate) seal_requests: SyncSender<SealRequest>,
    pub(crate) high_water: HighWater,
}

/// The state of the writer thread. [`Writer::run`] is its main loop.
pub(crate) struct Writer {
    place: DatabaseFile,
    /// `None` after a failure with an unknown outcome; opened again for the next group.
    connection: Option<Connection>,
    tails: Tails,
    written: GroupOutcome,
    journal: ChangeJournal,
    fresh_rows_max: usize,
    group_commit: GroupCommitPolicy,
    /// The data version of the last read of the hot part; `None` after an unknown outcome.
    known: Option<i64>,
    shared: WriterContext,
    checkpoints: Checkpoints,
    high_water: HighWater,
    /// Pages in the write-ahead log after the last commit, as SQLite reported.
    wal_pages: Arc<AtomicU32>,
    sealing: Sealing,
    /// Set after rows could not be written to their table.
    fold_not_before: Option<Instant>,
}

/// The outcome of a group: for each append, in order, the position of its first record.
type AppendResults = Vec<Result<u64, AppendError>>;

/// Abandons the queue when the writer ends, also by a panic.
struct QueueGuard(Arc<WriterQueue<Task>>);

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    pub(crate) fn new(
        place: DatabaseFile,
        mut connection: Connection,
        journal: ChangeJournal,
        shared: WriterContext,
        threads: WriterThreads,
        options: &SqliteOptions,
    ) -> Result<Self, Fault> {
        let WriterThreads { checkpoints, seal_requests, high_water } = threads;
        let wal_pages = Arc::new(AtomicU32::new(0));
        watch_wal(&mut connection, &wal_pages)?;
        let known = layout::data_version(&connection).context("reading the end of the store")?;
        Ok(Writer {
            place,
            connection: Some(connection),
            tails: Tails::new(limits::TAILS_KEPT_MAX),
            written: GroupOutcome::default(),
            journal,
            fresh_rows_max: options.fresh_rows_max,
            group_commit: GroupCommitPolicy::default(),
            known: Some(known),
            shared,
            checkpoints,
            high_water,
            wal_pages,
            sealing: Sealing::new(options, seal_requests),
            fold_not_before: None,
        })
    }

    /// Works until the queue is closed and all accepted tasks are finished. Then waits until the other users of the
    /// database have ended (`others` closes), and closes it.
    pub(crate) fn run(mut self, others: &Latch<()>) {
        raise_priority();
        let guard = QueueGuard(self.shared.queue.clone());
        let mut waiting = VecDeque::new();
        loop {
            let sleeps = waiting.is_empty();
            match self.take_all(&mut waiting) {
                TakeResult::End if sleeps => break,
                TakeResult::Nothing if sleeps => {
                    self.pause();
                    continue;
                }
                TakeResult::Tasks | TakeResult::Nothing | TakeResult::End => {}
            }
            match waiting.pop_front() {
                Some(Task::Seal(answer)) => {
                    self.shared.queue.release(1, 0);
                    // The caller may no longer wait.
                    drop(answer.send(self.seal_all()));
                }
                Some(Task::Repair(repair, answer)) => {
                    self.shared.queue.release(1, repair.bytes());
                    drop(answer.send(self.repair(&repair)));
                }
                Some(Task::Append(first)) => {
                    let group = self.take(first, &mut waiting);
                    let start = moment();
                    self.commit(group);
                    self.group_commit.committed(start.elapsed());
                    self.keep_level();
                }
                None => {}
            }
        }
        self.fold();
        drop(guard);
        drop((self.checkpoints, self.sealing, self.high_water));
        // Nothing is ever sent: this returns when the last other handle is dropped.
        if others.recv().is_err() {
            tracing::trace!("the other threads of the store have ended");
        }
        if let Some(connection) = self.connection {
            close_database(connection, &self.place);
        }
    }

    /// Takes the queue, after the tasks already taken. Without earlier tasks it may wait for more.
    fn take_all(&mut self, waiting: &mut VecDeque<Task>) -> TakeResult {
        let queue = &self.shared.queue;
        if !waiting.is_empty() {
            return queue.take(waiting, false);
        }
        if let Some((count, wait)) = self.group_commit.wait_target() {
            queue.gather(count, wait);
        }
        let found = queue.take(waiting, true);
        self.group_commit.record_queue(waiting.len());
        found
    }

    /// Sleeps until a task arrives, or writes pending rows to their table, or seals old groups.
    fn pause(&mut self) {
        let to_fold = self.until_fold();
        if to_fold == Some(Duration::ZERO) {
            return self.fold();
        }
        match self.until_due() {
            Some(Duration::ZERO) => {
                if self.seal_or_wait(self.sealing.due) == SealStep::NotReady {
                    WriterQueue::<Task>::sleep(to_fold);
                }
            }
            to_seal => WriterQueue::<Task>::sleep(to_seal.into_iter().chain(to_fold).min()),
        }
    }

    /// The longest prefix of the queue that fits into one group; at least one append.
    fn take(&self, first: Job, waiting: &mut VecDeque<Task>) -> Vec<Job> {
        let mut bytes = first.bytes.max(1);
        let can_share = first.can_share_commit();
        let mut group = vec![first];
        while can_share
            && group.len() < GROUP_APPENDS_MAX
            && let Some(next) = waiting.front()
            && next.can_share_commit()
            && bytes + next.bytes().max(1) <= GROUP_BYTES_MAX
            && let Some(Task::Append(next)) = waiting.pop_front()
        {
            bytes += next.bytes.max(1);
            group.push(next);
        }
        self.shared.queue.release(group.len(), group.iter().map(|job| job.bytes).sum());
        group
    }

    fn commit(&mut self, group: Vec<Job>) {
        match self.commit_within_space(&group) {
            Ok(results) => {
                if self.written.has_removed_hot(&self.shared.hot) {
                    // Prepared chunks may still contain the removed content.
                    self.sealing.plan.reset();
                }
                self.written.publish(&self.shared.hot, &self.shared.pending_rows, &mut self.journal);
                self.sealing.came_in(self.written.totals(), self.shared.hot.backlog().totals);
                if let Some(observer) = self.shared.observer.get()
                    && !self.written.records.is_empty()
                {
                    observer.committed(&self.written.records);
                }
                // Dropped before the replies, so that the caller has the last handle of its records.
                self.written.records.clear();
                let now = moment();
                self.shared.meters.group(group.iter().map(|job| now.saturating_duration_since(job.since)));
                if self.written.has_removed() {
                    // Before the reply: then no file contains removed content.
                    self.checkpoints.empty(self.wal_pages.load(Ordering::Relaxed));
                    self.restore_reserve();
                }
                for (Job { append, answer, .. }, result) in group.into_iter().zip(results) {
                    // The caller may no longer wait.
                    drop(
                        answer.send(result.map(|first_position| CompletedAppend { first_position, append })),
                    );
                }
                self.high_water.acknowledge(self.shared.hot.ends().last_position);
                self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
            }
            Err(fault) => {
                tracing::warn!(appends = group.len(), %fault, "a group of appends failed");
                let now = moment();
                self.shared.meters.group(group.iter().map(|job| now.saturating_duration_since(job.since)));
                for job in group {
                    drop(job.answer.send(Err(fault.clone().into())));
                }
            }
        }
    }

    /// Writes a group, with the reserve for appends that may use it.
    fn commit_within_space(&mut self, group: &[Job]) -> Result<AppendResults, Fault> {
        if !group.iter().all(|job| job.append.may_use_reserve()) {
            self.shared.reserve.create()?;
            return self.seal_for_space().and_then(|()| self.write(group));
        }
        match self.seal_for_space().and_then(|()| self.write(group)) {
            Err(fault) if fault.kind == FaultKind::Full && self.shared.reserve.spend() => {
                tracing::warn!(%fault, "the disk is full; the reserved space is used for a deletion");
                self.seal_for_space().and_then(|()| self.write(group))
            }
            written => written,
        }
    }

    /// After a removal: the freed space refills the reserve.
    fn restore_reserve(&self) {
        if let Err(fault) = self.shared.reserve.create() {
            tracing::warn!(
                %fault,
                "the reserved space is exhausted; only deletions are written until more space is free"
            );
        }
    }

    /// One transaction for a group. `Ok`: durable. `Err`: nothing of it was written.
    fn write(&mut self, group: &[Job]) -> Result<AppendResults, Fault> {
        let results = self.transact(|writer, connection| {
            let shared = group::GroupContext {
                hot: &writer.shared.hot,
                pending_rows: &writer.shared.pending_rows,
                journal: &writer.journal,
                fresh_rows_max: writer.fresh_rows_max,
            };
            let mut group_writer = Group::begin(connection, &mut writer.tails, shared, &mut writer.written);
            let mut results = Vec::with_capacity(group.len());
            for job in group {
                results.push(group_writer.add(&job.append)?);
            }
            Ok((results, group_writer.finish()?))
        });
        if results.is_err() {
            self.written.discard(&mut self.tails);
        }
        results
    }

    // ---- rows ----

    /// How long until pending rows are written to their table without other work; `None` when there are none.
    fn until_fold(&self) -> Option<Duration> {
        let since = self.shared.pending_rows.since()?;
        let due = self.fold_not_before.unwrap_or(since + limits::FRESH_AGE);
        Some(due.saturating_duration_since(moment()))
    }

    /// Writes all pending rows to the table, so that none is elsewhere.
    fn fold(&mut self) {
        if self.shared.pending_rows.since().is_none() {
            return;
        }
        if self.shared.reserve.is_spent() {
            self.fold_not_before = Some(moment() + limits::FOLD_RETRY);
            return;
        }
        let folded = self.transact(|writer, connection| {
            let mut journal = writer.journal.clone();
            journal.fold(connection, &writer.shared.pending_rows)?;
            journal.empty(connection)?;
            let count = layout::raise_fence(connection).context("updating the fence")?;
            Ok((journal, CommitProof::Fence(count)))
        });
        match folded {
            Ok(journal) => {
                self.journal = journal;
                self.shared.pending_rows.publish(&mut RowStates::default(), true, moment());
                self.fold_not_before = None;
                self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
            }
            Err(fault) => {
                // The journal keeps them safe.
                tracing::warn!(%fault, "cannot write rows to their table; retrying later");
                self.fold_not_before = Some(moment() + limits::FOLD_RETRY);
            }
        }
    }

    /// Replaces damaged rows in the table. Pending rows are written to the table first, so that it is
    /// complete.
    fn repair(&mut self, repair: &RowRepair) -> Result<bool, Fault> {
        if self.shared.reserve.is_spent() {
            return Err(no_space("the reserve of the data folder is exhausted"));
        }
        let repaired = self.transact(|writer, connection| {
            for row in &repair.rows {
                let known = writer.tails.find(connection, &writer.shared.hot, &row.stream)?;
                // An erasure moves no tail, and its rows must not be written again.
                if known.next_sequence != row.expected_tail || known.erased {
                    return Ok((None, CommitProof::Nothing));
                }
            }
            let mut journal = writer.journal.clone();
            journal.fold(connection, &writer.shared.pending_rows)?;
            journal.empty(connection)?;
            rows::remove_damaged(connection, &repair.damaged).context("removing damaged rows")?;
            for row in &repair.rows {
                rows::rewrite(connection, &row.space, &row.key, &row.value)
                    .context(&format!("rewriting row {}/{}", row.space, row.key))?;
            }
            let count = layout::raise_fence(connection).context("updating the fence")?;
            Ok((Some(journal), CommitProof::Fence(count)))
        })?;
        let Some(journal) = repaired else { return Ok(false) };
        self.journal = journal;
        self.shared.pending_rows.publish(&mut RowStates::default(), true, moment());
        self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
        Ok(true)
    }

    // ---- transactions ----

    /// One transaction. `Ok`: durable. `Err`: nothing of it was written.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &Connection) -> Result<(T, CommitProof), Fault>,
    ) -> Result<T, Fault> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = self.place.open(Role::Writer)?;
                watch_wal(&mut connection, &self.wal_pages)?;
                self.known = None;
                connection
            }
        };
        let prepared = execute(&connection, "BEGIN IMMEDIATE")
            .context("starting a commit")
            .and_then(|()| self.reload_if_changed(&connection))
            .and_then(|()| work(self, &connection));
        let (done, proof) = match prepared {
            Ok(prepared) => prepared,
            Err(fault) => {
                self.shared.meters.failed();
                // Without a commit, written pages do not count.
                if rolled_back(&connection) {
                    self.connection = Some(connection);
                }
                return Err(fault);
            }
        };
        let started = moment();
        if let Err(error) = execute(&connection, "COMMIT") {
            let landed = settle(&connection, &error, &proof);
            if rolled_back(&connection) {
                self.connection = Some(connection);
            }
            if let Err(fault) = landed {
                self.shared.meters.failed();
                self.known = None;
                return Err(fault);
            }
        } else {
            self.connection = Some(connection);
        }
        self.shared.meters.synced(started.elapsed());
        Ok(done)
    }

    /// Reloads the cached state if another connection has written or the outcome of a commit is unknown.
    fn reload_if_changed(&mut self, connection: &Connection) -> Result<(), Fault> {
        let version = layout::data_version(connection).context("reading the end of the store")?;
        if self.known == Some(version) {
            return Ok(());
        }
        self.tails.clear();
        self.sealing.plan.reset();
        self.shared.hot.replace(load::load(connection)?);
        let (journal, states) = changes::load(connection)?;
        self.shared.pending_rows.replace(states, moment());
        self.journal = journal;
        self.known = Some(version);
        Ok(())
    }
}

/// Finds out the outcome of a failed commit. `Ok`: it was committed after all, and is durable. `Err`: it was not; the
/// message shows a remaining uncertainty.
///
/// SQLite undoes a failed commit for every reader, but its pages may be in the file, complete though not counted; after
/// a power cut the next start could find them. A further commit overwrites them, and its sync is the proof.
fn settle(connection: &Connection, error: &rusqlite::Error, proof: &CommitProof) -> Result<(), Fault> {
    let mut fault = crate::fault::of_sqlite("committing", error);
    let sound = rolled_back(connection);
    let landed = sound && proof.holds(connection).unwrap_or(false);
    let buried = sound && overwrite_failed_commit(connection).is_ok();
    if landed && buried {
        tracing::warn!(%error, "a commit was reported as failed but is durable");
        return Ok(());
    }
    // A write that failed means that the end of the commit was never in the file.
    let unwritten = matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.code == ErrorCode::DiskFull || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE);
    if !buried && !unwritten {
        fault.message +=
            "; if the machine stops before the next append succeeds, this append may still take effect";
        fault.retry = Retry::Maybe;
    }
    Err(fault)
}

fn overwrite_failed_commit(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")?;
    layout::raise_fence(connection)?;
    execute(connection, "COMMIT")
}

/// Rolls back an open transaction. `false`: the connection must not be used again.
fn rolled_back(connection: &Connection) -> bool {
    if !connection.is_autocommit()
        && let Err(error) = execute(connection, "ROLLBACK")
    {
        tracing::warn!(%error, "a rollback failed");
    }
    connection.is_autocommit()
}

/// Makes SQLite report, after each commit, how many pages the write-ahead log holds.
fn watch_wal(connection: &mut Connection, pages: &Arc<AtomicU32>) -> Result<(), Fault> {
    let pages = pages.clone();
    let note = move |_: &mut rusqlite::hooks::Wal, count| {
        pages.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    };
    connection.wal_hook(Some(note)).context("watching the write-ahead log")
}

/// Copies the write-ahead log into the database file and closes it, so that the file alone is the whole store.
fn close_database(connection: Connection, place: &DatabaseFile) {
    // Another program may be reading; shutdown does not wait long for it.
    let emptied = connection.busy_timeout(limits::TRUNCATE_WAIT).and_then(|()| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
    });
    if let Err(error) = emptied {
        // Nothing is lost: the next open reads the write-ahead log.
        tracing::warn!(database = place.name(), %error, "cannot empty the write-ahead log");
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(database = place.name(), %error, "cannot close the store");
    }
}

/// Requests a higher scheduling priority, where that is allowed: waiting for the scheduler dominates the tail latency.
/// On Linux this affects only the thread; elsewhere it would affect the process.
fn raise_priority() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let raised = getpriority_process(None)
            .and_then(|niceness| setpriority_process(None, niceness + limits::WRITER_NICENESS));
        if let Err(error) = raised {
            tracing::debug!(%error, "cannot raise the priority of the writer");
        }
    }
}
