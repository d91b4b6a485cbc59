//! Where text may be cut: ends of words, sentences and paragraphs, found as the text comes, each character looked at
//! once. It claims an end only where one is; where it cannot be sure (behind `No.`, behind a single letter, between
//! words of scripts that do not separate them) it claims none, and a cut comes later. Knows nothing of events.

use unicode_segmentation::GraphemeCursor;

use crate::wire::Boundary;

/// How much ends at a place; a paragraph's end is also that of a sentence and of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A character, nothing more.
    Character,
    Word,
    Sentence,
    Paragraph,
    /// The output.
    Completion,
}

impl Rank {
    pub(super) fn of(boundary: &Boundary) -> Option<Rank> {
        Some(match boundary {
            Boundary::None => Rank::Character,
            Boundary::Word => Rank::Word,
            Boundary::Sentence => Rank::Sentence,
            Boundary::Paragraph => Rank::Paragraph,
            Boundary::Completion => Rank::Completion,
            Boundary::Other(_) => return None,
        })
    }

    fn boundary(self) -> Boundary {
        match self {
            Rank::Character => Boundary::None,
            Rank::Word => Boundary::Word,
            Rank::Sentence => Boundary::Sentence,
            Rank::Paragraph => Boundary::Paragraph,
            Rank::Completion => Boundary::Completion,
        }
    }
}

/// The boundaries that were agreed.
#[derive(Debug, Clone)]
pub(super) struct Legal {
    ranks: Vec<Rank>,
    /// What a cut must at least be; everything above is legal too.
    pub(super) least: Rank,
}

impl Legal {
    pub(super) fn new(boundaries: &[Boundary]) -> Self {
        let mut ranks: Vec<Rank> = boundaries.iter().filter_map(Rank::of).collect();
        ranks.sort_unstable();
        let least = ranks.first().copied().unwrap_or(Rank::Completion);
        Legal { ranks, least }
    }

    /// What to call a cut: the most that is both true and agreed, else `none`, which only says that more follows.
    pub(super) fn hint(&self, rank: Rank) -> Boundary {
        self.ranks.iter().rev().find(|agreed| **agreed <= rank).map_or(Boundary::None, |rank| rank.boundary())
    }
}

/// What a sentence would end with, so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// A full stop, which may also belong to an abbreviation or a number.
    Dot {
        sure: bool,
    },
    /// `!`, `?`, `…`.
    Strong,
    /// One of a script that puts no space behind it.
    Wide,
}

/// What was seen just before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scanner {
    stop: Stop,
    /// White space since the last ink, and lines that ended in it.
    spaces: bool,
    lines: u8,
    /// A pause of a script without spaces: a comma.
    pause: bool,
    /// Letters and digits of the word that was read last, up to two, and whether the last was a digit.
    letters: u8,
    digit: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner { stop: Stop::No, spaces: false, lines: 0, pause: false, letters: 0, digit: false }
    }
}

impl Scanner {
    /// Reads one character; answers what ends before it.
    pub(super) fn read(&mut self, c: char) -> Rank {
        if c == '\n' || c == '\u{2029}' || c == '\u{2028}' {
            self.lines = if c == '\u{2029}' { 2 } else { (self.lines + 1).min(2) };
            self.spaces = true;
            return Rank::Character;
        }
        if c.is_whitespace() {
            self.spaces = true;
            return Rank::Character;
        }
        if !self.spaces && self.stop != Stop::No && (is_closing(c) || stop_of(c).is_some()) {
            // `?!`, `."`, `...`: the end moves behind it.
            if let Some(stop) = stop_of(c) {
                self.stop = match stop {
                    Stop::Dot { .. } if self.stop == (Stop::Dot { sure: true }) => Stop::Dot { sure: true },
                    Stop::Dot { .. } if !matches!(self.stop, Stop::Dot { .. }) => self.stop,
                    other => other,
                };
            }
            return Rank::Character;
        }
        let rank = self.ends(Some(c));
        let word = c.is_alphanumeric();
        let mut next = Scanner { letters: self.letters, digit: self.digit, ..Scanner::default() };
        if self.spaces || rank > Rank::Character || !word {
            next.letters = 0;
        }
        match stop_of(c) {
            Some(Stop::Dot { .. }) => {
                // Behind a single letter (`J.`) or a number (`3.`) it seldom ends a sentence.
                next.stop = Stop::Dot { sure: self.spaces || !(self.letters == 1 || self.digit) };
                next.letters = 0;
            }
            Some(stop) => next.stop = stop,
            None if is_pause(c) => next.pause = true,
            None => {}
        }
        if word {
            next.letters = (next.letters + 1).min(2);
        }
        next.digit = c.is_numeric();
        *self = next;
        rank
    }

