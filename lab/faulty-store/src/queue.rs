//! Queues appends and writes them in groups after a delay, with random faults and, for tests of checks, deliberate
//! errors.
//!
//! Everything is drawn from a [`QueueCourse`] in the same order for the same calls, so a course can be repeated. A cut
//! loses what was not written; some of the queue is still written. Start at [`Queue::write_group`].

use std::collections::VecDeque;
use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use recount_log::{
    Answer, Append, AppendError, Committed, Fault, FaultKind, FeedRecord, Landed, Observer, ReadBound,
    Record, Retry, Store, Tail,
};
use recount_world::{Kind, Shutdown, Tasks};
use tokio::sync::{Notify, oneshot};

use super::disk::Disk;
use super::{answer_now, limits, lock};

/// How often each fault happens, in a thousand, and how slow the store is.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    /// Refused before it is queued.
    pub refuse: u64,
    /// Nothing was written, and the result is a failure.
    pub fail: u64,
    /// Written and observed, but the result is a failure.
    pub lose_answer: u64,
    /// Written but not observed, and the result is a failure.
    pub unobserved: u64,
    /// A read fails.
    pub read: u64,
    /// The longest time until a group is written, in milliseconds.
    pub write_ms: u64,
    /// The longest time until a written group is observed, in milliseconds.
    pub observe_ms: u64,
}

/// Draws what happens in a queue, and records it. The methods after [`QueueCourse::count_fault`] are deliberate errors
/// that the checks of a test must detect; by default a course has none.
pub trait QueueCourse: Send + Sync + 'static {
    /// A number below `end`, which is not 0.
    fn below(&self, end: u64) -> u64;

    /// Records what the store did.
    fn log(&self, line: fmt::Arguments<'_>);

    fn count_fault(&self);

    /// What is written instead of an append: another append, or nothing. `None`: the append itself.
    fn instead(&self, _append: &Append) -> Option<Option<Append>> {
        None
    }

    /// Whether an append is observed long before it is written.
    fn observes_early(&self) -> bool {
        false
    }

    /// Changes the order in which records are observed. Returns whether it did.
    fn reorder(&self, _records: &mut [FeedRecord]) -> bool {
        false
    }

    /// Whether an append never returns.
    fn withholds_answer(&self) -> bool {
        false
    }

    /// The bound that is used for a read.
    fn bound(&self, bound: ReadBound) -> ReadBound {
        bound
    }

    /// The tail that is returned.
    fn tail(&self, tail: Tail) -> Tail {
        tail
    }

    /// Changes what is stored after a cut.
    fn after_cut(&self) {}
}

struct Waiting {
    append: Append,
    answer: oneshot::Sender<Result<Committed, AppendError>>,
}

pub(crate) struct Queue {
    disk: Arc<Disk>,
    pub(crate) course: Arc<dyn QueueCourse>,
    rates: Mutex<FaultRates>,
    is_cut: AtomicBool,
    waiting: Mutex<VecDeque<Waiting>>,
    added: Notify,
    observer: OnceLock<Arc<dyn Observer>>,
    tasks: Tasks,
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, Retry::After(limits::RETRY_AFTER), format!("{kind:?}, by chance"))
}

impl Queue {
    /// A queue with a task that writes it.
    pub(crate) fn start(disk: &Arc<Disk>, course: Arc<dyn QueueCourse>, rates: FaultRates) -> Arc<Self> {
        let queue = Arc::new(Queue {
            disk: disk.clone(),
            course,
            rates: Mutex::new(rates),
            is_cut: AtomicBool::new(false),
            waiting: Mutex::default(),
            added: Notify::new(),
            observer: OnceLock::new(),
            tasks: Tasks::new(),
        });
        let writer = queue.clone();
        queue.tasks.spawn(Kind::Service, move |shutdown| writer.write_all(shutdown));
        queue
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) {
        assert!(self.observer.set(observer).is_ok(), "a store has one observer, set once");
    }

    pub(crate) fn calm(&self) {
        *lock(&self.rates) = FaultRates { write_ms: 3, observe_ms: 2, ..FaultRates::default() };
    }

