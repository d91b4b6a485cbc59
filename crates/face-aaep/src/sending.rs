//! The send buffer of one stream: events that were read, and frames that are not yet written. A subscription keeps it
//! for its next stream.
//!
//! Must not depend on where events come from. Start with [`Sending::frame`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recount_aaep::Event;
use recount_aaep::negotiate::Terms;
use recount_aaep::shaping::Counts;
use tokio::time::Instant;

use crate::delivery::{Delivery, OutgoingFrame};
use crate::project::Place;
use crate::projections::Projected;
use crate::view::View;

/// The buffers of one stream.
pub(crate) struct Sending {
    began: Instant,
    delivery: Delivery,
    /// Events that were read and not yet shaped. They are shaped only when they can be written.
    batch: VecDeque<Arc<Projected>>,
    out: VecDeque<OutgoingFrame>,
}

impl Sending {
    pub(crate) fn new(delivery: Delivery) -> Self {
        Sending { began: recount_world::moment(), delivery, batch: VecDeque::new(), out: VecDeque::new() }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes events that were read.
    pub(crate) fn take(&mut self, events: Vec<Arc<Projected>>) {
        self.batch.extend(events);
    }

    /// Takes the state of a run for a joining stream.
    pub(crate) fn take_lead_in(&mut self, lead_in: &[Event]) {
        self.delivery.push_lead_in(lead_in, self.now_ms());
    }

    /// Takes open prompts that another subscription was sent, each to be emitted now or after the event at a place.
    pub(crate) fn take_prompts_again(&mut self, prompts: Vec<(Option<Place>, Event)>) {
        self.delivery.push_prompts_again(prompts, self.now_ms());
    }

    /// Takes an event that is not part of the log. It is sent at once, regardless of the rate, and does not advance the
    /// cursor.
    pub(crate) fn take_aside(&mut self, event: &Event) {
        self.out.push_back(OutgoingFrame { id: None, text: Bytes::from(event.to_json()) });
    }

    /// Records that everything up to this place is not sent.
    pub(crate) fn left_out(&mut self, place: Place) {
        self.delivery.left_out(place);
    }

    /// The next frame that may be sent.
    pub(crate) fn frame(&mut self) -> Option<OutgoingFrame> {
        loop {
            let now = self.now_ms();
            self.delivery.due(now, &mut self.out);
            if let Some(frame) = self.out.pop_front() {
                return Some(frame);
            }
            let projected = self.batch.pop_front()?;
            self.delivery.push(&projected.event, projected.place, now);
        }
    }

    /// Releases everything that was read, regardless of the rate.
    pub(crate) fn flush(&mut self) {
        let now = self.now_ms();
        for projected in self.batch.drain(..) {
            self.delivery.push(&projected.event, projected.place, now);
        }
        self.delivery.flush(&mut self.out);
    }

    /// When a frame may become due, if nothing is taken.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delivery.next_due().map(|due| self.began + Duration::from_millis(due))
    }

    /// Whether nothing is buffered.
    pub(crate) fn is_idle(&self) -> bool {
        self.delivery.is_idle() && self.batch.is_empty() && self.out.is_empty()
    }

    /// Continues after a sent frame. Returns false if that frame is no longer kept.
    pub(crate) fn resume_after(&mut self, id: &str) -> bool {
        let Some(frames) = self.delivery.after(id) else { return false };
        self.out = frames;
        true
    }

    /// Sets other terms for later events.
    pub(crate) fn change_terms(&mut self, terms: Terms, view: View) {
        self.delivery.change_terms(terms, view);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.delivery.counts()
    }
}
