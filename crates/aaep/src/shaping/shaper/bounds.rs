//! Enforces the limits of the queue: merges events, and sends the oldest if merging does not help.

use std::collections::VecDeque;

use super::Shaper;
use crate::limits;
use crate::shaping::held::HeldEvent;
use crate::shaping::text::TailState;
use crate::wire::SessionId;

impl Shaper {
    /// Enforces the limits of the queue.
    pub(super) fn enforce_bounds(&mut self) {
        self.held.iter_mut().for_each(HeldEvent::settle);
        if self.held.is_empty() && self.held.capacity() > limits::SHAPED_IDLE_CAPACITY {
            self.held = VecDeque::new();
        }
        let full = |shaper: &Shaper| {
            shaper.held.len() > limits::SHAPED_HELD_EVENTS_MAX
                || shaper.held_bytes() > limits::SHAPED_HELD_BYTES_MAX
        };
        if self.held.len() >= self.merge_at || full(self) {
            self.collapse_states(None);
            self.collapse_texts();
            self.merge_at = usize::MAX;
        }
        self.merge_at = self.merge_at.min(self.held.len() + limits::SHAPED_MERGE_EVENTS);
        while full(self) {
            if let Some(text) = &mut self.held[0].text
                && text.next_cut(&self.agreed, TailState::Quiet).is_none()
            {
                text.closed = true;
            }
            self.counts.ahead += 1;
            self.overdraw();
            self.dispatch(0, TailState::Quiet);
        }
    }

    /// Merges texts of one output that have no other event between them.
    fn collapse_texts(&mut self) {
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].text.is_some() {
                self.join_text(at, false);
            }
            at += 1;
        }
    }

    /// Merges the states of each producer in each session, or in one session: the last one is kept, with the first
    /// `from_state`. A state that is never merged separates those before it from those after it.
    pub(super) fn collapse_states(&mut self, session: Option<&SessionId>) {
        let mut at = self.held.len();
        while at > 0 {
            at -= 1;
            let later = &self.held[at];
            if !later.is_state() || session.is_some_and(|session| later.session() != session) {
                continue;
            }
            let earlier = self.held.iter().take(at).rposition(|held| later.is_same_course(held));
            if let Some(earlier) = earlier.filter(|earlier| later.succeeds(&self.held[*earlier]))
                && let Some(earlier) = self.held.remove(earlier)
            {
                // Its index decreased by one; the next iteration checks it again.
                self.held[at - 1].continue_from(earlier);
                self.counts.merged += 1;
            }
        }
    }

    /// Appends later texts of the same output to a text. Other events between them stop the merge, unless `pass` is
    /// set.
    pub(super) fn join_text(&mut self, at: usize, pass: bool) {
        let mut later_at = at + 1;
        while later_at < self.held.len() {
            let (one, two) = (&self.held[at], &self.held[later_at]);
            if !one.is_same_output(two) {
                if !pass && one.session() == two.session() && two.text.is_none() && !two.is_progress() {
                    return;
                }
                later_at += 1;
                continue;
            }
            if let Some(later) = self.held.remove(later_at) {
                self.held[at].join(later);
                self.counts.merged += 1;
            }
        }
    }
}
