//! A run as events, history joined with live: for faces that make something of their own of each event.
//!
//! The same rules as in `subscribe`, on the same shared list: its frames are taken apart where the framing can do so,
//! and who falls off the list, or cannot take frames apart, is served from the store. Nothing is kept for a reader but
//! its place. Look at [`Events::next`].

use std::sync::Arc;

use recount_event::Event;
use recount_log::{ReadBound, Store, StreamKey};
use tokio::sync::watch;

use crate::ground::error::run_erased;
use crate::ground::journal;
use crate::read::live::{Level, List};
use crate::read::publish::Publisher;
use crate::read::readers::Reader;
use crate::{Error, limits};

/// Where a reader comes into a run.
pub(crate) struct Joined {
    pub(crate) stream: StreamKey,
    pub(crate) list: Arc<List>,
    /// The sequence of the next event to give.
    pub(crate) next: u64,
    /// The sequence that the next event had when the reader came.
    pub(crate) watermark: u64,
}

/// A cursor that moves through one run.
pub struct Events {
    store: Arc<dyn Store>,
    publisher: Arc<Publisher>,
    level: watch::Receiver<Level>,
    joined: Joined,
    reader: Reader,
}

impl Events {
    pub(crate) fn new(store: Arc<dyn Store>, publisher: Arc<Publisher>, joined: Joined) -> Self {
        let level = joined.list.watch();
        let reader = publisher.readers().reader(joined.list.clone(), joined.next, joined.watermark);
        Events { store, publisher, level, joined, reader }
    }

    /// The sequence of the last event that was given or passed over, if any was.
    pub fn last(&self) -> Option<u64> {
        self.joined.next.checked_sub(1)
    }

    /// Waits for what comes next: at least one event, in order, none twice. `None`: the run has ended, and all of it
    /// was given. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, Error> {
        loop {
            // Mark the level as seen before looking, so that what comes while we look wakes us.
            let level = *self.level.borrow_and_update();
            if let Some(events) = self.live()? {
                self.pass(&events);
                self.reader.given_live(self.joined.next);
                return Ok(Some(events));
            }
            if self.joined.next < self.known_end(level) {
                let events = self.stored().await?;
                self.pass(&events);
                self.reader.given_stored(self.joined.next);
                return Ok(Some(events));
            }
            if level.end.is_some() || self.level.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// The sequence after the last event that is known to be in the store.
    fn known_end(&self, level: Level) -> u64 {
        self.joined.watermark.max(level.next).max(level.end.unwrap_or(0))
    }

    fn pass(&mut self, events: &[Event]) {
        if let Some(last) = events.last() {
            self.joined.next = last.sequence + 1;
        }
    }

    /// What lies on the list at the cursor, when it can be taken apart.
    fn live(&self) -> Result<Option<Vec<Event>>, Error> {
        let Some(frames) = self.joined.list.frames(self.joined.next) else { return Ok(None) };
        let mut events = Vec::with_capacity(frames.len());
        for (sequence, frame) in (self.joined.next..).zip(&frames) {
            let Some(envelope) = self.publisher.framing().record(frame) else { return Ok(None) };
            events.push(self.decoded(envelope, sequence)?);
        }
        Ok(Some(events))
    }

    async fn stored(&self) -> Result<Vec<Event>, Error> {
        let (stream, next) = (&self.joined.stream, self.joined.next);
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let page = {
            let _permit = self.publisher.reads().acquire().await;
            self.store.read(stream, next, bound).await?
        };
        if page.is_empty() {
            let erased = self.store.end(stream).await?.is_some_and(|tail| tail.erased);
            return Err(if erased {
                run_erased(stream)
            } else {
                Error::bug(format!("{stream} has nothing at {next} although it ends later"))
            });
        }
        let each = page.iter().map(|record| self.decoded(&record.bytes, record.sequence));
        each.collect()
    }

    fn decoded(&self, envelope: &[u8], sequence: u64) -> Result<Event, Error> {
        journal::decode(envelope, &self.joined.stream, sequence)
    }
}
