//! [`SqliteStore`]: opens the store, passes calls to its threads, and closes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, Damage, DamagedRow, DroppedEnd, End, Fault, FaultKind,
    FeedRecord, Integrity, Landed, Observer, PageWriter, ReadBound, Record, RecordPage, Retry, Row, RowRange,
    RowRepair, Stats, Store, StreamKey, Tail, WholeRows, admit_blob,
};
use recount_world::platform;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::blobs::Blobs;
use crate::changes::ChangeJournal;
use crate::checkpoint::Checkpoints;
use crate::connection::{DatabaseFile, Role, check_version, execute};
use crate::fault::{FaultContext as _, altered, corrupt, no_space, stopped};
use crate::folder::Folder;
use crate::high_water::HighWater;
use crate::hot::Hot;
use crate::loss::Evidence;
use crate::options::SqliteOptions;
use crate::pages::Pages;
use crate::pending_rows::PendingRows;
use crate::pool::{Pool, WaitingBounds};
use crate::reserve::Reserve;
use crate::schema::Refusal;
use crate::write_back::WriteBack;
use crate::writer::{CompletedAppend, Job, Task, Writer, WriterContext, WriterThreads};
use crate::writer_queue::WriterQueue;
use crate::{
    backup, changes, checkpoint, examine, layout, limits, load, marker, reading, rows, schema, sealer,
};

/// A store in a data folder. Dropping it finishes what was accepted and waits for its threads.
pub struct SqliteStore {
    shared: WriterContext,
    readers: Pool<Connection>,
    pages: Arc<Pages>,
    blobs: Pool<Blobs>,
    /// For checks of the whole store.
    place: DatabaseFile,
    /// Whether the folder still has the marker of a backup, which counts its blobs.
    is_backup: AtomicBool,
    dropped_end: Option<DroppedEnd>,
    blob_folder: Blobs,
    closing: Arc<AtomicBool>,
    /// Closes when the folder was unlocked.
    ended: watch::Receiver<()>,
    threads: Vec<JoinHandle<()>>,
}

/// Held by every thread; when the last drops it, the folder is unlocked and `close` returns.
struct Hold {
    // The fields are dropped in this order: files, then folder, then the end signal.
    _written_back: Arc<WriteBack>,
    _folder: Arc<Folder>,
    _ended: watch::Sender<()>,
}

