//! Keeps what waits within its bounds: merges it when there is much, and sends it when merging does not help.

use std::collections::VecDeque;

use super::Shaper;
use crate::limits;
use crate::shaping::held::Held;
use crate::shaping::text::End;

impl Shaper {
    /// Keeps what waits within its bounds.
    pub(super) fn make_room(&mut self) {
        self.held.iter_mut().for_each(Held::settle);
        if self.held.is_empty() && self.held.capacity() > limits::SHAPED_IDLE_CAPACITY {
            self.held = VecDeque::new();
        }
        let full = |shaper: &Shaper| {
            shaper.held.len() > limits::SHAPED_HELD_EVENTS_MAX
                || shaper.held_bytes() > limits::SHAPED_HELD_BYTES_MAX
        };
        if self.held.len() >= self.merge_at || full(self) {
            self.collapse_states();
            self.collapse_texts();
            self.merge_at = usize::MAX;
        }
        self.merge_at = self.merge_at.min(self.held.len() + limits::SHAPED_MERGE_EVENTS);
        while full(self) {
            if let Some(text) = &mut self.held[0].text
                && text.place(&self.legal, End::Quiet).is_none()
            {
                text.closed = true;
            }
            self.counts.ahead += 1;
            self.owe();
            self.dispatch(0, End::Quiet);
        }
    }

    /// Texts of one output between which nothing is held any more become one.
    fn collapse_texts(&mut self) {
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].text.is_some() {
                self.join_text(at, false);
            }
            at += 1;
        }
    }

    /// Of each producer of each session the last state stays, and begins where the first began.
    fn collapse_states(&mut self) {
        let mut at = self.held.len();
        while at > 0 {
            at -= 1;
            if !self.held[at].is_state() {
                continue;
            }
            let later = &self.held[at];
            let earlier = self.held.iter().take(at).rposition(|held| later.succeeds(held));
            if let Some(earlier) = earlier
                && let Some(earlier) = self.held.remove(earlier)
            {
                // It has moved up by one; the next round looks at it again.
                self.held[at - 1].continue_from(earlier);
                self.counts.merged += 1;
            }
        }
    }

    /// Joins to a text what is held behind it of the same output; what else is held between them is passed only
    /// where that is asked for.
    pub(super) fn join_text(&mut self, at: usize, pass: bool) {
        let mut behind = at + 1;
        while behind < self.held.len() {
            let (one, two) = (&self.held[at], &self.held[behind]);
            if !one.is_same_output(two) {
                if !pass && one.session() == two.session() && two.text.is_none() && !two.is_progress() {
                    return;
                }
                behind += 1;
                continue;
            }
            if let Some(later) = self.held.remove(behind) {
                self.held[at].join(later);
                self.counts.merged += 1;
            }
        }
    }
}
