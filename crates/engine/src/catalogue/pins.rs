//! Which runs are pinned, so that nothing of them is pruned. It must not know what pruning is.

use recount_event::RunId;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;

/// Why nothing of a run is pruned.
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

    /// Whether nothing of a run is pruned. A pin that is damaged counts until it is taken away: it may not be known by whom
    /// or when, but that a run is to be kept is.
    #[boxed]
    pub async fn is_pinned(&self, run: RunId) -> Result<bool, Error> {
        there_or_damaged(self.pin_of(run).await)
    }
}

/// Whether there is a pin, readable or not.
pub(crate) fn there_or_damaged(pin: Result<Option<Pin>, Error>) -> Result<bool, Error> {
    match pin {
        Ok(pin) => Ok(pin.is_some()),
        Err(error) if error.is_damage() => Ok(true),
        Err(error) => Err(error),
    }
}
