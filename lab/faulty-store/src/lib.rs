//! A faulty store: wraps any store and lets its writes and reads be late, refused, lost, unobserved or damaged, and its
//! process die.
//!
//! A [`Disk`] outlives the engines that use it; each engine gets a [`FaultyStore`] of its own. Faults are chosen for
//! single appends ([`AppendFault`]), for the whole disk ([`WriteFaults`], [`Crash`], damage), or by chance in a queue of
//! appends ([`QueueCourse`]). This must not know the engine.

mod append_fault;
mod disk;
pub mod limits;
mod queue;
mod write_faults;

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use recount_log::{
    Answer, Append, AppendError, Committed, DamagedRow, Fault, FaultKind, FeedRecord, Observer, ReadBound,
    Record, Retry, Row, RowRange, RowRepair, Store, StreamKey, Tail, WholeRows, forward_store,
};

pub use append_fault::AppendFault;
pub use disk::{CATALOGUE_SPACES, Crash, CrashAt, Disk};
pub use queue::{FaultRates, QueueCourse};
pub use write_faults::{WriteFailure, WriteFaults};

use queue::Queue;

/// The store as one process has it open.
pub struct FaultyStore {
    disk: Arc<Disk>,
    /// Where appends wait, if faults happen by chance.
    queue: Option<Arc<Queue>>,
    append_faults: Mutex<VecDeque<AppendFault>>,
    process: Mutex<Process>,
    reads_fail: AtomicBool,
    appends: AtomicUsize,
    reads: AtomicUsize,
}

/// The process that has the store open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Process {
    Runs,
    /// It closed the store, or the power was cut.
    Closed,
    /// It died with an append.
    Dead,
}

impl FaultyStore {
    pub fn new(disk: &Arc<Disk>) -> Arc<Self> {
        Self::of(disk, None)
    }

    /// Creates a store whose appends wait in a queue, with random faults.
    pub fn queued(disk: &Arc<Disk>, course: Arc<dyn QueueCourse>, rates: FaultRates) -> Arc<Self> {
        Self::of(disk, Some(Queue::start(disk, course, rates)))
    }

    fn of(disk: &Arc<Disk>, queue: Option<Arc<Queue>>) -> Arc<Self> {
        Arc::new(FaultyStore {
            disk: disk.clone(),
            queue,
            append_faults: Mutex::default(),
            process: Mutex::new(Process::Runs),
            reads_fail: AtomicBool::new(false),
            appends: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        })
    }

    /// Sets the faults of the next appends; later appends pass.
    pub fn next_appends(&self, faults: impl IntoIterator<Item = AppendFault>) {
        lock(&self.append_faults).extend(faults);
    }

    /// Whether reads fail from now on.
    pub fn fail_reads(&self, fail: bool) {
        self.reads_fail.store(fail, Ordering::SeqCst);
    }

    pub fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    pub fn count_appends_from_here(&self) {
        self.appends.store(0, Ordering::SeqCst);
    }

    /// How often records, rows or blobs were read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Refuses every call from now on.
    pub fn cut(&self) {
        if let Some(queue) = &self.queue {
            return queue.close();
        }
        let mut process = lock(&self.process);
        // A dead process receives no result.
        if *process == Process::Runs {
            *process = Process::Closed;
        }
    }

    /// Cuts the power of a queued store. Some of the queue is written all the same, without an observer.
    pub async fn cut_power(&self) {
        self.cut();
        if let Some(queue) = &self.queue {
            queue.end().await;
        }
    }

    /// Disables random faults from now on.
    pub fn calm(&self) {
        if let Some(queue) = &self.queue {
            queue.calm();
        }
    }

    fn refusal(&self) -> Option<Fault> {
        if *lock(&self.process) == Process::Closed {
            return Some(closed());
        }
        let fails = self.reads_fail.load(Ordering::SeqCst);
        fails.then(|| Fault::new(FaultKind::Io, Retry::Maybe, "reading failed, as the test demands"))
    }

    /// Reads at once, unless reads are refused.
    fn read_now<T: Send + 'static>(&self, read: impl FnOnce(&dyn Store) -> Answer<T>) -> Answer<T> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        match self.refusal() {
            Some(fault) => Box::pin(ready(Err(fault))),
            None => read(&*self.disk.store()),
        }
    }

    /// Reads at once, or as the queue allows.
    fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        match &self.queue {
            Some(queue) => queue.look(read),
            None => self.read_now(read),
        }
    }

    fn bound(&self, bound: ReadBound) -> ReadBound {
        self.queue.as_ref().map_or(bound, |queue| queue.course.bound(bound))
    }
}

