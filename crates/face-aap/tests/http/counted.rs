//! A store in memory that notes each append: what a turn waits for one after the other.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_event::codec;
use recount_log::{
    Answer, Append, AppendError, Committed, FeedRecord, Integrity, MemoryStore, Observer, ReadBound, Record,
    Row, RowRange, Stats, Store, StreamKey, Tail,
};

#[derive(Default)]
pub(crate) struct Counted {
    store: MemoryStore,
    /// The types of the events of each append.
    appends: Mutex<Vec<Vec<String>>>,
}

impl Counted {
    /// The appends since this was asked last.
    pub(crate) fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.appends.lock().unwrap())
    }
}

impl Store for Counted {
    fn observe(&self, observer: Arc<dyn Observer>) {
        self.store.observe(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let records = append.streams.iter().flat_map(|stream| &stream.records);
        let types = records.map(|bytes| codec::decode(bytes).unwrap().type_name().to_owned());
        self.appends.lock().unwrap().push(types.collect());
        self.store.append(append)
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        self.store.read(stream, from, bound)
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.store.read_feed(from, bound)
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        self.store.tail(stream)
    }

    fn last_position(&self) -> Answer<u64> {
        self.store.last_position()
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.store.streams(after, limit)
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        self.store.row(space, key)
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.store.rows(range)
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        self.store.put_blob(bytes)
    }

    fn blob(&self, hash: &str) -> Answer<Option<Bytes>> {
        self.store.blob(hash)
    }

    fn remove_blob(&self, hash: &str) -> Answer<()> {
        self.store.remove_blob(hash)
    }

    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>> {
        self.store.blobs(after, limit)
    }

    fn integrity(&self) -> Answer<Integrity> {
        self.store.integrity()
    }

    fn backup(&self, to: PathBuf) -> Answer<()> {
        self.store.backup(to)
    }

    fn stats(&self) -> Answer<Stats> {
        self.store.stats()
    }

    fn close(&self) -> Answer<()> {
        self.store.close()
    }
}
