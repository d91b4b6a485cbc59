//! Audits envelopes: sequences, ids, times.

use recount_event::{Event, EventId, RunId, SessionId, TaskId};

use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct Envelopes {
    first: u64,
    last: Option<Last>,
}

struct Last {
    sequence: u64,
    event_id: EventId,
    occurred_ms: u64,
    of: (RunId, Option<TaskId>, Option<SessionId>),
}

impl Envelopes {
    pub(super) fn begin_at(&mut self, first: u64) {
        self.first = first;
    }

    /// The number of the event to come.
    pub(super) fn wanted(&self) -> u64 {
        self.last.as_ref().map_or(self.first, |last| last.sequence + 1)
    }

    pub(super) fn read(&mut self, event: &Event) -> Result<(), Broken> {
        let of = (event.run_id, event.task_id, event.session_id);
        let wanted = self.wanted();
        if event.sequence != wanted {
            return broken!(
                "envelope.sequence",
                "event {} occurs where event {wanted} is expected",
                event.sequence
            );
        }
        if let Some(last) = &self.last {
            if of != last.of {
                return broken!(
                    "envelope.ids",
                    "event {} belongs to {of:?}, expected {:?}",
                    event.sequence,
                    last.of
                );
            }
            if event.occurred_ms < last.occurred_ms {
                return broken!(
                    "envelope.time",
                    "the time of event {} is {} ms before that of the previous event",
                    event.sequence,
                    last.occurred_ms - event.occurred_ms
                );
            }
            if event.event_id <= last.event_id {
                return broken!(
                    "envelope.event_id",
                    "event id {} is not greater than the previous event id {}",
                    event.event_id,
                    last.event_id
                );
            }
        }
        self.last = Some(Last {
            sequence: event.sequence,
            event_id: event.event_id,
            occurred_ms: event.occurred_ms,
            of,
        });
        Ok(())
    }
}
