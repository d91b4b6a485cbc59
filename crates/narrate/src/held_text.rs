//! Joins pieces of output until they may be spoken, without markup: [`HeldText`]. Pure.
//!
//! A piece with the hint `none` has no boundary and is not spoken by itself, unless nothing follows for long.
//! Repeated pieces are not spoken again.

use recount_aaep::markdown::{MarkdownPart, SpokenMarkdown};
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
    /// Converts the output, if it is Markdown.
    markdown: Option<SpokenMarkdown>,
    /// When the last piece arrived.
    came_ms: u64,
}

/// Text that may be spoken now, with its language if it has one.
pub(super) type ReadyText = (MarkdownPart, Option<String>);

impl HeldText {
    /// Takes a piece. Returns what may be spoken. `begins` is set if the piece is the first of an output.
    pub(super) fn take(&mut self, piece: &OutputStreaming, now_ms: u64, begins: &mut bool) -> Vec<ReadyText> {
        let mut ready = Vec::new();
        self.came_ms = now_ms;
        // Without an id, an output begins where the position restarts.
        if piece.output_id != self.output || (piece.output_id.is_none() && piece.position == 0) {
            ready.extend(self.flush());
            self.output.clone_from(&piece.output_id);
            self.heard = piece.position;
            self.markdown = (piece.content_type.as_deref() == Some(MARKDOWN)).then(SpokenMarkdown::default);
            *begins = true;
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
        if piece.complete {
            ready.extend(self.flush());
        } else if !goes_on || self.text.len() > limits::HELD_TEXT_BYTES_MAX {
            ready.extend(self.convert());
        }
        ready
    }

    /// When the held text is spoken, if nothing follows.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let is_holding = self.markdown.as_ref().is_some_and(SpokenMarkdown::is_holding);
        (is_holding || !self.text.trim().is_empty())
            .then(|| self.came_ms.saturating_add(limits::HELD_TEXT_MS_MAX))
    }

    /// Returns all held text, regardless of boundaries.
    pub(super) fn flush(&mut self) -> Vec<ReadyText> {
        let mut ready = self.convert();
        if let Some(markdown) = &mut self.markdown {
            ready.extend(markdown.release().into_iter().map(|part| (part, self.language.clone())));
        }
        ready
    }

    /// The joined text, without markup. Markdown may hold a part whose kind is not known yet.
    fn convert(&mut self) -> Vec<ReadyText> {
        let text = std::mem::take(&mut self.text);
        let parts = match &mut self.markdown {
            Some(markdown) => markdown.take(&text),
            None if text.trim().is_empty() => Vec::new(),
            None => vec![MarkdownPart::Text(text)],
        };
        parts.into_iter().map(|part| (part, self.language.clone())).collect()
    }
}

/// The content type of output with markup.
const MARKDOWN: &str = "text/markdown";

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(position: u64, chunk: &str, hint: &str, complete: bool) -> OutputStreaming {
        let mut piece = OutputStreaming::new(chunk.to_owned(), position, complete);
        piece.coalesce_hint = (!hint.is_empty()).then(|| Boundary::from(hint));
        piece.output_id = Some("out_1".to_owned());
        piece
    }

    fn text(text: &str) -> MarkdownPart {
        MarkdownPart::Text(text.to_owned())
    }

    fn taken(held: &mut HeldText, piece: &OutputStreaming) -> Vec<ReadyText> {
        held.take(piece, 0, &mut false)
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
            let ready: Vec<MarkdownPart> =
                pieces.iter().flat_map(|piece| taken(&mut held, piece)).map(|(text, _)| text).collect();
            let expected: Vec<MarkdownPart> = expected.iter().map(|expected| text(expected)).collect();
            assert_eq!(ready, expected, "{pieces:?}");
        }
    }

    #[test]
    fn another_output_or_language_releases_held_text() {
        let mut held = HeldText::default();
        assert_eq!(taken(&mut held, &piece(0, "One", "none", false)), []);
        let mut other = piece(3, "deux", "none", false);
        other.language = Some("fr".to_owned());
        assert_eq!(taken(&mut held, &other), [(text("One"), None)]);
        let mut second = piece(0, "Three.", "sentence", false);
        second.output_id = Some("out_2".to_owned());
        let fr = Some("fr".to_owned());
        assert_eq!(taken(&mut held, &second), [(text("deux"), fr), (text("Three."), None)]);
        assert_eq!(held.flush(), []);
    }

    #[test]
    fn markdown_is_held_until_its_kind_is_known() {
        let markdown = |position, chunk: &str, complete| OutputStreaming {
            content_type: Some("text/markdown".into()),
            ..piece(position, chunk, "sentence", complete)
        };
        let mut held = HeldText::default();
        let mut begins = false;
        assert_eq!(held.take(&markdown(0, "**One.** ", false), 7, &mut begins), [(text("One."), None)]);
        assert!(begins);
        assert_eq!(held.due_ms(), None);
        begins = false;
        assert_eq!(held.take(&markdown(9, "\n|a|\n", false), 8, &mut begins), []);
        assert!(!begins && held.due_ms() == Some(8 + limits::HELD_TEXT_MS_MAX), "it may be a table");
        assert_eq!(taken(&mut held, &markdown(14, "|-|\n|1|\n", true)), [(text("a: 1."), None)]);
        assert_eq!(held.due_ms(), None);
    }
}
