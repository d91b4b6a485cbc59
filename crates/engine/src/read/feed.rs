//! The feed: the events of all runs by position, read in pages or followed. It must not know the content of events.

use bytes::Bytes;
use recount_event::Code;
use recount_log::ReadBound;

use crate::boxed;
use crate::catalogue::tombstones::pruned_up_to;
use crate::read::event_filter::FeedFilter;
use crate::read::handle::ReadHandle;
use crate::read::join::{Join, NextEvents};
use crate::read::runs::{EventPage, next_after};
use crate::{Error, EventFilter, Subscription, limits};

/// The feed as stored envelopes, history joined with live events: for faces that process the events of all runs. Live
/// envelopes are shared by all readers; nothing is decoded or framed.
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
    /// Stored bytes of the events of all runs after a position, and whether there are more.
    #[boxed]
    pub async fn read_feed(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<(u64, Bytes)>, bool), Error> {
        let last = self.ground().store().last_position().await?;
        let from = next_after(after.or(Some(0)), last + 1, "position")?;
        self.not_below_retention(after).await?;
        let bound = ReadBound { count: limit, bytes: limits::PAGE_BYTES.max(limit * 512) };
        let found = self.ground().store().read_feed(from, bound).await?;
        // Without any stored event up to the end, there are no more.
        let next = found.last().map_or(last + 1, |found| found.record.position + 1);
        let records = found.into_iter().map(|found| (found.record.position, found.record.bytes)).collect();
        Ok((records, next <= last))
    }

    /// The same with a filter, and with damaged events as a page of their own. With a filter it scans a limited number
    /// of events, so a page may be short or empty although there are more.
    #[boxed]
    pub async fn feed_page(
        &self,
        after: Option<u64>,
        limit: usize,
        filter: EventFilter,
    ) -> Result<EventPage, Error> {
        if filter.is_open() {
            return match self.read_feed(after, limit).await {
                Ok(page) => Ok(EventPage::after(after, page)),
                Err(error) => {
                    let skipped = error.into_skipped(|damage| damage.positions.clone())?;
                    Ok(EventPage::skipping(skipped, self.last_position().await?))
                }
            };
        }
        let last = self.ground().store().last_position().await?;
        let mut from = next_after(after.or(Some(0)), last + 1, "position")?;
        self.not_below_retention(after).await?;
        let filter = FeedFilter::new(filter, self.ground().store.clone());
        let mut events = Vec::new();
        let mut looked_at = 0;
        while events.len() < limit && looked_at < limits::FEED_SCAN_MAX && from <= last {
            let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
            let found = match self.ground().store().read_feed(from, bound).await {
                Ok(found) => found,
                Err(fault) => {
                    let skipped = Error::from(fault).into_skipped(|damage| damage.positions.clone())?;
                    // The events before it are returned first.
                    if !events.is_empty() {
                        break;
                    }
                    return Ok(EventPage::skipping(skipped, last));
                }
            };
            looked_at += found.len();
            // Without any stored event up to the end, there are no more.
            let end = found.last().map_or(last + 1, |found| found.record.position + 1);
            let mut wanted = filter.select(found).await?;
            let capacity = limit - events.len();
            // The cursor stays before the first event that does not fit.
            from = wanted.get(capacity).map_or(end, |first_left| first_left.record.position);
            wanted.truncate(capacity);
            events.extend(wanted.into_iter().map(|found| (found.record.position, found.record.bytes)));
        }
        let next = if from > 1 { Some(from - 1) } else { after };
        Ok(EventPage { events, next, has_more: from <= last, damage: None })
    }

    /// Follows all runs after a position, or from the start.
    #[boxed]
    pub async fn follow_feed(&self, after: Option<u64>) -> Result<Subscription, Error> {
        let list = self.publisher.feed();
        let last = self.ground().store().last_position().await?;
        let next = next_after(after.or(Some(0)), last + 1, "position")?;
        self.not_below_retention(after).await?;
        Ok(Subscription::new(self.joined(list, None, next, last + 1)))
    }

    /// The same with a filter. Such a reader is served from the store.
    #[boxed]
    pub async fn follow_feed_of(
        &self,
        after: Option<u64>,
        filter: EventFilter,
    ) -> Result<Subscription, Error> {
        let subscription = self.follow_feed(after).await?;
        Ok(subscription.filtered(FeedFilter::new(filter, self.ground().store.clone())))
    }

    /// Follows the envelopes of all runs after a position.
    #[boxed]
    pub async fn follow_feed_records(&self, after: u64) -> Result<FeedRecords, Error> {
        let list = self.publisher.feed();
        let last = self.ground().store().last_position().await?;
        let next = next_after(Some(after), last + 1, "position")?;
        self.not_below_retention(Some(after)).await?;
        Ok(FeedRecords { join: self.joined(list, None, next, last + 1) })
    }

    /// The position of the last event; 0 if there is none.
    #[boxed]
    pub async fn last_position(&self) -> Result<u64, Error> {
        Ok(self.ground().store().last_position().await?)
    }

    /// Refuses a cursor if events after it were pruned and no earlier event is stored. Erased events are skipped
    /// without a notice; a marker names pruned events between others.
    pub(crate) async fn not_below_retention(&self, after: Option<u64>) -> Result<(), Error> {
        let Some(after) = after.filter(|after| *after > 0) else { return Ok(()) };
        match self.pruned_after(after).await? {
            Some(last_pruned) => Err(Error::rejected(
                Code::CursorPruned,
                format!(
                    "the cursor is position {after}, but earlier events were pruned and the first position \
                     is {}",
                    last_pruned + 1
                ),
            )),
            None => Ok(()),
        }
    }

    /// The cursor before the first stored event, if events after the given one were pruned and no earlier event is stored.
    #[boxed]
    pub async fn pruned_after(&self, after: u64) -> Result<Option<u64>, Error> {
        if after >= pruned_up_to(self.ground().store()).await? {
            return Ok(None);
        }
        let first = match self.ground().store().read_feed(1, ReadBound { count: 1, bytes: 1 }).await {
            Ok(found) => found.first().map(|found| found.record.position),
            // Damaged events were not pruned.
            Err(fault) => {
                let (_, positions) = Error::from(fault).into_skipped(|damage| damage.positions.clone())?;
                Some(*positions.start())
            }
        };
        Ok(first.filter(|first| *first > after + 1).map(|first| first - 1))
    }
}
