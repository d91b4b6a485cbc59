//! Paces a replay for a subscriber with an agreed rate: holds and joins lines where the protocol allows it, so its
//! bytes differ from the recording. Subscribers without a rate do not use it. It does not wait; its caller does.

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

/// The lines held for one subscriber.
pub(super) struct Pacing {
    shaper: Shaper,
    terms: Arc<Terms>,
    started: Instant,
    /// Ready to send.
    out: VecDeque<OutgoingLine>,
}

impl Pacing {
    /// Returns `None` if no rate was agreed. `stream` distinguishes streams.
    pub(super) fn of(terms: &Arc<Terms>, stream: u128) -> Option<Pacing> {
        terms.events_per_second()?;
        let id = SubscriptionId::new(format!("sub_{stream:032x}")).ok()?;
        let shaper = Shaper::new(Terms::clone(terms), &id);
        Some(Pacing { shaper, terms: terms.clone(), started: moment(), out: VecDeque::new() })
    }

    /// Applies changed terms.
    pub(super) fn set_terms(&mut self, terms: &Arc<Terms>) {
        if !Arc::ptr_eq(&self.terms, terms) {
            self.terms = terms.clone();
            self.shaper.terms_changed(Terms::clone(terms));
        }
    }

    /// Whether another line fits. The recording waits otherwise, so little is held.
    pub(super) fn has_capacity(&self) -> bool {
        self.shaper.held_events() < limits::REPLAY_HELD_EVENTS_MAX
            && self.shaper.held_bytes() < limits::REPLAY_HELD_BYTES_MAX
    }

    pub(super) fn push(&mut self, outgoing: OutgoingLine) {
        let event = std::str::from_utf8(&outgoing.text).ok().and_then(|text| Event::parse(text).ok());
        match event {
            Some(event) => self.shaper.push(event, self.now_ms()),
            // Messages other than events do not count towards the rate.
            None => self.out.push_back(outgoing),
        }
    }

    /// The next line that is ready to send.
    pub(super) fn next(&mut self) -> Option<OutgoingLine> {
        let due = self.shaper.due(self.now_ms());
        self.out.extend(due.into_iter().map(|event| {
            let id = event.envelope.event_id.as_str().to_owned();
            OutgoingLine { text: event.to_json().into(), id: Some(id.into()) }
        }));
        self.out.pop_front()
    }

    /// When the next line becomes ready; `None` if nothing is held.
    pub(super) fn due(&self) -> Option<Instant> {
        self.shaper.next_due().map(|ms| self.started + Duration::from_millis(ms))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