    pub(crate) fn close(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Ends the writer of a queue that is closed, after it has written some appends without an observer.
    pub(crate) async fn end(&self) {
        let waiting: Vec<Waiting> = lock(&self.waiting).drain(..).collect();
        let written = if waiting.is_empty() { 0 } else { self.index(waiting.len() + 1) };
        self.course.log(format_args!("store cut with {} in line, {written} written", waiting.len()));
        for waiting in waiting.into_iter().take(written) {
            let _not_observed = self.write(&waiting.append);
        }
        self.tasks.end_all(Duration::ZERO).await;
        self.course.after_cut();
    }

    pub(crate) fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        if self.is_cut() {
            return Box::pin(ready(Err(fault(FaultKind::Closed).into())));
        }
        if self.permille(self.rates().refuse) {
            self.course.count_fault();
            self.course.log(format_args!("store refuses an append"));
            return Box::pin(ready(Err(fault(FaultKind::Busy).into())));
        }
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).push_back(Waiting { append, answer: sender });
        self.added.notify_one();
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(fault(FaultKind::Closed).into())) })
    }

    /// Reads what is stored, perhaps a little later, perhaps refused.
    pub(crate) fn look<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&dyn Store) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let rates = self.rates();
        let fails = self.permille(rates.read);
        let delay_ms = if rates.write_ms > 0 && self.permille(200) { 1 + self.course.below(3) } else { 0 };
        let queue = self.clone();
        Box::pin(async move {
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            if queue.is_cut() {
                return Err(fault(FaultKind::Closed));
            }
            if fails {
                queue.course.count_fault();
                return Err(fault(FaultKind::Io));
            }
            let answer = read(&*queue.disk.store());
            answer.await
        })
    }

    fn rates(&self) -> FaultRates {
        *lock(&self.rates)
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    fn index(&self, length: usize) -> usize {
        self.course.below(length as u64) as usize
    }

    /// True so many times in a thousand.
    fn permille(&self, chance: u64) -> bool {
        self.course.below(1000) < chance
    }

    async fn write_all(self: Arc<Self>, mut shutdown: Shutdown) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = self.write_group() => {}
            }
        }
    }

    async fn write_group(&self) {
        let waiting = lock(&self.waiting).len();
        if waiting == 0 {
            self.added.notified().await;
            return;
        }
        let rates = self.rates();
        let early = self.course.observes_early() && self.observe_early().await;
        let count = if early { 1 } else { 1 + self.index(waiting.min(limits::GROUP_MAX)) };
        self.wait(rates.write_ms).await;
        // Until here it was in the queue, so a cut finds it there.
        let group: Vec<Waiting> = lock(&self.waiting).drain(..count).collect();
        if self.permille(rates.fail) {
            self.course.count_fault();
            let kind = [FaultKind::Io, FaultKind::Full, FaultKind::Busy][self.index(3)];
            self.course.log(format_args!("store fails a group of {count} with {kind:?}"));
            group.into_iter().for_each(|waiting| drop(waiting.answer.send(Err(fault(kind).into()))));
            return;
        }
        let mut records = Vec::new();
        let mut answers = Vec::new();
        for waiting in group {
            let answer = self.write(&waiting.append).map(|(committed, written)| {
                records.extend(written);
                committed
            });
            answers.push((waiting.answer, answer));
        }
        self.wait(rates.observe_ms).await;
        let unobserved = self.permille(rates.unobserved);
        if let Some(observer) = self.observer.get()
            && !records.is_empty()
            && !unobserved
            && !early
        {
            if self.course.reorder(&mut records) {
                self.log_lie();
            }
            observer.committed(&records);
        }
        let lost = unobserved || self.permille(rates.lose_answer);
        if lost {
            self.course.count_fault();
            let count = answers.len();
            self.course.log(format_args!("store loses {count} answers, unobserved: {unobserved}"));
        }
        for (waiting, answer) in answers {
            if self.course.withholds_answer() {
                lock(&self.disk.unanswered).push(waiting);
                continue;
            }
            // The caller may have gone away.
            let _unwanted = waiting.send(if lost { Err(fault(FaultKind::Io).into()) } else { answer });
        }
    }

    async fn wait(&self, most_ms: u64) {
        if most_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.course.below(most_ms + 1))).await;
        }
    }

    fn log_lie(&self) {
        self.course.log(format_args!("store lied"));
    }

    /// Writes one append as it is, or as the course changes it. Returns what the observer must see.
    fn write(&self, append: &Append) -> Result<(Committed, Vec<FeedRecord>), AppendError> {
        let store = self.disk.store();
        let instead = self.course.instead(append);
        let lied = instead.is_some();
        let committed = match instead {
            Some(None) => self.invented(append),
            Some(Some(other)) => answer_now(store.append(other))?,
            None => answer_now(store.append(append.clone()))?,
        };
        let mut records = Vec::new();
        for (part, landed) in append.streams.iter().zip(&committed.streams) {
            let mut hasher = blake3::Hasher::new();
            for record in &part.records {
                hasher.update(record);
            }
            let hash = &hasher.finalize().to_hex()[..12];
            self.course.log(format_args!(
                "store {} {}..={} at {} {hash}",
                part.stream, landed.first_sequence, landed.last_sequence, landed.first_position
            ));
            for (n, bytes) in (0..).zip(&part.records) {
                let (position, sequence) = (landed.first_position + n, landed.first_sequence + n);
                let record = Record { position, sequence, bytes: bytes.clone() };
                records.push(FeedRecord { stream: part.stream.clone(), record });
            }
        }
        for cut in &append.cuts {
            self.course.log(format_args!("store cuts {} before {}", cut.stream, cut.keep_from));
        }
        for stream in &append.erased {
            self.course.log(format_args!("store erases {stream}"));
        }
        if lied {
            self.log_lie();
        }
        Ok((committed, records))
    }

    /// A receipt for an append that was not written.
    fn invented(&self, append: &Append) -> Committed {
        let last = answer_now(self.disk.store().last_position()).expect("the wrapped store is never closed");
        let streams = append.streams.iter().map(|part| Landed {
            first_sequence: part.expected_tail,
            last_sequence: part.expected_tail + part.records.len() as u64 - 1,
            first_position: last + 1,
        });
        Committed { streams: streams.collect() }
    }

    /// Calls the observer for the one queued append, and then takes long to write it.
    async fn observe_early(&self) -> bool {
        let records = {
            let waiting = lock(&self.waiting);
            let [one] = waiting.as_slices().0 else { return false };
            let [part] = &*one.append.streams else { return false };
            let store = self.disk.store();
            let tail = answer_now(store.tail(&part.stream)).ok().flatten();
            if tail.is_none_or(|tail| tail.next_sequence != part.expected_tail) {
                return false;
            }
            let last = answer_now(store.last_position()).unwrap_or(0);
            let records = (0..).zip(&part.records).map(|(n, bytes)| FeedRecord {
                stream: part.stream.clone(),
                record: Record {
                    position: last + 1 + n,
                    sequence: part.expected_tail + n,
                    bytes: bytes.clone(),
                },
            });
            records.collect::<Vec<_>>()
        };
        if let Some(observer) = self.observer.get() {
            observer.committed(&records);
        }
        tokio::time::sleep(limits::EARLY_WRITE_DELAY).await;
        true
    }
}
