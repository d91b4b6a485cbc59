//! Readiness check, integrity check, backup and catalogue check of the whole store.

use std::collections::BTreeMap;

use bytes::Bytes;
use recount_log::{Append, DroppedEnd, Guard, Integrity, ReadBound, RowPut};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::rebuild;
use crate::ground::rows;
use crate::{Error, limits};

impl AdminHandle {
    /// The number of runs with an active writer.
    pub fn awake(&self) -> usize {
        self.write().writers.awake()
    }

    /// Checks that the store can be read and has space. If the space is unknown, because no append has succeeded
    /// since startup or the last append found none, the check writes a probe row.
    #[boxed]
    pub async fn ready(&self) -> Result<(), Error> {
        self.ground().store().last_position().await?;
        let bound = ReadBound { count: 1, bytes: 1 };
        match self.ground().store().read_feed(1, bound).await {
            // A store with damaged events still serves all others.
            Err(fault) if fault.damage.is_none() => return Err(fault.into()),
            Ok(_) | Err(_) => {}
        }
        let has_space = self.ground().store().space().await;
        if has_space.is_ok() && self.ground().counters.is_known_to_have_space() {
            return Ok(());
        }
        // A load balancer may send no requests while the check fails, so the check itself must find out that there is
        // space again.
        for value in [Some(Bytes::from(vec![0; limits::SPACE_PROBE_BYTES])), None] {
            let row = RowPut { space: rows::PROBE.into(), key: "space".into(), guard: Guard::Any, value };
            self.ground().store().append(Append { rows: vec![row], ..Append::default() }).await?;
        }
        Ok(self.ground().store().space().await?)
    }

    /// The end of the log that the store dropped when it was opened.
    pub fn dropped_end(&self) -> Option<DroppedEnd> {
        self.ground().store().dropped_end()
    }

    /// Reads every record once. Slow.
    #[boxed]
    pub async fn integrity(&self) -> Result<Integrity, Error> {
        Ok(self.ground().store().integrity().await?)
    }

    /// Copies a snapshot of the store to a new folder. Appends continue meanwhile.
    #[boxed]
    pub async fn backup(&self, to: std::path::PathBuf) -> Result<(), Error> {
        Ok(self.ground().store().backup(to).await?)
    }

    /// The catalogue as computed from the log: `(space, key) → value`, ordered.
    #[boxed]
    pub async fn fold_again(&self) -> Result<BTreeMap<(String, String), Bytes>, Error> {
        rebuild::fold_again(self.ground().store()).await
    }
}
