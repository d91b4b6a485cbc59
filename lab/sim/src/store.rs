//! A store that fails as stores do: late, refused, half answered, cut off. And, for proving the checks, one
//! that lies ([`Mutant`]).
//!
//! What survives is a [`MemoryStore`]; a [`FaultStore`] is one engine's handle of it. Appends are
//! queued; the store's writer takes some, writes them after a while, calls the observer after another, and
//! answers. A cut loses what was not written, and some of the queue is written all the same.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use recount_log::chain::ChainValue;
use recount_log::{
    Answer, Append, AppendError, Committed, Fault, FaultKind, FeedRecord, Guard, Landed, MemoryStore,
    Observer, ReadBound, Record, Retry, Row, RowPut, RowRange, Store, StreamAppend, StreamKey, Tail,
    forward_store,
};
use recount_world::{Kind, Shutdown, Tasks};
use tokio::sync::{Notify, oneshot};

use crate::dice::Dice;
use crate::limits;
use crate::trace::Trace;

/// The folds of the catalogue, by their spaces after `catalogue.`.
pub const FOLDS: [&str; 21] = [
    "runs",
    "task_runs",
    "session_runs",
    "run_successors",
    "approvals",
    "approvals_listed",
    "approvals_pending",
    "clarifications",
    "clarifications_listed",
    "clarifications_pending",
    "handoffs",
    "handoffs_listed",
    "handoffs_pending",
    "deadlines",
    "artifacts",
    "artifacts_listed",
    "run_artifacts",
    "task_artifacts",
    "artifact_changes",
    "blob_uses",
    "own_open",
];

/// How often what goes wrong, in a thousand, and how slow the store is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Refused before it is queued.
    pub refuse: u64,
    /// Nothing was written, and the answer is a failure.
    pub fail: u64,
    /// Written and observed, but the answer is a failure.
    pub lose_answer: u64,
    /// Written but not observed, and the answer is a failure.
    pub unheard: u64,
    /// A read fails.
    pub read: u64,
    /// The longest a write takes, and the longest until it is observed, in milliseconds.
    pub write_ms: u64,
    pub tell_ms: u64,
}

/// A lie of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// One append is acknowledged and not written.
    DropAppend,
    /// The same, for an answer to an approval.
    DropAnswer,
    /// One record is written twice.
    RepeatRecord,
    /// An ending is written twice.
    RepeatEnding,
    /// Two commits are observed in swapped order.
    SwapFeed,
    /// Commits are observed before they are written.
    TellEarly,
    /// Rows that list runs are not written, now and then.
    ForgetRuns,
    /// What producers did is not written, now and then.
    ForgetProducers,
    /// Deadlines are not written.
    ForgetDeadlines,
    /// One append is never answered.
    NeverAnswer,
    /// One record is stored with a byte changed after it was observed.
    AlterByte,
    /// The heads of streams are made up.
    WrongHead,
    /// Reads bring everything, whatever was asked.
    IgnoreBound,
    /// A cut loses the last things that were acknowledged.
    LoseLast,
    /// One cut is acknowledged and not done.
    ForgetCut,
    /// One cut takes a record more.
    CutTooMuch,
    /// One stream is reported as erased and left as it is.
    ForgetErasing,
}

impl Mutant {
    pub const ALL: [Mutant; 17] = [
        Mutant::DropAppend,
        Mutant::DropAnswer,
        Mutant::RepeatRecord,
        Mutant::RepeatEnding,
        Mutant::SwapFeed,
        Mutant::TellEarly,
        Mutant::ForgetRuns,
        Mutant::ForgetProducers,
        Mutant::ForgetDeadlines,
        Mutant::NeverAnswer,
        Mutant::AlterByte,
        Mutant::WrongHead,
        Mutant::IgnoreBound,
        Mutant::LoseLast,
        Mutant::ForgetCut,
        Mutant::CutTooMuch,
        Mutant::ForgetErasing,
    ];

