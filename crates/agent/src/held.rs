//! Since when text is held back that may begin a secret: the bound on that counts from the first byte, however slowly the
//! rest comes.
//!
//! Look at [`HeldSince`]. It must not know what is masked. Pure but for the moments it is given.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::limits;

/// When the bytes came that are held back. Masking keeps the length of a text, so the oldest of them leave first.
#[derive(Default)]
pub(crate) struct HeldSince {
    /// Bytes of pieces that are held back, each with the moment at which it came.
    pieces: VecDeque<(usize, Instant)>,
    /// Bytes that the last release left, because they identify a secret. They are before the pieces.
    left: usize,
}

impl HeldSince {
    /// A piece came, after which so many bytes are held back.
    pub(crate) fn came(&mut self, bytes: usize, held: usize, now: Instant) {
        match self.pieces.back_mut() {
            Some((last, at)) if now.duration_since(*at) < limits::HOLD_WAIT / 16 => *last += bytes,
            _ => self.pieces.push_back((bytes, now)),
        }
        let all: usize = self.left + self.pieces.iter().map(|(bytes, _)| bytes).sum::<usize>();
        let mut gone = all.saturating_sub(held);
        let of_left = gone.min(self.left);
        self.left -= of_left;
        gone -= of_left;
        while let Some((first, _)) = self.pieces.front_mut() {
            if gone < *first {
                *first -= gone;
                break;
            }
            gone -= *first;
            self.pieces.pop_front();
        }
    }

    /// All was released but so many bytes, which wait for what comes next.
    pub(crate) fn released(&mut self, held: usize) {
        self.pieces.clear();
        self.left = held;
    }

    /// When what is held back is to be released. What a release has left waits for the next piece first.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pieces.front().map(|(_, at)| *at + limits::HOLD_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_byte_that_is_held_counts() {
        let start = recount_world::moment();
        let at = |tenths: u32| start + Duration::from_millis(100) * tenths;
        let due = |tenths: u32| Some(at(tenths) + limits::HOLD_WAIT);
        let mut held = HeldSince::default();
        assert_eq!(held.due(), None);
        held.came(3, 2, at(0));
        held.came(2, 4, at(7));
        assert_eq!(held.due(), due(0), "a piece does not put it off");
        held.came(2, 3, at(9));
        assert_eq!(held.due(), due(7), "what came first is told");
        held.came(1, 0, at(10));
        assert_eq!(held.due(), None);
        held.came(5, 5, at(11));
        held.released(4);
        assert_eq!(held.due(), None, "the rest waits for what comes next");
        held.came(1, 5, at(30));
        held.came(1, 6, at(35));
        assert_eq!(held.due(), due(30), "and from then on as long as anything else");
        held.came(1, 1, at(40));
        assert_eq!(held.due(), due(40));
    }
}
