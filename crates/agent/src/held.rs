//! Tracks how long text is held back because it may start a secret. The time counts from the first held byte, however
//! slowly the rest arrives.
//!
//! Pure, with the time as an argument. It must not know what is masked.
//!
//! Start at [`HeldSince`].

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::limits;

/// Arrival times of the bytes that are held back. Masking keeps the length of a text, so the oldest bytes are released
/// first.
#[derive(Default)]
pub(crate) struct HeldSince {
    /// The sizes of held pieces, each with its time of arrival.
    pieces: VecDeque<(usize, Instant)>,
    /// Bytes that the last release kept because they identify a secret. They precede the pieces.
    retained: usize,
}

impl HeldSince {
    /// Records a received piece, after which `held` bytes are held back.
    pub(crate) fn received(&mut self, bytes: usize, held: usize, now: Instant) {
        match self.pieces.back_mut() {
            Some((last, at)) if now.duration_since(*at) < limits::HOLD_WAIT / 16 => *last += bytes,
            _ => self.pieces.push_back((bytes, now)),
        }
        let all: usize = self.retained + self.pieces.iter().map(|(bytes, _)| bytes).sum::<usize>();
        let mut released = all.saturating_sub(held);
        let from_retained = released.min(self.retained);
        self.retained -= from_retained;
        released -= from_retained;
        while let Some((first, _)) = self.pieces.front_mut() {
            if released < *first {
                *first -= released;
                break;
            }
            released -= *first;
            self.pieces.pop_front();
        }
    }

    /// Records that everything but `held` bytes was released. Those wait for the next piece.
    pub(crate) fn released(&mut self, held: usize) {
        self.pieces.clear();
        self.retained = held;
    }

    /// When to release the held bytes. Bytes that a release kept wait for the next piece.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pieces.front().map(|(_, at)| *at + limits::HOLD_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_held_byte_starts_the_wait() {
        let start = recount_world::moment();
        let at = |tenths: u32| start + Duration::from_millis(100) * tenths;
        let due = |tenths: u32| Some(at(tenths) + limits::HOLD_WAIT);
        let mut held = HeldSince::default();
        assert_eq!(held.due(), None);
        held.received(3, 2, at(0));
        held.received(2, 4, at(7));
        assert_eq!(held.due(), due(0), "a piece does not put it off");
        held.received(2, 3, at(9));
        assert_eq!(held.due(), due(7), "what came first is told");
        held.received(1, 0, at(10));
        assert_eq!(held.due(), None);
        held.received(5, 5, at(11));
        held.released(4);
        assert_eq!(held.due(), None, "the rest waits for what comes next");
        held.received(1, 5, at(30));
        held.received(1, 6, at(35));
        assert_eq!(held.due(), due(30), "and from then on as long as anything else");
        held.received(1, 1, at(40));
        assert_eq!(held.due(), due(40));
    }
}
