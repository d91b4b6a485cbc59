//! A store in memory that outlives the engine on it, as a disk would.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, FeedRecord, Integrity, MemoryStore, Observer, ReadBound, Record,
    Row, RowRange, Stats, Store, StreamKey, Tail,
};

/// What stays.
pub(crate) struct Disk {
    memory: MemoryStore,
    /// Whoever has the store open.
    observer: Arc<Relay>,
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
        let disk = Disk { memory: MemoryStore::new(), observer: Arc::default() };
        disk.memory.observe(disk.observer.clone());
        Arc::new(disk)
    }
}

/// The disk as one engine has it.
pub(crate) struct Opened(pub(crate) Arc<Disk>);

impl Store for Opened {
    fn observe(&self, observer: Arc<dyn Observer>) {
        *self.0.observer.0.lock().unwrap() = Some(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        self.0.memory.append(append)
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        self.0.memory.read(stream, from, bound)
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.0.memory.read_feed(from, bound)
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        self.0.memory.tail(stream)
    }

    fn last_position(&self) -> Answer<u64> {
        self.0.memory.last_position()
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.0.memory.streams(after, limit)
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        self.0.memory.row(space, key)
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.0.memory.rows(range)
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        self.0.memory.put_blob(bytes)
    }

    fn blob(&self, hash: &str) -> Answer<Option<Bytes>> {
        self.0.memory.blob(hash)
    }

    fn remove_blob(&self, hash: &str) -> Answer<()> {
        self.0.memory.remove_blob(hash)
    }

    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>> {
        self.0.memory.blobs(after, limit)
    }

    fn integrity(&self) -> Answer<Integrity> {
        self.0.memory.integrity()
    }

    fn backup(&self, to: PathBuf) -> Answer<()> {
        self.0.memory.backup(to)
    }

    fn stats(&self) -> Answer<Stats> {
        self.0.memory.stats()
    }

    fn close(&self) -> Answer<()> {
        // The disk outlives who had it open.
        Box::pin(async { Ok(()) })
    }
}
