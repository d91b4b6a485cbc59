//! Copies all stores of a data folder into an empty database, or back (`recount migrate`), and verifies each run by its
//! chain.
//!
//! Runs keep their sequences, bytes, heads and positions, so that cursors of clients stay valid. Rows and blobs keep their
//! content; the versions of rows begin at 1 again. A store with pruned or erased runs is refused, because the interface of
//! stores accepts whole runs only. It must not know what a record contains. Entry points: [`to_database`], [`to_folder`].

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, Fault, FaultKind, Guard, ReadBound, Retry, RowPut, RowRange,
    Store, StreamAppend, Tail,
};
use recount_world::World;

use crate::config::Config;
use crate::stores::{SqliteSettings, Stores, missing_store};
use crate::tenant_folder::{TENANT_DEFAULT, loss_of_tenants};
use crate::{StartError, boxed, limits};

/// What was copied of one store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigratedStore {
    /// The tenant, or the name of the audit trail.
    pub name: String,
    pub runs: u64,
    pub events: u64,
    pub rows: u64,
    pub blobs: u64,
}

/// Copies all stores of a data folder, which no server may be using, into a database that has none. The events of the folder
/// are not changed; at the end it notes the database.
#[boxed]
pub async fn to_database(data: &Path, url: &str) -> Result<Vec<MigratedStore>, StartError> {
    if !data.join("recount.db").is_file() {
        return Err(missing_store(data, "move them with --from URL --to sqlite:DIR"));
    }
    if let Some(loss) = loss_of_tenants(data).map_err(|why| StartError::failed(why.to_string()))? {
        return Err(StartError::damaged(loss));
    }
    let from = Stores::in_folder(data, SqliteSettings::default());
    let sources = open_all(&from).await?;
    let to = database_of_folder(url, data)?;
    let copied = into_database(sources, &to).await;
    to.disconnect();
    copied
}

async fn into_database(sources: Vec<StoreToCopy>, to: &Stores) -> Result<Vec<MigratedStore>, StartError> {
    if !to.names()?.is_empty() {
        let url = to.database().map(ToString::to_string).unwrap_or_default();
        return Err(StartError::usage(format!(
            "the database {url} already has stores, perhaps of an interrupted migration; name an empty database"
        )));
    }
    // The database accepts only this key from now on.
    to.key(&World::real())?;
    let copied = copy_all(sources, to).await?;
    to.note_database();
    Ok(copied)
}

/// Copies all stores of a database, which no server may be using, into a data folder that has none. The folder must have
/// the seal key of the database.
#[boxed]
pub async fn to_folder(url: &str, data: &Path) -> Result<Vec<MigratedStore>, StartError> {
    if data.join("recount.db").exists() {
        return Err(StartError::usage(format!(
            "{} already has a store; name another folder, or delete it if it is of an interrupted migration",
            data.display()
        )));
    }
    let from = database_of_folder(url, data)?;
    let copied = into_folder(&from, data).await;
    from.disconnect();
    copied
}

async fn into_folder(from: &Stores, data: &Path) -> Result<Vec<MigratedStore>, StartError> {
    if !from.names()?.iter().any(|name| name == TENANT_DEFAULT) {
        let url = from.database().map(ToString::to_string).unwrap_or_default();
        return Err(StartError::usage(format!("the database {url} has no stores; name another")));
    }
    from.create_folder()?;
    from.key(&World::real())?;
    let sources = open_all(from).await?;
    // Until the copy is complete, no server starts on the folder.
    from.note_database();
    let to = Stores::in_folder(data, SqliteSettings::default());
    let copied = copy_all(sources, &to).await?;
    to.forget_database()?;
    Ok(copied)
}

/// The stores in a database, for a server with this data folder.
fn database_of_folder(url: &str, data: &Path) -> Result<Stores, StartError> {
    let mut config = Config::of_database(url)?;
    data.clone_into(&mut config.data);
    config.stores(None)
}

/// An open store to copy.
struct StoreToCopy {
    name: String,
    store: Arc<dyn Store>,
}

/// Opens all stores, and refuses them if one cannot be copied whole.
async fn open_all(from: &Stores) -> Result<Vec<StoreToCopy>, StartError> {
    let mut sources = Vec::new();
    for name in from.names()? {
        let failed = |fault: Fault| failed(&name, &fault);
        let store = from.open(&name).map_err(failed)?;
        let found = store.integrity().await.map_err(failed)?;
        if let Some(problem) = found.problems.first() {
            return Err(StartError::damaged(format!(
                "the store of {name} is damaged: {problem}; check it with `recount verify`, and migrate a backup"
            )));
        }
        let mut partial = 0_u64;
        let mut look = |_: &str, tail: Tail| partial += u64::from(tail.erased || tail.first_sequence > 0);
        each_tail(&*store, &mut look).await.map_err(failed)?;
        if partial > 0 {
            return Err(StartError::usage(format!(
                "the store of {name} has {partial} pruned or erased runs, which cannot be migrated; export the others with \
                 `recount export --all`, and import them into the new stores"
            )));
        }
        sources.push(StoreToCopy { name, store });
    }
    Ok(sources)
}

async fn each_tail(store: &dyn Store, each: &mut (dyn FnMut(&str, Tail) + Send)) -> Result<(), Fault> {
    let mut after = None;
    loop {
        let page = store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.clone());
        for stream in &page {
            if let Some(tail) = store.tail(stream).await? {
                each(stream, tail);
            }
        }
    }
}

