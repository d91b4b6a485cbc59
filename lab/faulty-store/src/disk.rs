//! The state that outlives the processes that open a store: the wrapped store, its damage, and a recording.
//!
//! Start at [`Disk`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, Damage, DamagedRow, Fault, FaultKind, FeedRecord, Guard,
    MemoryStore, Observer, Record, Retry, RowPut, RowRange, RowRepair, Store, StreamKey,
};
use tokio::sync::{oneshot, watch};

use super::lock;
use super::write_faults::{WriteFailure, WriteFaults};

/// The spaces of the catalogue's rows, after `catalogue.`.
pub const CATALOGUE_SPACES: [&str; 21] = [
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

/// A store that several processes open one after the other, each with its own [`super::FaultyStore`].
pub struct Disk {
    store: Mutex<Arc<dyn Store>>,
    pub(crate) relay: Arc<Relay>,
    /// Rows that count as damaged: space and key.
    damaged_rows: Mutex<BTreeSet<(String, String)>>,
    /// Events that count as damaged, of each stream.
    damaged_events: Mutex<Vec<(StreamKey, RangeInclusive<u64>)>>,
    /// The stream whose next reads fail as those of a busy store, and how many.
    busy: Mutex<Option<(StreamKey, usize)>>,
    /// How many rows each repair wrote.
    repairs: Mutex<Vec<usize>>,
    /// Maximum rows that were requested in one call.
    rows_requested_max: AtomicUsize,
    recording: Option<Mutex<Recording>>,
    crash: Mutex<Option<Crash>>,
    has_crashed: watch::Sender<bool>,
    /// Failures and delays of all writes.
    pub faults: WriteFaults,
    /// Whether processes that use the disk may believe that they own the store.
    pub(crate) is_owned: AtomicBool,
    /// Appends that never return.
    pub(crate) unanswered: Mutex<Vec<oneshot::Sender<Result<Committed, AppendError>>>>,
}

/// When the process dies: at an append of events.
#[derive(Debug, Clone)]
pub struct Crash {
    pub at: CrashAt,
    /// Whether the append itself is written, although it does not return.
    pub kept: bool,
}

#[derive(Debug, Clone)]
pub enum CrashAt {
    /// The n-th from now, from 1.
    Append(usize),
    /// The first with an event of this type.
    Type(&'static str),
}

/// Everything that was ever written, even if it was damaged or removed later.
#[derive(Default)]
struct Recording {
    /// The bytes of all events, rows and blobs.
    bytes: Vec<u8>,
    /// The events of each append, in order.
    appends: Vec<Vec<Bytes>>,
}

/// Passes commits on to the observer of the process that has the store open.
#[derive(Default)]
pub(crate) struct Relay {
    observer: Mutex<Option<Arc<dyn Observer>>>,
    held: Mutex<Option<Vec<Vec<FeedRecord>>>>,
}

impl Observer for Relay {
    fn committed(&self, records: &[FeedRecord]) {
        if let Some(held) = lock(&self.held).as_mut() {
            held.push(records.to_vec());
            return;
        }
        let observer = lock(&self.observer).clone();
        if let Some(observer) = observer {
            observer.committed(records);
        }
    }
}

impl Relay {
    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) {
        *lock(&self.observer) = Some(observer);
    }

    /// Holds commits back from now on.
    pub(crate) fn hold(&self) {
        *lock(&self.held) = Some(Vec::new());
    }

    pub(crate) fn discard_held(&self) {
        *lock(&self.held) = None;
    }

    pub(crate) fn pass_on_held(&self) {
        let held = lock(&self.held).take().unwrap_or_default();
        for records in held {
            self.committed(&records);
        }
    }
}

impl Disk {
    /// An empty store in memory.
    pub fn new() -> Arc<Self> {
        Self::of(Arc::new(MemoryStore::new()), None)
    }

    /// An empty store in memory, of which everything that is written is recorded.
    pub fn recording() -> Arc<Self> {
        Self::of(Arc::new(MemoryStore::new()), Some(Mutex::default()))
    }

    /// Wraps any store that is not observed yet.
    pub fn wrapping(store: Arc<dyn Store>) -> Arc<Self> {
        Self::of(store, None)
    }

    fn of(store: Arc<dyn Store>, recording: Option<Mutex<Recording>>) -> Arc<Self> {
        let relay = Arc::new(Relay::default());
        store.observe(relay.clone());
        Arc::new(Disk {
            store: Mutex::new(store),
            relay,
            damaged_rows: Mutex::default(),
            damaged_events: Mutex::default(),
            busy: Mutex::default(),
            repairs: Mutex::default(),
            rows_requested_max: AtomicUsize::new(0),
            recording,
            crash: Mutex::default(),
            has_crashed: watch::Sender::new(false),
            faults: WriteFaults::default(),
            is_owned: AtomicBool::new(true),
            unanswered: Mutex::default(),
        })
    }

    /// Sets whether processes that use the disk may believe that they own the store.
    pub fn set_owned(&self, is_owned: bool) {
        self.is_owned.store(is_owned, Ordering::SeqCst);
    }

    /// The wrapped store, without faults.
    pub fn store(&self) -> Arc<dyn Store> {
        lock(&self.store).clone()
    }

    /// Replaces the wrapped store, as by an older copy of it. The new one is not observed.
    pub fn replace(&self, store: Arc<dyn Store>) {
        *lock(&self.store) = store;
    }

    /// Writes a row without checks.
    pub async fn put(&self, space: &str, key: &str, value: &str) {
        let put = put(space.into(), key.into(), Some(Bytes::from(value.to_owned())));
        self.write_rows(vec![put]).await;
    }

    async fn write_rows(&self, rows: Vec<RowPut>) {
        let append = Append { rows, ..Append::default() };
        self.store().append(append).await.expect("the wrapped store takes rows without guards");
    }

    /// All rows of a space, as text.
    pub async fn rows_of(&self, space: &str) -> Vec<String> {
        let rows = self.rows_in(space).await;
        rows.iter().map(|row| format!("{} {}", row.key, String::from_utf8_lossy(&row.value))).collect()
    }

    /// All rows of the catalogue by space and key, as the engine computes them from the log.
    pub async fn catalogue(&self) -> BTreeMap<(String, String), Bytes> {
        let mut found = BTreeMap::new();
        for space in CATALOGUE_SPACES {
            let space = format!("catalogue.{space}");
            for row in self.rows_in(&space).await {
                found.insert((space.clone(), row.key.to_string()), row.value);
            }
        }
        found
    }

    async fn rows_in(&self, space: &str) -> Vec<recount_log::Row> {
        let range = RowRange::first(space, "", usize::MAX);
        self.store().rows(range).await.expect("the wrapped store can be read")
    }

    /// Whether these bytes were ever written, in any event, row or blob.
    pub fn has_seen(&self, bytes: &str) -> bool {
        memchr::memmem::find(&lock(self.recorded()).bytes, bytes.as_bytes()).is_some()
    }

    /// The events of each append so far, each of which has completed.
    pub fn appends(&self) -> Vec<Vec<Bytes>> {
        lock(self.recorded()).appends.clone()
    }

    fn recorded(&self) -> &Mutex<Recording> {
        self.recording.as_ref().expect("a test that reads the recording opens `Disk::recording`")
    }

    /// Whether the store has blobs.
    pub async fn has_blobs(&self) -> bool {
        !self.store().blobs(None, 1).await.expect("the wrapped store can be read").is_empty()
    }

    pub(crate) fn record_append(&self, append: &Append) {
        let Some(recording) = &self.recording else { return };
        let mut recording = lock(recording);
        let events: Vec<Bytes> =
            append.streams.iter().flat_map(|stream| stream.records.iter().cloned()).collect();
        events.iter().for_each(|event| recording.bytes.extend_from_slice(event));
        recording.appends.push(events);
        for row in &append.rows {
            recording.bytes.extend_from_slice(row.key.as_bytes());
            recording.bytes.extend_from_slice(row.value.as_deref().unwrap_or_default());
        }
    }

    /// Stores a blob as the disk allows.
    pub(crate) fn write_blob(self: &Arc<Self>, bytes: Bytes) -> Answer<String> {
        if let Some(recording) = &self.recording {
            lock(recording).bytes.extend_from_slice(&bytes);
        }
        let (outcome, store) = (self.faults.next_blob(), self.store());
        if outcome.is_plain() {
            return store.put_blob(bytes);
        }
        Box::pin(async move {
            outcome.wait().await;
            match outcome.failure {
                None => store.put_blob(bytes).await,
                Some(failure) => Err(failure.fault()),
            }
        })
    }

    /// Appends as the disk allows.
    pub(crate) fn write(&self, append: Append) -> Answer<Committed, AppendError> {
        let (outcome, store) = (self.faults.next(), self.store());
        if outcome.is_plain() {
            return store.append(append);
        }
        Box::pin(async move {
            outcome.wait().await;
            let Some(failure) = outcome.failure else { return store.append(append).await };
            if failure == WriteFailure::Sync {
                store.append(append).await?;
            }
            Err(failure.fault().into())
        })
    }

    /// The process that has the store open dies with an append from now on.
    pub fn crash_at(&self, crash: Crash) {
        self.has_crashed.send_replace(false);
        *lock(&self.crash) = Some(crash);
    }

    /// Returns when the process has died.
    pub async fn crashed(&self) {
        let mut has_crashed = self.has_crashed.subscribe();
        has_crashed.wait_for(|crashed| *crashed).await.map(drop).expect("the disk has the sender");
    }

    /// Whether the process dies with this append. Returns whether the append is kept.
    pub(crate) fn crashes_with(&self, append: &Append) -> Option<bool> {
        if append.streams.is_empty() {
            return None;
        }
        let mut crash = lock(&self.crash);
        let is_now = match &mut crash.as_mut()?.at {
            CrashAt::Append(left) => {
                *left -= 1;
                *left == 0
            }
            CrashAt::Type(name) => {
                let sign = format!("\"type\":\"{name}\"");
                let mut records = append.streams.iter().flat_map(|stream| &stream.records);
                records.any(|record| memchr::memmem::find(record, sign.as_bytes()).is_some())
            }
        };
        if is_now { crash.take().map(|crash| crash.kept) } else { None }
    }

    pub(crate) async fn die_with(&self, append: Append, kept: bool) -> Result<Committed, AppendError> {
        if kept {
            self.store().append(append).await?;
        }
        self.has_crashed.send_replace(true);
        std::future::pending().await
    }

    /// From now on this row cannot be read, until it is repaired.
    pub fn damage(&self, space: &str, key: &str) {
        lock(&self.damaged_rows).insert((space.to_owned(), key.to_owned()));
    }

    /// Whether any row is damaged.
    pub fn is_damaged(&self) -> bool {
        !lock(&self.damaged_rows).is_empty()
    }

    /// From now on these events of a stream cannot be read.
    pub fn damage_events(&self, stream: impl ToString, sequences: RangeInclusive<u64>) {
        lock(&self.damaged_events).push((stream.to_string().into(), sequences));
    }

    /// Makes all events readable again.
    pub fn restore_events(&self) {
        lock(&self.damaged_events).clear();
    }

    /// The next reads of a stream fail as those of a busy store.
    pub fn be_busy(&self, stream: impl ToString, reads: usize) {
        *lock(&self.busy) = Some((stream.to_string().into(), reads));
    }

    /// How many reads still fail as those of a busy store.
    pub fn busy_reads_left(&self) -> usize {
        lock(&self.busy).as_ref().map_or(0, |(_, left)| *left)
    }

    pub(crate) fn take_busy_read(&self, stream: &StreamKey) -> Result<(), Fault> {
        match &mut *lock(&self.busy) {
            Some((busy, left)) if busy == stream && *left > 0 => {
                *left -= 1;
                Err(Fault::new(FaultKind::Busy, Retry::Maybe, "the store is busy"))
            }
            _ => Ok(()),
        }
    }

    /// The readable ones of these records, up to the first damaged one; or the damage, if they begin with it.
    pub(crate) fn readable(&self, stream: &StreamKey, records: Vec<Record>) -> Result<Vec<Record>, Fault> {
        let Some(first) = records.first().map(|record| record.sequence) else { return Ok(records) };
        let damaged = lock(&self.damaged_events);
        let ranges = damaged.iter().filter(|(key, _)| key == stream).map(|(_, range)| range);
        let is_damaged = |sequence| ranges.clone().any(|range| range.contains(&sequence));
        if let Some(range) = ranges.clone().find(|range| range.contains(&first)) {
            let (stream, sequences) = (Some(stream.clone()), Some(first..=*range.end()));
            return Err(Fault::damaged(Damage { stream, sequences, positions: None }));
        }
        Ok(records.into_iter().take_while(|record| !is_damaged(record.sequence)).collect())
    }

    /// The fault of the first damaged row that `is_in` selects by space and key.
    pub(crate) fn row_damage(&self, is_in: impl Fn(&str, &str) -> bool) -> Option<Fault> {
        let damaged = lock(&self.damaged_rows);
        let (space, key) = damaged.iter().find(|(space, key)| is_in(space, key))?;
        let what = format!("row {space}/{key} is damaged, as the test demands");
        Some(Fault::new(FaultKind::Corrupt, Retry::Never, what))
    }

    pub(crate) fn damaged_rows(&self) -> Vec<DamagedRow> {
        let row = |(space, key): &(String, String)| DamagedRow {
            space: Bytes::from(space.clone()),
            key: Bytes::from(key.clone()),
            before: None,
            after: None,
        };
        lock(&self.damaged_rows).iter().map(row).collect()
    }

    pub(crate) async fn repair(&self, repair: RowRepair) -> Result<bool, Fault> {
        for row in &repair.rows {
            let end = self.store().end(&row.stream).await?;
            if end.is_none_or(|end| end.erased || end.next_sequence != row.expected_tail) {
                return Ok(false);
            }
        }
        lock(&self.repairs).push(repair.rows.len());
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let name = |row: &DamagedRow| (text(&row.space), text(&row.key));
        let removed: Vec<_> = repair.damaged.iter().map(name).collect();
        lock(&self.damaged_rows).retain(|name| !removed.contains(name));
        let removed = removed.into_iter().map(|(space, key)| put(space.into(), key.into(), None));
        self.write_rows(removed.collect()).await;
        let rows = repair.rows.into_iter().map(|row| put(row.space, row.key, Some(row.value)));
        self.write_rows(rows.collect()).await;
        Ok(true)
    }

    /// The number of rows that each repair wrote, and the maximum rows requested in one call, since the last call.
    pub fn take_repairs(&self) -> (Vec<usize>, usize) {
        (std::mem::take(&mut lock(&self.repairs)), self.rows_requested_max.swap(0, Ordering::SeqCst))
    }

    pub(crate) fn note_rows_requested(&self, limit: usize) {
        self.rows_requested_max.fetch_max(limit, Ordering::SeqCst);
    }
}

fn put(space: Arc<str>, key: Arc<str>, value: Option<Bytes>) -> RowPut {
    RowPut { space, key, guard: Guard::Any, value }
}
