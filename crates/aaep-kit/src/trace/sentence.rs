//! [`Sentence`]: a description in pieces: own words, names, and texts for people with their language. Each output
//! format escapes foreign text in its own way, so pieces stay separate until rendering. Build one with
//! [`SentenceBuilder`].

use super::aaep::language::is_well_formed;
use crate::limits;

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// Our own words.
    Words,
    /// A received name or id.
    Name,
    /// A received text for people.
    Text,
    /// The id of the event. It comes first; each format decides its position.
    Id,
    /// An event type outside the protocol; positioned like the id.
    Type,
}

#[derive(Debug, Clone, Copy)]
struct PieceEnd {
    end: u32,
    language: u8,
    piece: PieceKind,
}

/// A sentence.
#[derive(Debug)]
pub(super) struct Sentence {
    text: Box<str>,
    piece_ends: Box<[PieceEnd]>,
}

impl Sentence {
    /// The pieces, each with the number of its language.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (PieceKind, u8, &str)> {
        let mut from = 0;
        self.piece_ends.iter().map(move |cut| {
            let text = &self.text[from..cut.end as usize];
            from = cut.end as usize;
            (cut.piece, cut.language, text)
        })
    }

    /// The sentence without its prefix.
    pub(super) fn body(&self) -> impl Iterator<Item = (PieceKind, u8, &str)> {
        self.pieces().filter(|(piece, ..)| !matches!(piece, PieceKind::Id | PieceKind::Type))
    }

    pub(super) fn first(&self, wanted: PieceKind) -> Option<&str> {
        self.pieces().find(|(piece, ..)| *piece == wanted).map(|(.., text)| text)
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&*self.piece_ends)
    }
}

/// Builds sentences.
#[derive(Debug, Default)]
pub(super) struct SentenceBuilder {
    text: String,
    piece_ends: Vec<PieceEnd>,
}

impl SentenceBuilder {
    #[expect(clippy::cast_possible_truncation, reason = "each piece is cut, and a sentence has few")]
    fn cut(&mut self, piece: PieceKind, language: u8) {
        let end = self.text.len() as u32;
        match self.piece_ends.last_mut() {
            Some(last) if last.piece == PieceKind::Words && piece == PieceKind::Words => last.end = end,
            _ => self.piece_ends.push(PieceEnd { end, language, piece }),
        }
    }

    pub(super) fn literal(&mut self, words: &str) -> &mut Self {
        self.text.push_str(words);
        self.cut(PieceKind::Words, 0);
        self
    }

    pub(super) fn format(&mut self, words: std::fmt::Arguments<'_>) -> &mut Self {
        std::fmt::Write::write_fmt(&mut self.text, words).expect("writing to a string cannot fail");
        self.cut(PieceKind::Words, 0);
        self
    }

    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        self.push_foreign(PieceKind::Name, 0, name, limits::TRACE_NAME_CHARS_MAX);
        self
    }

    pub(super) fn id(&mut self, piece: PieceKind, id: &str) {
        self.push_foreign(piece, 0, id, limits::TRACE_NAME_CHARS_MAX);
    }

    /// A text for people.
    pub(super) fn text(&mut self, text: &str, language: u8) -> &mut Self {
        if self.push_foreign(PieceKind::Text, language, text, limits::TRACE_TEXT_CHARS_MAX) {
            self.format(format_args!(" (cut; it has {} characters)", text.chars().count()));
        }
        self
    }

    /// Ends a sentence, unless the preceding text ends with punctuation.
    pub(super) fn stop(&mut self) -> &mut Self {
        let is_text = self.piece_ends.last().is_some_and(|last| last.piece == PieceKind::Text);
        let ends = |c: char| matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '؟' | '।' | '۔');
        if is_text && self.text.trim_end().ends_with(ends) { self } else { self.literal(".") }
    }

    /// Adds a foreign text. Returns whether it was cut.
    fn push_foreign(&mut self, piece: PieceKind, language: u8, text: &str, most: usize) -> bool {
        let (shown, is_cut) = cut_to(text, most);
        self.text.push_str(shown);
        if is_cut {
            self.text.push('…');
        }
        self.cut(piece, language);
        is_cut
    }

    pub(super) fn done(&mut self) -> Sentence {
        let sentence =
            Sentence { text: self.text.as_str().into(), piece_ends: self.piece_ends.as_slice().into() };
        self.text.clear();
        self.piece_ends.clear();
        sentence
    }
}

/// The first `most` characters, and whether the text was cut.
pub(super) fn cut_to(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most {
        return (text, false);
    }
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

/// The direction of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextDirection {
    Left,
    Right,
    /// Determined by its first letter.
    Auto,
}

impl TextDirection {
    pub(super) fn word(self) -> &'static str {
        match self {
            TextDirection::Left => "ltr",
            TextDirection::Right => "rtl",
            TextDirection::Auto => "auto",
        }
    }
}

/// The distinct languages of texts. Number 0 is an unknown language.
#[derive(Debug)]
pub(super) struct Languages(Vec<(Box<str>, TextDirection)>);

impl Default for Languages {
    fn default() -> Self {
        Languages(vec![("".into(), TextDirection::Auto)])
    }
}

impl Languages {
    /// The number of a language; an invalid tag counts as unknown.
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 256")]
    pub(super) fn number(&mut self, tag: Option<&str>, direction: TextDirection) -> u8 {
        let tag = tag.unwrap_or_default();
        if let Some(at) = self.0.iter().position(|(known, way)| **known == *tag && *way == direction) {
            return at as u8;
        }
        let good = tag.len() <= limits::TRACE_NAME_CHARS_MAX && is_well_formed(tag);
        if !good {
            return if direction == TextDirection::Auto || !tag.is_empty() {
                0
            } else {
                self.keep("", direction)
            };
        }
        self.keep(tag, direction)
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are at most 256")]
    fn keep(&mut self, tag: &str, direction: TextDirection) -> u8 {
        if self.0.len() >= limits::TRACE_LANGUAGES_MAX {
            return 0;
        }
        self.0.push((tag.into(), direction));
        (self.0.len() - 1) as u8
    }

    pub(super) fn get(&self, number: u8) -> (&str, TextDirection) {
        self.0.get(usize::from(number)).map_or(("", TextDirection::Auto), |(tag, way)| (tag, *way))
    }
}
