//! [`Sentence`]: a description in pieces: own words, names, and texts for people with their language. Each output format
//! escapes foreign text in its own way, so the pieces stay separate until rendering. Build one with [`SentenceBuilder`].

use super::aaep::language::is_well_formed;
use crate::limits;

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// Our own words.
    Words,
    /// A received name or id.
    Name,
    /// A received text for people.
    Text,
    /// The id of the event. It comes first; each format places it.
    Id,
    /// An event type outside the protocol; placed like the id.
    Type,
}

#[derive(Debug, Clone, Copy)]
struct Cut {
    end: u32,
    tongue: u8,
    piece: Piece,
}

/// A sentence.
#[derive(Debug)]
pub(super) struct Sentence {
    text: Box<str>,
    cuts: Box<[Cut]>,
}

impl Sentence {
    /// The pieces, each with the number of its language.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (Piece, u8, &str)> {
        let mut from = 0;
        self.cuts.iter().map(move |cut| {
            let text = &self.text[from..cut.end as usize];
            from = cut.end as usize;
            (cut.piece, cut.tongue, text)
        })
    }

    /// The sentence without its prefix.
    pub(super) fn body(&self) -> impl Iterator<Item = (Piece, u8, &str)> {
        self.pieces().filter(|(piece, ..)| !matches!(piece, Piece::Id | Piece::Type))
    }

    pub(super) fn first(&self, wanted: Piece) -> Option<&str> {
        self.pieces().find(|(piece, ..)| *piece == wanted).map(|(.., text)| text)
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&*self.cuts)
    }
}

/// Builds sentences.
#[derive(Debug, Default)]
pub(super) struct SentenceBuilder {
    text: String,
    cuts: Vec<Cut>,
}

impl SentenceBuilder {
    #[expect(clippy::cast_possible_truncation, reason = "each piece is cut, and a sentence has few")]
    fn cut(&mut self, piece: Piece, tongue: u8) {
        let end = self.text.len() as u32;
        match self.cuts.last_mut() {
            Some(last) if last.piece == Piece::Words && piece == Piece::Words => last.end = end,
            _ => self.cuts.push(Cut { end, tongue, piece }),
        }
    }

    pub(super) fn words(&mut self, words: &str) -> &mut Self {
        self.text.push_str(words);
        self.cut(Piece::Words, 0);
        self
    }

    pub(super) fn format(&mut self, words: std::fmt::Arguments<'_>) -> &mut Self {
        std::fmt::Write::write_fmt(&mut self.text, words).expect("a string takes everything");
        self.cut(Piece::Words, 0);
        self
    }

    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        self.stranger(Piece::Name, 0, name, limits::TRACE_NAME_CHARS_MAX);
        self
    }

    pub(super) fn id(&mut self, piece: Piece, id: &str) {
        self.stranger(piece, 0, id, limits::TRACE_NAME_CHARS_MAX);
    }

    /// A text for people.
    pub(super) fn text(&mut self, text: &str, tongue: u8) -> &mut Self {
        if self.stranger(Piece::Text, tongue, text, limits::TRACE_TEXT_CHARS_MAX) {
            self.format(format_args!(" (cut; it has {} characters)", text.chars().count()));
        }
        self
    }

    /// Ends a sentence, unless the text in front of it has done so.
    pub(super) fn stop(&mut self) -> &mut Self {
        let is_text = self.cuts.last().is_some_and(|last| last.piece == Piece::Text);
        let ends = |c: char| matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '؟' | '।' | '۔');
        if is_text && self.text.trim_end().ends_with(ends) { self } else { self.words(".") }
    }

    /// Adds a foreign text. Returns whether it was cut.
    fn stranger(&mut self, piece: Piece, tongue: u8, text: &str, most: usize) -> bool {
        let (shown, is_cut) = cut_to(text, most);
        self.text.push_str(shown);
        if is_cut {
            self.text.push('…');
        }
        self.cut(piece, tongue);
        is_cut
    }

    pub(super) fn done(&mut self) -> Sentence {
        let sentence = Sentence { text: self.text.as_str().into(), cuts: self.cuts.as_slice().into() };
        self.text.clear();
        self.cuts.clear();
        sentence
    }
}

/// The first so many characters, and whether that is not all.
pub(super) fn cut_to(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most {
        return (text, false);
    }
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

/// In which direction a text runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextDirection {
    Left,
    Right,
    /// As its first letter says.
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

/// The languages of texts, each once. Number 0 is a text of which nothing is known.
#[derive(Debug)]
pub(super) struct Tongues(Vec<(Box<str>, TextDirection)>);

impl Default for Tongues {
    fn default() -> Self {
        Tongues(vec![("".into(), TextDirection::Auto)])
    }
}

impl Tongues {
    /// The number of a language; a tag that is none counts as nothing known.
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
        if self.0.len() >= limits::TRACE_TONGUES_MAX {
            return 0;
        }
        self.0.push((tag.into(), direction));
        (self.0.len() - 1) as u8
    }

    pub(super) fn get(&self, number: u8) -> (&str, TextDirection) {
        self.0.get(usize::from(number)).map_or(("", TextDirection::Auto), |(tag, way)| (tag, *way))
    }
}
