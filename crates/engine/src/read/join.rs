//! A reader's place in a run or in the feed, where history from the store joins live events from the list.
//!
//! A reader registers with the live list first and then looks where the stream ends, so that every event is before its
//! watermark (and in the store) or after its registration (and on the list). While it is behind it reads the list
//! where that reaches, else the store. A reader that falls off the list is behind again, and that is all. It must not
//! know what a reader makes of events. See [`Join::look`].

use std::sync::Arc;

use recount_log::{Store, StreamKey};
use tokio::sync::watch;

use crate::read::live::{Level, List};
use crate::read::publish::Publisher;
use crate::read::readers::Reader;

pub(crate) struct Join {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) list: Arc<List>,
    /// `None` for the feed.
    pub(crate) stream: Option<StreamKey>,
    /// The cursor of the next event to give.
    pub(crate) next: u64,
    /// The cursor that the next event had when the reader came.
    pub(crate) watermark: u64,
    level: watch::Receiver<Level>,
    seen: Level,
    reader: Reader,
}

/// Where a reader finds what comes next.
pub(crate) enum NextEvents<T> {
    /// On the list.
    Live(T),
    /// In the store.
    Stored,
    /// Nowhere yet: everything was given.
    Level,
}

impl Join {
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
        Join { store, publisher, list, stream, next, watermark, level, seen: Level::default(), reader }
    }

    /// The cursor of the last event given or passed over, if any was.
    pub(crate) fn last(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Looks what comes next; `live` takes it from the list at a cursor, if it is there.
    pub(crate) fn look<T>(&mut self, live: impl FnOnce(&Self) -> Option<T>) -> NextEvents<T> {
        // Mark the level as seen before looking, so that what comes while we look wakes us.
        self.seen = *self.level.borrow_and_update();
        match live(self) {
            Some(found) => NextEvents::Live(found),
            None if self.next < self.end_at(self.seen) => NextEvents::Stored,
            None => NextEvents::Level,
        }
    }

    /// Waits until there may be more than [`Join::look`] saw. `false`: nothing will follow.
    pub(crate) async fn has_more(&mut self) -> bool {
        self.seen.end.is_none() && self.level.changed().await.is_ok()
    }

    /// The cursor after the last event that is known to be in the store.
    pub(crate) fn known_end(&self) -> u64 {
        self.end_at(*self.level.borrow())
    }

    fn end_at(&self, level: Level) -> u64 {
        self.watermark.max(level.next).max(level.end.unwrap_or(0))
    }

    /// Events up to before `next` were given from the list.
    pub(crate) fn given_live(&mut self, next: u64) {
        self.next = next;
        self.reader.given_live(next);
    }

    /// The same from the store.
    pub(crate) fn given_stored(&mut self, next: u64) {
        self.next = next;
        self.reader.given_stored(next);
    }
}
