//! A run or the feed as frames, history joined with live events: for faces that send events as they are stored.
//!
//! Frames are encoded once for all readers of a live list, and by the store for history. It must not know the content
//! of frames. Start with [`Subscription::next`].

use bytes::{Bytes, BytesMut};
use recount_log::{Answer, Damage, FeedRecord, ReadBound, RecordPage, StreamKey};
use tokio::sync::OwnedSemaphorePermit;

use crate::boxed;
use crate::ground::error::run_erased;
use crate::read::event_filter::FeedFilter;
use crate::read::join::{Join, NextEvents};
use crate::read::live::CursorLookup;
use crate::{Error, Failure, limits};

/// The next item of a subscription.
#[derive(Debug)]
pub enum Delivery {
    /// Framed events, in order, and the cursor of the last one.
    Frames { bytes: Bytes, last: u64 },
    /// No event up to here matched the filter: the cursor to continue from. Sent only for filtered feeds, at
    /// intervals.
    Passed { last: u64 },
    /// The events from `first` to `last` were pruned; the stored ones follow. Sent only for runs.
    Gap { first: u64, last: u64 },
    /// Damaged events that cannot be delivered; the undamaged ones after them follow.
    Damaged(Box<Damage>),
    /// Everything that existed when the subscription started was delivered. Sent once.
    CaughtUp,
    /// Nothing will follow.
    Closed,
}

/// A cursor in one run or in the feed.
pub struct Subscription {
    join: Join,
    caught_up: bool,
    ahead: Option<ReadAhead>,
    /// The filter of the feed, if there is one.
    filter: Option<FeedFilter>,
    /// Hidden events since the last delivery.
    hidden: u64,
}

/// A page of history that is read while the previous one is written.
struct ReadAhead {
    from: u64,
    page: Answer<Option<RecordPage>>,
    _permit: OwnedSemaphorePermit,
}

impl Subscription {
    pub(crate) fn new(join: Join) -> Self {
        join.list.enable_frames();
        Subscription { join, caught_up: false, ahead: None, filter: None, hidden: 0 }
    }

    /// Adds a filter.
    pub(crate) fn filtered(self, filter: FeedFilter) -> Self {
        Subscription { filter: Some(filter), ..self }
    }

    /// The cursor of the last event that was delivered or skipped, if any.
    pub fn last(&self) -> Option<u64> {
        self.join.last()
    }

    /// Whether a filter hides events.
    pub fn hides(&self) -> bool {
        self.filter.is_some()
    }