    /// Whether it needs a client that removes things.
    pub fn is_about_taking(self) -> bool {
        matches!(self, Mutant::ForgetCut | Mutant::CutTooMuch | Mutant::ForgetErasing)
    }
}

/// What outlives the engines of a play.
pub struct Disk {
    memory: Mutex<Arc<MemoryStore>>,
    mutant: Option<Mutant>,
    /// How many chances the mutant has had.
    chances: AtomicU64,
    /// Answers that never come.
    unanswered: Mutex<Vec<oneshot::Sender<Result<Committed, AppendError>>>>,
}

impl Disk {
    pub fn new(mutant: Option<Mutant>) -> Arc<Self> {
        let (chances, unanswered) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Disk { memory: Mutex::default(), mutant, chances, unanswered })
    }

    /// What is stored.
    pub fn memory(&self) -> Arc<MemoryStore> {
        lock(&self.memory).clone()
    }

    /// Puts a copy without the last `count` records in the place of what is stored.
    fn lose_last(&self, count: usize) {
        let (old, new) = (self.memory(), MemoryStore::new());
        let everything = ReadBound { count: usize::MAX, bytes: usize::MAX };
        let feed = answer(old.read_feed(1, everything)).expect("the memory is never closed");
        for found in &feed[..feed.len().saturating_sub(count)] {
            let part = StreamAppend {
                stream: found.stream.clone(),
                expected_tail: found.record.sequence,
                records: vec![found.record.bytes.clone()],
            };
            answer(new.append(Append { streams: vec![part], ..Append::default() }))
                .expect("it was there before");
        }
        let records = ["tasks", "task_active", "sessions", "producers", "folds"];
        let folds = FOLDS.iter().map(|name| format!("catalogue.{name}"));
        for space in folds.chain(records.iter().map(|name| format!("record.{name}"))) {
            let space: Arc<str> = space.into();
            let range = RowRange {
                space: space.clone(),
                prefix: "".into(),
                after: None,
                backwards: false,
                limit: usize::MAX,
            };
            let rows = answer(old.rows(range)).expect("the memory is never closed").into_iter();
            let puts = rows.map(|row| RowPut {
                space: space.clone(),
                key: row.key,
                guard: Guard::Any,
                value: Some(row.value),
            });
            let append = Append { rows: puts.collect(), ..Append::default() };
            answer(new.append(append)).expect("rows can be copied");
        }
        *lock(&self.memory) = Arc::new(new);
    }

    /// Whether the mutant strikes now, at the `nth` chance it has.
    fn strikes(&self, mutant: Mutant, nth: u64) -> bool {
        self.mutant == Some(mutant) && self.chances.fetch_add(1, Ordering::SeqCst) + 1 == nth
    }
}

struct Waiting {
    append: Append,
    answer: oneshot::Sender<Result<Committed, AppendError>>,
}

/// What one engine holds.
#[derive(Clone)]
pub struct FaultStore(Arc<StoreInner>);

struct StoreInner {
    disk: Arc<Disk>,
    dice: Dice,
    trace: Trace,
    faults: Mutex<Faults>,
    cut: AtomicBool,
    line: Mutex<VecDeque<Waiting>>,
    more: Notify,
    observer: OnceLock<Arc<dyn Observer>>,
    tasks: Tasks,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, Retry::After(Duration::from_millis(50)), format!("{kind:?}, by chance"))
}

impl FaultStore {
    pub fn new(disk: &Arc<Disk>, dice: Dice, trace: Trace, faults: Faults) -> Self {
        let inner = Arc::new(StoreInner {
            disk: disk.clone(),
            dice,
            trace,
            faults: Mutex::new(faults),
            cut: AtomicBool::new(false),
            line: Mutex::default(),
            more: Notify::new(),
            observer: OnceLock::new(),
            tasks: Tasks::new(),
        });
        let writer = inner.clone();
        inner.tasks.spawn(Kind::Service, move |shutdown| writer.write_all(shutdown));
        FaultStore(inner)
    }

    /// From now on nothing goes wrong by chance.
    pub fn calm(&self) {
        *lock(&self.0.faults) = Faults { write_ms: 3, tell_ms: 2, ..Faults::default() };
    }

