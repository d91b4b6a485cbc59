//! Which runs are pinned, so that nothing of them is pruned. It must not know what pruning is.

use recount_event::RunId;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;

/// Why nothing of a run is pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    pub by: String,
    pub pinned_at: String,
}

impl CatalogueHandle {
    pub async fn pin_of(&self, run: RunId) -> Result<Option<Pin>, Error> {
        self.row(rows::PINS, &run.to_string()).await
    }
}