    /// What ends here, with what follows, or as far as can be told when nothing does yet.
    pub(super) fn ends(&self, next: Option<char>) -> Rank {
        if self.lines >= 2 {
            return Rank::Paragraph;
        }
        if self.lines == 1 {
            return Rank::Sentence;
        }
        match self.stop {
            Stop::Wide => return Rank::Sentence,
            Stop::Strong if self.spaces || next.is_none() => return Rank::Sentence,
            Stop::Dot { sure: true } => {
                let begins = |c: char| !c.is_lowercase() && !c.is_numeric() && !is_pause(c);
                match next {
                    Some(c) if self.spaces && begins(c) => return Rank::Sentence,
                    None => return Rank::Sentence,
                    Some(_) => {}
                }
            }
            _ => {}
        }
        if self.spaces || self.pause { Rank::Word } else { Rank::Character }
    }
}

fn stop_of(c: char) -> Option<Stop> {
    match c {
        '.' => Some(Stop::Dot { sure: true }),
        '!' | '?' | '…' | '؟' | '۔' | '।' | '॥' | '։' | '።' | '፧' | '‼' | '⁇' | '⁈' | '⁉' => {
            Some(Stop::Strong)
        }
        '。' | '！' | '？' | '｡' | '．' => Some(Stop::Wide),
        _ => None,
    }
}

/// What may stand between the end of a sentence and the white space behind it.
fn is_closing(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | ')'
            | ']'
            | '}'
            | '»'
            | '”'
            | '’'
            | '“'
            | '›'
            | '」'
            | '』'
            | '）'
            | '】'
            | '》'
            | '〉'
            | '*'
            | '_'
    )
}

/// What may be spoken up to, in scripts that put no space behind it.
fn is_pause(c: char) -> bool {
    matches!(c, '，' | '、' | '；' | '：' | '､')
}

/// Whether a character that people see ends at this place.
pub(super) fn between_characters(text: &str, at: usize) -> bool {
    // With the whole text at hand the cursor needs nothing more; if it asked, it would not be an end.
    GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(false)
}

/// The last place up to which text may be cut without cutting a character; the first character's end when none is.
pub(super) fn characters_up_to(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let mut cursor = GraphemeCursor::new(text.floor_char_boundary(most), text.len(), true);
    if cursor.is_boundary(text, 0).unwrap_or(false) && cursor.cur_cursor() > 0 {
        return cursor.cur_cursor();
    }
    match cursor.prev_boundary(text, 0) {
        Ok(Some(at)) if at > 0 => at,
        // A character longer than that: base and marks without end. It is cut between two of them.
        _ => text.floor_char_boundary(most).max(text.chars().next().map_or(0, char::len_utf8)),
    }
}

/// Whether what comes next is likely to belong to the last character: emoji, flags, jamo, joiners.
pub(super) fn may_grow(text: &str) -> bool {
    let mut cursor = GraphemeCursor::new(text.len(), text.len(), true);
    let from = cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0);
    let last = &text[from..];
    if last.ends_with(|c| matches!(c, '\u{200D}' | '\u{1F1E6}'..='\u{1F1FF}' | '\u{1100}'..='\u{11FF}')) {
        return true;
    }
    last.chars().next().is_some_and(|base| !(base.is_alphanumeric() || is_settled(base)))
}

