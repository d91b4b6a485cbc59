//! [`PostgresStore`]: passes calls to the writer or to the connections for reads.
//!
//! It must not know statements.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, DamagedRow, End, Fault, FaultKind, FeedRecord, Integrity,
    Observer, ReadBound, Record, Retry, Row, RowRange, RowRepair, Stats, Store, StreamKey, Tail, WholeRows,
    admit_blob,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::core::Core;
use crate::fault::{busy, closed, corrupt, stopped};
use crate::queue::{Job, Task};
use crate::{blobs, examine, limits, rows, streams};

/// A store in a PostgreSQL database, owned by this process. Dropping it finishes what was accepted; the lease of the node
/// then still holds the store until [`Store::close`] or [`crate::Database::close`].
pub struct PostgresStore {
    core: Arc<Core>,
    closing: AtomicBool,
    calls: Arc<Semaphore>,
    /// Bytes of blobs, in KiB.
    blob_kibibytes: Arc<Semaphore>,
    /// Closes when the writer has ended.
    ended: watch::Receiver<()>,
}

impl PostgresStore {
    pub(crate) fn new(core: Arc<Core>, ended: watch::Receiver<()>) -> Self {
        PostgresStore {
            core,
            closing: AtomicBool::new(false),
            calls: Arc::new(Semaphore::new(limits::CALLS_MAX)),
            blob_kibibytes: Arc::new(Semaphore::new(limits::BLOB_BYTES_WAITING_MAX >> 10)),
            ended,
        }
    }

    /// Starts a call. It is started now, not when the answer is awaited.
    fn call<T, F>(&self, work: impl FnOnce(Arc<Core>) -> F) -> Answer<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.call_holding(None, work)
    }

    fn call_holding<T, F>(
        &self,
        held: Option<OwnedSemaphorePermit>,
        work: impl FnOnce(Arc<Core>) -> F,
    ) -> Answer<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        if self.closing.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(closed())));
        }
        if self.core.is_unsettled.load(Ordering::SeqCst) {
            let message = "whether the last appends were committed is not known yet, because the database does not respond; \
                           try again shortly";
            return Box::pin(ready(Err(Fault::new(FaultKind::Io, Retry::Maybe, message))));
        }
        let Ok(slot) = self.calls.clone().try_acquire_owned() else {
            let message =
                format!("{} calls of the store are in progress; try again shortly", limits::CALLS_MAX);
            return Box::pin(ready(Err(busy(message))));
        };
        let work = work(self.core.clone());
        let (sender, receiver) = oneshot::channel();
        self.core.node.spawn(async move {
            let result = work.await;
            drop((slot, held));
            // The caller may have stopped waiting.
            drop(sender.send(result));
        });
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(stopped())) })
    }

    fn enqueue(&self, append: Append) -> Result<oneshot::Receiver<Result<Committed, AppendError>>, Fault> {
        let bytes = append.admit()?;
        let (result, receiver) = oneshot::channel();
        let job = Job { append, since: recount_world::moment(), result };
        self.core.queue.push(Task::Append(job), bytes)?;
        Ok(receiver)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.core.queue.close();
    }
}

