//! Joins pieces of output until they may be spoken: [`HeldText`]. Pure.
//!
//! A piece with the hint `none` has no boundary and is not spoken by itself, unless nothing follows for long.
//! Repeated pieces are not spoken again.

use recount_aaep::wire::{Boundary, OutputStreaming};

use crate::limits;

/// The output text of one session that is not spoken yet.
#[derive(Debug, Default)]
pub(super) struct HeldText {
    output: Option<String>,
    /// Characters of the output that were received.
    heard: u64,
    text: String,
    language: Option<String>,
    /// When the last piece arrived.
    came_ms: u64,
}

impl HeldText {
    /// Takes a piece. Returns the texts that may be spoken, each with its language if it has one.
    pub(super) fn take(&mut self, piece: &OutputStreaming, now_ms: u64) -> Vec<(String, Option<String>)> {
        let mut ready = Vec::new();
        self.came_ms = now_ms;
        // Without an id, an output begins where the position restarts.
        if piece.output_id != self.output || (piece.output_id.is_none() && piece.position == 0) {
            ready.extend(self.flush());
            self.output.clone_from(&piece.output_id);
            self.heard = piece.position;
        }
        if piece.language != self.language {
            ready.extend(self.flush());
            self.language.clone_from(&piece.language);
        }
        // Text before the received position is a repetition.
        let known = self.heard.saturating_sub(piece.position);
        let new: String = piece.chunk.chars().skip(usize::try_from(known).unwrap_or(usize::MAX)).collect();
        self.heard = self.heard.max(piece.position + piece.chunk.chars().count() as u64);
        self.text.push_str(&new);
        let goes_on = piece.coalesce_hint == Some(Boundary::None) && !piece.complete;
        if !goes_on || self.text.len() > limits::HELD_TEXT_BYTES_MAX {
            ready.extend(self.flush());
        }
        ready
    }

    /// When the held text is spoken, if nothing follows.
    pub(super) fn due_ms(&self) -> Option<u64> {
        (!self.text.trim().is_empty()).then(|| self.came_ms.saturating_add(limits::HELD_TEXT_MS_MAX))
    }

    /// Returns all held text, regardless of boundaries.
    pub(super) fn flush(&mut self) -> Option<(String, Option<String>)> {
        let text = std::mem::take(&mut self.text);
        (!text.trim().is_empty()).then(|| (text, self.language.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(position: u64, chunk: &str, hint: &str, complete: bool) -> OutputStreaming {
        let mut piece = OutputStreaming::new(chunk.to_owned(), position, complete);
        piece.coalesce_hint = (!hint.is_empty()).then(|| Boundary::from(hint));
        piece.output_id = Some("out_1".to_owned());
        piece
    }

    #[test]
    fn pieces_are_joined_up_to_a_boundary() {
        let cases: [(&[OutputStreaming], &[&str]); 6] = [
            (
                &[piece(0, "One. ", "sentence", false), piece(5, "Two.", "completion", true)],
                &["One. ", "Two."],
            ),
            (&[piece(0, "One", "none", false), piece(3, " more.", "sentence", false)], &["One more."]),
            (&[piece(0, "One", "none", false), piece(3, "", "completion", true)], &["One"]),
            (&[piece(0, "One", "none", false)], &[]),
            // A repeated piece, and an overlapping one.
            (&[piece(0, "Onё. ", "sentence", false), piece(0, "Onё. ", "", false)], &["Onё. "]),
            (&[piece(0, "Onё. ", "", false), piece(3, ". Two.", "", true)], &["Onё. ", "Two."]),
        ];
        for (pieces, expected) in cases {
            let mut held = HeldText::default();
            let ready: Vec<String> =
                pieces.iter().flat_map(|piece| held.take(piece, 0)).map(|(text, _)| text).collect();
            assert_eq!(ready, expected, "{pieces:?}");
        }
    }

    #[test]
    fn another_output_or_language_releases_held_text() {
        let mut held = HeldText::default();
        assert_eq!(held.take(&piece(0, "One", "none", false), 0), []);
        let mut other = piece(3, "deux", "none", false);
        other.language = Some("fr".to_owned());
        assert_eq!(held.take(&other, 0), [("One".to_owned(), None)]);
        let mut second = piece(0, "Three.", "sentence", false);
        second.output_id = Some("out_2".to_owned());
        let fr = Some("fr".to_owned());
        assert_eq!(held.take(&second, 0), [("deux".to_owned(), fr), ("Three.".to_owned(), None)]);
        assert_eq!(held.flush(), None);
    }
}
