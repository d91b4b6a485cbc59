//! History joined with live, in one loop.
//!
//! A subscription registers with the live list first and then looks where the stream ends, so that every
//! event is before its watermark (and in the store) or after its registration (and on the list). While it
//! is behind it reads the list where that reaches, else the store; when it is level it says so once and
//! waits. A reader that falls off the list is behind again, and that is all.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use recount_log::{Answer, Damage, Framed, ReadBound, Store, StreamKey};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::ground::error::run_erased;
use crate::read::event_filter::FeedFilter;
use crate::read::live::{Found, Level, List};
use crate::read::publish::Publisher;
use crate::read::readers::Reader;
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
    store: Arc<dyn Store>,
    publisher: Arc<Publisher>,
    list: Arc<List>,
    level: watch::Receiver<Level>,
    /// `None` for the feed.
    stream: Option<StreamKey>,
    /// The cursor of the next event to give.
    next: u64,
    /// The cursor that the next event had when the reader came.
    watermark: u64,
    caught_up: bool,
    reader: Reader,
    ahead: Option<Ahead>,
    /// Of the feed, when not all of it is wanted.
    sifter: Option<FeedFilter>,
    /// Events that were passed over since something was said.
    hidden: u64,
}

/// A page of history that is read while the one before it is written.
struct Ahead {
    from: u64,
    page: Answer<Option<Framed>>,
    _permit: OwnedSemaphorePermit,
}

