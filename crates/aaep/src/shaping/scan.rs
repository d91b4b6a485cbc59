//! Finds the ends of words, sentences and paragraphs (UAX #29) incrementally; each character is read once. It reports
//! only certain ends: none after `Dr.`, after a single letter, or between words of scripts without spaces, so a cut
//! comes later. It must not know events or grapheme clusters. Start at [`Scanner::read`].

use super::punctuation::{
    ABBREVIATION_CHARS, Stop, is_abbreviation, is_closing, is_continuing, is_glue, is_pause, is_unspaced,
    stop_of,
};
use super::rank::Rank;

/// The state after the last character.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scanner {
    stop: Stop,
    /// Whether there is white space since the last visible character, and the line ends in it.
    spaces: bool,
    lines: u8,
    /// A comma of a script without spaces.
    pause: bool,
    word: Word,
    /// Bytes since a possible end of a sentence, which a lower-case letter would cancel (SB8).
    open: Option<u32>,
}

/// The relevant part of the current word.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    /// The first characters, in lower case.
    letters: [char; ABBREVIATION_CHARS],
    /// Number of characters, counted up to one more than the array holds.
    length: u8,
    /// Whether the last character is a digit.
    digit: bool,
}

/// The boundaries at a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScanResult {
    /// The boundary directly before it.
    pub(super) here: Rank,
    /// The end of a sentence this many bytes before it, which is certain only now.
    pub(super) sentence_before: Option<usize>,
}

impl Default for Scanner {
    fn default() -> Self {
        let word = Word::default();
        Scanner { stop: Stop::No, spaces: false, lines: 0, pause: false, word, open: None }
    }
}

impl Word {
    fn read(&mut self, c: char) {
        if let Some(place) = self.letters.get_mut(usize::from(self.length)) {
            *place = c.to_lowercase().next().unwrap_or(c);
        }
        self.length = (self.length + 1).min(ABBREVIATION_CHARS as u8 + 1);
        self.digit = c.is_numeric();
    }

    /// Whether a full stop after the word may belong to it: `J.`, `3.`, `Dr.`
    fn may_own_full_stop(&self) -> bool {
        let Some(letters) = self.letters.get(..usize::from(self.length)) else { return self.digit };
        self.length == 1 || self.digit || is_abbreviation(&letters.iter().collect::<String>())
    }
}

impl Scanner {
    /// Reads one character.
    pub(super) fn read(&mut self, c: char) -> ScanResult {
        let sentence_before = self.settle(c);
        let nothing = ScanResult { here: Rank::Character, sentence_before };
        if matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}') {
            self.lines = if c == '\u{2029}' { 2 } else { (self.lines + 1).min(2) };
            self.spaces = true;
            return nothing;
        }
        if c.is_whitespace() && !is_glue(c) {
            self.spaces = true;
            return nothing;
        }
        if !self.spaces && self.stop != Stop::No && (is_closing(c) || stop_of(c).is_some()) {
            // `?!`, `."`, `...`: the end moves after the character.
            if let Some(stop) = stop_of(c) {
                self.stop = stop;
            }
            return nothing;
        }
        let here = self.ends(Some(c));
        if here == Rank::Word && self.may_end_a_sentence() && !continues_sentence(c) && !c.is_alphabetic() {
            self.open = Some(u32::try_from(c.len_utf8()).unwrap_or(0));
        }
        self.start_after(c, here);
        ScanResult { here, sentence_before }
    }

    /// Updates the state after a character that is neither white space nor part of an end.
    fn start_after(&mut self, c: char, here: Rank) {
        let mut word = self.word;
        if self.spaces || here > Rank::Character || !(c.is_alphanumeric() || is_mark(c)) {
            word = Word::default();
        }
        let mut next = Scanner { word, open: self.open, ..Scanner::default() };
        match stop_of(c) {
            Some(Stop::Dot { .. }) => {
                let alone = self.spaces || self.word.length == 0;
                next.stop = Stop::Dot { sure: alone || !self.word.may_own_full_stop() };
            }
            Some(stop) => next.stop = stop,
            None if c.is_alphanumeric() => next.word.read(c),
            None => {
                next.pause = is_pause(c);
                next.word.digit = self.word.digit;
            }
        }
        *self = next;
    }

    /// SB8: after a full stop, the first letter decides whether a sentence has ended.
    fn settle(&mut self, c: char) -> Option<usize> {
        let bytes = self.open?;
        if c.is_lowercase() {
            self.open = None;
            return None;
        }
        if c.is_alphabetic()
            || stop_of(c).is_some()
            || matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
        {
            self.open = None;
            return usize::try_from(bytes).ok();
        }
        self.open = Some(bytes.saturating_add(u32::try_from(c.len_utf8()).unwrap_or(0)));
        None
    }

    fn may_end_a_sentence(&self) -> bool {
        self.spaces && self.stop == Stop::Dot { sure: true }
    }

    /// The boundary here, given the next character, or as far as it is known without one.
    pub(super) fn ends(&self, next: Option<char>) -> Rank {
        if self.lines >= 2 {
            return Rank::Paragraph;
        }
        if self.lines == 1 {
            return Rank::Sentence;
        }
        let continues_sentence = next.is_some_and(continues_sentence);
        // The comma of a number (WB11).
        let pauses = self.pause && !(self.word.digit && next.is_some_and(char::is_numeric));
        let has_ended = match self.stop {
            Stop::No => false,
            Stop::Wide => !continues_sentence,
            Stop::Strong => !continues_sentence && (self.spaces || next.is_none()),
            Stop::WideDot => next.is_none_or(is_unspaced),
            Stop::Dot { sure } => {
                sure && next.is_none_or(|c| self.spaces && c.is_alphabetic() && !c.is_lowercase())
            }
        };
        match has_ended {
            true => Rank::Sentence,
            false if self.spaces || pauses => Rank::Word,
            false => Rank::Character,
        }
    }
}

