//! History joined with live, in one loop.
//!
//! A subscription registers with the live list first and then looks where the stream ends, so that every
//! event is before its watermark (and in the store) or after its registration (and on the list). While it
//! is behind it reads the list where that reaches, else the store; when it is level it says so once and
//! waits. A reader that falls off the list is behind again, and that is all.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use recount_log::{ReadBound, Store, StreamKey};
use tokio::sync::watch;

use crate::Error;
use crate::error::run_erased;
use crate::framing::Framing;
use crate::limits;
use crate::live::{Found, Level, List};
use crate::meters::{Meters, Reader};

/// What a reader is given next.
#[derive(Debug)]
pub enum Delivery {
    /// Framed events, in order, and the cursor of the last one.
    Frames { bytes: Bytes, last: u64 },
    /// The events from `first` to `last` were pruned; what is left follows. Said of runs only.
    Gap { first: u64, last: u64 },
    /// Everything that was there when the reader came has been given. Said once.
    CaughtUp,
    /// Nothing will follow.
    Closed,
}

/// A cursor that moves through one run, or through the feed.
pub struct Subscription {
    store: Arc<dyn Store>,
    framing: Arc<dyn Framing>,
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
}

impl Subscription {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        framing: Arc<dyn Framing>,
        list: Arc<List>,
        stream: Option<StreamKey>,
        next: u64,
        watermark: u64,
        meters: &Arc<Meters>,
    ) -> Self {
        let level = list.watch();
        let reader = meters.reader(list.clone(), next, watermark);
        Subscription { store, framing, list, level, stream, next, watermark, caught_up: false, reader }
    }

    /// The cursor of the last event given, if any was.
    pub fn last(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Waits for what comes next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            // Mark the level as seen before looking, so that what comes while we look wakes us.
            let level = *self.level.borrow_and_update();
            match self.list.take(self.next) {
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

    async fn read_history(&mut self) -> Result<Option<Delivery>, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let mut framed = BytesMut::new();
        let mut last = None;
        match &self.stream {
            Some(stream) => {
                let page = self.store.read(stream, self.next, bound).await?;
                if let Some(left) = page.first().map(|record| record.sequence)
                    && left > self.next
                {
                    let gap = Delivery::Gap { first: self.next, last: left - 1 };
                    self.next = left;
                    return Ok(Some(gap));
                }
                for record in page {
                    self.framing.frame(record.sequence, &record.bytes, &mut framed);
                    last = Some(record.sequence);
                }
            }
            None => {
                // Taken before the read, so that nothing behind it is taken for gone.
                let end = self.store.last_position().await?;
                for found in self.store.read_feed(self.next, bound).await? {
                    self.framing.frame(found.record.position, &found.record.bytes, &mut framed);
                    last = Some(found.record.position);
                }
                if last.is_none() && end >= self.next {
                    self.next = end + 1;
                    return Ok(None);
                }
            }
        }
        let Some(last) = last else {
            if let Some(stream) = &self.stream
                && self.store.end(stream).await?.is_some_and(|tail| tail.erased)
            {
                return Err(run_erased(stream));
            }
            return Err(Error::bug(format!(
                "the store has nothing at {} although its tail is {}",
                self.next, self.watermark
            )));
        };
        self.next = last + 1;
        self.reader.given_stored(self.next);
        Ok(Some(Delivery::Frames { bytes: framed.freeze(), last }))
    }
}