impl SqliteStore {
    /// Opens the store in a data folder, creating both if they are missing.
    pub fn open(options: SqliteOptions) -> Result<SqliteStore, Fault> {
        check_version()?;
        let folder = Arc::new(Folder::take(&options.data_dir)?);
        let is_backup = marker::check(folder.path())?;
        let place = place(&folder, &options);
        let blob_folder = Blobs::at(folder.blobs());
        let reserve = Reserve::at(folder.reserve(), options.reserve_bytes, options.reserve_gate.clone());
        let opened = match open_database(&folder, &place, &options) {
            // Opening needs a little space itself.
            Err(Refusal::Failed(fault)) if fault.kind == FaultKind::Full && reserve.spend() => {
                tracing::warn!(%fault, "the disk is full; the reserved space is used to open the store");
                open_database(&folder, &place, &options)
            }
            opened => opened,
        };
        let OpenedDatabase { writer, hot, pending_rows, journal, dropped_end } =
            opened.map_err(|refusal| match refusal {
                Refusal::Damaged(fault) => with_salvage(fault, &place),
                Refusal::NotOurs(fault) | Refusal::Failed(fault) => fault,
            })?;
        folder.check_blobs(hot.ends().last_position)?;
        blob_folder.prepare()?;
        if let Err(fault) = reserve.create() {
            tracing::warn!(
                %fault,
                "appends are rejected until the disk has space for the reserve; free some space or prune"
            );
        }
        folder.sync()?;
        let readers = (0..limits::READERS).map(|_| place.open(Role::Reader)).collect::<Result<_, _>>()?;
        let checkpointer = place.open(Role::Checkpointer)?;
        let sealer = place.open(Role::Reader)?;

        let (ending, ended) = watch::channel(());
        let written_back = Arc::new(WriteBack::of(&place));
        let mark = folder.high_water();
        let hold = Arc::new(Hold { _written_back: written_back.clone(), _folder: folder, _ended: ending });
        // All other threads hold the latch that the writer waits for.
        let (in_use, others) = std::sync::mpsc::sync_channel::<()>(limits::SIGNS_OF_LIFE_MAX);
        let held = (hold.clone(), in_use);

        let bounds = WaitingBounds { count: limits::READS_WAITING_MAX, bytes: usize::MAX };
        let (readers, mut threads) = Pool::start("recount-read", bounds, readers, &held);
        let bounds =
            WaitingBounds { count: limits::BLOBS_WAITING_MAX, bytes: limits::BLOBS_WAITING_BYTES_MAX };
        let workers = vec![blob_folder.clone(); limits::BLOB_WORKERS];
        let (blobs, blob_threads) = Pool::start("recount-blob", bounds, workers, &held);
        threads.extend(blob_threads);
        let (seal_requests, thread) = sealer::start(sealer, held.clone());
        threads.push(thread);
        let (checkpoints, thread) =
            Checkpoints::start(checkpointer, written_back, options.checkpoint_pages, held.clone());
        threads.push(thread);
        let (high_water, thread) =
            HighWater::start(&mark, hot.ends().last_position, options.durability, held)?;
        threads.push(thread);

        let shared = WriterContext {
            hot: Arc::new(hot),
            pending_rows: Arc::new(pending_rows),
            observer: Arc::default(),
            queue: Arc::new(WriterQueue::new()),
            meters: Arc::default(),
            reserve,
        };
        let writer_threads = WriterThreads { checkpoints, seal_requests, high_water };
        let writer = Writer::new(place.clone(), writer, journal, shared.clone(), writer_threads, &options)?;
        threads.push(recount_world::thread("recount-store", move || {
            // Dropped last, also when the writer panics.
            let _hold = hold;
            writer.run(&others);
        }));
        Ok(SqliteStore {
            shared,
            readers,
            pages: Arc::default(),
            blobs,
            place,
            is_backup: AtomicBool::new(is_backup),
            dropped_end,
            blob_folder,
            closing: Arc::default(),
            ended,
            threads,
        })
    }

