//! What every store does: the [`Store`] trait, and the two traits that its callers implement.
//!
//! It must not know how anything is stored. See the head of the crate for the contract.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::fault::{AppendError, Damage, DroppedEnd, Fault};
use crate::values::{
    Append, Committed, DamagedRow, End, FeedRecord, Guard, Integrity, PageWriter, ReadBound, Record,
    RecordPage, Row, RowPut, RowRange, RowRepair, Stats, StreamKey, Tail, WholeRows,
};

/// What a store answers with; boxed so that stores can be chosen while the program runs.
pub type Answer<T, E = Fault> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'static>>;

/// Called for every commit that has records, in commit order, after it is durable. A store may commit
/// several appends at once; their records then come together, in position order. Called on the
/// store's writer: be quick, never wait. Panics here are bugs and stop the store.
pub trait Observer: Send + Sync + 'static {
    fn committed(&self, records: &[FeedRecord]);
}

/// A store of streams, rows and blobs. See the crate's head for the contract.
pub trait Store: Send + Sync + 'static {
    /// Sets the observer of commits. Called once, before the first append.
    fn observe(&self, observer: Arc<dyn Observer>);

    /// All or nothing; durable when answered. Queued at the call, not when it is first
    /// awaited, and not cancelled by dropping the answer.
    fn append(&self, append: Append) -> Answer<Committed, AppendError>;

    /// Records of one stream with a sequence of at least `from`, in order, contiguous. From before a cut
    /// it begins with the first record that is left. Empty when there are none or the stream does not
    /// exist. A page ends before damaged records; a read that begins at one fails with its [`crate::Damage`].
    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>>;

    /// The same records written into one piece; `None` when there are none. The page may end before the bound, where the
    /// store keeps what follows elsewhere.
    fn read_page(
        &self,
        stream: &StreamKey,
        from: u64,
        bound: ReadBound,
        write: PageWriter,
    ) -> Answer<Option<RecordPage>> {
        let records = self.read(stream, from, bound);
        Box::pin(async move {
            let records = records.await?;
            let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(None) };
            let (first, last) = (first.sequence, last.sequence);
            let mut out = BytesMut::new();
            records.iter().for_each(|record| write(record.sequence, &record.bytes, &mut out));
            Ok(Some(RecordPage { bytes: out.freeze(), first, last }))
        })
    }

    /// Damaged records that the store found when it was opened, before any read. Each entry names a stream and its sequences.
    fn known_damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// The end of its log that the store went on without when it was opened.
    fn dropped_end(&self) -> Option<DroppedEnd> {
        None
    }

    /// Records of all streams with a position of at least `from`, in order; contiguous except for records that were
    /// cut or erased. A page ends before damaged records; a read that begins at one fails with its
    /// [`crate::Damage`], which has the position where the feed goes on.
    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>>;

    /// `None` when the stream never existed; an erased one returns its tombstone.
    /// The chain may have to be computed from records: use [`Store::end`] where it is not needed.
    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>>;

    /// What [`Store::tail`] answers, without the chain: never reads a record.
    fn end(&self, stream: &StreamKey) -> Answer<Option<End>> {
        let tail = self.tail(stream);
        Box::pin(async move { Ok(tail.await?.map(|tail| tail.end())) })
    }

    /// The last position that was given; 0 when none was. Its record may be gone.
    fn last_position(&self) -> Answer<u64>;

    /// Names of streams in key order, strictly after `after`; those of erased ones too.
    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>>;

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>>;

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>>;

    /// The same, going on after damaged rows: they are named, and the others are given. [`Store::rows`] fails in their
    /// place, and names the first.
    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        let rows = self.rows(range);
        Box::pin(async move { Ok(WholeRows { rows: rows.await?, damaged: Vec::new() }) })
    }

    /// The damaged rows of all spaces, at most [`crate::limits::DAMAGED_ROWS_MAX`]. Reads every row.
    fn damaged_rows(&self) -> Answer<Vec<DamagedRow>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes damaged rows and writes replacements, all or nothing; durable when answered. The caller knows the content of
    /// the rows from elsewhere. `false`: nothing was changed, because a stream does not end where the repair expects.
    fn repair_rows(&self, repair: RowRepair) -> Answer<bool> {
        let rows = repair.rows.into_iter();
        let puts = rows.map(|row| {
            let guard = Guard::Any;
            RowPut { space: row.space, key: row.key, guard, value: Some(row.value) }
        });
        let append = self.append(Append { rows: puts.collect(), ..Append::default() });
        Box::pin(async move {
            match append.await {
                Ok(_) => Ok(true),
                Err(AppendError::Fault(fault)) => Err(fault),
                Err(_) => Ok(false),
            }
        })
    }

    /// Stores bytes under their own BLAKE3 hash and returns it in lower-case hex; storing the same
    /// bytes again changes nothing. Durable when answered.
    fn put_blob(&self, bytes: Bytes) -> Answer<String>;

    /// `None` when no such blob exists; a blob whose bytes do not match its name is a fault.
    fn blob(&self, hash: &str) -> Answer<Option<Bytes>>;

    /// Removes a blob and frees its space; a missing blob is ignored. The caller must make sure that the same bytes are not
    /// being stored at the same time. Durable when answered.
    fn remove_blob(&self, hash: &str) -> Answer<()>;

    /// Names of blobs in their order, strictly after `after`.
    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>>;

    /// Reads everything once. Slow; for `verify` and `doctor`.
    fn integrity(&self) -> Answer<Integrity>;

    /// Copies the whole store, blobs included, as of one moment, into a folder that a store of the same
    /// kind can open; work continues meanwhile. An existing `to` is refused and left alone.
    fn backup(&self, to: PathBuf) -> Answer<()>;

    fn stats(&self) -> Answer<Stats>;

    /// [`crate::FaultKind::Full`] while the store has no space for an ordinary append, as far as can be known without
    /// writing. A store without a bound of its own always has space.
    fn space(&self) -> Answer<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether an effect outside of the log may begin now. `false` once another process may own the store: this one
    /// could not record the outcome, and the new owner may cause the same effect.
    fn is_owner(&self) -> bool {
        true
    }

    /// Finishes accepted work, releases its resources, and refuses every further call with
    /// [`crate::FaultKind::Closed`]. Closing again is fine. Dropping a store without this
    /// loses nothing that was acknowledged.
    fn close(&self) -> Answer<()>;
}
