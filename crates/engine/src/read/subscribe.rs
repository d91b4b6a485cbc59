//! A run or the feed as frames, history joined with live: for faces that send each event as it was stored.
//!
//! Frames are made once for all readers of a live list, and by the store where they are read from history. It must not
//! know what a frame says. See [`Subscription::next`].

use bytes::{Bytes, BytesMut};
use recount_log::{Answer, Damage, FeedRecord, ReadBound, RecordPage, StreamKey};
use tokio::sync::OwnedSemaphorePermit;

use crate::boxed;
use crate::ground::error::run_erased;
use crate::read::event_filter::FeedFilter;
use crate::read::join::{Join, NextEvents};
use crate::read::live::Found;
use crate::{Error, Failure, limits};

/// What a reader is given next.
#[derive(Debug)]
pub enum Delivery {
    /// Framed events, in order, and the cursor of the last one.
    Frames { bytes: Bytes, last: u64 },
    /// Nothing of what came up to here was wanted: where to go on from later. Said of sifted feeds only, now and then.
    Passed { last: u64 },
    /// The events from `first` to `last` were pruned; what is left follows. Said of runs only.
    Gap { first: u64, last: u64 },
    /// Events whose stored bytes are damaged, so that they are not given; what is whole after them follows.
    Damaged(Box<Damage>),
    /// Everything that was there when the reader came has been given. Said once.
    CaughtUp,
    /// Nothing will follow.
    Closed,
}

/// A cursor that moves through one run, or through the feed.
pub struct Subscription {
    join: Join,
    caught_up: bool,
    ahead: Option<Ahead>,
    /// Of the feed, when not all of it is wanted.
    sifter: Option<FeedFilter>,
    /// Events that were passed over since something was said.
    hidden: u64,
}

/// A page of history that is read while the one before it is written.
struct Ahead {
    from: u64,
    page: Answer<Option<RecordPage>>,
    _permit: OwnedSemaphorePermit,
}

impl Subscription {
    pub(crate) fn new(join: Join) -> Self {
        join.list.want_frames();
        Subscription { join, caught_up: false, ahead: None, sifter: None, hidden: 0 }
    }

    /// The same, of what passes.
    pub(crate) fn sifted(self, sifter: FeedFilter) -> Self {
        Subscription { sifter: Some(sifter), ..self }
    }

    /// The cursor of the last event given or passed over, if any was.
    pub fn last(&self) -> Option<u64> {
        self.join.last()
    }

    /// Whether not everything is given that comes.
    pub fn hides(&self) -> bool {
        self.sifter.is_some()
    }

    /// Waits for what comes next. Dropping the future loses nothing.
    #[boxed]
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            let is_sifted = self.sifter.is_some();
            // Frames on the list are not to be looked into.
            let live = |join: &Join| if is_sifted { None } else { live_frames(join) };
            match self.join.look(live) {
                NextEvents::Live((bytes, next)) => {
                    self.join.given_live(next);
                    return Ok(Delivery::Frames { bytes, last: next - 1 });
                }
                NextEvents::Stored => {
                    if let Some(delivery) = self.read_history().await? {
                        return Ok(delivery);
                    }
                }
                NextEvents::Level if !self.caught_up => {
                    self.caught_up = true;
                    return Ok(Delivery::CaughtUp);
                }
                NextEvents::Level if !self.join.has_more().await => return Ok(Delivery::Closed),
                NextEvents::Level => {}
            }
        }
    }

    /// What the store has at the cursor. Damage is told and passed over.
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
                self.join.given_stored(range.end() + 1);
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
            None if let Some(sifter) = self.sifter.clone() => return self.read_sifted(&sifter).await,
            None => {
                // Taken before the read, so that nothing behind it is taken for gone.
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
            // The page is read again when it is asked for: this happens once.
            self.ahead = None;
            let gap = Delivery::Gap { first: self.join.next, last: page.first - 1 };
            self.join.next = page.first;
            return Ok(Some(gap));
        }
        self.join.given_stored(page.last + 1);
        Ok(Some(Delivery::Frames { bytes: page.bytes, last: page.last }))
    }

    /// A page of the feed, of which some may be wanted.
    async fn read_sifted(&mut self, sifter: &FeedFilter) -> Result<Option<Delivery>, Error> {
        // Taken before the read, so that nothing behind it is taken for gone.
        let end = self.join.store.last_position().await?;
        let found = self.feed_records().await?;
        let Some(last) = found.last().map(|found| found.record.position) else {
            self.join.next = self.join.next.max(end + 1);
            return Ok(None);
        };
        self.hidden += found.len() as u64;
        let wanted = sifter.sift(found).await?;
        self.join.given_stored(last + 1);
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
                self.ask(stream, self.join.next).await
            }
        };
        self.ahead = None;
        let Some(page) = page? else { return Ok(None) };
        let next = page.last + 1;
        if next < self.join.known_end()
            && !self.join.list.reaches(next)
            && let Ok(permit) = self.join.publisher.reads_ahead().clone().try_acquire_owned()
        {
            // The store begins at once, not when the answer is looked at.
            self.ahead = Some(Ahead { from: next, page: self.ask(stream, next), _permit: permit });
        }
        Ok(Some(page))
    }

    fn ask(&self, stream: &StreamKey, from: u64) -> Answer<Option<RecordPage>> {
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

    /// Records of the feed as frames; `None` when there are none.
    fn framed(&self, found: &[FeedRecord]) -> Option<RecordPage> {
        let (first, last) = (found.first()?.record.position, found.last()?.record.position);
        let mut bytes = BytesMut::with_capacity(limits::PAGE_BYTES / 8);
        for found in found {
            self.join.publisher.framing().frame(found.record.position, &found.record.bytes, &mut bytes);
        }
        Some(RecordPage { bytes: bytes.freeze(), first, last })
    }
}

/// Frames on the list, as many as fit one write, and the cursor after them.
fn live_frames(join: &Join) -> Option<(Bytes, u64)> {
    match join.list.take(join.next, &**join.publisher.framing()) {
        Found::Frames(bytes, next) => Some((bytes, next)),
        Found::Fallen | Found::Nothing => None,
    }
}