/// SB8a: a comma, a dash or another stop continues the sentence.
fn continues_sentence(c: char) -> bool {
    is_continuing(c) || stop_of(c).is_some()
}

/// A mark on the letter before it.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation as _;

    use super::*;

    /// The boundaries of a text, except its end.
    fn places(text: &str) -> BTreeMap<usize, Rank> {
        let mut scanner = Scanner::default();
        let mut places = BTreeMap::new();
        for (at, c) in text.char_indices() {
            let ends = scanner.read(c);
            if ends.here > Rank::Character {
                places.insert(at, ends.here);
            }
            if let Some(bytes) = ends.sentence_before {
                places.insert(at - bytes, Rank::Sentence);
            }
        }
        places
    }

    fn parts(text: &str, least: Rank) -> Vec<&str> {
        let mut parts = Vec::new();
        let mut from = 0;
        for (at, _) in places(text).into_iter().filter(|(_, rank)| *rank >= least) {
            parts.push(&text[from..at]);
            from = at;
        }
        parts.push(&text[from..]);
        parts
    }

    #[test]
    fn words_end_after_their_spaces() {
        assert_eq!(parts("So, it is.  Well", Rank::Word), ["So, ", "it ", "is.  ", "Well"]);
        assert_eq!(parts("一，二、三", Rank::Word), ["一，", "二、", "三"]);
        assert_eq!(parts("1,000 3.5", Rank::Word), ["1,000 ", "3.5"]);
        assert_eq!(parts("10\u{A0}000 km\u{202F}! Oh", Rank::Word), ["10\u{A0}000 ", "km\u{202F}! ", "Oh"]);
    }

    #[test]
    fn sentence_ends_are_found() {
        for (text, sentences) in [
            ("One. Two! Three? Four", &["One. ", "Two! ", "Three? ", "Four"][..]),
            ("It costs 3.50. Pay.", &["It costs 3.50. Pay."]),
            ("He said \"Go.\" She went.", &["He said \"Go.\" ", "She went."]),
            ("He left. \"Then go.\" She did.", &["He left. ", "\"Then go.\" ", "She did."]),
            ("Really?! Yes... No", &["Really?! ", "Yes... ", "No"]),
            ("Well… Then… or not", &["Well… ", "Then… or not"]),
            ("An (ox. (see it) now. End", &["An (ox. (see it) now. ", "End"]),
            ("Wait! - he said. Now", &["Wait! - he said. ", "Now"]),
            ("See example.com/a?b=c now. Then", &["See example.com/a?b=c now. ", "Then"]),
            ("A title\nand a line", &["A title\n", "and a line"]),
            ("(Done.) Next", &["(Done.) ", "Next"]),
            ("**Done.** Next", &["**Done.** ", "Next"]),
            // Abbreviations, initials and numbers.
            ("e.g. this, i.e. that. So", &["e.g. this, i.e. that. ", "So"]),
            ("J. Smith came. He sat.", &["J. Smith came. ", "He sat."]),
            ("Dr. Ada met Mrs. Bo. They spoke.", &["Dr. Ada met Mrs. Bo. ", "They spoke."]),
            ("See Fig. 3 and vol. 2. Good", &["See Fig. 3 and vol. 2. Good"]),
            ("No. 5 is alive. Good", &["No. 5 is alive. ", "Good"]),
            ("The answer is no. Go on.", &["The answer is no. ", "Go on."]),
            ("The U.S. Army came. It left.", &["The U.S. Army came. ", "It left."]),
            ("Das ist Hr. Maier bzw. Frl. Kurz. Gut.", &["Das ist Hr. Maier bzw. Frl. Kurz. ", "Gut."]),
            ("C’est M. Dupont et Mme. Roy. Bien.", &["C’est M. Dupont et Mme. Roy. ", "Bien."]),
            ("El Sr. Ruiz. La Sra. Paz.", &["El Sr. Ruiz. ", "La Sra. Paz."]),
            // Chinese, Japanese, Korean.
            ("你好。再见！好", &["你好。", "再见！", "好"]),
            ("「好。」他说", &["「好。」", "他说"]),
            ("本当？はい。", &["本当？", "はい。"]),
            ("３．５です。そう．はい", &["３．５です。", "そう．", "はい"]),
            ("안녕. 잘 가.", &["안녕. ", "잘 가."]),
            // Arabic, Urdu, Persian, Hebrew; Devanagari, Armenian, Ethiopic, Burmese, Khmer, Greek.
            ("هل؟ نعم. حسنًا", &["هل؟ ", "نعم. ", "حسنًا"]),
            ("یہ ہے۔ وہ ہے۔", &["یہ ہے۔ ", "وہ ہے۔"]),
            ("نعم، ولكن؛ لا. ثم", &["نعم، ولكن؛ لا. ", "ثم"]),
            ("שלום. מה?", &["שלום. ", "מה?"]),
            ("नमस्ते। फिर॥ ॐ", &["नमस्ते। ", "फिर॥ ", "ॐ"]),
            ("Բարև։ Ոչ", &["Բարև։ ", "Ոչ"]),
            ("ሰላም። እሺ", &["ሰላም። ", "እሺ"]),
            ("ဟုတ်။ မဟုတ်", &["ဟုတ်။ ", "မဟုတ်"]),
            ("បាទ។ ទេ", &["បាទ។ ", "ទេ"]),
            ("Τι είναι; Ναι. Όχι", &["Τι είναι; Ναι. ", "Όχι"]),
        ] {
            assert_eq!(parts(text, Rank::Sentence), sentences, "{text}");
        }
    }

    #[test]
    fn the_end_of_incomplete_text_is_reported_if_certain() {
        for (text, rank) in [
            ("Done.", Rank::Sentence),
            ("Done?", Rank::Sentence),
            ("Done. ", Rank::Sentence),
            ("Done", Rank::Character),
            ("Done ", Rank::Word),
            ("Dr.", Rank::Character),
            ("3.", Rank::Character),
            ("好。", Rank::Sentence),
            ("نعم؟", Rank::Sentence),
            ("Done.\n\n", Rank::Paragraph),
        ] {
            let mut scanner = Scanner::default();
            for c in text.chars() {
                scanner.read(c);
            }
            assert_eq!(scanner.ends(None), rank, "{text:?}");
        }
    }

    #[test]
    fn paragraphs_end_at_empty_lines() {
        assert_eq!(
            parts("One. Two.\n \nThree\nfour\r\n\r\nFive", Rank::Paragraph),
            ["One. Two.\n \n", "Three\nfour\r\n\r\n", "Five"]
        );
    }

    const ALPHABET: &[&str] = &[
        "a",
        "B",
        "é",
        "e\u{301}",
        "7",
        "3.5",
        "Dr.",
        "U.S.",
        "你",
        "好",
        "か",
        "한",
        "ب",
        "ש",
        "क",
        "ক",
        "ք",
        ".",
        ". ",
        "! ",
        "?",
        "...",
        "。",
        "！",
        "．",
        "؟ ",
        "۔",
        "।",
        "։",
        ",",
        ", ",
        "，",
        "、",
        "-",
        ": ",
        "؛ ",
        "\"",
        "(",
        ") ",
        "»",
        "」",
        "’",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\u{2029}",
        "👩\u{200D}💻",
        "🇳🇬",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// Each reported end is one by the rules of Unicode, ignoring white space after it.
        #[test]
        fn every_reported_end_is_one_by_unicode(parts in prop::collection::vec(prop::sample::select(ALPHABET), 1..24)) {
            let text: String = parts.concat();
            let words: Vec<usize> = text.split_word_bound_indices().map(|(at, _)| at).collect();
            let sentences: Vec<usize> = text.split_sentence_bound_indices().map(|(at, _)| at).collect();
            for (at, rank) in places(&text) {
                let ink = text[..at].trim_end().len();
                let is_among = |bounds: &[usize]| bounds.iter().any(|bound| (ink..=at).contains(bound));
                prop_assert!(is_among(&words), "a word at {at} of {text:?}");
                prop_assert!(rank < Rank::Sentence || is_among(&sentences), "a sentence at {at} of {text:?}");
            }
        }

        #[test]
        fn plain_sentences_are_found(count in 1_usize..20, ends in prop::sample::select(vec![". ", "! ", "? ", "。", "؟ ", "। "])) {
            let text: String = (0..count).map(|_| format!("Abc def{ends}")).collect();
            let found = places(&text).into_values().filter(|rank| *rank >= Rank::Sentence).count();
            prop_assert_eq!(found, count - 1);
        }
    }
}
