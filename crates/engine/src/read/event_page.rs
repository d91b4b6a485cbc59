//! A page of events of one run or of all. It must not know the content of events.

use std::ops::RangeInclusive;

use bytes::Bytes;
use recount_log::Damage;

/// A page of events. `next` continues it, also if no scanned event matched.
#[derive(Debug, Clone)]
pub struct EventPage {
    pub events: Vec<(u64, Bytes)>,
    pub next: Option<u64>,
    pub has_more: bool,
    /// Damaged events that cannot be read; `next` continues after them.
    pub damage: Option<Damage>,
}

impl EventPage {
    /// The events after a cursor.
    pub(crate) fn after(after: Option<u64>, (events, has_more): (Vec<(u64, Bytes)>, bool)) -> Self {
        let next = events.last().map(|(cursor, _)| *cursor).or(after);
        EventPage { events, next, has_more, damage: None }
    }

    /// Damaged events in place of events. `last` is the last event of all.
    pub(crate) fn skipping((damage, range): (Damage, RangeInclusive<u64>), last: u64) -> Self {
        let (next, has_more) = (Some(*range.end()), *range.end() < last);
        EventPage { events: Vec::new(), next, has_more, damage: Some(damage) }
    }
}