    /// Cuts the power. Some of the queue is written all the same, without an observer.
    pub async fn cut(&self) {
        self.0.cut.store(true, Ordering::SeqCst);
        let line: Vec<Waiting> = lock(&self.0.line).drain(..).collect();
        let written = if line.is_empty() { 0 } else { self.0.dice.index(line.len() + 1) };
        self.0.trace.log(format_args!("store cut with {} in line, {written} written", line.len()));
        for waiting in line.into_iter().take(written) {
            let _unheard = self.0.write(&waiting.append);
        }
        self.0.tasks.end_all(Duration::ZERO).await;
        let many = answer(self.0.disk.memory().last_position()).unwrap_or(0) > 60;
        if many && self.0.disk.strikes(Mutant::LoseLast, 1) {
            self.0.trace.log("store lied");
            self.0.disk.lose_last(10);
        }
    }
}

impl StoreInner {
    fn faults(&self) -> Faults {
        *lock(&self.faults)
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    async fn write_all(self: Arc<Self>, mut shutdown: Shutdown) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = self.write_some() => {}
            }
        }
    }

    async fn write_some(&self) {
        let waiting = lock(&self.line).len();
        if waiting == 0 {
            self.more.notified().await;
            return;
        }
        let faults = self.faults();
        let early = self.disk.mutant == Some(Mutant::TellEarly) && self.observe_early().await;
        let count = if early { 1 } else { 1 + self.dice.index(waiting.min(limits::GROUP_MAX)) };
        self.wait(faults.write_ms).await;
        // Until here it stood in line, so a cut finds it there.
        let group: Vec<Waiting> = lock(&self.line).drain(..count).collect();
        if self.dice.permille(faults.fail) {
            self.trace.count(|counts| counts.faults += 1);
            let kind =
                *self.dice.pick(&[FaultKind::Io, FaultKind::Full, FaultKind::Busy]).expect("not empty");
            self.trace.log(format_args!("store fails a group of {count} with {kind:?}"));
            group.into_iter().for_each(|waiting| drop(waiting.answer.send(Err(fault(kind).into()))));
            return;
        }
        let mut fresh = Vec::new();
        let mut answers = Vec::new();
        for waiting in group {
            let answer = self.write(&waiting.append).map(|(committed, records)| {
                fresh.extend(records);
                committed
            });
            answers.push((waiting.answer, answer));
        }
        self.wait(faults.tell_ms).await;
        let unheard = self.dice.permille(faults.unheard);
        if let Some(observer) = self.observer.get()
            && !fresh.is_empty()
            && !unheard
            && !early
        {
            self.swap(&mut fresh);
            observer.committed(&fresh);
        }
        let lost = unheard || self.dice.permille(faults.lose_answer);
        if lost {
            self.trace.count(|counts| counts.faults += 1);
            self.trace.log(format_args!("store loses {} answers, unheard: {unheard}", answers.len()));
        }
        for (waiting, answer) in answers {
            if self.disk.strikes(Mutant::NeverAnswer, 20) {
                lock(&self.disk.unanswered).push(waiting);
                continue;
            }
            // The caller may have left.
            let _unwanted = waiting.send(if lost { Err(fault(FaultKind::Io).into()) } else { answer });
        }
    }

    async fn wait(&self, most_ms: u64) {
        if most_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.dice.below(most_ms + 1))).await;
        }
    }

    /// Writes one append as it is, or as the mutant changes it. Returns what the observer must see.
    fn write(&self, append: &Append) -> Result<(Committed, Vec<FeedRecord>), AppendError> {
        let memory = self.disk.memory();
        let written = self.mutated(append);
        let as_meant = written.is_none();
        let committed = match written {
            Some(None) => self.invented(append),
            Some(Some(other)) => answer(memory.append(other))?,
            None => answer(memory.append(append.clone()))?,
        };
        let mut records = Vec::new();
        for (part, landed) in append.streams.iter().zip(&committed.streams) {
            let hash = part.records.iter().fold(blake3::Hasher::new(), |mut hasher, record| {
                hasher.update(record);
                hasher
            });
            let hash = &hash.finalize().to_hex()[..12];
            self.trace.log(format_args!(
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
            self.trace.log(format_args!("store cuts {} before {}", cut.stream, cut.keep_from));
        }
        for stream in &append.erased {
            self.trace.log(format_args!("store erases {stream}"));
        }
        if !as_meant {
            self.trace.log("store lied");
        }
        Ok((committed, records))
    }

    /// What the mutant writes in place of an append: something else, or nothing. `None` when it is honest.
    fn mutated(&self, append: &Append) -> Option<Option<Append>> {
        let disk = &self.disk;
        let says = |what: &str| {
            let mut records = append.streams.iter().flat_map(|part| &part.records);
            records.any(|record| String::from_utf8_lossy(record).contains(what))
        };
        let later = append.streams.iter().any(|part| part.expected_tail > 3);
        let mut other = append.clone();
        match disk.mutant? {
            Mutant::DropAppend => (later && disk.strikes(Mutant::DropAppend, 8)).then_some(None),
            Mutant::DropAnswer => {
                let answers = says(r#""type":"approval.resolved""#) && !says(r#""type":"run.cancelled""#);
                (answers && disk.strikes(Mutant::DropAnswer, 1)).then_some(None)
            }
            Mutant::RepeatRecord => (later && disk.strikes(Mutant::RepeatRecord, 8)).then(|| {
                let records = &mut other.streams[0].records;
                records.extend(records.last().cloned());
                Some(other)
            }),
            Mutant::RepeatEnding => {
                let ends = says(r#""type":"run.cancelled""#) || says(r#""type":"run.finished""#);
                (ends && disk.strikes(Mutant::RepeatEnding, 1)).then(|| {
                    let records = &mut other.streams[0].records;
                    records.extend(records.last().cloned());
                    Some(other)
                })
            }
            Mutant::AlterByte => (later && disk.strikes(Mutant::AlterByte, 8)).then(|| {
                let records = &mut other.streams[0].records;
                let last = records.pop().expect("an append has records");
                records.push([&last[..last.len() - 1], b" }"].concat().into());
                Some(other)
            }),
            Mutant::ForgetCut => (!append.cuts.is_empty() && disk.strikes(Mutant::ForgetCut, 1)).then(|| {
                other.cuts.clear();
                Some(other)
            }),
            Mutant::CutTooMuch => {
                (!append.cuts.is_empty() && disk.strikes(Mutant::CutTooMuch, 1)).then(|| {
                    other.cuts[0].keep_from += 1;
                    Some(other)
                })
            }
            Mutant::ForgetErasing => {
                let erases = !append.erased.is_empty() && disk.strikes(Mutant::ForgetErasing, 1);
                erases.then(|| {
                    other.erased.clear();
                    Some(other)
                })
            }
            Mutant::ForgetRuns => self.forget("catalogue.runs", other, 100),
            Mutant::ForgetProducers => self.forget("record.producers", other, 100),
            Mutant::ForgetDeadlines => self.forget("catalogue.deadlines", other, 1000),
            _ => None,
        }
    }

    fn forget(&self, space: &str, mut append: Append, permille: u64) -> Option<Option<Append>> {
        let count = append.rows.len();
        append.rows.retain(|row| &*row.space != space || row.value.is_none());
        (append.rows.len() < count && self.dice.permille(permille)).then_some(Some(append))
    }

    /// A receipt for what was not written.
    fn invented(&self, append: &Append) -> Committed {
        let last = answer(self.disk.memory().last_position()).expect("the memory is never closed");
        let streams = append.streams.iter().map(|part| Landed {
            first_sequence: part.expected_tail,
            last_sequence: part.expected_tail + part.records.len() as u64 - 1,
            first_position: last + 1,
        });
        Committed { streams: streams.collect() }
    }

    fn swap(&self, fresh: &mut [FeedRecord]) {
        let different = fresh.windows(2).position(|pair| pair[0].stream != pair[1].stream);
        if let Some(place) = different
            && self.disk.strikes(Mutant::SwapFeed, 3)
        {
            let positions = [fresh[place].record.position, fresh[place + 1].record.position];
            fresh.swap(place, place + 1);
            fresh[place].record.position = positions[0];
            fresh[place + 1].record.position = positions[1];
            self.trace.log("store lied");
        }
    }

    /// Calls the observer for the one queued append, and then takes long to write it.
    async fn observe_early(&self) -> bool {
        let fresh = {
            let line = lock(&self.line);
            let [one] = line.as_slices().0 else { return false };
            let [part] = &*one.append.streams else { return false };
            let tail = answer(self.disk.memory().tail(&part.stream)).ok().flatten();
            if tail.is_none_or(|tail| tail.next_sequence != part.expected_tail) {
                return false;
            }
            let last = answer(self.disk.memory().last_position()).unwrap_or(0);
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
            observer.committed(&fresh);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        true
    }

    /// A look at what is stored, perhaps a little later, perhaps refused.
    fn look<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&MemoryStore) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let faults = self.faults();
        let fails = self.dice.permille(faults.read);
        let late = if faults.write_ms > 0 && self.dice.permille(200) { 1 + self.dice.below(3) } else { 0 };
        let inner = self.clone();
        Box::pin(async move {
            if late > 0 {
                tokio::time::sleep(Duration::from_millis(late)).await;
            }
            if inner.is_cut() {
                return Err(fault(FaultKind::Closed));
            }
            if fails {
                inner.trace.count(|counts| counts.faults += 1);
                return Err(fault(FaultKind::Io));
            }
            let answer = look(&inner.disk.memory());
            answer.await
        })
    }

    fn bound(&self, bound: ReadBound) -> ReadBound {
        match self.disk.mutant {
            Some(Mutant::IgnoreBound) => ReadBound { count: usize::MAX, bytes: usize::MAX },
            _ => bound,
        }
    }
}

/// The memory answers at once.
pub fn answer<T, E>(answer: Answer<T, E>) -> Result<T, E> {
    answer.now_or_never().expect("the memory answers at once")
}

impl Store for FaultStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        assert!(self.0.observer.set(observer).is_ok(), "a store has one observer, set once");
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        if self.0.is_cut() {
            return Box::pin(ready(Err(fault(FaultKind::Closed).into())));
        }
        if self.0.dice.permille(self.0.faults().refuse) {
            self.0.trace.count(|counts| counts.faults += 1);
            self.0.trace.log("store refuses an append");
            return Box::pin(ready(Err(fault(FaultKind::Busy).into())));
        }
        let (sender, answer) = oneshot::channel();
        lock(&self.0.line).push_back(Waiting { append, answer: sender });
        self.0.more.notify_one();
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(fault(FaultKind::Closed).into())) })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        let (stream, bound) = (stream.clone(), self.0.bound(bound));
        self.0.look(move |memory| memory.read(&stream, from, bound))
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        let bound = self.0.bound(bound);
        self.0.look(move |memory| memory.read_feed(from, bound))
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        let stream = stream.clone();
        let tail = self.0.look(move |memory| memory.tail(&stream));
        if self.0.disk.mutant != Some(Mutant::WrongHead) {
            return tail;
        }
        Box::pin(async move { Ok(tail.await?.map(|tail| Tail { head: ChainValue([7; 32]), ..tail })) })
    }

    fn last_position(&self) -> Answer<u64> {
        self.0.look(MemoryStore::last_position)
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.0.look(move |memory| memory.streams(after, limit))
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        let (space, key) = (space.to_owned(), key.to_owned());
        self.0.look(move |memory| memory.row(&space, &key))
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.0.look(move |memory| memory.rows(range))
    }

    fn close(&self) -> Answer<()> {
        let inner = self.0.clone();
        Box::pin(async move {
            inner.cut.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    forward_store!(self, |call| call(&*self.0.disk.memory()); put_blob, blob, remove_blob, blobs, integrity, backup, stats);
}
