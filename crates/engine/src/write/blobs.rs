//! Stores the bytes of artifacts before an append names them, and deletes unused ones.
//!
//! Until the append that names a blob, its use is tracked in memory, so that it is not deleted meanwhile. Blobs that
//! were never named are found at startup. Blobs are checked and deleted while no other is stored.

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
    /// Held for reading while a blob is stored, and for writing while one is deleted.
    turn: RwLock<()>,
    /// Blobs that no row names yet.
    unnamed: Mutex<HashMap<String, Vec<PendingUse>>>,
}

/// A pending use of a blob.
struct PendingUse {
    run: Option<RunId>,
    since: Instant,
}

impl Blobs {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Blobs { store, turn: RwLock::default(), unnamed: Mutex::default() }
    }

    /// Stores bytes and returns the name of their blob. They are durable when this returns; an append must name it
    /// soon.
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

    /// Tracks a pending use of a stored blob.
    pub(crate) fn hold(&self, hash: &str, run: RunId) {
        drop(self.note(hash, Some(run)));
    }

    /// The same for a blob that may be missing. Returns whether it is stored; a missing one is not tracked.
    pub(super) async fn hold_if_here(&self, hash: &str, run: RunId) -> Result<bool, Error> {
        self.hold(hash, run);
        let found = {
            // A concurrent deletion has either finished or sees that this blob is in use.
            let _shared = self.turn.read().await;
            self.is_here(hash).await
        };
        if !matches!(found, Ok(true)) {
            self.named(Some(run), [hash.to_owned()]);
        }
        found
    }

    /// Whether a blob exists, without reading its bytes.
    async fn is_here(&self, hash: &str) -> Result<bool, Error> {
        let just_before = hash.get(..hash.len().saturating_sub(1)).map(str::to_owned);
        let next = self.store.blobs(just_before, 1).await?;
        Ok(next.first().is_some_and(|name| name == hash))
    }

    /// Tracks a pending use. Returns blobs whose use is overdue.
    fn note(&self, hash: &str, run: Option<RunId>) -> Vec<String> {
        let now = recount_world::moment();
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut late = Vec::new();
        if unnamed.len() >= limits::BLOBS_UNNAMED_MAX {
            unnamed.retain(|hash, uses| {
                uses.retain(|one| now.duration_since(one.since) < limits::BLOB_UNNAMED_LIFE);
                let stays = !uses.is_empty();
                if !stays {
                    late.push(hash.clone());
                }
                stays
            });
        }
        unnamed.entry(hash.to_owned()).or_default().push(PendingUse { run, since: now });
        late
    }

    /// An append has named these blobs; from now on their rows count.
    pub(crate) fn named(&self, run: Option<RunId>, hashes: impl IntoIterator<Item = String>) {
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in hashes {
            if let Some(uses) = unnamed.get_mut(&hash) {
                if let Some(place) = uses.iter().position(|one| one.run == run) {
                    uses.swap_remove(place);
                }
                if uses.is_empty() {
                    unnamed.remove(&hash);
                }
            }
        }
    }

    /// A run was erased and names no more blobs. Returns its pending blobs.
    pub(crate) fn forget_run(&self, run: RunId) -> Vec<String> {
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hashes = Vec::new();
        unnamed.retain(|hash, uses| {
            let before = uses.len();
            uses.retain(|one| one.run != Some(run));
            if uses.len() < before {
                hashes.push(hash.clone());
            }
            !uses.is_empty()
        });
        hashes
    }

    /// Deletes the unused ones of these blobs. Returns their number.
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
                after: after.take(),
                ..RowRange::first(rows::BLOB_USES, format!("{hash}/"), limits::BLOB_PAGE)
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

    /// Deletes blobs of earlier processes that were never named.
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