impl Subscription {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        publisher: Arc<Publisher>,
        list: Arc<List>,
        stream: Option<StreamKey>,
        next: u64,
        watermark: u64,
    ) -> Self {
        let level = list.watch();
        let reader = publisher.readers().reader(list.clone(), next, watermark);
        Subscription {
            store,
            publisher,
            list,
            level,
            stream,
            next,
            watermark,
            caught_up: false,
            ahead: None,
            reader,
            sifter: None,
            hidden: 0,
        }
    }

    /// The same, of what passes.
    pub(crate) fn sifted(self, sifter: FeedFilter) -> Self {
        Subscription { sifter: Some(sifter), ..self }
    }

    /// The cursor of the last event given or passed over, if any was.
    pub fn last(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Whether not everything is given that comes.
    pub fn hides(&self) -> bool {
        self.sifter.is_some()
    }

    /// Waits for what comes next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            // Mark the level as seen before looking, so that what comes while we look wakes us.
            let level = *self.level.borrow_and_update();
            // Frames on the list are not to be looked into.
            let live = if self.sifter.is_some() { Found::Nothing } else { self.list.take(self.next) };
            match live {
                Found::Frames(bytes, next) => {
                    self.next = next;
                    self.reader.given_live(next);
                    return Ok(Delivery::Frames { bytes, last: next - 1 });
                }
                Found::Nothing if self.next >= self.known_end(level) => {
                    if !self.caught_up {
                        self.caught_up = true;
                        return Ok(Delivery::CaughtUp);
                    }
                    if level.end.is_some() || self.level.changed().await.is_err() {
                        return Ok(Delivery::Closed);
                    }
                }
                Found::Nothing | Found::Fallen => {
                    if let Some(delivery) = self.read_history().await? {
                        return Ok(delivery);
                    }
                }
            }
        }
    }

    /// The cursor after the last event that is known to be in the store.
    fn known_end(&self, level: Level) -> u64 {
        self.watermark.max(level.next).max(level.end.unwrap_or(0))
    }

    /// What the store has at the cursor. Damage is told and passed over.
    async fn read_history(&mut self) -> Result<Option<Delivery>, Error> {
        let failed = match self.read_stored().await {
            Ok(delivery) => return Ok(delivery),
            Err(failed) => failed,
        };
        let range = failed.damage().and_then(|damage| match self.stream {
            Some(_) => damage.sequences.clone(),
            None => damage.positions.clone(),
        });
        match (failed, range) {
            (Error::Failed(Failure { damage: Some(damage), message, .. }), Some(range))
                if *range.end() >= self.next =>
            {
                tracing::error!(message, "damaged events are passed over");
                self.ahead = None;
                self.next = range.end() + 1;
                self.reader.given_stored(self.next);
                Ok(Some(Delivery::Damaged(damage)))
            }
            (failed, _) => Err(failed),
        }
    }

    async fn read_stored(&mut self) -> Result<Option<Delivery>, Error> {
        let page = match self.stream.clone() {
            Some(stream) => {
                let page = self.read_run(&stream).await?;
                if page.is_none() && self.store.end(&stream).await?.is_some_and(|tail| tail.erased) {
                    return Err(run_erased(&stream));
                }
                page
            }
            None if let Some(sifter) = self.sifter.clone() => return self.read_sifted(&sifter).await,
            None => {
                // Taken before the read, so that nothing behind it is taken for gone.
                let end = self.store.last_position().await?;
                let page = self.read_feed().await?;
                if page.is_none() && end >= self.next {
                    self.next = end + 1;
                    return Ok(None);
                }
                page
            }
        };
        let Some(page) = page else {
            return Err(Error::bug(format!(
                "the store has nothing at {} although its tail is {}",
                self.next, self.watermark
            )));
        };
        if self.stream.is_some() && page.first > self.next {
            // The page is read again when it is asked for: this happens once.
            self.ahead = None;
            let gap = Delivery::Gap { first: self.next, last: page.first - 1 };
            self.next = page.first;
            return Ok(Some(gap));
        }
        self.next = page.last + 1;
        self.reader.given_stored(self.next);
        Ok(Some(Delivery::Frames { bytes: page.bytes, last: page.last }))
    }

    /// A page of the feed, of which some may be wanted.
    async fn read_sifted(&mut self, sifter: &FeedFilter) -> Result<Option<Delivery>, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        // Taken before the read, so that nothing behind it is taken for gone.
        let end = self.store.last_position().await?;
        let found = {
            let _permit = self.publisher.reads().acquire().await;
            self.store.read_feed(self.next, bound).await?
        };
        let Some(last) = found.last().map(|found| found.record.position) else {
            self.next = self.next.max(end + 1);
            return Ok(None);
        };
        self.hidden += found.len() as u64;
        let wanted = sifter.sift(found).await?;
        self.next = last + 1;
        self.reader.given_stored(self.next);
        if let Some(newest) = wanted.last() {
            let newest = newest.record.position;
            self.hidden = last - newest;
            let mut framed = BytesMut::new();
            for found in &wanted {
                self.publisher.framing().frame(found.record.position, &found.record.bytes, &mut framed);
            }
            return Ok(Some(Delivery::Frames { bytes: framed.freeze(), last: newest }));
        }
        if self.hidden < limits::HIDDEN_MAX {
            return Ok(None);
        }
        self.hidden = 0;
        Ok(Some(Delivery::Passed { last }))
    }

    async fn read_run(&mut self, stream: &StreamKey) -> Result<Option<Framed>, Error> {
        let page = match self.ahead.as_mut().filter(|ahead| ahead.from == self.next) {
            Some(ahead) => (&mut ahead.page).await,
            None => {
                let _permit = self.publisher.reads().acquire().await;
                self.ask(stream, self.next).await
            }
        };
        self.ahead = None;
        let Some(page) = page? else { return Ok(None) };
        let next = page.last + 1;
        if next < self.known_end(*self.level.borrow())
            && !self.list.reaches(next)
            && let Ok(permit) = self.publisher.reads_ahead().clone().try_acquire_owned()
        {
            // The store begins at once, not when the answer is looked at.
            self.ahead = Some(Ahead { from: next, page: self.ask(stream, next), _permit: permit });
        }
        Ok(Some(page))
    }

    fn ask(&self, stream: &StreamKey, from: u64) -> Answer<Option<Framed>> {
        let bound = ReadBound { count: limits::PAGE_FRAMES, bytes: limits::PAGE_BYTES };
        self.store.read_framed(stream, from, bound, self.publisher.framing().clone())
    }

    async fn read_feed(&mut self) -> Result<Option<Framed>, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let _permit = self.publisher.reads().acquire().await;
        let found = self.store.read_feed(self.next, bound).await?;
        let mut framed = BytesMut::with_capacity(limits::PAGE_BYTES / 8);
        for found in &found {
            self.publisher.framing().frame(found.record.position, &found.record.bytes, &mut framed);
        }
        let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(None) };
        let (first, last) = (first.record.position, last.record.position);
        Ok(Some(Framed { bytes: framed.freeze(), first, last }))
    }
}
