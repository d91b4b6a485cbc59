//! Which folders are being written to by us at this moment, so that no run begins to work in them meanwhile.
//!
//! Look at [`Claims`]. Runs hold a claim while their folder is made ready and while a tool of theirs is alive, which may be
//! longer than the run is; that they work there at all is in the store, where an apply looks while it holds its
//! own claim. It must never know runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::workspace::limits;

/// See the file's head. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Book {
    next: u64,
    /// In the order of arrival: those that are held, and those that wait for one before them.
    entries: Vec<ClaimRow>,
}

#[derive(Debug)]
struct ClaimRow {
    number: u64,
    folders: Vec<PathBuf>,
    sort: Sort,
}

impl ClaimRow {
    /// Whether the two do not go together.
    fn bars(&self, other: &ClaimRow) -> bool {
        (self.sort == Sort::Sole || other.sort == Sort::Sole)
            && self.folders.iter().any(|one| other.folders.iter().any(|other| overlap(one, other)))
    }
}

/// Whether others may claim the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// To work in it as a run, or to make a copy.
    Shared,
    /// To apply changes to it.
    Sole,
}

impl Sort {
    /// How long it is waited for.
    fn wait(self) -> Duration {
        match self {
            Sort::Shared => limits::CLAIM_SHARED_WAIT,
            Sort::Sole => limits::CLAIM_SOLE_WAIT,
        }
    }
}

/// Others held a folder for longer than is waited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StillHeld;

/// Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    shared: Arc<Shared>,
    number: u64,
}

impl Claims {
    /// Waits until nobody who came earlier claims one of these folders, or a folder above or below one, in a way that does
    /// not go together.
    pub(crate) async fn claim(&self, folders: Vec<PathBuf>, sort: Sort) -> Result<Claim, StillHeld> {
        // Dropping it gives the place up, too.
        let claim = self.enter(folders, sort);
        let first = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                // From here on no change is missed.
                changed.as_mut().enable();
                if claim.is_held() {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(sort.wait(), first).await;
        waited.map(|()| claim).map_err(|_| StillHeld)
    }

    fn enter(&self, folders: Vec<PathBuf>, sort: Sort) -> Claim {
        let mut book = self.shared.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.next += 1;
        let number = book.next;
        book.entries.push(ClaimRow { number, folders, sort });
        Claim { shared: self.shared.clone(), number }
    }
}

impl Claim {
    /// Whether nothing that came earlier bars it.
    fn is_held(&self) -> bool {
        let book = self.shared.book.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = book.entries.iter().position(|entry| entry.number == self.number) else {
            return false;
        };
        let (earlier, own) = (&book.entries[..at], &book.entries[at]);
        !earlier.iter().any(|entry| entry.bars(own))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut book = self.shared.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.entries.retain(|entry| entry.number != self.number);
        drop(book);
        self.shared.changed.notify_waiters();
    }
}

/// Whether one is the other, or lies in it.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_folder_is_written_to_alone_and_read_together() {
        let claims = Claims::default();
        let now = |path: &str, sort| claims.claim(vec![path.into()], sort).now_or_never();
        let reads = now("/a/b", Sort::Shared).unwrap();
        let _reads_too = now("/a/b/c", Sort::Shared).unwrap();
        let _other = now("/a/bc", Sort::Sole).unwrap();
        for path in ["/a", "/a/b", "/a/b/c/d"] {
            assert!(now(path, Sort::Sole).is_none(), "{path}");
        }
        let waits = claims.claim(vec!["/a/b/d".into()], Sort::Sole);
        tokio::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        drop(reads);
        let writes = waits.await.unwrap();
        assert!(now("/a/b/d/e", Sort::Shared).is_none());
        drop(writes);
        assert!(now("/a/b/d/e", Sort::Shared).is_some());
    }

    #[tokio::test]
    async fn who_came_first_is_first_and_who_gives_up_holds_up_nobody() {
        let claims = Claims::default();
        let claim = |path: &str, sort| Box::pin(claims.claim(vec![path.into()], sort));
        let reads = claim("/a", Sort::Shared).await.unwrap();
        let mut writes = claim("/a", Sort::Sole);
        assert!((&mut writes).now_or_never().is_none());
        let mut later = claim("/a/b", Sort::Shared);
        assert!((&mut later).now_or_never().is_none(), "it would pass one that waits");
        assert!(claim("/b", Sort::Sole).now_or_never().is_some());
        drop(reads);
        let writes = writes.await.unwrap();
        assert!((&mut later).now_or_never().is_none());
        let given_up = claim("/a", Sort::Sole).now_or_never();
        assert!(given_up.is_none());
        drop(writes);
        later.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_not_waited_for_without_end() {
        let claims = Claims::default();
        for (held, sort) in [(Sort::Shared, Sort::Sole), (Sort::Sole, Sort::Shared)] {
            let _held = claims.claim(vec!["/a".into()], held).await.unwrap();
            let began = recount_world::moment();
            assert_eq!(claims.claim(vec!["/a".into()], sort).await.unwrap_err(), StillHeld);
            assert_eq!(began.elapsed().as_secs(), sort.wait().as_secs());
        }
    }
}
