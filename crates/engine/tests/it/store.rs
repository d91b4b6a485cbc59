//! The store in memory, with hands on it: appends that fail, wait or panic, and commits told late.
//!
//! A [`Handle`] is what one engine holds; the next engine gets another one on the same memory, and the old
//! one answers nothing but that it is closed. Start at [`Fate`].

use std::collections::{BTreeSet, VecDeque};
use std::future::ready;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_event::RunId;
use recount_log::{
    Answer, Append, AppendError, Committed, Damage, DamagedRow, Fault, FaultKind, FeedRecord, Guard,
    MemoryStore, Observer, ReadBound, Record, Retry, Row, RowPut, RowRange, RowRepair, Store, StreamKey,
    WholeRows, forward_store,
};
use tokio::sync::oneshot;

/// What becomes of one append.
pub(crate) enum Fate {
    Pass,
    /// Nothing happens, and this is said.
    Refuse(FaultKind),
    /// It happens, and failure is said.
    LoseAnswer,
    /// It happens, nobody is told, and failure is said.
    LandUnheard,
    /// The writer that asked dies.
    Panic,
    /// It happens, and who asked is never answered.
    NeverAnswer,
    /// It happens, and the writer that asked dies before it hears of it.
    PanicAfter,
    /// It happens when this is sent.
    Hold(oneshot::Receiver<()>),
    /// Nothing happens, and failure is said when this is sent.
    FailLate(oneshot::Receiver<()>),
    /// It happens, everybody hears of it, and who asked is answered when this is sent.
    AnswerLate(oneshot::Receiver<()>),
    /// It is there for those who read, and told to the observer only when this is sent.
    TellLate(oneshot::Receiver<()>),
}

/// What outlives an engine.
pub(crate) struct Disk {
    pub(crate) memory: Arc<MemoryStore>,
    relay: Arc<Relay>,
    /// Rows that count as damaged: space and key.
    damaged: Mutex<BTreeSet<(String, String)>>,
    /// Events that count as damaged, of each run.
    damaged_events: Mutex<Vec<(StreamKey, RangeInclusive<u64>)>>,
    /// How many rows each repair wrote anew.
    repairs: Mutex<Vec<usize>>,
    /// The most rows that were asked for at once.
    widest: AtomicUsize,
}

#[derive(Default)]
struct Relay {
    observer: Mutex<Option<Arc<dyn Observer>>>,
    held: Mutex<Option<Vec<Vec<FeedRecord>>>>,
}

impl Observer for Relay {
    fn committed(&self, records: &[FeedRecord]) {
        if let Some(held) = self.held.lock().unwrap().as_mut() {
            held.push(records.to_vec());
            return;
        }
        let observer = self.observer.lock().unwrap().clone();
        if let Some(observer) = observer {
            observer.committed(records);
        }
    }
}

impl Relay {
    fn tell_held(&self) {
        let held = self.held.lock().unwrap().take().unwrap_or_default();
        for records in held {
            self.committed(&records);
        }
    }
}

impl Disk {
    pub(crate) fn new() -> Arc<Self> {
        let disk = Disk {
            memory: Arc::new(MemoryStore::new()),
            relay: Arc::default(),
            damaged: Mutex::default(),
            damaged_events: Mutex::default(),
            repairs: Mutex::default(),
            widest: AtomicUsize::new(0),
        };
        disk.memory.observe(disk.relay.clone());
        Arc::new(disk)
    }

    /// From now on this row cannot be read, until it is repaired.
    pub(crate) fn damage(&self, space: &str, key: &str) {
        self.damaged.lock().unwrap().insert((space.to_owned(), key.to_owned()));
    }

    /// From now on these events of a run cannot be read.
    pub(crate) fn damage_events(&self, run: RunId, sequences: RangeInclusive<u64>) {
        self.damaged_events.lock().unwrap().push((run.to_string().into(), sequences));
    }

    /// What is readable of these events of a stream, or why nothing is.
    fn readable(&self, stream: &StreamKey, records: Vec<Record>) -> Result<Vec<Record>, Fault> {
        let Some(first) = records.first().map(|record| record.sequence) else { return Ok(records) };
        let damaged = self.damaged_events.lock().unwrap();
        let ranges = damaged.iter().filter(|(key, _)| key == stream).map(|(_, range)| range);
        let is_damaged = |sequence| ranges.clone().any(|range| range.contains(&sequence));
        if let Some(range) = ranges.clone().find(|range| range.contains(&first)) {
            let (stream, sequences) = (Some(stream.clone()), Some(first..=*range.end()));
            return Err(Fault::damaged(Damage { stream, sequences, positions: None }));
        }
        Ok(records.into_iter().take_while(|record| !is_damaged(record.sequence)).collect())
    }

    pub(crate) fn is_damaged(&self) -> bool {
        !self.damaged.lock().unwrap().is_empty()
    }

