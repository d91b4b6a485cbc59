//! The feed as stored envelopes, history joined with live events: for faces that process the events of all runs.
//!
//! Live envelopes are shared by all readers; nothing is decoded or framed. It must not know the content of events.
//! Start with [`FeedRecords::next`].

use bytes::Bytes;
use recount_log::ReadBound;

use crate::boxed;
use crate::read::handle::ReadHandle;
use crate::read::join::{Join, NextEvents};
use crate::read::runs::next_after;
use crate::{Error, limits};

/// A cursor in the feed.
pub struct FeedRecords {
    join: Join,
}

impl FeedRecords {
    /// Waits for the next positions and envelopes, in order. Empty if events were pruned, erased or damaged. `None`:
    /// nothing will follow. Dropping the future loses no events.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Vec<(u64, Bytes)>>, Error> {
        loop {
            match self.join.look(|join| join.list.envelopes(join.next)) {
                NextEvents::Live(records) => {
                    self.join.count_live(self.join.next + records.len() as u64);
                    return Ok(Some(records));
                }
                NextEvents::Stored => return self.stored().await.map(Some),
                NextEvents::CaughtUp if !self.join.has_more().await => return Ok(None),
                NextEvents::CaughtUp => {}
            }
        }
    }

    async fn stored(&mut self) -> Result<Vec<(u64, Bytes)>, Error> {
        // Read before the page, so that no later event is skipped.
        let end = self.join.store.last_position().await?;
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let read = {
            let _permit = self.join.publisher.reads().acquire().await;
            self.join.store.read_feed(self.join.next, bound).await
        };
        let found = match read {
            Ok(found) => found,
            Err(fault) => {
                let damaged = fault.damage.as_deref().and_then(|damage| damage.positions.clone());
                let Some(damaged) = damaged else { return Err(fault.into()) };
                tracing::error!(%fault, "damaged events are skipped");
                self.join.count_stored(self.join.next.max(damaged.end() + 1));
                return Ok(Vec::new());
            }
        };
        let next = found.last().map_or(end, |last| last.record.position) + 1;
        self.join.count_stored(next.max(self.join.next));
        Ok(found.into_iter().map(|found| (found.record.position, found.record.bytes)).collect())
    }
}

impl ReadHandle {
    /// Follows the envelopes of all runs after a position.
    #[boxed]
    pub async fn follow_feed_records(&self, after: u64) -> Result<FeedRecords, Error> {
        let list = self.publisher.feed();
        let last = self.ground().store().last_position().await?;
        let next = next_after(Some(after), last + 1, "position")?;
        self.not_below_retention(Some(after)).await?;
        Ok(FeedRecords { join: self.joined(list, None, next, last + 1) })
    }
}
