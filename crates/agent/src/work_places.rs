//! Limits concurrent work: processes, files and memory. A run that waits for its model needs no place.
//!
//! It must never know runs or tools.
//!
//! Start at [`WorkPlaces`]. Places are given in the order of the requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Clone)]
pub(crate) struct WorkPlaces {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicU64>,
}

/// A position in the queue; dropping it leaves the queue.
pub(crate) struct Waiting {
    places: WorkPlaces,
    /// 1 is next.
    pub(crate) place: u64,
}

impl WorkPlaces {
    pub(crate) fn new(at_once: usize) -> Self {
        WorkPlaces { free: Arc::new(Semaphore::new(at_once)), waiting: Arc::default() }
    }

    pub(crate) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    pub(crate) fn queue(&self) -> Waiting {
        let place = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        Waiting { places: self.clone(), place }
    }
}

impl Waiting {
    pub(crate) async fn take(self) -> OwnedSemaphorePermit {
        let taken = self.places.free.clone().acquire_owned().await;
        taken.expect("the semaphore is never closed")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.places.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