    /// How many rows each repair wrote anew, and the most rows that were asked for at once since this was asked last.
    pub(crate) fn repaired(&self) -> (Vec<usize>, usize) {
        (std::mem::take(&mut self.repairs.lock().unwrap()), self.widest.swap(0, Ordering::SeqCst))
    }

    fn damaged_rows(&self) -> Vec<DamagedRow> {
        let damaged = self.damaged.lock().unwrap();
        let row = |(space, key): &(String, String)| DamagedRow {
            space: Bytes::from(space.clone()),
            key: Bytes::from(key.clone()),
            before: None,
            after: None,
        };
        damaged.iter().map(row).collect()
    }

    async fn repair(&self, repair: RowRepair) -> Result<bool, Fault> {
        for row in &repair.rows {
            let end = self.memory.end(&row.stream).await?;
            if end.is_none_or(|end| end.erased || end.next_sequence != row.expected_tail) {
                return Ok(false);
            }
        }
        self.repairs.lock().unwrap().push(repair.rows.len());
        let name = |row: &DamagedRow| {
            let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            (text(&row.space), text(&row.key))
        };
        let gone: Vec<_> = repair.damaged.iter().map(name).collect();
        self.damaged.lock().unwrap().retain(|name| !gone.contains(name));
        let put = |space: Arc<str>, key: Arc<str>, value| RowPut { space, key, guard: Guard::Any, value };
        let gone = gone.into_iter().map(|(space, key)| put(space.into(), key.into(), None));
        self.memory.append(Append { rows: gone.collect(), ..Append::default() }).await.unwrap();
        let rows = repair.rows.into_iter().map(|row| put(row.space, row.key, Some(row.value)));
        self.memory.append(Append { rows: rows.collect(), ..Append::default() }).await.unwrap();
        Ok(true)
    }

    /// Writes a row as it is given.
    pub(crate) async fn put(&self, space: &str, key: &str, value: &str) {
        let (space, key, value) = (space.into(), key.into(), Some(Bytes::from(value.to_owned())));
        let row = RowPut { space, key, guard: Guard::Any, value };
        self.memory.append(Append { rows: vec![row], ..Append::default() }).await.unwrap();
    }

    /// All rows of a space, as text.
    pub(crate) async fn rows_of(&self, space: &str) -> Vec<String> {
        let range = RowRange {
            space: space.into(),
            prefix: "".into(),
            after: None,
            backwards: false,
            limit: usize::MAX,
        };
        let rows = self.memory.rows(range).await.unwrap();
        rows.iter().map(|row| format!("{} {}", row.key, String::from_utf8_lossy(&row.value))).collect()
    }

    /// All rows of the spaces whose name begins with `catalogue.`, as `fold_again` gives them.
    pub(crate) async fn catalogue(&self) -> std::collections::BTreeMap<(String, String), Bytes> {
        let mut found = std::collections::BTreeMap::new();
        for space in [
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
            "artifacts",
            "artifacts_listed",
            "run_artifacts",
            "task_artifacts",
            "artifact_changes",
            "blob_uses",
            "deadlines",
            "own_open",
        ] {
            let space = format!("catalogue.{space}");
            let range = RowRange {
                space: space.as_str().into(),
                prefix: "".into(),
                after: None,
                backwards: false,
                limit: usize::MAX,
            };
            for row in self.memory.rows(range).await.unwrap() {
                found.insert((space.clone(), row.key.to_string()), row.value);
            }
        }
        found
    }
}

/// What one engine holds.
pub(crate) struct Handle {
    disk: Arc<Disk>,
    fates: Mutex<VecDeque<Fate>>,
    closed: AtomicBool,
    reads_fail: AtomicBool,
    appends: AtomicUsize,
    reads: AtomicUsize,
}

impl Handle {
    pub(crate) fn new(disk: &Arc<Disk>) -> Arc<Self> {
        Arc::new(Handle {
            disk: disk.clone(),
            fates: Mutex::default(),
            closed: AtomicBool::new(false),
            reads_fail: AtomicBool::new(false),
            appends: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        })
    }

    /// Says what becomes of the appends to come; after these, all pass.
    pub(crate) fn next_appends(&self, fates: impl IntoIterator<Item = Fate>) {
        self.fates.lock().unwrap().extend(fates);
    }

    pub(crate) fn fail_reads(&self, fail: bool) {
        self.reads_fail.store(fail, Ordering::SeqCst);
    }

    pub(crate) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    pub(crate) fn count_appends_from_here(&self) {
        self.appends.store(0, Ordering::SeqCst);
    }

    /// How often anything was read of records and rows.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn cut(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn refusal(&self) -> Option<Fault> {
        if self.closed.load(Ordering::SeqCst) {
            return Some(Fault::new(FaultKind::Closed, Retry::Never, "the store was closed"));
        }
        let fail = self.reads_fail.load(Ordering::SeqCst);
        fail.then(|| Fault::new(FaultKind::Io, Retry::Maybe, "reading failed, as the test wants it"))
    }

    fn read_with<T: Send + 'static>(&self, read: impl FnOnce(&dyn Store) -> Answer<T>) -> Answer<T> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        match self.refusal() {
            Some(fault) => Box::pin(ready(Err(fault))),
            None => read(&*self.disk.memory),
        }
    }
}