    /// Seals everything hot at once. For tests.
    #[doc(hidden)]
    pub fn seal_now(&self) -> Answer<()> {
        let (answer, done) = oneshot::channel();
        let queued = self.shared.queue.push(Task::Seal(answer), 0);
        Box::pin(async move {
            queued?;
            done.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection, &Hot) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<T> {
        let hot = self.shared.hot.clone();
        self.readers.call(0, move |connection| read(connection, &hot))
    }

    /// Puts an append into the queue.
    fn enqueue(
        &self,
        append: Append,
    ) -> Result<oneshot::Receiver<Result<CompletedAppend, AppendError>>, Fault> {
        let bytes = append.admit()?;
        let (answer, receiver) = oneshot::channel();
        let since = recount_world::moment();
        self.shared.queue.push(Task::Append(Job { append, bytes, since, answer }), bytes)?;
        Ok(receiver)
    }

    /// Refuses new work; the threads then end by themselves.
    fn close_queues(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.shared.queue.close();
        self.readers.close();
        self.blobs.close();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close_queues();
        // An observer may drop the last handle on the writer thread, which cannot wait for itself. The threads then end
        // by themselves.
        let this = std::thread::current().id();
        if self.threads.iter().any(|thread| thread.thread().id() == this) {
            return;
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

impl Store for SqliteStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        assert!(self.shared.observer.set(observer).is_ok(), "a store has one observer, set once");
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let receiver = self.enqueue(append);
        Box::pin(async move {
            let lost = || {
                let message = "the writer stopped before it responded; the append may have happened; read the stream \
                     to find out";
                AppendError::Fault(Fault::new(FaultKind::Closed, Retry::Never, message))
            };
            receiver?.await.unwrap_or_else(|_| Err(lost())).map(CompletedAppend::into_committed)
        })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        let stream = stream.clone();
        self.read_with(move |connection, hot| reading::stream(connection, hot, &stream, from, bound))
    }

    fn read_page(
        &self,
        stream: &StreamKey,
        from: u64,
        bound: ReadBound,
        write: PageWriter,
    ) -> Answer<Option<RecordPage>> {
        let (stream, pages) = (stream.clone(), self.pages.clone());
        self.read_with(move |connection, hot| {
            reading::record_page(connection, hot, &stream, from, bound, &write, &pages)
        })
    }

    fn known_damage(&self) -> Vec<Damage> {
        self.shared.hot.damage()
    }

    fn dropped_end(&self) -> Option<DroppedEnd> {
        self.dropped_end.clone()
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.read_with(move |connection, _| reading::feed(connection, from, bound))
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        let stream = stream.clone();
        self.read_with(move |connection, hot| reading::tail(connection, hot, &stream))
    }

    fn end(&self, stream: &StreamKey) -> Answer<Option<End>> {
        let stream = stream.clone();
        self.read_with(move |connection, hot| reading::end(connection, hot, &stream))
    }

    fn last_position(&self) -> Answer<u64> {
        self.read_with(|_, hot| Ok(hot.ends().last_position))
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.read_with(move |connection, _| {
            layout::list_streams(connection, after.as_deref(), limit).context("listing the streams")
        })
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        if !self.closing.load(Ordering::Relaxed)
            && let Some(state) = self.shared.pending_rows.get(space, key)
        {
            return Box::pin(std::future::ready(Ok(state.into_row(&Arc::from(key)))));
        }
        let (space, key) = (space.to_owned(), key.to_owned());
        self.read_with(move |connection, _| {
            rows::row(connection, &space, &key).context(&format!("reading row {space}/{key}"))
        })
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        let pending_rows = self.shared.pending_rows.clone();
        self.read_with(move |connection, _| {
            let WholeRows { rows, damaged } = whole_rows(connection, &pending_rows, &range)?;
            match damaged.first() {
                None => Ok(rows),
                Some(row) => Err(altered(&format!("row {row}")))
                    .context(&format!("reading rows of space {}", range.space)),
            }
        })
    }

    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        let pending_rows = self.shared.pending_rows.clone();
        self.read_with(move |connection, _| whole_rows(connection, &pending_rows, &range))
    }

    fn damaged_rows(&self) -> Answer<Vec<DamagedRow>> {
        let pending_rows = self.shared.pending_rows.clone();
        self.read_with(move |connection, _| {
            // A page in the cache of this connection may be undamaged although the file is damaged.
            execute(connection, "PRAGMA shrink_memory").context("looking for damaged rows")?;
            let mut damaged = rows::damaged(connection).context("looking for damaged rows")?;
            damaged.retain(|row| !is_fresh(&pending_rows, row));
            Ok(damaged)
        })
    }

    fn repair_rows(&self, repair: RowRepair) -> Answer<bool> {
        let (answer, done) = oneshot::channel();
        let bytes = repair.bytes();
        let queued = self.shared.queue.push(Task::Repair(repair, answer), bytes);
        Box::pin(async move {
            queued?;
            done.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        if let Err(fault) = admit_blob(bytes.len()) {
            return Box::pin(std::future::ready(Err(fault)));
        }
        self.blobs.call(bytes.len(), move |blobs| blobs.put(&bytes))
    }

    fn blob(&self, hash: &str) -> Answer<Option<Bytes>> {
        let hash = hash.to_owned();
        self.blobs.call(0, move |blobs| blobs.get(&hash))
    }

    fn remove_blob(&self, hash: &str) -> Answer<()> {
        if self.is_backup.load(Ordering::Relaxed) {
            let folder = self.place.database.parent().unwrap_or(Path::new("."));
            if let Err(fault) = marker::remove(folder) {
                return Box::pin(std::future::ready(Err(fault)));
            }
            self.is_backup.store(false, Ordering::Relaxed);
        }
        let hash = hash.to_owned();
        self.blobs.call(0, move |blobs| blobs.remove(&hash))
    }

    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>> {
        self.blobs.call(0, move |blobs| blobs.list(after.as_deref(), limit))
    }

    /// Reads everything once, on one reader. While it runs, the write-ahead log cannot restart and grows past its usual
    /// bound under load. Closing the store ends it.
    fn integrity(&self) -> Answer<Integrity> {
        let (place, blobs, closing) = (self.place.clone(), self.blob_folder.clone(), self.closing.clone());
        // On a connection of its own, so that its snapshot ends with it.
        self.read_with(move |_, _| examine::examine(place.open(Role::Examiner)?, Some(&blobs), &closing))
    }

    /// Copies on one reader, page by page and then blob by blob. While it runs, the write-ahead log cannot restart and
    /// grows past its usual bound under load. Closing the store ends it.
    fn backup(&self, to: PathBuf) -> Answer<()> {
        let (blobs, closing) = (self.blob_folder.clone(), self.closing.clone());
        self.read_with(move |connection, _| backup::backup(connection, &blobs, &to, &closing))
    }

    fn stats(&self) -> Answer<Stats> {
        let (database, meters) = (self.place.database.clone(), self.shared.meters.clone());
        self.read_with(move |_, hot| {
            let size = |path: &Path| match std::fs::metadata(path) {
                Ok(found) => Ok(found.len()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
                Err(error) => Err(error).context(&format!("reading the size of {}", path.display())),
            };
            let mut wal = database.clone().into_os_string();
            wal.push("-wal");
            let (ends, (hot, sealed)) = (hot.ends(), hot.totals());
            let mut stats = Stats {
                last_position: ends.last_position,
                streams: ends.last_stream.unsigned_abs(),
                hot_records: hot.records,
                hot_bytes: hot.bytes,
                sealed_records: sealed.records,
                sealed_bytes: sealed.bytes,
                database_bytes: size(&database)?,
                wal_bytes: size(Path::new(&wal))?,
                ..Stats::default()
            };
            meters.add_to(&mut stats);
            Ok(stats)
        })
    }

    fn space(&self) -> Answer<()> {
        let (reserve, database) = (self.shared.reserve.clone(), self.place.database.clone());
        self.read_with(move |_, _| {
            if reserve.is_spent() {
                return Err(no_space("the reserve of the data folder is exhausted"));
            }
            match platform::disk_space(&database) {
                Ok(Some(space)) if space.free < limits::FREE_BYTES_MIN => {
                    Err(no_space("the disk of the data folder is almost full"))
                }
                _ => Ok(()),
            }
        })
    }

    fn close(&self) -> Answer<()> {
        self.close_queues();
        let mut ended = self.ended.clone();
        Box::pin(async move {
            // Nothing is ever sent: the channel closes when the last thread has released the folder.
            while ended.changed().await.is_ok() {}
            Ok(())
        })
    }
}

/// Merges pending rows with the table. A damaged row with a newer pending state is ignored.
fn whole_rows(
    connection: &Connection,
    pending_rows: &PendingRows,
    range: &RowRange,
) -> Result<WholeRows, Fault> {
    let mut damaged = Vec::new();
    let rows = pending_rows.between(range, |most, holds| {
        let found = reading::rows(connection, range, most, holds)?;
        Ok::<_, Fault>(found.map(|found| {
            damaged = found.damaged;
            found.rows
        }))
    })?;
    damaged.retain(|row| !is_fresh(pending_rows, row));
    Ok(WholeRows { rows, damaged })
}

fn is_fresh(pending_rows: &PendingRows, row: &DamagedRow) -> bool {
    let (space, key) = (str::from_utf8(&row.space), str::from_utf8(&row.key));
    matches!((space, key), (Ok(space), Ok(key)) if pending_rows.get(space, key).is_some())
}

fn place(folder: &Folder, options: &SqliteOptions) -> DatabaseFile {
    DatabaseFile { database: folder.database(), durability: options.durability, vfs: options.vfs.clone() }
}

/// The writer's connection to a checked and migrated database, with its hot part and pending rows.
struct OpenedDatabase {
    writer: Connection,
    hot: Hot,
    pending_rows: PendingRows,
    journal: ChangeJournal,
    dropped_end: Option<DroppedEnd>,
}

fn open_database(
    folder: &Folder,
    place: &DatabaseFile,
    options: &SqliteOptions,
) -> Result<OpenedDatabase, Refusal> {
    folder.create_database()?;
    let name = place.name();
    let evidence = Evidence::gather(folder, options.durability)?;
    let connection = place.connect(Role::Writer)?;
    // Before any setting: a database of another program must stay unchanged.
    let identified = schema::identify(&connection, &name);
    if matches!(identified, Err(Refusal::NotOurs(_))) {
        return Err(identified.expect_err("it was just looked at"));
    }
    let size = std::fs::metadata(folder.database()).context(&format!("reading the size of {name}"))?.len();
    let sound = match identified {
        Ok(_) if size <= limits::OPEN_CHECK_BYTES_MAX => {
            examine::check_pages(&connection).map_err(Refusal::from)
        }
        identified => identified.map(drop),
    };
    // A missing end is checked before the first write, which would overwrite the write-ahead log. A damaged log may be
    // the cause of a database that looks damaged.
    let settle = || evidence.settle(&connection, &options.accept_loss_after).map_err(Refusal::Failed);
    let dropped_end = if evidence.is_of_log() {
        let dropped_end = settle()?;
        sound?;
        dropped_end
    } else {
        sound?;
        settle()?
    };
    place.settle(&connection, Role::Writer)?;
    if dropped_end.is_some() {
        // Otherwise a later start would use the frames after the end of the log, or report them as damage.
        checkpoint::empty(&connection)?;
    }
    schema::migrate(&connection, &name)?;
    let hot = Hot::default();
    hot.replace(load::load(&connection)?);
    let (journal, states) = changes::load(&connection)?;
    let pending_rows = PendingRows::default();
    pending_rows.replace(states, recount_world::moment());
    Ok(OpenedDatabase { writer: connection, hot, pending_rows, journal, dropped_end })
}

/// Adds to a fault how much of the store can still be read.
fn with_salvage(fault: Fault, place: &DatabaseFile) -> Fault {
    let salvage = place.open(Role::Salvager).and_then(|connection| {
        // A blob's name shows whether its bytes are right.
        examine::examine(connection, None, &Arc::default())
    });
    let readable = match salvage {
        Ok(found) => format!(
            "{} streams are complete and {} records can be read; nothing was changed",
            found.readable_streams, found.readable_records
        ),
        Err(fault) => format!("no records can be read ({}); nothing was changed", fault.message),
    };
    corrupt(format!("{} is damaged ({}): {readable}", place.name(), fault.message))
}

impl CompletedAppend {
    /// The positions of the records of each stream.
    fn into_committed(self) -> Committed {
        let mut next = self.first_position;
        let streams = self.append.streams.iter().map(|part| {
            let (first_sequence, first_position) = (part.expected_tail, next);
            next += part.records.len() as u64;
            let last_sequence = first_sequence + part.records.len() as u64 - 1;
            Landed { first_sequence, last_sequence, first_position }
        });
        Committed { streams: streams.collect() }
    }
}
