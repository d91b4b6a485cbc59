//! A store in memory that outlives the engine on it, as a disk would; that remembers every byte it was ever given; and
//! that can fall still in the middle of what it does, as it would when the process is killed there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_event::RunId;
use recount_log::{
    Answer, Append, AppendError, Committed, Damage, Fault, FaultKind, FeedRecord, MemoryStore, Observer,
    ReadBound, Record, Retry, Store, StreamKey, forward_store,
};
use tokio::sync::watch;

use crate::runs::faults::{self, Failure, Faults};

/// What stays.
pub(crate) struct Disk {
    memory: MemoryStore,
    /// The process that has the store open.
    observer: Arc<Relay>,
    /// All that was ever to be kept: events, rows, blobs.
    tape: Mutex<Vec<u8>>,
    /// The events of each append, in order.
    appends: Mutex<Vec<Vec<Bytes>>>,
    fall: Mutex<Option<Fall>>,
    has_fallen: watch::Sender<bool>,
    unreadable: Mutex<Option<Unreadable>>,
    pub(crate) faults: Faults,
}

/// One run that cannot be read.
#[derive(Debug, Clone)]
pub(crate) enum Unreadable {
    /// Its events from a sequence on are damaged.
    Damaged(RunId, u64),
    /// The next reads of it, so many, fail as a busy store fails them.
    Busy(RunId, usize),
}