    /// Waits for the next delivery. Dropping the future loses no events.
    #[boxed]
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            let is_filtered = self.filter.is_some();
            // Frames on the list cannot be filtered.
            let live = |join: &Join| if is_filtered { None } else { live_frames(join) };
            match self.join.look(live) {
                NextEvents::Live((bytes, next)) => {
                    self.join.count_live(next);
                    return Ok(Delivery::Frames { bytes, last: next - 1 });
                }
                NextEvents::Stored => {
                    if let Some(delivery) = self.read_history().await? {
                        return Ok(delivery);
                    }
                }
                NextEvents::CaughtUp if !self.caught_up => {
                    self.caught_up = true;
                    return Ok(Delivery::CaughtUp);
                }
                NextEvents::CaughtUp if !self.join.has_more().await => return Ok(Delivery::Closed),
                NextEvents::CaughtUp => {}
            }
        }
    }

    /// Reads the store at the cursor. Damaged events are reported and skipped.
    async fn read_history(&mut self) -> Result<Option<Delivery>, Error> {
        let failed = match self.read_stored().await {
            Ok(delivery) => return Ok(delivery),
            Err(failed) => failed,
        };
        let range = failed.damage().and_then(|damage| match self.join.stream {
            Some(_) => damage.sequences.clone(),
            None => damage.positions.clone(),
        });
        match (failed, range) {
            (Error::Failed(Failure { damage: Some(damage), message, .. }), Some(range))
                if *range.end() >= self.join.next =>
            {
                tracing::error!(message, "damaged events are skipped");
                self.ahead = None;
                self.join.count_stored(range.end() + 1);
                Ok(Some(Delivery::Damaged(damage)))
            }
            (failed, _) => Err(failed),
        }
    }

    async fn read_stored(&mut self) -> Result<Option<Delivery>, Error> {
        let page = match self.join.stream.clone() {
            Some(stream) => {
                let page = self.read_run(&stream).await?;
                if page.is_none() && self.join.store.end(&stream).await?.is_some_and(|tail| tail.erased) {
                    return Err(run_erased(&stream));
                }
                page
            }
            None if let Some(filter) = self.filter.clone() => return self.read_filtered(&filter).await,
            None => {
                // Read before the page, so that no later event is skipped.
                let end = self.join.store.last_position().await?;
                let page = self.read_feed().await?;
                if page.is_none() && end >= self.join.next {
                    self.join.next = end + 1;
                    return Ok(None);
                }
                page
            }
        };
        let Some(page) = page else {
            return Err(Error::bug(format!(
                "the store has no event at {} although its tail is {}",
                self.join.next, self.join.watermark
            )));
        };
        if self.join.stream.is_some() && page.first > self.join.next {
            // The page is read again for the next call; this happens once.
            self.ahead = None;
            let gap = Delivery::Gap { first: self.join.next, last: page.first - 1 };
            self.join.next = page.first;
            return Ok(Some(gap));
        }
        self.join.count_stored(page.last + 1);
        Ok(Some(Delivery::Frames { bytes: page.bytes, last: page.last }))
    }

    /// A page of the feed, filtered.
    async fn read_filtered(&mut self, filter: &FeedFilter) -> Result<Option<Delivery>, Error> {
        // Read before the page, so that no later event is skipped.
        let end = self.join.store.last_position().await?;
        let found = self.feed_records().await?;
        let Some(last) = found.last().map(|found| found.record.position) else {
            self.join.next = self.join.next.max(end + 1);
            return Ok(None);
        };
        self.hidden += found.len() as u64;
        let wanted = filter.select(found).await?;
        self.join.count_stored(last + 1);
        if let Some(page) = self.framed(&wanted) {
            self.hidden = last - page.last;
            return Ok(Some(Delivery::Frames { bytes: page.bytes, last: page.last }));
        }
        if self.hidden < limits::HIDDEN_MAX {
            return Ok(None);
        }
        self.hidden = 0;
        Ok(Some(Delivery::Passed { last }))
    }

    async fn read_run(&mut self, stream: &StreamKey) -> Result<Option<RecordPage>, Error> {
        let page = match self.ahead.as_mut().filter(|ahead| ahead.from == self.join.next) {
            Some(ahead) => (&mut ahead.page).await,
            None => {
                let _permit = self.join.publisher.reads().acquire().await;
                self.read_page(stream, self.join.next).await
            }
        };
        self.ahead = None;
        let Some(page) = page? else { return Ok(None) };
        let next = page.last + 1;
        if next < self.join.known_end()
            && !self.join.list.reaches(next)
            && let Ok(permit) = self.join.publisher.reads_ahead().clone().try_acquire_owned()
        {
            // The store starts reading at once, not when the future is polled.
            self.ahead = Some(ReadAhead { from: next, page: self.read_page(stream, next), _permit: permit });
        }
        Ok(Some(page))
    }

    fn read_page(&self, stream: &StreamKey, from: u64) -> Answer<Option<RecordPage>> {
        let bound = ReadBound { count: limits::PAGE_FRAMES, bytes: limits::PAGE_BYTES };
        let framing = self.join.publisher.framing().clone();
        let write = move |sequence, record: &[u8], page: &mut BytesMut| framing.frame(sequence, record, page);
        self.join.store.read_page(stream, from, bound, Box::new(write))
    }

    async fn read_feed(&mut self) -> Result<Option<RecordPage>, Error> {
        let found = self.feed_records().await?;
        Ok(self.framed(&found))
    }

    async fn feed_records(&mut self) -> Result<Vec<FeedRecord>, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let _permit = self.join.publisher.reads().acquire().await;
        Ok(self.join.store.read_feed(self.join.next, bound).await?)
    }

    /// Records of the feed as frames; `None` if there are none.
    fn framed(&self, found: &[FeedRecord]) -> Option<RecordPage> {
        let (first, last) = (found.first()?.record.position, found.last()?.record.position);
        let mut bytes = BytesMut::with_capacity(limits::PAGE_BYTES / 8);
        for found in found {
            self.join.publisher.framing().frame(found.record.position, &found.record.bytes, &mut bytes);
        }
        Some(RecordPage { bytes: bytes.freeze(), first, last })
    }
}

/// Frames from the list, as many as fit one write, and the cursor after them.
fn live_frames(join: &Join) -> Option<(Bytes, u64)> {
    match join.list.take(join.next, &**join.publisher.framing()) {
        CursorLookup::Frames(bytes, next) => Some((bytes, next)),
        CursorLookup::Evicted | CursorLookup::Nothing => None,
    }
}
