//! The writer thread: takes the queued appends, commits them as one group, calls the observer, answers.
//!
//! ```text
//!   take the queue ─▶ begin ─▶ check and write each append ─▶ commit (one sync) ─▶ observer ─▶ answers
//!                        └────────── anything fails ──────────▶ roll back, every append of the group
//!                                                               gets the fault, and the writer goes on
//!   queue empty, or too much is hot ─▶ begin ─▶ seal some ─▶ commit
//!   queue empty for a while         ─▶ begin ─▶ write changed rows to their table ─▶ commit
//! ```
//!
//! Under many concurrent appends it waits a little for more of them ([`crate::group_commit`]).
//! Another thread prepares sealing, and the writer seals in small transactions: when the queue is empty and the oldest
//! group is old enough, between commits when much is hot, and before a commit when too much is.
//!
//! After a failure with an unknown outcome the writer drops its cache and reads it again, so that service
//! resumes by itself when the cause is gone. It must not know the tables.

mod commit;
mod sealing;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver as Latch, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use recount_log::limits::{GROUP_APPENDS_MAX, GROUP_BYTES_MAX};
use recount_log::{Append, AppendError, Fault, FaultKind, Observer, RowRepair, StreamKey};
use recount_world::moment;
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::commit::{execute, rolled_back, settle, watch_wal};
use self::sealing::{SealStep, Sealing};
use crate::changes::{self, ChangeJournal};
use crate::checkpoint::Checkpoints;
use crate::connection::{DatabaseFile, Role};
use crate::fault::{FaultContext as _, no_space};
use crate::group::{self, CommitProof, Group, GroupOutcome};
use crate::group_commit::GroupCommitPolicy;
use crate::high_water::HighWater;
use crate::hot::Hot;
use crate::layout;
use crate::limits;
use crate::load;
use crate::meters::Meters;
use crate::options::SqliteOptions;
use crate::pending_rows::{PendingRows, RowStates};
use crate::reserve::Reserve;
use crate::rows;
use crate::seal;
use crate::seal_plan::{Next, WaitMode};
use crate::sealer::SealRequest;
use crate::tails::Tails;
use crate::writer_queue::{TakeResult, WriterQueue};

/// What waits for the writer.
pub(crate) enum Task {
    Append(Job),
    /// Seal all that is hot now.
    Seal(oneshot::Sender<Result<(), Fault>>),
    /// Replace damaged rows. `false`: a stream has moved on, and nothing was changed.
    Repair(RowRepair, oneshot::Sender<Result<bool, Fault>>),
}

/// One append in the queue.
pub(crate) struct Job {
    pub(crate) append: Append,
    pub(crate) bytes: usize,
    pub(crate) since: Instant,
    pub(crate) answer: oneshot::Sender<Result<Done, AppendError>>,
}

/// An append that happened.
pub(crate) struct Done {
    /// Of its first record; the others follow in the order they were given.
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

    fn is_sociable(&self) -> bool {
        match self {
            Task::Append(job) => job.is_sociable(),
            Task::Seal(_) | Task::Repair(..) => false,
        }
    }
}

impl Job {
    /// Whether it may share a commit with others. A removal reads committed data only, and an append that may use
    /// the reserve must be alone.
    fn is_sociable(&self) -> bool {
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
    pub(crate) asks: SyncSender<SealRequest>,
    pub(crate) high_water: HighWater,
}

/// The writer's own things. [`Writer::run`] is its life.
pub(crate) struct Writer {
    place: DatabaseFile,
    /// `None` after a failure that left the connection in doubt; opened again for the next group.
    connection: Option<Connection>,
    tails: Tails,
    written: GroupOutcome,
    journal: ChangeJournal,
    fresh_rows_max: usize,
    group_commit: GroupCommitPolicy,
    /// The data version in which the hot part was last read; `None` after a doubt.
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
type Fates = Vec<Result<u64, AppendError>>;

/// Closes the queue, however the writer ends.
struct Leave(Arc<WriterQueue<Task>>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Writer {
    pub(crate) fn new(
        place: DatabaseFile,
        mut connection: Connection,
        journal: ChangeJournal,
        shared: WriterContext,
        beside: WriterThreads,
        options: &SqliteOptions,
    ) -> Result<Self, Fault> {
        let WriterThreads { checkpoints, asks, high_water } = beside;
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
            sealing: Sealing::new(options, asks),
            fold_not_before: None,
        })
    }

