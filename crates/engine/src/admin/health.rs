//! Whether the engine can work, and copies and checks of the whole store.

use std::collections::BTreeMap;

use bytes::Bytes;
use recount_log::{Append, DroppedEnd, Guard, Integrity, ReadBound, RowPut};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::rebuild;
use crate::ground::rows;
use crate::{Error, limits};

impl AdminHandle {
    /// How many runs have a writer awake.
    pub fn awake(&self) -> usize {
        self.write().writers.awake()
    }

    /// Whether the store can be read, and has space. Where that is not known, because nothing was appended yet or the
    /// last append found none, it is tried.
    #[boxed]
    pub async fn ready(&self) -> Result<(), Error> {
        self.ground().store().last_position().await?;
        let bound = ReadBound { count: 1, bytes: 1 };
        match self.ground().store().read_feed(1, bound).await {
            // A store with damaged events answers for all others.
            Err(fault) if fault.damage.is_none() => return Err(fault.into()),
            Ok(_) | Err(_) => {}
        }
        let has_space = self.ground().store().space().await;
        if has_space.is_ok() && self.ground().counters.is_known_to_have_space() {
            return Ok(());
        }
        // Who asks may keep everybody else away as long as the answer is no: so it is found out here.
        for value in [Some(Bytes::from(vec![0; limits::SPACE_PROBE_BYTES])), None] {
            let row = RowPut { space: rows::PROBE.into(), key: "space".into(), guard: Guard::Any, value };
            self.ground().store().append(Append { rows: vec![row], ..Append::default() }).await?;
        }
        Ok(self.ground().store().space().await?)
    }

    /// The end of its log that the store went on without when it was opened.
    pub fn dropped_end(&self) -> Option<DroppedEnd> {
        self.ground().store().dropped_end()
    }

    /// Reads every record once. Slow.
    #[boxed]
    pub async fn integrity(&self) -> Result<Integrity, Error> {
        Ok(self.ground().store().integrity().await?)
    }

    /// Copies the whole store, as it is at one moment, to a folder that does not exist yet. Work goes on.
    #[boxed]
    pub async fn backup(&self, to: std::path::PathBuf) -> Result<(), Error> {
        Ok(self.ground().store().backup(to).await?)
    }

    /// What the catalogue would say if it were made anew from the log: `(space, key) → value`, ordered.
    #[boxed]
    pub async fn fold_again(&self) -> Result<BTreeMap<(String, String), Bytes>, Error> {
        rebuild::fold_again(self.ground().store()).await
    }
}
