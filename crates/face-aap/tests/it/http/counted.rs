//! A store in memory that notes each append: what a turn waits for one after the other.

use std::sync::Mutex;

use recount_event::codec;
use recount_log::{Answer, Append, AppendError, Committed, MemoryStore, Store, forward_store};

#[derive(Default)]
pub(crate) struct Counted {
    store: MemoryStore,
    /// The types of the events of each append.
    appends: Mutex<Vec<Vec<String>>>,
}

impl Counted {
    /// The appends since the last call.
    pub(crate) fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.appends.lock().unwrap())
    }
}

impl Store for Counted {
    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let records = append.streams.iter().flat_map(|stream| &stream.records);
        let types = records.map(|bytes| codec::decode(bytes).unwrap().type_name().to_owned());
        self.appends.lock().unwrap().push(types.collect());
        self.store.append(append)
    }

    forward_store!(self, |call| call(&self.store); observe, read, read_feed, tail, last_position, streams, row, rows, put_blob, blob, remove_blob, blobs, integrity, backup, stats, is_owner, close);
}
