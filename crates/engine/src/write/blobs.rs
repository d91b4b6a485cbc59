//! The bytes of artifacts: put in before anything names them, taken away when nothing does any more.
//!
//! Between the two comes the append that names a blob. Until it has happened, the keeper of the blob is
//! remembered here, so that nobody takes it away meanwhile; what nobody ever named is found when an engine starts.
//! A blob is looked for and removed while nothing is put in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use recount_event::RunId;
use recount_log::{RowPut, RowRange, Store};
use tokio::sync::RwLock;
use tokio::time::Instant;

use crate::catalogue::artifact_rows::blob_uses;
use crate::catalogue::deleted_artifacts::is_deleted;
use crate::ground::rows;
use crate::{Error, limits};

pub(crate) struct Blobs {
    store: Arc<dyn Store>,
    /// Held to read while something is put in, to write while something is taken away.
    turn: RwLock<()>,
    /// Blobs that nothing names yet.
    unnamed: Mutex<HashMap<String, Vec<Keeping>>>,
}

/// A caller is about to name a blob.
struct Keeping {
    run: Option<RunId>,
    since: Instant,
}

impl Blobs {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Blobs { store, turn: RwLock::default(), unnamed: Mutex::default() }
    }

    /// Keeps bytes and answers the name of their blob. Durable when answered; an append must name it soon.
    pub(crate) async fn put(&self, bytes: Bytes, run: Option<RunId>) -> Result<String, Error> {
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let late = self.note(&hash, run);
        {
            let _shared = self.turn.read().await;
            let stored = self.store.put_blob(bytes).await;
            if let Err(fault) = stored {
                self.named(run, [hash]);
                return Err(fault.into());
            }
        }
        self.release(late).await?;
        Ok(hash)
    }

    /// The same for a blob that is there already.
    pub(crate) fn hold(&self, hash: &str, run: RunId) {
        drop(self.note(hash, Some(run)));
    }

    /// The same for one that may be here; answers whether it is. One that is not is not held.
    pub(super) async fn hold_if_here(&self, hash: &str, run: RunId) -> Result<bool, Error> {
        self.hold(hash, run);
        let found = {
            // Who takes blobs away has either done so by now, or sees that this one is held.
            let _shared = self.turn.read().await;
            self.is_here(hash).await
        };
        if !matches!(found, Ok(true)) {
            self.named(Some(run), [hash.to_owned()]);
        }
        found
    }

    /// Whether there is a blob of this name, without reading its bytes.
    async fn is_here(&self, hash: &str) -> Result<bool, Error> {
        let just_before = hash.get(..hash.len().saturating_sub(1)).map(str::to_owned);
        let next = self.store.blobs(just_before, 1).await?;
        Ok(next.first().is_some_and(|name| name == hash))
    }

    /// Remembers that a blob is about to be named; answers those that should have been long ago.
    fn note(&self, hash: &str, run: Option<RunId>) -> Vec<String> {
        let now = recount_world::moment();
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut late = Vec::new();
        if unnamed.len() >= limits::BLOBS_UNNAMED_MAX {
            unnamed.retain(|hash, keeping| {
                keeping.retain(|one| now.duration_since(one.since) < limits::BLOB_UNNAMED_LIFE);
                let stays = !keeping.is_empty();
                if !stays {
                    late.push(hash.clone());
                }
                stays
            });
        }
        unnamed.entry(hash.to_owned()).or_default().push(Keeping { run, since: now });
        late
    }

    /// An append has named these: what is in the catalogue counts from now on.
    pub(crate) fn named(&self, run: Option<RunId>, hashes: impl IntoIterator<Item = String>) {
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in hashes {
            if let Some(keeping) = unnamed.get_mut(&hash) {
                if let Some(place) = keeping.iter().position(|one| one.run == run) {
                    keeping.swap_remove(place);
                }
                if keeping.is_empty() {
                    unnamed.remove(&hash);
                }
            }
        }
    }

    /// A run is gone, and will name nothing any more. Answers what it had kept.
    pub(crate) fn forget_run(&self, run: RunId) -> Vec<String> {
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Vec::new();
        unnamed.retain(|hash, keeping| {
            let before = keeping.len();
            keeping.retain(|one| one.run != Some(run));
            if keeping.len() < before {
                kept.push(hash.clone());
            }
            !keeping.is_empty()
        });
        kept
    }

    /// Takes away those of the blobs that nobody needs any more, and answers how many.
    pub(crate) async fn release(&self, hashes: impl IntoIterator<Item = String>) -> Result<usize, Error> {
        let mut removed = 0;
        for hash in hashes {
            let _alone = self.turn.write().await;
            if !self.is_needed(&hash).await? {
                self.store.remove_blob(&hash).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn is_needed(&self, hash: &str) -> Result<bool, Error> {
        if self.unnamed.lock().unwrap_or_else(PoisonError::into_inner).contains_key(hash) {
            return Ok(true);
        }
        if !blob_uses(&*self.store, rows::UPLOAD_BLOBS, hash, 1).await?.is_empty() {
            return Ok(true);
        }
        let mut after = None;
        loop {
            let range = RowRange {
                space: rows::BLOB_USES.into(),
                prefix: format!("{hash}/").into(),
                after: after.take(),
                backwards: false,
                limit: limits::BLOB_PAGE,
            };
            let page = self.store.rows(range).await?;
            let Some(last) = page.last() else { return Ok(false) };
            after = Some(last.key.clone());
            for used in &page {
                let event = used.key.split_once('/').map_or("", |(_, event)| event);
                if !is_deleted(&*self.store, event).await? {
                    return Ok(true);
                }
            }
        }
    }

    /// Takes away what was kept by processes that died before anything named it.
    pub(crate) async fn sweep(&self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.store.blobs(after.take(), limits::BLOB_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            self.release(page).await?;
        }
    }
}

/// The blobs that an append names.
pub(crate) fn named(puts: &[RowPut]) -> Vec<String> {
    let uses = puts.iter().filter(|put| &*put.space == rows::BLOB_USES && put.value.is_some());
    uses.filter_map(|put| put.key.split_once('/').map(|(hash, _)| hash.to_owned())).collect()
}