    /// Works until the queue is closed and everything accepted is answered; then waits until the
    /// others that use the database have ended (`others` hangs up), and leaves it tidy.
    pub(crate) fn run(mut self, others: &Latch<()>) {
        raise_priority();
        let gone = Leave(self.shared.queue.clone());
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
                    self.shared.queue.served(1, 0);
                    // The caller may have left.
                    drop(answer.send(self.seal_all()));
                }
                Some(Task::Repair(repair, answer)) => {
                    self.shared.queue.served(1, repair.bytes());
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
        drop(gone);
        drop((self.checkpoints, self.sealing, self.high_water));
        // Nothing is ever sent: this returns when the last other handle is dropped.
        if others.recv().is_err() {
            tracing::trace!("the other threads of the store have ended");
        }
        if let Some(connection) = self.connection {
            leave(connection, &self.place);
        }
    }

    /// Takes the queue, after the tasks already taken. Without any of those, it may wait for more.
    fn take_all(&mut self, waiting: &mut VecDeque<Task>) -> TakeResult {
        let queue = &self.shared.queue;
        if !waiting.is_empty() {
            return queue.take(waiting, false);
        }
        if let Some((count, wait)) = self.group_commit.wanted() {
            queue.gather(count, wait);
        }
        let found = queue.take(waiting, true);
        self.group_commit.came(waiting.len());
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

    /// How long until something has come of age; `None` when nothing is hot.
    fn until_due(&mut self) -> Option<Duration> {
        let backlog = self.shared.hot.backlog();
        let oldest = backlog.oldest?;
        let now = moment();
        if let Some(wait) = self.sealing.not_before.map(|then| then.saturating_duration_since(now))
            && !wait.is_zero()
        {
            return Some(wait);
        }
        if backlog.first_position <= self.sealing.due {
            return Some(Duration::ZERO);
        }
        let wait = (oldest + self.sealing.age).saturating_duration_since(now);
        if wait.is_zero() {
            // All that is hot goes with the oldest: pieces of one run become larger.
            self.sealing.due = backlog.last_position;
        }
        Some(wait)
    }

    /// The longest beginning of the queue that fits into one group; at least one append.
    fn take(&self, first: Job, waiting: &mut VecDeque<Task>) -> Vec<Job> {
        let mut bytes = first.bytes.max(1);
        let sociable = first.is_sociable();
        let mut group = vec![first];
        while sociable
            && group.len() < GROUP_APPENDS_MAX
            && let Some(next) = waiting.front()
            && next.is_sociable()
            && bytes + next.bytes().max(1) <= GROUP_BYTES_MAX
            && let Some(Task::Append(next)) = waiting.pop_front()
        {
            bytes += next.bytes.max(1);
            group.push(next);
        }
        self.shared.queue.served(group.len(), group.iter().map(|job| job.bytes).sum());
        group
    }

    fn commit(&mut self, group: Vec<Job>) {
        match self.commit_within_space(&group) {
            Ok(fates) => {
                if self.written.took_of_hot(&self.shared.hot) {
                    // What was made ready may have it still.
                    self.sealing.plan.forget();
                }
                self.written.remember(&self.shared.hot, &self.shared.pending_rows, &mut self.journal);
                self.sealing.came_in(self.written.totals(), self.shared.hot.backlog().totals);
                if let Some(observer) = self.shared.observer.get()
                    && !self.written.records.is_empty()
                {
                    observer.committed(&self.written.records);
                }
                // Dropped before the answers are sent, so that the caller has the last handle of its records.
                self.written.records.clear();
                let now = moment();
                self.shared.meters.group(group.iter().map(|job| now.saturating_duration_since(job.since)));
                if self.written.took() {
                    // Before the answer: then no file has any removed content left.
                    self.checkpoints.empty(self.wal_pages.load(Ordering::Relaxed));
                    self.restore_reserve();
                }
                for (Job { append, answer, .. }, fate) in group.into_iter().zip(fates) {
                    // The caller may have left.
                    drop(answer.send(fate.map(|first_position| Done { first_position, append })));
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

    /// [`Writer::write`], with the reserve for those that may use it.
    fn commit_within_space(&mut self, group: &[Job]) -> Result<Fates, Fault> {
        if !group.iter().all(|job| job.append.may_use_reserve()) {
            self.shared.reserve.make()?;
            return self.make_room().and_then(|()| self.write(group));
        }
        match self.make_room().and_then(|()| self.write(group)) {
            Err(fault) if fault.kind == FaultKind::Full && self.shared.reserve.spend() => {
                tracing::warn!(%fault, "the disk is full; the reserved space is used for a deletion");
                self.make_room().and_then(|()| self.write(group))
            }
            written => written,
        }
    }

    /// After a removal: the freed space refills the reserve.
    fn restore_reserve(&self) {
        if let Err(fault) = self.shared.reserve.make() {
            tracing::warn!(
                %fault,
                "the reserved space is exhausted; only deletions are written until more space is free"
            );
        }
    }

    /// One transaction for a group. `Ok`: durable. `Err`: nothing of it was written.
    fn write(&mut self, group: &[Job]) -> Result<Fates, Fault> {
        let fates = self.transact(|writer, connection| {
            let shared = group::GroupContext {
                hot: &writer.shared.hot,
                pending_rows: &writer.shared.pending_rows,
                journal: &writer.journal,
                fresh_rows_max: writer.fresh_rows_max,
            };
            let mut together = Group::begin(connection, &mut writer.tails, shared, &mut writer.written);
            let mut fates = Vec::with_capacity(group.len());
            for job in group {
                fates.push(together.land(&job.append)?);
            }
            Ok((fates, together.finish()?))
        });
        if fates.is_err() {
            self.written.forget(&mut self.tails);
        }
        fates
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
                self.shared.pending_rows.landed(&mut RowStates::default(), true, moment());
                self.fold_not_before = None;
                self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
            }
            Err(fault) => {
                // They are as safe where they are.
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
                // An erasure moves no tail, and what it took away is not written again.
                let moved = writer.tail(connection, &row.stream)? != row.expected_tail;
                if moved || writer.is_erased(connection, &row.stream)? {
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
        self.shared.pending_rows.landed(&mut RowStates::default(), true, moment());
        self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
        Ok(true)
    }

    /// Whether a stream was erased, by what is committed.
    fn is_erased(&mut self, connection: &Connection, key: &StreamKey) -> Result<bool, Fault> {
        if let Some(known) = self.tails.get(key).or_else(|| self.shared.hot.known(key)) {
            return Ok(known.erased);
        }
        let stored =
            layout::stream_tail(connection, key).context(&format!("reading the tail of stream {key}"))?;
        Ok(stored.is_some_and(|tail| tail.erased))
    }

    /// Where a stream ends, by what is committed.
    fn tail(&mut self, connection: &Connection, key: &StreamKey) -> Result<u64, Fault> {
        if let Some(known) = self.tails.get(key).or_else(|| self.shared.hot.known(key)) {
            return Ok(known.next_sequence);
        }
        let tail =
            layout::stream_tail(connection, key).context(&format!("reading the tail of stream {key}"))?;
        Ok(tail.map_or(0, |tail| tail.next_sequence))
    }

    // ---- sealing ----

    /// Seals until the next group has room.
    fn make_room(&mut self) -> Result<(), Fault> {
        while self.sealing.is_too_much(self.shared.hot.backlog().totals) {
            if self.seal_some(u64::MAX, WaitMode::ForRoom)? == SealStep::Nothing {
                break;
            }
        }
        Ok(())
    }

    /// Seals as much as was appended, when much is hot.
    fn keep_level(&mut self) {
        let waits = self.sealing.not_before.is_some_and(|then| moment() < then);
        if self.sealing.lags() && !waits {
            self.seal_or_wait(u64::MAX);
        }
    }

    /// A step, if it can be done now.
    fn seal_or_wait(&mut self, last_position: u64) -> SealStep {
        if self.shared.reserve.is_spent() {
            self.sealing.not_before = Some(moment() + limits::SEAL_RETRY);
            return SealStep::Nothing;
        }
        self.seal_some(last_position, WaitMode::None).unwrap_or_else(|fault| {
            tracing::warn!(%fault, "sealing failed; retrying later");
            self.sealing.not_before = Some(moment() + limits::SEAL_RETRY);
            SealStep::Nothing
        })
    }

    fn seal_all(&mut self) -> Result<(), Fault> {
        let last = self.shared.hot.backlog().last_position;
        while self.seal_some(last, WaitMode::All)? != SealStep::Nothing {}
        Ok(())
    }

    /// One sealing transaction.
    fn seal_some(&mut self, last_position: u64, patience: WaitMode) -> Result<SealStep, Fault> {
        if self.known.is_none() {
            // First what there is has to be known again.
            self.transact(|_, _| Ok(((), CommitProof::Nothing)))?;
        }
        let backlog = self.shared.hot.backlog();
        let work = match self.sealing.plan.next(&backlog, last_position, patience)? {
            Next::SealWork(work) => work,
            Next::NotReady => return Ok(SealStep::NotReady),
            Next::Nothing => return Ok(SealStep::Nothing),
        };
        let known = self.known;
        let sealed = self.transact(|writer, connection| {
            if writer.known != known {
                // Another program changed the database; what was made ready may not fit.
                return Ok((None, CommitProof::Nothing));
            }
            // First, so that what becomes free is used again at once.
            seal::take_away(connection, &work.units)?;
            let new = seal::land(connection, &work.pieces)?;
            let count = layout::raise_fence(connection).context("updating the fence")?;
            Ok((Some(new), CommitProof::Fence(count)))
        });
        let Some(new) = sealed.inspect_err(|_| self.sealing.plan.forget())? else {
            self.sealing.plan.forget();
            return Ok(SealStep::Done);
        };
        self.sealing.not_before = None;
        self.sealing.come_in.less(new);
        self.shared.hot.sealed(new);
        for unit in &work.units {
            self.shared.hot.taken_away(unit.last_position, &unit.streams);
        }
        self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
        Ok(SealStep::Done)
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
            .and_then(|()| self.look_again(&connection))
            .and_then(|()| work(self, &connection));
        let (done, proof) = match prepared {
            Ok(prepared) => prepared,
            Err(fault) => {
                self.shared.meters.failed();
                // Without a commit nothing counts, whatever reached the disk.
                if rolled_back(&connection) {
                    self.connection = Some(connection);
                }
                return Err(fault);
            }
        };
        let asked = moment();
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
        self.shared.meters.synced(asked.elapsed());
        Ok(done)
    }

    /// Reads again what was remembered if another connection has written or a commit is in doubt.
    fn look_again(&mut self, connection: &Connection) -> Result<(), Fault> {
        let version = layout::data_version(connection).context("reading the end of the store")?;
        if self.known == Some(version) {
            return Ok(());
        }
        self.tails.clear();
        self.sealing.plan.forget();
        self.shared.hot.replace(load::load(connection)?);
        let (journal, states) = changes::load(connection)?;
        self.shared.pending_rows.replace(states, moment());
        self.journal = journal;
        self.known = Some(version);
        Ok(())
    }
}

/// Writes everything into the database file, so that it alone is the whole store.
fn leave(connection: Connection, place: &DatabaseFile) {
    // Another program that reads may be in the way; ending does not wait long for it.
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

/// Asks to be scheduled before others, those of this process included, where that is allowed: the tail of
/// latencies is made of waiting for a turn. On Linux this speaks for the thread alone; elsewhere it would
/// speak for the process.
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