impl Store for PostgresStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        assert!(self.core.observer.set(observer).is_ok(), "a store has one observer, set once");
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let receiver = self.enqueue(append);
        Box::pin(async move {
            let lost = || {
                let message = "the writer stopped before it responded; the append may have happened; read the stream \
                     to find out";
                AppendError::Fault(Fault::new(FaultKind::Io, Retry::Never, message))
            };
            receiver?.await.unwrap_or_else(|_| Err(lost()))
        })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        let stream = stream.clone();
        self.call(move |core| async move { core.reading().stream(&stream, from, bound).await })
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.call(move |core| async move { core.reading().feed(from, bound).await })
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        let stream = stream.clone();
        self.call(move |core| async move { core.reading().tail(&stream).await })
    }

    fn end(&self, stream: &StreamKey) -> Answer<Option<End>> {
        let stream = stream.clone();
        self.call(move |core| async move {
            let found = streams::find(core.readers(), &core.sql, &stream).await?;
            Ok(found.map(|state| state.end()))
        })
    }

    fn last_position(&self) -> Answer<u64> {
        if self.closing.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(closed())));
        }
        Box::pin(ready(Ok(self.core.last_position.load(Ordering::SeqCst))))
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.call(move |core| async move {
            streams::list(core.readers(), &core.sql, after.as_deref(), limit).await
        })
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        let (space, key) = (space.to_owned(), key.to_owned());
        self.call(move |core| async move { rows::row(core.readers(), &core.sql, &space, &key).await })
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.call(move |core| async move {
            let WholeRows { rows, damaged } = rows::range(core.readers(), &core.sql, &range).await?;
            match damaged.first() {
                None => Ok(rows),
                Some(row) => Err(corrupt(format!("row {row} does not match its checksum"))),
            }
        })
    }

    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        self.call(move |core| async move { rows::range(core.readers(), &core.sql, &range).await })
    }

    fn damaged_rows(&self) -> Answer<Vec<DamagedRow>> {
        self.call(move |core| async move { rows::damaged_rows(core.readers(), &core.sql).await })
    }

    fn repair_rows(&self, repair: RowRepair) -> Answer<bool> {
        let (result, done) = oneshot::channel();
        let bytes = repair.bytes();
        let queued = self.core.queue.push(Task::Repair(repair, result), bytes);
        Box::pin(async move {
            queued?;
            done.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        if let Err(fault) = admit_blob(bytes.len()) {
            return Box::pin(ready(Err(fault)));
        }
        let size = u32::try_from(bytes.len() >> 10).unwrap_or(u32::MAX);
        let Ok(held) = self.blob_kibibytes.clone().try_acquire_many_owned(size) else {
            let message = "too many bytes of blobs are being stored; try again shortly";
            return Box::pin(ready(Err(busy(message))));
        };
        self.call_holding(Some(held), move |core| async move {
            blobs::put(core.readers(), &core.sql, &core.owner(), &bytes).await
        })
    }

    fn blob(&self, hash: &str) -> Answer<Option<Bytes>> {
        let hash = hash.to_owned();
        self.call(move |core| async move { blobs::get(core.readers(), &core.sql, &hash).await })
    }

    fn remove_blob(&self, hash: &str) -> Answer<()> {
        let hash = hash.to_owned();
        self.call(
            move |core| async move { blobs::remove(core.readers(), &core.sql, &core.owner(), &hash).await },
        )
    }

    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>> {
        self.call(
            move |core| async move { blobs::list(core.readers(), &core.sql, after.as_deref(), limit).await },
        )
    }

    fn integrity(&self) -> Answer<Integrity> {
        self.call(move |core| async move { examine::examine(&core).await })
    }

    fn backup(&self, to: PathBuf) -> Answer<()> {
        self.call(move |core| async move {
            let message = format!(
                "cannot copy store {:?} to {}: it is in PostgreSQL; use pg_dump for a copy, or pg_basebackup and archived \
                 WAL for point-in-time recovery",
                core.name(),
                to.display()
            );
            Err(Fault::new(FaultKind::Unsupported, Retry::Never, message))
        })
    }

    fn stats(&self) -> Answer<Stats> {
        self.call(move |core| async move {
            let readers = core.readers();
            let counters = readers.query("reading the counters", &core.sql.counters, &[&core.name()]).await?;
            let schema = core.sql.schema.trim_matches('"');
            let size = readers.query("reading the size of the store", &core.sql.size, &[&schema]).await?;
            let number = |column: usize| {
                counters.first().map_or(0, |row| row.get::<_, i64>(column).max(0).cast_unsigned())
            };
            let mut stats = Stats {
                last_position: number(2),
                streams: number(3),
                hot_records: number(4),
                hot_bytes: number(5),
                database_bytes: size.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()),
                ..Stats::default()
            };
            core.meters.add_to(&mut stats);
            Ok(stats)
        })
    }

    fn space(&self) -> Answer<()> {
        let is_full = self.core.is_full.load(Ordering::Relaxed);
        let fault = || {
            let message = "the disk of the database is full; free some space on it, or prune";
            Fault::new(FaultKind::Full, Retry::Maybe, message)
        };
        Box::pin(ready(if is_full { Err(fault()) } else { Ok(()) }))
    }

    fn is_owner(&self) -> bool {
        self.core.node.lease().allows_effect(self.core.queue.is_closed())
    }

    fn close(&self) -> Answer<()> {
        self.closing.store(true, Ordering::SeqCst);
        self.core.queue.close();
        let mut ended = self.ended.clone();
        Box::pin(async move {
            // Nothing is ever sent: the channel closes when the writer has given the store back.
            while ended.changed().await.is_ok() {}
            Ok(())
        })
    }
}