impl Store for FaultyStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        match &self.queue {
            Some(queue) => queue.observe(observer),
            None => self.disk.relay.observe(observer),
        }
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        if let Some(queue) = &self.queue {
            return queue.append(append);
        }
        match *lock(&self.process) {
            Process::Runs => {}
            Process::Closed => return Box::pin(ready(Err(closed().into()))),
            Process::Dead => return Box::pin(pending()),
        }
        let is_put =
            |space: &str, key: &str| append.rows.iter().any(|put| (&*put.space, &*put.key) == (space, key));
        if let Some(damage) = self.disk.row_damage(is_put) {
            return Box::pin(ready(Err(damage.into())));
        }
        self.appends.fetch_add(1, Ordering::SeqCst);
        self.disk.record_append(&append);
        if let Some(kept) = self.disk.crashes_with(&append) {
            *lock(&self.process) = Process::Dead;
            let disk = self.disk.clone();
            return Box::pin(async move { disk.die_with(append, kept).await });
        }
        // Not within the match: a panic there would hold the lock.
        let fault = lock(&self.append_faults).pop_front();
        match fault {
            Some(fault) => fault.carry_out(&self.disk, append),
            None => self.disk.write(append),
        }
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        let is_busy = self.disk.take_busy_read(stream);
        let (key, bound) = (stream.clone(), self.bound(bound));
        let records = self.look(move |store| store.read(&key, from, bound));
        let (disk, stream) = (self.disk.clone(), stream.clone());
        Box::pin(async move {
            is_busy?;
            disk.readable(&stream, records.await?)
        })
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        let bound = self.bound(bound);
        self.look(move |store| store.read_feed(from, bound))
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        let stream = stream.clone();
        let tail = self.look(move |store| store.tail(&stream));
        let Some(queue) = &self.queue else { return tail };
        let course = queue.course.clone();
        Box::pin(async move { Ok(tail.await?.map(|tail| course.tail(tail))) })
    }

    fn last_position(&self) -> Answer<u64> {
        self.look(|store| store.last_position())
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.look(move |store| store.streams(after, limit))
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        if let Some(damage) = self.disk.row_damage(|in_space, at| (in_space, at) == (space, key)) {
            return Box::pin(ready(Err(damage)));
        }
        let (space, key) = (space.to_owned(), key.to_owned());
        self.look(move |store| store.row(&space, &key))
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.disk.note_rows_requested(range.limit);
        let is_in = |space: &str, key: &str| space == &*range.space && key.starts_with(&*range.prefix);
        if let Some(damage) = self.disk.row_damage(is_in) {
            return Box::pin(ready(Err(damage)));
        }
        self.look(move |store| store.rows(range))
    }

    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        self.disk.note_rows_requested(range.limit);
        let (space, disk) = (range.space.clone(), self.disk.clone());
        let rows = self.look(move |store| store.rows(range));
        Box::pin(async move {
            let mut rows = rows.await?;
            let mut damaged = disk.damaged_rows();
            damaged.retain(|row| row.space == *space.as_bytes());
            rows.retain(|row| damaged.iter().all(|damaged| damaged.key != *row.key.as_bytes()));
            Ok(WholeRows { rows, damaged })
        })
    }

    fn damaged_rows(&self) -> Answer<Vec<DamagedRow>> {
        Box::pin(ready(Ok(self.disk.damaged_rows())))
    }

    fn repair_rows(&self, repair: RowRepair) -> Answer<bool> {
        let disk = self.disk.clone();
        Box::pin(async move { disk.repair(repair).await })
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        self.disk.write_blob(bytes)
    }

    fn is_owner(&self) -> bool {
        self.disk.is_owned.load(Ordering::SeqCst)
    }

    fn close(&self) -> Answer<()> {
        self.cut();
        Box::pin(ready(Ok(())))
    }

    forward_store!(self, |call| self.read_now(call); blob, blobs, integrity, backup, stats);
    forward_store!(self, |call| call(&*self.disk.store()); remove_blob);
}

/// The result of a call that a memory store completes at once.
pub fn answer_now<T, E>(answer: Answer<T, E>) -> Result<T, E> {
    answer.now_or_never().expect("a store in memory answers at once")
}

fn closed() -> Fault {
    Fault::new(FaultKind::Closed, Retry::Never, "the store was closed")
}

/// A test that panics leaves what is locked usable.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
