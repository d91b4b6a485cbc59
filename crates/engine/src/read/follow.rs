//! A run as decoded events, history joined with live events: for faces that transform each event.
//!
//! Live events are decoded once for all readers. A reader has only a cursor. It must not depend on a protocol. Start
//! with [`Events::next`].

use std::sync::Arc;

use recount_log::{ReadBound, StreamKey};

use crate::boxed;
use crate::ground::error::run_erased;
use crate::ground::journal;
use crate::read::join::{Join, NextEvents};
use crate::read::live::SharedEvent;
use crate::{Error, limits};

/// A cursor in one run.
pub struct Events {
    stream: StreamKey,
    join: Join,
}

impl Events {
    pub(crate) fn new(stream: StreamKey, join: Join) -> Self {
        Events { stream, join }
    }

    /// The sequence of the last event that was delivered or skipped, if any.
    pub fn last(&self) -> Option<u64> {
        self.join.last()
    }

    /// Waits for the next events: at least one, in order, none twice. `None`: the run has ended and all its events
    /// were delivered. Dropping the future loses no events.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<SharedEvent>>>, Error> {
        loop {
            match self.join.look(|join| join.list.events(join.next)) {
                NextEvents::Live(events) => {
                    self.join.count_live(self.join.next + events.len() as u64);
                    return Ok(Some(events));
                }
                NextEvents::Stored => {
                    let events = self.stored().await?;
                    self.join.count_stored(events.last().map_or(self.join.next, |last| last.sequence + 1));
                    return Ok(Some(events));
                }
                NextEvents::CaughtUp if !self.join.has_more().await => return Ok(None),
                NextEvents::CaughtUp => {}
            }
        }
    }

    async fn stored(&self) -> Result<Vec<Arc<SharedEvent>>, Error> {
        let (stream, next, store) = (&self.stream, self.join.next, &self.join.store);
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let page = {
            let _permit = self.join.publisher.reads().acquire().await;
            store.read(stream, next, bound).await?
        };
        if page.is_empty() {
            let erased = store.end(stream).await?.is_some_and(|tail| tail.erased);
            return Err(if erased {
                run_erased(stream)
            } else {
                Error::bug(format!("{stream} has no event {next} although it ends later"))
            });
        }
        let decode = |bytes: &[u8], sequence| journal::decode(bytes, stream, sequence).map(SharedEvent::new);
        page.iter().map(|record| decode(&record.bytes, record.sequence).map(Arc::new)).collect()
    }
}
