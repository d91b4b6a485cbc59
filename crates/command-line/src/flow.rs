//! Line breaking: text for a terminal of so many columns, broken between words, as it streams in.
//!
//! Words are never cut, so long addresses stay whole. Code blocks, indented lines and tables stay as they are. Pure; it
//! must never know a terminal. Entry points: [`Flow`] for text that streams in, [`broken`] for one line.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Spaces at the beginning of a line that keep it from being broken: what is indented so is code or output.
const VERBATIM_INDENT: usize = 4;

/// Columns below which nothing is broken: each word would be a line.
const WIDTH_MIN: usize = 20;

/// Characters of a line that are read to recognise its kind.
const HEAD_CHARS: usize = 8;

/// Breaks text that comes in pieces.
#[derive(Debug, Default)]
pub struct Flow {
    /// Columns of the terminal; without them nothing is broken.
    width: Option<usize>,
    column: usize,
    /// Columns that lines of ours begin with.
    hang: usize,
    /// How much further than its first line the rest of a line is indented.
    hang_more: usize,
    /// What is not written yet: spaces, and the word after them.
    spaces: usize,
    word: String,
    /// The beginning of the line as it came.
    head: String,
    /// Whether a word of the line was written.
    has_words: bool,
    /// Between the fences of a code block.
    is_fenced: bool,
    is_verbatim: bool,
    /// Whether the word that goes on was written already.
    is_released: bool,
    /// Within a sequence that sets a colour.
    is_escape: bool,
}

impl Flow {
    pub fn new(width: Option<usize>) -> Self {
        Flow { width: width.filter(|width| *width >= WIDTH_MIN), ..Flow::default() }
    }

    /// From here on the terminal has so many columns.
    pub fn set_width(&mut self, width: Option<usize>) {
        self.width = width.filter(|width| *width >= WIDTH_MIN);
    }

    /// A piece of a line, without line ends. The last word is held until it is known to be whole.
    pub fn piece(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 8);
        for letter in text.chars() {
            self.letter(letter, &mut out);
        }
        out
    }

    /// The word that is held, although it may go on: what follows stays in its line.
    pub fn release(&mut self) -> String {
        let mut out = String::new();
        self.is_released |= !self.word.is_empty();
        self.word(&mut out);
        out
    }

    /// The rest of the line, and its end.
    pub fn end_line(&mut self) -> String {
        let mut out = String::new();
        self.word(&mut out);
        let head = self.head.trim_start();
        if head.starts_with("```") || head.starts_with("~~~") {
            self.is_fenced = !self.is_fenced;
        }
        self.begin_line();
        out.push('\n');
        out
    }

    /// What is still held, where a text ends in the middle of a line. The next piece begins a text of its own.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.word(&mut out);
        self.begin_line();
        self.is_fenced = false;
        out
    }

    fn begin_line(&mut self) {
        let Flow { width, is_fenced, hang_more, .. } = *self;
        *self = Flow { width, is_fenced, hang_more, ..Flow::default() };
    }

    fn letter(&mut self, letter: char, out: &mut String) {
        if self.head.chars().count() < HEAD_CHARS {
            self.head.push(letter);
        }
        if self.width.is_none() || self.is_verbatim {
            out.push(letter);
            return;
        }
        if letter == ' ' {
            self.is_released = false;
            self.word(out);
            self.spaces += 1;
            return;
        }
        if self.is_released {
            out.push(letter);
            self.column += letter.width().unwrap_or(0);
            return;
        }
        if !self.has_words && self.word.is_empty() {
            let is_code = self.is_fenced || self.spaces >= VERBATIM_INDENT || letter == '|';
            if is_code {
                self.is_verbatim = true;
                out.push_str(&" ".repeat(std::mem::take(&mut self.spaces)));
                out.push(letter);
                return;
            }
        }
        if self.is_escape || letter == '\u{1b}' {
            // A colour takes no columns, and belongs to the word that it stands at.
            self.is_escape = letter != 'm';
            self.word.push(letter);
            return;
        }
        let last = self.word.chars().next_back();
        if last.is_some_and(|last| may_break(last, letter)) {
            self.word(out);
        }
        self.word.push(letter);
    }

    /// Writes the word that is held, on a line of its own where this one has no room.
    fn word(&mut self, out: &mut String) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let columns = columns(&word);
        if !self.has_words {
            self.has_words = true;
            let marker = if is_marker(&word) { columns + 1 } else { 0 };
            self.hang = self.spaces + marker + self.hang_more;
        } else if let Some(width) = self.width
            && self.column + self.spaces + columns > width
            && self.column > self.hang
        {
            let hang = if self.hang * 2 > width { 0 } else { self.hang };
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            (self.column, self.spaces) = (hang, 0);
        }
        out.push_str(&" ".repeat(self.spaces));
        out.push_str(&word);
        self.column += std::mem::take(&mut self.spaces) + columns;
    }
}