/// Whether nothing belongs to the last character but what makes no sense there.
pub(super) fn is_settled(last: char) -> bool {
    (last.is_whitespace() && last != '\r')
        || (last.is_ascii_punctuation() && last != '#' && last != '*')
        || stop_of(last).is_some_and(|_| !matches!(last, '‼' | '⁉'))
        || (is_closing(last) && last != '*')
        || is_pause(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(text: &str) -> Vec<(&str, Rank)> {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        let mut from = 0;
        for (at, c) in text.char_indices() {
            let rank = scanner.read(c);
            if rank > Rank::Character {
                found.push((&text[from..at], rank));
                from = at;
            }
        }
        found.push((&text[from..], scanner.ends(None)));
        found
    }

    fn ends(text: &str, least: Rank) -> Vec<String> {
        let mut parts = Vec::new();
        let mut part = String::new();
        for (piece, rank) in marks(text) {
            part += piece;
            if rank >= least {
                parts.push(std::mem::take(&mut part));
            }
        }
        if !part.is_empty() {
            parts.push(part);
        }
        parts
    }

    #[test]
    fn words_end_behind_their_spaces() {
        assert_eq!(ends("So, it is.  Well", Rank::Word), ["So, ", "it ", "is.  ", "Well"]);
        assert_eq!(ends("一，二、三", Rank::Word), ["一，", "二、", "三"]);
        assert_eq!(ends("1,000 3.5", Rank::Word), ["1,000 ", "3.5"]);
    }

    #[test]
    fn sentences_end_where_they_do() {
        for (text, sentences) in [
            ("One. Two! Three? Four", vec!["One. ", "Two! ", "Three? ", "Four"]),
            ("It costs 3.50. Pay.", vec!["It costs 3.50. Pay."]),
            ("He said \"Go.\" She went.", vec!["He said \"Go.\" ", "She went."]),
            ("Really?! Yes... No", vec!["Really?! ", "Yes... ", "No"]),
            ("e.g. this, i.e. that. So", vec!["e.g. this, i.e. that. ", "So"]),
            ("J. Smith came. He sat.", vec!["J. Smith came. ", "He sat."]),
            ("No. 5 is alive. Good", vec!["No. 5 is alive. ", "Good"]),
            ("See example.com/a?b=c now. Then", vec!["See example.com/a?b=c now. ", "Then"]),
            ("你好。再见！好", vec!["你好。", "再见！", "好"]),
            ("「好。」他说", vec!["「好。」", "他说"]),
            ("नमस्ते। फिर", vec!["नमस्ते। ", "फिर"]),
            ("هل؟ نعم", vec!["هل؟ ", "نعم"]),
            ("A title\nand a line", vec!["A title\n", "and a line"]),
            ("(Done.) Next", vec!["(Done.) ", "Next"]),
        ] {
            assert_eq!(ends(text, Rank::Sentence), sentences, "{text}");
        }
    }

    #[test]
    fn paragraphs_end_at_empty_lines() {
        assert_eq!(
            ends("One. Two.\n \nThree\nfour\r\n\r\nFive", Rank::Paragraph),
            ["One. Two.\n \n", "Three\nfour\r\n\r\n", "Five"]
        );
    }

    #[test]
    fn hints_are_true_and_agreed() {
        let legal =
            |names: &[&str]| Legal::new(&names.iter().map(|name| Boundary::from(*name)).collect::<Vec<_>>());
        for (agreed, rank, hint) in [
            (&["sentence", "completion"][..], Rank::Paragraph, "sentence"),
            (&["sentence", "completion"], Rank::Completion, "completion"),
            (&["sentence", "completion"], Rank::Word, "none"),
            (&["word"], Rank::Completion, "word"),
            (&["none"], Rank::Completion, "none"),
            (&["paragraph"], Rank::Sentence, "none"),
            (&["paragraph", "word"], Rank::Sentence, "word"),
        ] {
            assert_eq!(legal(agreed).hint(rank).as_str(), hint, "{agreed:?} {rank:?}");
        }
        assert_eq!(legal(&["sentence", "word"]).least, Rank::Word);
    }

    #[test]
    fn characters_are_not_cut() {
        let text = "e\u{301}👩\u{200D}💻🇳🇬x";
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let between: Vec<usize> = places.into_iter().filter(|at| between_characters(text, *at)).collect();
        assert_eq!(between, [0, 3, 14, 22, 23]);
        assert_eq!(characters_up_to(text, 13), 3);
        assert_eq!(characters_up_to(text, 21), 14);
        assert_eq!(characters_up_to(&"e\u{301}".repeat(9), 10), 9);
        assert_eq!(characters_up_to(&format!("e{}", "\u{301}".repeat(9)), 10), 9);
        for (text, grows) in [
            ("👩", true),
            ("👩\u{200D}", true),
            ("🇳", true),
            ("e", false),
            ("e\u{301}", false),
            ("e ", false),
            ("!", false),
        ] {
            assert_eq!(may_grow(text), grows, "{text}");
        }
    }
}
