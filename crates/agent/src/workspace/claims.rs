//! Claims on folders, so that no run starts to work in a folder while changes are applied to it.
//!
//! It must never know runs.
//!
//! Start at [`Claims`]. Runs hold a claim while their folder is prepared and while one of their tools runs, which may
//! outlast the run. The store records which runs work in a folder; an apply checks it while it holds its own claim.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::workspace::limits;

/// The claims of all folders. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<ClaimTable>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct ClaimTable {
    next: u64,
    /// In the order of arrival: held claims, and those that wait for an earlier one.
    entries: Vec<ClaimRow>,
}

#[derive(Debug)]
struct ClaimRow {
    number: u64,
    folders: Vec<PathBuf>,
    mode: ClaimMode,
}

impl ClaimRow {
    /// Whether the two exclude each other.
    fn conflicts_with(&self, other: &ClaimRow) -> bool {
        (self.mode == ClaimMode::Exclusive || other.mode == ClaimMode::Exclusive)
            && self.folders.iter().any(|one| other.folders.iter().any(|other| overlap(one, other)))
    }
}

/// Whether others may claim the same folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimMode {
    /// To work in it as a run, or to copy it.
    Shared,
    /// To apply changes to it.
    Exclusive,
}

impl ClaimMode {
    /// How long to wait for it.
    fn wait(self) -> Duration {
        match self {
            ClaimMode::Shared => limits::CLAIM_SHARED_WAIT,
            ClaimMode::Exclusive => limits::CLAIM_EXCLUSIVE_WAIT,
        }
    }
}

/// The wait for a folder that others claim timed out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StillClaimed;

/// Released when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    shared: Arc<Shared>,
    number: u64,
}

impl Claims {
    /// Waits until no earlier claim conflicts on one of these folders, or on a folder above or below one.
    pub(crate) async fn claim(&self, folders: Vec<PathBuf>, mode: ClaimMode) -> Result<Claim, StillClaimed> {
        // Dropping the future also leaves the queue.
        let claim = self.register(folders, mode);
        let first = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                // No notification is missed from here on.
                changed.as_mut().enable();
                if claim.is_held() {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(mode.wait(), first).await;
        waited.map(|()| claim).map_err(|_| StillClaimed)
    }

    fn register(&self, folders: Vec<PathBuf>, mode: ClaimMode) -> Claim {
        let mut table = self.shared.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.next += 1;
        let number = table.next;
        table.entries.push(ClaimRow { number, folders, mode });
        Claim { shared: self.shared.clone(), number }
    }
}

impl Claim {
    /// Whether no earlier claim conflicts.
    fn is_held(&self) -> bool {
        let table = self.shared.table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = table.entries.iter().position(|entry| entry.number == self.number) else {
            return false;
        };
        let (earlier, own) = (&table.entries[..at], &table.entries[at]);
        !earlier.iter().any(|entry| entry.conflicts_with(own))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = self.shared.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.entries.retain(|entry| entry.number != self.number);
        drop(table);
        self.shared.changed.notify_waiters();
    }
}

/// Whether one path is equal to the other or inside it.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn exclusive_claims_exclude_others_and_shared_ones_do_not() {
        let claims = Claims::default();
        let now = |path: &str, mode| claims.claim(vec![path.into()], mode).now_or_never();
        let reads = now("/a/b", ClaimMode::Shared).unwrap();
        let _reads_too = now("/a/b/c", ClaimMode::Shared).unwrap();
        let _other = now("/a/bc", ClaimMode::Exclusive).unwrap();
        for path in ["/a", "/a/b", "/a/b/c/d"] {
            assert!(now(path, ClaimMode::Exclusive).is_none(), "{path}");
        }
        let waits = claims.claim(vec!["/a/b/d".into()], ClaimMode::Exclusive);
        tokio::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        drop(reads);
        let writes = waits.await.unwrap();
        assert!(now("/a/b/d/e", ClaimMode::Shared).is_none());
        drop(writes);
        assert!(now("/a/b/d/e", ClaimMode::Shared).is_some());
    }

    #[tokio::test]
    async fn claims_are_granted_in_order_and_dropped_ones_block_none() {
        let claims = Claims::default();
        let claim = |path: &str, mode| Box::pin(claims.claim(vec![path.into()], mode));
        let reads = claim("/a", ClaimMode::Shared).await.unwrap();
        let mut writes = claim("/a", ClaimMode::Exclusive);
        assert!((&mut writes).now_or_never().is_none());
        let mut later = claim("/a/b", ClaimMode::Shared);
        assert!((&mut later).now_or_never().is_none(), "it would pass one that waits");
        assert!(claim("/b", ClaimMode::Exclusive).now_or_never().is_some());
        drop(reads);
        let writes = writes.await.unwrap();
        assert!((&mut later).now_or_never().is_none());
        let given_up = claim("/a", ClaimMode::Exclusive).now_or_never();
        assert!(given_up.is_none());
        drop(writes);
        later.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_claim_times_out() {
        let claims = Claims::default();
        for (held, mode) in
            [(ClaimMode::Shared, ClaimMode::Exclusive), (ClaimMode::Exclusive, ClaimMode::Shared)]
        {
            let _held = claims.claim(vec!["/a".into()], held).await.unwrap();
            let began = recount_world::moment();
            assert_eq!(claims.claim(vec!["/a".into()], mode).await.unwrap_err(), StillClaimed);
            assert_eq!(began.elapsed().as_secs(), mode.wait().as_secs());
        }
    }
}
