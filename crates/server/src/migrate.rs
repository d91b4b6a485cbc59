//! Copies the stores of a data folder into an empty database (`recount migrate`), and verifies each run by its chain.
//!
//! Runs keep their sequences, bytes, heads and positions, so that cursors of clients stay valid. Rows and blobs keep their
//! content; the versions of rows begin at 1 again. A store with pruned or erased runs is refused, because a database can
//! only receive whole runs. It must not know what a record contains. Entry point: [`migrate`].

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, Fault, FaultKind, Guard, ReadBound, Retry, RowPut, Store,
    StreamAppend, Tail,
};
use recount_world::World;

use crate::config::Config;
use crate::stores::{Stores, missing_store, open_folder};
use crate::tenant_folder::{TENANT_DEFAULT, loss_of_tenants, tenant_folders};
use crate::{StartError, boxed, limits, salvage};

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

/// Copies all stores of a data folder, which no server may be using, into a database that has none. The folder is not
/// changed, except that it notes the database at the end.
#[boxed]
pub async fn migrate(data: &Path, url: &str) -> Result<Vec<MigratedStore>, StartError> {
    if !data.join("recount.db").is_file() {
        return Err(missing_store(data, "they cannot be moved to a data folder; export the runs"));
    }
    if let Some(loss) = loss_of_tenants(data).map_err(|why| StartError::failed(why.to_string()))? {
        return Err(StartError::damaged(loss));
    }
    let others = tenant_folders(data)
        .map_err(|why| StartError::failed(format!("cannot read the folder of tenants: {why}")))?;
    let folders: Vec<(String, PathBuf)> =
        std::iter::once((TENANT_DEFAULT.to_owned(), data.to_owned())).chain(others).collect();
    let mut sources = Vec::new();
    // All of them before the database is touched.
    for (name, folder) in &folders {
        sources.push(StoreToCopy::open(name, folder).await?);
    }
    let mut config = Config::of_database(url)?;
    data.clone_into(&mut config.data);
    let stores = config.stores(None)?;
    let copied = copy_all(sources, &stores).await;
    stores.disconnect();
    copied
}

/// A store to copy.
struct StoreToCopy {
    name: String,
    rows: Vec<RowPut>,
    store: Arc<dyn Store>,
}

impl StoreToCopy {
    /// Opens a store, and refuses one that cannot be copied whole.
    async fn open(name: &str, folder: &Path) -> Result<Self, StartError> {
        // The interface of stores reads rows of a named space only; the files have them all.
        let read = salvage::read(folder).map_err(|fault| StartError::failed(fault.message))?;
        if read.damage != recount_salvage::Damage::default() {
            return Err(StartError::damaged(format!(
                "the store {} is damaged; check it with `recount verify --data`, and migrate a backup or what `recount \
                 salvage` saves",
                folder.display()
            )));
        }
        let rows = read.rows().map(|row| RowPut {
            space: row.space.into(),
            key: row.key.into(),
            guard: Guard::Absent,
            value: Some(row.value.to_vec().into()),
        });
        let rows = rows.collect();
        drop(read);
        let store = open_folder(folder).map_err(|fault| StartError::failed(fault.message))?;
        let source = StoreToCopy { name: name.to_owned(), rows, store };
        let partial = source.partial_runs().await.map_err(|fault| failed(name, &fault))?;
        match partial {
            0 => Ok(source),
            count => Err(StartError::usage(format!(
                "the store of {name} has {count} pruned or erased runs, which cannot be moved to a database; export the \
                 others with `recount export --all`, and import them at a server that uses the database"
            ))),
        }
    }

    /// How many runs are not whole.
    async fn partial_runs(&self) -> Result<u64, Fault> {
        let mut count = 0;
        let mut look = |_: &str, tail: Tail| {
            count += u64::from(tail.erased || tail.first_sequence > 0);
            Ok(())
        };
        each_tail(&*self.store, &mut look).await?;
        Ok(count)
    }
}

async fn each_tail(
    store: &dyn Store,
    each: &mut (dyn FnMut(&str, Tail) -> Result<(), Fault> + Send),
) -> Result<(), Fault> {
    let mut after = None;
    loop {
        let page = store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.clone());
        for stream in &page {
            if let Some(tail) = store.tail(stream).await? {
                each(stream, tail)?;
            }
        }
    }
}

async fn copy_all(sources: Vec<StoreToCopy>, stores: &Stores) -> Result<Vec<MigratedStore>, StartError> {
    if !stores.names()?.is_empty() {
        let url = stores.database().map(ToString::to_string).unwrap_or_default();
        return Err(StartError::usage(format!(
            "the database {url} already has stores, perhaps of an interrupted migration; name an empty database"
        )));
    }
    // The database accepts only this key from now on.
    stores.key(&World::real())?;
    let mut copied = Vec::new();
    for source in sources {
        let name = source.name.clone();
        copied.push(copy(source, stores).await.map_err(|fault| failed(&name, &fault))?);
    }
    stores.note_database();
    Ok(copied)
}

async fn copy(source: StoreToCopy, stores: &Stores) -> Result<MigratedStore, Fault> {
    let StoreToCopy { name, rows, store: from } = source;
    let to = stores.open(&name)?;
    let mut copied = MigratedStore { name, rows: rows.len() as u64, ..MigratedStore::default() };
    copied.blobs = copy_blobs(&*from, &*to).await?;
    copied.events = copy_records(&*from, &*to).await?;
    copy_rows(rows, &*to).await?;
    let mut tails = Vec::new();
    each_tail(&*from, &mut |stream, tail| {
        tails.push((stream.to_owned(), tail));
        Ok(())
    })
    .await?;
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
    let mut pending: VecDeque<(u64, Answer<Committed, AppendError>)> = VecDeque::new();
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
            pending.push_back((first.record.position, to.append(append)));
            while pending.len() > limits::MIGRATE_APPENDS_MAX {
                settle(pending.pop_front()).await?;
            }
        }
    }
    while !pending.is_empty() {
        settle(pending.pop_front()).await?;
    }
    Ok(count)
}

/// Waits for an append, and compares the position of its first record.
async fn settle(append: Option<(u64, Answer<Committed, AppendError>)>) -> Result<(), Fault> {
    let Some((expected, append)) = append else { return Ok(()) };
    let committed = append.await.map_err(of_append)?;
    match committed.streams.first() {
        Some(landed) if landed.first_position == expected => Ok(()),
        _ => Err(differs(format!("the record at position {expected} got another position"))),
    }
}

async fn copy_rows(rows: Vec<RowPut>, to: &dyn Store) -> Result<(), Fault> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(row) =
            rows.next_if(|_| batch.len() < limits::VERIFY_PAGE_EVENTS && bytes < limits::VERIFY_PAGE_BYTES)
        {
            bytes += row.value.as_ref().map_or(0, Bytes::len);
            batch.push(row);
        }
        to.append(Append { rows: batch, ..Append::default() }).await.map_err(of_append)?;
    }
    Ok(())
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
    StartError::failed(format!("cannot migrate the store of {name}: {fault}; the data folder is unchanged"))
}
