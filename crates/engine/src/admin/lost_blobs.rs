//! Finds missing blobs: artifact bytes that this store must have and does not have.
//!
//! Bytes of own runs and of uploads are stored before an event names them. If an external run names bytes that are in
//! the store, a record says so. Bytes that another server or a producer stores are not expected here. Start with
//! [`missing_blobs`].

use std::collections::BTreeSet;

use recount_log::{Fault, FaultKind, Retry, Store};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::artifact_rows::blob_of;
use crate::catalogue::run_row::OWN;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::{ArtifactRow, Error, RunRow, limits};

/// A blob that the store must have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingBlob {
    pub hash: String,
    /// The artifact and its run. An unused upload has no run.
    pub artifact: String,
    pub run_id: Option<String>,
}

/// The spaces that determine which blobs are expected.
const SPACES: [&str; 6] = [
    rows::RUNS,
    rows::IMPORTED,
    rows::ARTIFACTS,
    rows::UPLOAD_BLOBS,
    rows::BLOBS_KEPT,
    rows::ARTIFACTS_DELETED,
];

/// All expected blobs that are missing. Damaged blobs are found by reading them.
#[boxed]
pub async fn missing_blobs(store: &dyn Store) -> Result<Vec<MissingBlob>, Error> {
    let mut found = Vec::new();
    for space in SPACES {
        for_each_row(store, space, |key, value| found.push((space, key.to_owned(), value.to_owned())))
            .await?;
    }
    let mut missing = Vec::new();
    for blob in expected_blobs(found.iter().map(|(space, key, value)| (*space, &**key, &**value))) {
        match store.blob(&blob.hash).await {
            Ok(None) => missing.push(blob),
            Ok(Some(_)) => {}
            Err(fault) if fault.kind == FaultKind::Corrupt => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(missing)
}

/// The blobs that a store must have, computed from its rows (space, key, value). Unreadable rows are skipped.
pub fn expected_blobs<'r>(
    rows: impl Iterator<Item = (&'r str, &'r str, &'r [u8])>,
) -> impl Iterator<Item = MissingBlob> {
    let (mut own, mut imported, mut deleted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut artifacts, mut blobs, mut hashes) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (space, key, value) in rows {
        match space {
            rows::RUNS => {
                let row: Option<RunRow> = serde_json::from_slice(value).ok();
                own.extend(row.filter(|row| row.driver == OWN).map(|row| row.id.to_string()));
            }
            rows::IMPORTED => drop(imported.insert(key.to_owned())),
            rows::ARTIFACTS_DELETED => drop(deleted.insert(key.to_owned())),
            rows::ARTIFACTS => artifacts.extend(serde_json::from_slice::<ArtifactRow>(value).ok()),
            rows::BLOBS_KEPT => hashes.extend(key.split_once('/').map(|(hash, _)| hash.to_owned())),
            rows::UPLOAD_BLOBS => blobs.extend(key.split_once('/').map(|(hash, artifact)| MissingBlob {
                hash: hash.to_owned(),
                artifact: artifact.to_owned(),
                run_id: None,
            })),
            _ => {}
        }
    }
    artifacts.retain(|row| !deleted.contains(&rows::tenant_key(row.event_id)));
    hashes.extend(blobs.iter().map(|blob| blob.hash.clone()));
    let keeps = |row: &ArtifactRow| {
        let run = row.run_id.to_string();
        own.contains(&run) && !imported.contains(&run)
    };
    let hash_of = |row: &ArtifactRow| row.hash.as_deref().and_then(blob_of).map(str::to_owned);
    hashes.extend(artifacts.iter().filter(|row| keeps(row)).filter_map(hash_of));
    // A blob is named by its hash, so all artifacts with this hash need it.
    for row in artifacts {
        if let Some(hash) = hash_of(&row).filter(|hash| hashes.contains(hash)) {
            blobs.insert(MissingBlob {
                hash,
                artifact: row.id.to_string(),
                run_id: Some(row.run_id.to_string()),
            });
        }
    }
    blobs.into_iter()
}

impl std::fmt::Display for MissingBlob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MissingBlob { hash, artifact, .. } = self;
        write!(f, "the stored bytes of artifact {artifact} are missing (blob {hash})")
    }
}

impl AdminHandle {
    /// See [`missing_blobs`]. Reads every blob once. Slow.
    #[boxed]
    pub async fn missing_blobs(&self) -> Result<Vec<MissingBlob>, Error> {
        missing_blobs(self.ground().store()).await
    }
}

async fn for_each_row(
    store: &dyn Store,
    space: &'static str,
    mut take: impl FnMut(&str, &[u8]),
) -> Result<(), Error> {
    let mut pages = RowPages::new(store, space, limits::BLOB_PAGE);
    while let Some(page) = pages.next().await? {
        if let Some(row) = page.damaged.first() {
            return Err(Fault::new(FaultKind::Corrupt, Retry::Never, format!("row {row} is damaged")).into());
        }
        page.rows.iter().for_each(|row| take(&row.key, &row.value));
    }
    Ok(())
}
