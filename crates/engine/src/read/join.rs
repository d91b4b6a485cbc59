//! A reader's cursor in a run or in the feed, where stored history joins live events.
//!
//! A reader first registers with the live list and then reads the end of the stream. So every event is either before
//! its watermark, and in the store, or after its registration, and on the list. A reader that is behind reads the
//! list if it reaches back far enough, otherwise the store. A reader that falls off the list reads the store again.
//! It must not know what a reader does with events. Start with [`Join::look`].

use std::sync::Arc;

use recount_log::{Store, StreamKey};
use tokio::sync::watch;

use crate::read::live::{List, ListState};
use crate::read::publish::Publisher;
use crate::read::readers::Reader;

pub(crate) struct Join {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) list: Arc<List>,
    /// `None` for the feed.
    pub(crate) stream: Option<StreamKey>,
    /// The cursor of the next event to deliver.
    pub(crate) next: u64,
    /// The cursor of the next event when the reader registered.
    pub(crate) watermark: u64,
    state: watch::Receiver<ListState>,
    seen: ListState,
    reader: Reader,
}

/// The source of the next events.
pub(crate) enum NextEvents<T> {
    /// The live list.
    Live(T),
    /// The store.
    Stored,
    /// All events were delivered.
    CaughtUp,
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
        let state = list.watch();
        let reader = publisher.readers().reader(list.clone(), next, watermark);
        Join { store, publisher, list, stream, next, watermark, state, seen: ListState::default(), reader }
    }

    /// The cursor of the last event that was delivered or skipped, if any.
    pub(crate) fn last(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Finds the next events; `live` takes them from the list at a cursor.
    pub(crate) fn look<T>(&mut self, live: impl FnOnce(&Self) -> Option<T>) -> NextEvents<T> {
        // Mark the state as seen before looking, so that a concurrent change wakes the reader.
        self.seen = *self.state.borrow_and_update();
        match live(self) {
            Some(found) => NextEvents::Live(found),
            None if self.next < self.end_at(self.seen) => NextEvents::Stored,
            None => NextEvents::CaughtUp,
        }
    }

    /// Waits until there may be more than [`Join::look`] saw. `false`: nothing will follow.
    pub(crate) async fn has_more(&mut self) -> bool {
        self.seen.end.is_none() && self.state.changed().await.is_ok()
    }

    /// The cursor after the last event that is known to be in the store.
    pub(crate) fn known_end(&self) -> u64 {
        self.end_at(*self.state.borrow())
    }

    fn end_at(&self, state: ListState) -> u64 {
        self.watermark.max(state.next).max(state.end.unwrap_or(0))
    }

    /// Events before `next` were delivered from the list.
    pub(crate) fn count_live(&mut self, next: u64) {
        self.next = next;
        self.reader.count_live(next);
    }

    /// Events before `next` were delivered from the store.
    pub(crate) fn count_stored(&mut self, next: u64) {
        self.next = next;
        self.reader.count_stored(next);
    }
}
