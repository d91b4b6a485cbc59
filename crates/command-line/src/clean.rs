//! Escapes control characters in text for a terminal, visibly and without losing content.

use std::fmt::Write;

/// Whether a character steers a terminal or reorders what is read, rather than being read.
fn steers(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{200e}' | '\u{200f}' | '\u{061c}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// One line: what steers is written as `\u{1b}`, line ends too.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if steers(c) => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything"),
            c => out.push(c),
        }
    }
    out
}

/// The lines of a text, each made harmless. A last line end brings no empty line.
pub fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(line)
}

/// JSON for a terminal: the same value, with what steers written as JSON escapes.
///
/// Compact JSON holds such characters within strings only, where an escape means the same.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a string takes everything");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(line("a\u{1b}[2Jb\u{7}\u{9b}1m\u{7f}"), r"a\u{1b}[2Jb\u{7}\u{9b}1m\u{7f}");
        assert_eq!(line("to\tthe\r\nend"), r"to    the\u{d}\u{a}end");
        assert_eq!(line("\u{202e}drowssap\u{2066}"), r"\u{202e}drowssap\u{2066}");
        assert_eq!(line("plain, ä, 日本, 👩‍🚀"), "plain, ä, 日本, 👩‍🚀");
        assert_eq!(lines("one\r\ntwo\rthree\n").collect::<Vec<_>>(), ["one", r"two\u{d}three"]);
    }

    #[test]
    fn json_means_the_same() {
        let text = "{\"a\":\"x\u{9b}2J\u{202e}\u{e0001}\u{7f}é\"}";
        let shown = json(text);
        assert_eq!(shown, "{\"a\":\"x\\u009b2J\\u202e\\udb40\\udc01\\u007fé\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("it is JSON");
        assert_eq!(value(&shown), value(text));
    }
}