/// One line, broken between words; what follows its first line is indented two columns further.
pub fn broken(line: &str, width: Option<usize>) -> String {
    if width.is_none_or(|width| columns(line) <= width) {
        return line.to_owned();
    }
    let mut flow = Flow::new(width);
    flow.hang_more = 2;
    let mut out = flow.piece(line);
    out.push_str(&flow.finish());
    out
}

/// Columns that a text takes, without the colours in it.
pub fn columns(text: &str) -> usize {
    if !text.contains('\u{1b}') {
        return text.width();
    }
    let mut is_escape = false;
    let seen: String = text
        .chars()
        .filter(|letter| {
            let is_part = is_escape || *letter == '\u{1b}';
            is_escape = is_part && *letter != 'm';
            !is_part
        })
        .collect();
    seen.width()
}

/// Rows that a line takes on a terminal that wraps it after so many columns. A wide character that does not fit at the
/// end of a row goes to the next.
pub fn rows(line: &str, width: Option<usize>) -> usize {
    let Some(width) = width.filter(|width| *width > 0) else { return 1 };
    let (mut rows, mut column) = (1, 0);
    for character in line.graphemes(true) {
        let columns = columns(character);
        if column + columns > width {
            (rows, column) = (rows + 1, 0);
        }
        column += columns;
    }
    rows
}

/// The beginning of a text that takes at most so many columns. What people see as one character is never cut, such as a
/// letter with its accents, a flag, or a family of emoji.
pub fn beginning(text: &str, columns_max: usize) -> &str {
    let mut taken = 0;
    for (at, character) in text.grapheme_indices(true) {
        taken += columns(character);
        if taken > columns_max {
            return &text[..at];
        }
    }
    text
}

