//! Artifacts whose bytes were kept here and are gone: which blobs the log needs that the store has not.
//!
//! Runs of our own keep bytes before an event names them, and what is sent in is kept before anything can use it. What
//! another server or a producer keeps is missing here by right. Entry point: [`missing_blobs`].

use std::collections::BTreeSet;

use recount_log::{FaultKind, RowRange, Store};

use super::blob_of;
use crate::catalogue::ArtifactRow;
use crate::engine::read_row;
use crate::{Engine, Error, RunRow, limits, rows};

/// Who drives a run of our own, as lists say it.
const OWN: &str = "own";

/// A blob that should be here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingBlob {
    pub hash: String,
    /// The artifact that it is of, and its run; no run has used what was sent in yet.
    pub artifact: String,
    pub run_id: Option<String>,
}

/// The spaces that say which blobs were kept here.
const SPACES: [&str; 4] = [rows::RUNS, rows::IMPORTED, rows::ARTIFACTS, rows::UPLOAD_BLOBS];

/// All blobs that were kept here and are not there. Damaged ones are found by reading them.
pub async fn missing_blobs(store: &dyn Store) -> Result<Vec<MissingBlob>, Error> {
    let mut found = Vec::new();
    for space in SPACES {
        for_each_row(store, space, |key, value| found.push((space, key.to_owned(), value.to_owned())))
            .await?;
    }
    let mut missing = Vec::new();
    for blob in kept_blobs(found.iter().map(|(space, key, value)| (*space, &**key, &**value))) {
        match store.blob(&blob.hash).await {
            Ok(None) => missing.push(blob),
            Ok(Some(_)) => {}
            Err(fault) if fault.kind == FaultKind::Corrupt => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(missing)
}

/// The blobs that were kept here, by the rows of a store: space, key and value of each. Rows that cannot be read name none.
pub fn kept_blobs<'r>(
    rows: impl Iterator<Item = (&'r str, &'r str, &'r [u8])>,
) -> impl Iterator<Item = MissingBlob> {
    let (mut own, mut imported) = (BTreeSet::new(), BTreeSet::new());
    let (mut artifacts, mut blobs) = (Vec::new(), BTreeSet::new());
    for (space, key, value) in rows {
        match space {
            rows::RUNS => {
                let row: Option<RunRow> = serde_json::from_slice(value).ok();
                own.extend(row.filter(|row| row.driver == OWN).map(|row| row.id));
            }
            rows::IMPORTED => drop(imported.insert(key.to_owned())),
            rows::ARTIFACTS => artifacts.extend(serde_json::from_slice::<ArtifactRow>(value).ok()),
            rows::UPLOAD_BLOBS => blobs.extend(key.split_once('/').map(|(hash, artifact)| MissingBlob {
                hash: hash.to_owned(),
                artifact: artifact.to_owned(),
                run_id: None,
            })),
            _ => {}
        }
    }
    for row in artifacts {
        let hash = row.hash.as_deref().and_then(blob_of);
        if let Some(hash) = hash
            && own.contains(&row.run_id)
            && !imported.contains(&row.run_id)
        {
            blobs.insert(MissingBlob { hash: hash.to_owned(), artifact: row.id, run_id: Some(row.run_id) });
        }
    }
    blobs.into_iter()
}

impl std::fmt::Display for MissingBlob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MissingBlob { hash, artifact, .. } = self;
        write!(f, "the bytes of artifact {artifact} were kept here and are missing (blob {hash})")
    }
}

impl Engine {
    /// See [`missing_blobs`]. Reads every blob once. Slow.
    pub async fn missing_blobs(&self) -> Result<Vec<MissingBlob>, Error> {
        missing_blobs(self.store()).await
    }
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
    Ok(row.driver == OWN)
}

async fn for_each_row(
    store: &dyn Store,
    space: &'static str,
    mut take: impl FnMut(&str, &[u8]),
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
        page.iter().for_each(|row| take(&row.key, &row.value));
    }
}
