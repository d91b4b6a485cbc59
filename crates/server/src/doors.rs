//! Who is in and who was turned away: places for connections, and what is counted of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;

/// Shared by the listener, which lets in, and metrics.
pub(crate) struct Doors {
    places: Arc<Semaphore>,
    places_max: usize,
    /// For those who are only told that there is no place.
    refusals: Arc<Semaphore>,
    accepted: AtomicU64,
    refused: AtomicU64,
    stalled: AtomicU64,
}

/// What becomes of somebody who knocks.
pub(crate) enum Welcome {
    Place(OwnedSemaphorePermit),
    /// There is no place, and time to say so.
    Refusal(OwnedSemaphorePermit),
    /// Not even that.
    Nothing,
}

impl Doors {
    pub(crate) fn new(places_max: usize) -> Arc<Self> {
        Arc::new(Doors {
            places: Arc::new(Semaphore::new(places_max)),
            places_max,
            refusals: Arc::new(Semaphore::new(limits::REFUSALS_MAX)),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
        })
    }

    pub(crate) fn knock(&self) -> Welcome {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            self.accepted.fetch_add(1, Ordering::Relaxed);
            return Welcome::Place(place);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.refusals.clone().try_acquire_owned().map_or(Welcome::Nothing, Welcome::Refusal)
    }

    /// A connection was cut because its peer took nothing.
    pub(crate) fn cut(&self) {
        self.stalled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn places_max(&self) -> usize {
        self.places_max
    }

    pub(crate) fn open(&self) -> usize {
        self.places_max - self.places.available_permits()
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::Relaxed)
    }
}