/// Whether a line may be broken between two characters of a word: around the wide ones of scripts without spaces, but
/// not before what closes.
fn may_break(before: char, after: char) -> bool {
    let is_wide = |letter: char| {
        letter.width() == Some(2)
            && matches!(letter, '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
    };
    let closes = "、。，．：；！？）］｝」』】〉》’”ー々)]}>.,:;!?";
    let opens = "（［｛「『【〈《‘“([{<";
    let joins = after.width() == Some(0);
    (is_wide(before) || is_wide(after)) && !joins && !closes.contains(after) && !opens.contains(before)
}

/// Whether a word at the beginning of a line marks a list.
fn is_marker(word: &str) -> bool {
    let number = word.strip_suffix(['.', ')']).unwrap_or_default();
    matches!(word, "-" | "*" | "+" | "•")
        || (!number.is_empty() && number.len() <= 3 && number.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it comes in pieces of so many characters.
    fn flowed(text: &str, width: usize, at_once: usize) -> String {
        let mut flow = Flow::new(Some(width));
        let mut out = String::new();
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                out.push_str(&flow.end_line());
            }
            let letters: Vec<char> = line.chars().collect();
            for piece in letters.chunks(at_once) {
                out.push_str(&flow.piece(&piece.iter().collect::<String>()));
            }
        }
        out + &flow.finish()
    }

    #[track_caller]
    fn check(text: &str, width: usize, expected: &str) {
        for at_once in [1, 2, 3, 7, 1_000] {
            assert_eq!(flowed(text, width, at_once), expected, "{at_once} at once");
        }
    }

    #[test]
    fn lines_break_between_words() {
        check(
            "The quick brown fox jumps over the lazy dog.",
            20,
            "The quick brown fox\njumps over the lazy\ndog.",
        );
        check("exactly twenty chars", 20, "exactly twenty chars");
        check("one\n\n  two", 20, "one\n\n  two");
    }

    #[test]
    fn a_long_address_stays_whole() {
        let address = "https://example.com/a/very/long/path?with=query";
        check(&format!("see {address} for more"), 20, &format!("see\n{address}\nfor more"));
    }

    #[test]
    fn wide_characters_and_marks_count_as_they_are_seen() {
        // Ten characters of two columns each fill the line.
        check("日本語日本語日本語日、本語", 20, "日本語日本語日本語\n日、本語");
        let marked = "e\u{301}".repeat(20);
        check(&format!("{marked} x"), 20, &format!("{marked}\nx"));
        check("ab 👩‍🚀👩‍🚀 abcdefghijklmn", 20, "ab 👩‍🚀👩‍🚀\nabcdefghijklmn");
    }

    #[test]
    fn a_beginning_never_ends_within_a_character() {
        for (text, columns_max, expected) in [
            ("one two", 3, "one"),
            ("one two", 9, "one two"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
            ("日本語", 5, "日本"),
            ("a👩‍🚀b", 2, "a"),
            ("a👩‍🚀b", 3, "a👩‍🚀"),
            ("🇩🇰🇳🇴", 2, "🇩🇰"),
            ("שָׁלוֹם", 1, "שָׁ"),
            ("", 3, ""),
        ] {
            assert_eq!(beginning(text, columns_max), expected, "{text} in {columns_max}");
        }
    }

    #[test]
    fn rows_are_counted_as_a_terminal_wraps_them() {
        for (text, width, expected) in [
            ("", Some(5), 1),
            ("12345", Some(5), 1),
            ("123456", Some(5), 2),
            ("日本語", Some(5), 2),
            ("日本語", Some(3), 3),
            (&"x".repeat(6_000), Some(80), 75),
            ("123456", None, 1),
        ] {
            assert_eq!(rows(text, width), expected, "{text} in {width:?}");
        }
    }

    #[test]
    fn code_and_tables_are_not_broken() {
        let code = "```sh\necho one two three four five six\n```";
        check(code, 20, code);
        check("    indented code that is longer than it", 20, "    indented code that is longer than it");
        check("| a cell | another cell | more |", 20, "| a cell | another cell | more |");
        check(
            &format!("{code}\nand then some more words"),
            20,
            &format!("{code}\nand then some more\nwords"),
        );
    }

    #[test]
    fn lists_hang() {
        check("- one two three four five", 20, "- one two three four\n  five");
        check("  12. one two three four", 20, "  12. one two three\n      four");
    }

    #[test]
    fn a_line_of_ours_with_colours_is_broken_where_it_is_seen_to_end() {
        let line = "\u{1b}[31m✗ failed:\u{1b}[0m one two three four";
        assert_eq!(broken(line, Some(20)), "\u{1b}[31m✗ failed:\u{1b}[0m one two\n  three four");
        assert_eq!(broken(line, None), line);
        assert_eq!(broken("    verbatim output of a command", Some(20)), "    verbatim output of a command");
        assert_eq!(columns(line), 28);
    }

    #[test]
    fn a_word_that_does_not_end_is_written_and_goes_on_in_its_line() {
        let mut flow = Flow::new(Some(20));
        assert_eq!(flow.piece("one two thr"), "one two");
        assert_eq!((flow.release(), flow.release()), (" thr".to_owned(), String::new()));
        assert_eq!(flow.piece("ee four five"), "ee four");
        assert_eq!(flow.finish(), "\nfive");
    }

    #[test]
    fn nothing_is_lost() {
        let text = "a  b   c\nlong words and  spaces 日本 x\n- y";
        let words = |text: &str| text.split_whitespace().collect::<String>();
        for width in 20..40 {
            assert_eq!(words(&flowed(text, width, 3)), words(text));
        }
    }
}
