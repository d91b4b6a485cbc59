//! Pinned runs, which are not pruned. It must not know how pruning works.

use recount_event::RunId;
use recount_log::ReadResult as _;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;

/// Protects a run or an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    pub by: String,
    pub pinned_at: String,
}

impl CatalogueHandle {
    #[boxed]
    pub async fn pin_of(&self, run: RunId) -> Result<Option<Pin>, Error> {
        self.row(rows::PINS, &run.to_string()).await
    }

    /// Whether a run is pinned. A damaged pin counts as a pin until it is removed: its owner and time may be lost,
    /// but the protection is not.
    #[boxed]
    pub async fn is_pinned(&self, run: RunId) -> Result<bool, Error> {
        exists_or_damaged(self.pin_of(run).await)
    }
}

/// Whether there is a pin, readable or not.
pub(crate) fn exists_or_damaged(pin: Result<Option<Pin>, Error>) -> Result<bool, Error> {
    Ok(pin.readable()?.whole().is_none_or(|pin| pin.is_some()))
}