async fn copy_all(sources: Vec<StoreToCopy>, to: &Stores) -> Result<Vec<MigratedStore>, StartError> {
    let mut copied = Vec::new();
    for StoreToCopy { name, store } in sources {
        copied.push(copy(&name, &*store, to).await.map_err(|fault| failed(&name, &fault))?);
    }
    Ok(copied)
}

async fn copy(name: &str, from: &dyn Store, stores: &Stores) -> Result<MigratedStore, Fault> {
    let to = stores.open(name)?;
    let mut copied = MigratedStore { name: name.to_owned(), ..MigratedStore::default() };
    copied.blobs = copy_blobs(from, &*to).await?;
    copied.events = copy_records(from, &*to).await?;
    copied.rows = copy_rows(from, &*to).await?;
    let mut tails = Vec::new();
    each_tail(from, &mut |stream, tail| tails.push((stream.to_owned(), tail))).await?;
    for (stream, tail) in &tails {
        if to.tail(&stream.as_str().into()).await?.as_ref() != Some(tail) {
            return Err(differs(format!("the end or the head of {stream} differs")));
        }
    }
    copied.runs = tails.len() as u64;
    let found = to.integrity().await?;
    if let Some(problem) = found.problems.first() {
        return Err(differs(problem.clone()));
    }
    to.close().await?;
    from.close().await?;
    Ok(copied)
}

async fn copy_blobs(from: &dyn Store, to: &dyn Store) -> Result<u64, Fault> {
    let (mut after, mut count) = (None, 0);
    loop {
        let page = from.blobs(after.take(), limits::VERIFY_PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = Some(last.clone());
        for hash in &page {
            let Some(bytes) = from.blob(hash).await? else { continue };
            let stored = to.put_blob(bytes).await?;
            if stored != *hash {
                return Err(differs(format!("the blob {hash} has the hash {stored}")));
            }
            count += 1;
        }
    }
}

/// Copies the records in the order of their positions, so that each gets the same position.
async fn copy_records(from: &dyn Store, to: &dyn Store) -> Result<u64, Fault> {
    let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
    let (mut position, mut count) = (0, 0);
    let mut pending: VecDeque<PendingAppend> = VecDeque::new();
    let mut pending_bytes = 0;
    loop {
        let page = from.read_feed(position, bound).await?;
        let Some(last) = page.last() else { break };
        position = last.record.position + 1;
        count += page.len() as u64;
        for records in page.chunk_by(|one, next| one.stream == next.stream) {
            let Some(first) = records.first() else { continue };
            let stream = StreamAppend {
                stream: first.stream.clone(),
                expected_tail: first.record.sequence,
                records: records.iter().map(|record| record.record.bytes.clone()).collect(),
            };
            let append = Append { streams: vec![stream], ..Append::default() };
            let bytes = records.iter().map(|record| record.record.bytes.len()).sum::<usize>();
            let result = to.append(append);
            pending.push_back(PendingAppend { position: first.record.position, bytes, result });
            pending_bytes += bytes;
            while pending.len() > limits::MIGRATE_APPENDS_MAX || pending_bytes > limits::MIGRATE_BYTES_MAX {
                let Some(next) = pending.pop_front() else { break };
                pending_bytes -= next.bytes;
                next.settle().await?;
            }
        }
    }
    for next in pending {
        next.settle().await?;
    }
    Ok(count)
}

/// An append that was sent and has no result yet.
struct PendingAppend {
    /// Of its first record.
    position: u64,
    bytes: usize,
    result: Answer<Committed, AppendError>,
}

impl PendingAppend {
    /// Waits for the result, and compares the position of the first record.
    async fn settle(self) -> Result<(), Fault> {
        let committed = self.result.await.map_err(of_append)?;
        match committed.streams.first() {
            Some(landed) if landed.first_position == self.position => Ok(()),
            _ => Err(differs(format!("the record at position {} got another position", self.position))),
        }
    }
}

async fn copy_rows(from: &dyn Store, to: &dyn Store) -> Result<u64, Fault> {
    let mut count = 0;
    for space in recount_engine::ROW_SPACES {
        let mut range = RowRange::first(space, "", limits::MIGRATE_ROWS);
        loop {
            let page = from.rows(range.clone()).await?;
            let Some(last) = page.last() else { break };
            range.after = Some(last.key.clone());
            count += page.len() as u64;
            let mut rows = page.into_iter().peekable();
            while rows.peek().is_some() {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                while let Some(row) = rows.next_if(|_| bytes < limits::VERIFY_PAGE_BYTES) {
                    bytes += row.value.len();
                    let (space, key, value): (Arc<str>, _, Option<Bytes>) =
                        ((*space).into(), row.key, Some(row.value));
                    batch.push(RowPut { space, key, guard: Guard::Absent, value });
                }
                to.append(Append { rows: batch, ..Append::default() }).await.map_err(of_append)?;
            }
        }
    }
    Ok(count)
}

fn of_append(error: AppendError) -> Fault {
    match error {
        AppendError::Fault(fault) => fault,
        refused => differs(refused.to_string()),
    }
}

fn differs(message: String) -> Fault {
    Fault::new(FaultKind::Io, Retry::Never, message)
}

fn failed(name: &str, fault: &Fault) -> StartError {
    StartError::failed(format!("cannot migrate the store of {name}: {fault}"))
}