/// When the process dies: with an append of events.
#[derive(Debug, Clone)]
pub(crate) struct Fall {
    pub(crate) at: At,
    /// Whether the append itself was still made, and only nobody heard of it.
    pub(crate) kept: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum At {
    /// The n-th from now, from 1.
    Append(usize),
    /// The first with an event of this type.
    Type(&'static str),
}

#[derive(Default)]
struct Relay(Mutex<Option<Arc<dyn Observer>>>);

impl Observer for Relay {
    fn committed(&self, records: &[FeedRecord]) {
        let observer = self.0.lock().unwrap().clone();
        if let Some(observer) = observer {
            observer.committed(records);
        }
    }
}

impl Disk {
    pub(crate) fn new() -> Arc<Self> {
        let disk = Disk {
            memory: MemoryStore::new(),
            observer: Arc::default(),
            tape: Mutex::default(),
            appends: Mutex::default(),
            fall: Mutex::default(),
            has_fallen: watch::Sender::new(false),
            unreadable: Mutex::default(),
            faults: Faults::default(),
        };
        disk.memory.observe(disk.observer.clone());
        Arc::new(disk)
    }

    pub(crate) fn fall(&self, fall: Fall) {
        self.has_fallen.send_replace(false);
        *self.fall.lock().unwrap() = Some(fall);
    }

    /// Returns when it has fallen still.
    pub(crate) async fn fallen(&self) {
        self.has_fallen.subscribe().wait_for(|fallen| *fallen).await.map(drop).unwrap();
    }

    /// Whether these bytes were ever to be kept, in whatever event, row or blob.
    pub(crate) fn has_seen(&self, bytes: &str) -> bool {
        memchr::memmem::find(&self.tape.lock().unwrap(), bytes.as_bytes()).is_some()
    }

    /// Whether anything is stored apart from the log.
    pub(crate) async fn has_blobs(&self) -> bool {
        !self.memory.blobs(None, 1).await.unwrap().is_empty()
    }

    /// The events of each append so far; each of these was waited for.
    pub(crate) fn appends(&self) -> Vec<Vec<Bytes>> {
        self.appends.lock().unwrap().clone()
    }

    /// From now on one run cannot be read; `None`: everything can.
    pub(crate) fn unreadable(&self, unreadable: Option<Unreadable>) {
        *self.unreadable.lock().unwrap() = unreadable;
    }

    /// How many reads are left to fail.
    pub(crate) fn busy_reads_left(&self) -> usize {
        match &*self.unreadable.lock().unwrap() {
            Some(Unreadable::Busy(_, left)) => *left,
            _ => 0,
        }
    }

    /// Why a run cannot be read from a sequence on, or the first sequence that cannot be read.
    fn readable(&self, stream: &StreamKey, from: u64) -> Result<u64, Fault> {
        match &mut *self.unreadable.lock().unwrap() {
            Some(Unreadable::Damaged(run, first)) if **stream == *run.to_string() => {
                let (stream, sequences) = (Some(stream.clone()), Some(*first..=*first + 1_000));
                let damage = Damage { stream, sequences, positions: None };
                if from >= *first { Err(Fault::damaged(damage)) } else { Ok(*first) }
            }
            Some(Unreadable::Busy(run, left)) if **stream == *run.to_string() && *left > 0 => {
                *left -= 1;
                Err(Fault::new(FaultKind::Busy, Retry::Maybe, "the store is busy"))
            }
            _ => Ok(u64::MAX),
        }
    }

    /// Whether this append is the one to fall with. Answers whether it is kept.
    fn falls(&self, append: &Append) -> Option<bool> {
        if append.streams.is_empty() {
            return None;
        }
        let mut fall = self.fall.lock().unwrap();
        let is_it = match &mut fall.as_mut()?.at {
            At::Append(left) => {
                *left -= 1;
                *left == 0
            }
            At::Type(name) => {
                let sign = format!("\"type\":\"{name}\"");
                let mut records = append.streams.iter().flat_map(|stream| &stream.records);
                records.any(|record| memchr::memmem::find(record, sign.as_bytes()).is_some())
            }
        };
        if is_it { fall.take().map(|fall| fall.kept) } else { None }
    }

    /// Appends as the disk allows.
    fn written(self: &Arc<Self>, append: Append) -> Answer<Committed, AppendError> {
        let (delay, failure) = self.faults.next();
        if delay.is_zero() && failure.is_none() {
            return self.memory.append(append);
        }
        let disk = self.clone();
        Box::pin(async move {
            faults::take(delay).await;
            match failure {
                None => disk.memory.append(append).await,
                Some(failure) => {
                    if failure == Failure::Sync {
                        disk.memory.append(append).await?;
                    }
                    Err(failure.fault().into())
                }
            }
        })
    }

    fn note(&self, append: &Append) {
        let events = append.streams.iter().flat_map(|stream| stream.records.clone()).collect();
        self.appends.lock().unwrap().push(events);
        let mut tape = self.tape.lock().unwrap();
        for record in append.streams.iter().flat_map(|stream| &stream.records) {
            tape.extend_from_slice(record);
        }
        for row in &append.rows {
            tape.extend_from_slice(row.key.as_bytes());
            tape.extend_from_slice(row.value.as_deref().unwrap_or_default());
        }
    }
}

/// The disk as one engine has it.
pub(crate) struct Opened {
    disk: Arc<Disk>,
    /// Of a process that is dead nothing comes any more.
    is_dead: AtomicBool,
}

impl Opened {
    pub(crate) fn new(disk: &Arc<Disk>) -> Self {
        Opened { disk: disk.clone(), is_dead: AtomicBool::new(false) }
    }
}

impl Store for Opened {
    fn observe(&self, observer: Arc<dyn Observer>) {
        *self.disk.observer.0.lock().unwrap() = Some(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        if self.is_dead.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.disk.note(&append);
        let Some(kept) = self.disk.falls(&append) else { return self.disk.written(append) };
        self.is_dead.store(true, Ordering::SeqCst);
        let disk = self.disk.clone();
        Box::pin(async move {
            if kept {
                disk.memory.append(append).await?;
            }
            disk.has_fallen.send_replace(true);
            std::future::pending().await
        })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        let (read, readable) = (self.disk.memory.read(stream, from, bound), self.disk.readable(stream, from));
        Box::pin(async move {
            let first = readable?;
            let mut records = read.await?;
            records.retain(|record| record.sequence < first);
            Ok(records)
        })
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        self.disk.tape.lock().unwrap().extend_from_slice(&bytes);
        let (delay, failure) = self.disk.faults.next_blob();
        let disk = self.disk.clone();
        Box::pin(async move {
            faults::take(delay).await;
            match failure {
                None => disk.memory.put_blob(bytes).await,
                Some(failure) => Err(failure.fault()),
            }
        })
    }

    fn close(&self) -> Answer<()> {
        // The disk outlives who had it open.
        Box::pin(async { Ok(()) })
    }

    forward_store!(self, |call| call(&self.disk.memory); read_feed, tail, last_position, streams, row, rows, blob, remove_blob, blobs, integrity, backup, stats);
}
