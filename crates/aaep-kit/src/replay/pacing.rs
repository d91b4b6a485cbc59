//! Paces a replay for a subscriber with an agreed rate: holds lines back and joins them where the protocol allows it,
//! so its bytes differ from the recording. Subscribers without a rate never come here. It does not wait; its caller
//! does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use recount_world::moment;
use tokio::time::Instant;

use super::playback::OutgoingLine;
use crate::aaep::Event;
use crate::aaep::negotiate::Terms;
use crate::aaep::shaping::Shaper;
use crate::aaep::wire::SubscriptionId;
use crate::limits;

/// What is held for one subscriber.
pub(super) struct Pacing {
    shaper: Shaper,
    terms: Arc<Terms>,
    started: Instant,
    /// May go out.
    out: VecDeque<OutgoingLine>,
}

impl Pacing {
    /// `None` where no rate was promised. `stream` is told from all others.
    pub(super) fn of(terms: &Arc<Terms>, stream: u128) -> Option<Pacing> {
        terms.events_per_second()?;
        let id = SubscriptionId::new(format!("sub_{stream:032x}")).ok()?;
        let shaper = Shaper::new(Terms::clone(terms), &id);
        Some(Pacing { shaper, terms: terms.clone(), started: moment(), out: VecDeque::new() })
    }

    /// What was agreed may have changed since.
    pub(super) fn keep_to(&mut self, terms: &Arc<Terms>) {
        if !Arc::ptr_eq(&self.terms, terms) {
            self.terms = terms.clone();
            self.shaper.terms_changed(Terms::clone(terms));
        }
    }

    /// Whether a further line is taken: the recording can wait, so not much is held.
    pub(super) fn has_room(&self) -> bool {
        self.shaper.held_events() < limits::REPLAY_HELD_EVENTS_MAX
            && self.shaper.held_bytes() < limits::REPLAY_HELD_BYTES_MAX
    }

    pub(super) fn push(&mut self, outgoing: OutgoingLine) {
        let event = std::str::from_utf8(&outgoing.text).ok().and_then(|text| Event::parse(text).ok());
        match event {
            Some(event) => self.shaper.push(event, self.now_ms()),
            // What is no event counts for no rate.
            None => self.out.push_back(outgoing),
        }
    }

    /// What may go out now.
    pub(super) fn next(&mut self) -> Option<OutgoingLine> {
        let due = self.shaper.due(self.now_ms());
        self.out.extend(due.into_iter().map(|event| {
            let id = event.envelope.event_id.as_str().to_owned();
            OutgoingLine { text: event.to_json().into(), id: Some(id.into()) }
        }));
        self.out.pop_front()
    }

    /// When more may go out; `None` when nothing is held.
    pub(super) fn due(&self) -> Option<Instant> {
        self.shaper.next_due().map(|ms| self.started + Duration::from_millis(ms))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
