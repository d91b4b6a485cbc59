//! Artifacts whose bytes were kept here and are gone: which blobs the log needs that the store has not.
//!
//! Runs of our own keep bytes before an event names them, and what is sent in is kept before anything can use it. What
//! another server or a producer keeps is missing here by right. Entry point: [`missing_blobs`].

use recount_log::{RowRange, Store};

use super::blob_of;
use crate::catalogue::ArtifactRow;
use crate::engine::read_row;
use crate::{Error, RunRow, limits, rows};

/// A blob that should be here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingBlob {
    pub hash: String,
    /// The artifact that it is of, and its run; no run has used what was sent in yet.
    pub artifact: String,
    pub run_id: Option<String>,
}

/// All blobs that were kept here and are not there. Damaged ones are found by reading them.
pub async fn missing_blobs(store: &dyn Store) -> Result<Vec<MissingBlob>, Error> {
    let mut missing = Vec::new();
    each(store, rows::ARTIFACTS, async |key, value| {
        let row: ArtifactRow = read_row(rows::ARTIFACTS, key, value)?;
        if let Some(hash) = row.hash.as_deref().and_then(blob_of)
            && was_kept(store, &row.run_id).await?
            && !is_there(store, hash).await?
        {
            missing.push(MissingBlob { hash: hash.to_owned(), artifact: row.id, run_id: Some(row.run_id) });
        }
        Ok(())
    })
    .await?;
    each(store, rows::UPLOAD_BLOBS, async |key, _| {
        if let Some((hash, artifact)) = key.split_once('/')
            && !is_there(store, hash).await?
        {
            missing.push(MissingBlob { hash: hash.to_owned(), artifact: artifact.to_owned(), run_id: None });
        }
        Ok(())
    })
    .await?;
    missing.sort();
    missing.dedup();
    Ok(missing)
}

/// Whether the bytes of a run's artifacts were kept here: those of our own runs are, unless the run was imported.
pub(crate) async fn was_kept(store: &dyn Store, run: &str) -> Result<bool, Error> {
    if run.is_empty() {
        return Ok(true);
    }
    if store.row(rows::IMPORTED, run).await?.is_some() {
        return Ok(false);
    }
    let Some(row) = store.row(rows::RUNS, &rows::tenant_key(run)).await? else { return Ok(false) };
    let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
    Ok(row.driver == "own")
}

/// Whether there is something under this name; what it holds is checked when it is read.
async fn is_there(store: &dyn Store, hash: &str) -> Result<bool, Error> {
    match store.blob(hash).await {
        Ok(found) => Ok(found.is_some()),
        Err(fault) if fault.kind == recount_log::FaultKind::Corrupt => Ok(true),
        Err(fault) => Err(fault.into()),
    }
}

async fn each(
    store: &dyn Store,
    space: &'static str,
    mut take: impl AsyncFnMut(&str, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let range = RowRange {
            space: space.into(),
            prefix: "".into(),
            after: after.take(),
            backwards: false,
            limit: limits::BLOB_PAGE,
        };
        let page = store.rows(range).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key.clone());
        for row in &page {
            take(&row.key, &row.value).await?;
        }
    }
}