fn damaged(space: &str, key: &str) -> Fault {
    Fault::new(
        FaultKind::Corrupt,
        Retry::Never,
        format!("row {space}/{key} is damaged, as the test wants it"),
    )
}

impl Store for Handle {
    fn observe(&self, observer: Arc<dyn Observer>) {
        *self.disk.relay.observer.lock().unwrap() = Some(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        if self.closed.load(Ordering::SeqCst) {
            let closed = Fault::new(FaultKind::Closed, Retry::Never, "the store was closed");
            return Box::pin(ready(Err(closed.into())));
        }
        let is_damaged = |put: &&RowPut| {
            let name = (put.space.to_string(), put.key.to_string());
            self.disk.damaged.lock().unwrap().contains(&name)
        };
        if let Some(put) = append.rows.iter().find(is_damaged) {
            return Box::pin(ready(Err(damaged(&put.space, &put.key).into())));
        }
        self.appends.fetch_add(1, Ordering::SeqCst);
        let (memory, relay) = (self.disk.memory.clone(), self.disk.relay.clone());
        // Not within the match: a panic there would hold the lock.
        let fate = self.fates.lock().unwrap().pop_front();
        match fate.unwrap_or(Fate::Pass) {
            Fate::Pass => memory.append(append),
            Fate::Refuse(kind) => {
                let fault = Fault::new(kind, Retry::Maybe, "refused, as the test wants it");
                Box::pin(ready(Err(fault.into())))
            }
            Fate::LoseAnswer => {
                let landed = memory.append(append);
                Box::pin(async move {
                    landed.await?;
                    Err(Fault::new(FaultKind::Io, Retry::Maybe, "the answer was lost").into())
                })
            }
            Fate::LandUnheard => {
                *relay.held.lock().unwrap() = Some(Vec::new());
                drop(memory.append(append));
                *relay.held.lock().unwrap() = None;
                Box::pin(ready(Err(Fault::new(FaultKind::Io, Retry::Maybe, "nothing was heard").into())))
            }
            Fate::NeverAnswer => {
                drop(memory.append(append));
                Box::pin(std::future::pending())
            }
            Fate::Panic => panic!("the append panics, as the test wants it"),
            Fate::PanicAfter => {
                drop(memory.append(append));
                panic!("the append panics when it has happened, as the test wants it")
            }
            Fate::Hold(go) => Box::pin(async move {
                let _sent_or_dropped = go.await;
                memory.append(append).await
            }),
            Fate::FailLate(go) => Box::pin(async move {
                let _sent_or_dropped = go.await;
                Err(Fault::new(FaultKind::Io, Retry::Maybe, "it failed late").into())
            }),
            Fate::AnswerLate(go) => {
                let landed = memory.append(append);
                Box::pin(async move {
                    let _sent_or_dropped = go.await;
                    landed.await
                })
            }
            Fate::TellLate(go) => {
                *relay.held.lock().unwrap() = Some(Vec::new());
                let landed = memory.append(append);
                Box::pin(async move {
                    let _sent_or_dropped = go.await;
                    relay.tell_held();
                    landed.await
                })
            }
        }
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        let records = self.read_with(|memory| memory.read(stream, from, bound));
        let (disk, stream) = (self.disk.clone(), stream.clone());
        Box::pin(async move { disk.readable(&stream, records.await?) })
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        match self.disk.damaged.lock().unwrap().contains(&(space.to_owned(), key.to_owned())) {
            true => Box::pin(ready(Err(damaged(space, key)))),
            false => self.read_with(|memory| memory.row(space, key)),
        }
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.disk.widest.fetch_max(range.limit, Ordering::SeqCst);
        let is_in =
            |(space, key): &&(String, String)| **space == *range.space && key.starts_with(&*range.prefix);
        match self.disk.damaged.lock().unwrap().iter().find(is_in) {
            Some((space, key)) => Box::pin(ready(Err(damaged(space, key)))),
            None => self.read_with(|memory| memory.rows(range)),
        }
    }

    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        self.disk.widest.fetch_max(range.limit, Ordering::SeqCst);
        let (space, disk) = (range.space.clone(), self.disk.clone());
        let rows = self.read_with(|memory| memory.rows(range));
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

    fn close(&self) -> Answer<()> {
        self.cut();
        Box::pin(ready(Ok(())))
    }

    forward_store!(self, |call| self.read_with(call);
        read_feed, tail, last_position, streams, blob, blobs, integrity, backup, stats);
    forward_store!(self, |call| call(&*self.disk.memory); put_blob, remove_blob);
}
