//! A text without the escape sequences of terminals in it: a secret that contains some is contiguous there. What is
//! found in it is given back as of the text with them, and they are not masked. Look at [`Stripped`].

use crate::escape;
use crate::scan::{Candidate, Verdict, Window};

/// A text without escape sequences, and where each of its bytes was.
pub(crate) struct Stripped {
    bytes: Vec<u8>,
    /// For each place from which sequences were taken, in order: the place, and the bytes taken up to it.
    taken: Vec<(usize, usize)>,
    ended: bool,
    from: usize,
    masked_until: usize,
}

impl Stripped {
    /// `None` if the text has no sequences.
    pub(crate) fn of(window: &Window<'_>) -> Option<Self> {
        if !window.escapes {
            return None;
        }
        let mut sequences = escape::sequences(window.bytes, window.ended).peekable();
        sequences.peek()?;
        let mut bytes = Vec::with_capacity(window.len());
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut copied = 0;
        // What is before these places, without the sequences.
        let (mut from, mut masked_until) = (window.from, window.masked_until);
        for sequence in sequences {
            bytes.extend_from_slice(&window.bytes[copied..sequence.start]);
            copied = sequence.end;
            let total = copied - bytes.len();
            match taken.last_mut() {
                Some((place, all)) if *place == bytes.len() => *all = total,
                _ => taken.push((bytes.len(), total)),
            }
            let before = |place: usize| sequence.len().min(place.saturating_sub(sequence.start));
            from -= before(window.from);
            masked_until -= before(window.masked_until);
        }
        bytes.extend_from_slice(&window.bytes[copied..]);
        Some(Stripped { bytes, taken, ended: window.ended, from, masked_until })
    }

    pub(crate) fn window(&self) -> Window<'_> {
        Window {
            bytes: &self.bytes,
            ended: self.ended,
            from: self.from,
            masked_until: self.masked_until,
            taken: &self.taken,
            escapes: true,
        }
    }

    /// Where a byte was, or what is after the last one.
    pub(crate) fn place(&self, at: usize) -> usize {
        let before = self.taken.partition_point(|(place, _)| *place <= at);
        at + before.checked_sub(1).map_or(0, |index| self.taken[index].1)
    }

    /// Where a range ended that began before this place.
    fn end(&self, end: usize) -> usize {
        end.checked_sub(1).map_or(0, |last| self.place(last) + 1)
    }

    /// What was found, as of the text with the sequences.
    pub(crate) fn candidate(&self, found: Candidate) -> Candidate {
        let verdict = match found.verdict {
            Verdict::No => Verdict::No,
            Verdict::Open { from } => Verdict::Open { from: self.place(from) },
            Verdict::Yes { from, to, goes_on } => {
                let from = self.place(from);
                Verdict::Yes { from, to: self.end(to).max(from), goes_on }
            }
        };
        let at = self.place(found.at);
        Candidate { at, named: self.end(found.named).max(at), verdict, stripped: true }
    }
}
