//! The store as the engine holds it: the same, and it is noted when there was no space, and what hardly ever changes is
//! not asked for again and again. See [`Metered`].

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, End, FaultKind, FeedRecord, Framed, Framing, Integrity, Observer,
    ReadBound, Record, Row, RowRange, Stats, Store, StreamKey, Tail,
};

use crate::meters::Meters;
use crate::remembered::{Became, Look, Remembered};
use crate::writer::may_have_happened;

/// Hands everything on to the store beneath.
pub(crate) struct Metered {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) remembered: Arc<Remembered>,
}

impl Store for Metered {
    fn observe(&self, observer: Arc<dyn Observer>) {
        self.store.observe(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let (remembered, meters) = (self.remembered.clone(), self.meters.clone());
        let changing = remembered.change(&append);
        let is_ordinary = !append.may_use_reserve();
        let answer = self.store.append(append);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(committed) => {
                    let place = committed.streams.first().map(|landed| landed.first_position);
                    remembered.changed(changing, Became::Landed(place));
                }
                Err(error) if !may_have_happened(error) => remembered.changed(changing, Became::Nothing),
                Err(_) => {}
            }
            match &answer {
                // What may use the reserve says nothing of those that may not.
                Ok(_) if is_ordinary => meters.had_space(true),
                Err(AppendError::Fault(fault)) if fault.kind == FaultKind::Full => meters.had_space(false),
                Ok(_) | Err(_) => {}
            }
            answer
        })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        self.store.read(stream, from, bound)
    }

    fn read_framed(
        &self,
        stream: &StreamKey,
        from: u64,
        bound: ReadBound,
        framing: Arc<dyn Framing>,
    ) -> Answer<Option<Framed>> {
        self.store.read_framed(stream, from, bound, framing)
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.store.read_feed(from, bound)
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        self.store.tail(stream)
    }

    fn end(&self, stream: &StreamKey) -> Answer<Option<End>> {
        self.store.end(stream)
    }

    fn last_position(&self) -> Answer<u64> {
        self.store.last_position()
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.store.streams(after, limit)
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        let reading = match self.remembered.look(space, key) {
            Look::Known(row) => return Box::pin(std::future::ready(Ok(row))),
            Look::Unknown(reading) => reading,
            Look::Passing => return self.store.row(space, key),
        };
        let (answer, remembered) = (self.store.row(space, key), self.remembered.clone());
        Box::pin(async move {
            let row = answer.await?;
            remembered.keep(reading, row.clone());
            Ok(row)
        })
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

    fn space(&self) -> Answer<()> {
        self.store.space()
    }

    fn close(&self) -> Answer<()> {
        self.store.close()
    }
}
