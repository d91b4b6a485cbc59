//! Escapes control characters in text for a terminal, visibly and without losing content. [`line`] is for any text,
//! [`approvable`] for what a person approves.

use std::fmt::Write;

/// Columns of blanks in a row that are shown as they are; of more, their number is shown.
const BLANK_COLUMNS_MAX: usize = 40;

/// Empty lines in a row that are shown as they are; of more, their number is shown.
const EMPTY_LINES_MAX: usize = 2;

const TAB_COLUMNS: usize = 4;

/// Whether a character steers a terminal or reorders what is read, rather than being read.
fn steers(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{200e}' | '\u{200f}' | '\u{061c}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Whether a character shows nothing, or looks like a blank and is none.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}'
        | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0100}'..='\u{e01ef}')
}

/// One line: what steers is written as `\u{1b}`, line ends too.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str(&" ".repeat(TAB_COLUMNS)),
            c if steers(c) => escape(c, &mut out),
            c => out.push(c),
        }
    }
    out
}

/// The lines of a text, each made harmless. A last line end brings no empty line.
pub fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(line)
}

/// The lines of what a person approves: nothing in them is invisible, and blanks or empty lines push nothing off the
/// screen, because of many in a row their number is shown.
pub fn approvable(text: &str) -> Vec<String> {
    let mut shown = Vec::new();
    let mut empty = 0;
    let show_empty = |count: &mut usize, shown: &mut Vec<String>| match std::mem::take(count) {
        count if count > EMPTY_LINES_MAX => shown.push(format!("[{count} empty lines]")),
        count => shown.extend(std::iter::repeat_n(String::new(), count)),
    };
    for line in text.lines() {
        if line.chars().all(is_blank) {
            empty += 1;
            continue;
        }
        show_empty(&mut empty, &mut shown);
        shown.push(approvable_line(line));
    }
    show_empty(&mut empty, &mut shown);
    shown
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn approvable_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_blank(c) != is_blank(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        if !is_blank(first) {
            for c in part.chars() {
                match c {
                    c if is_invisible(c) => escape(c, &mut out),
                    c => out.push_str(&line(c.encode_utf8(&mut [0; 4]))),
                }
            }
            continue;
        }
        let columns: usize = part.chars().map(|c| if c == '\t' { TAB_COLUMNS } else { 1 }).sum();
        match columns > BLANK_COLUMNS_MAX {
            true => write!(out, "[{} blanks]", part.chars().count()).expect("a string takes everything"),
            false => out.push_str(&" ".repeat(columns)),
        }
    }
    out
}

fn escape(c: char, out: &mut String) {
    write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything");
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
    fn nothing_that_is_approved_is_invisible_or_pushed_away() {
        let hidden = "\u{200b}\u{200d}\u{2060}\u{ad}\u{3164}\u{2800}\u{a0}\u{202e}\u{1b}";
        let escaped = r"rm\u{200b}\u{200d}\u{2060}\u{ad}\u{3164}\u{2800}\u{a0}\u{202e}\u{1b} x";
        assert_eq!(approvable(&format!("rm{hidden} x")), [escaped]);
        let far = format!("ls{};\t rm -rf ~{}", " ".repeat(6_000), " ".repeat(40));
        assert_eq!(approvable(&far), [format!("ls[6000 blanks];     rm -rf ~{}", " ".repeat(40))]);
        let deep = format!("ls{}\n\trm x\n\n\ny\n", "\n \t".repeat(90));
        assert_eq!(approvable(&deep), ["ls", "[90 empty lines]", "    rm x", "", "", "y"]);
        assert_eq!(approvable("if a:\n\tb = 'ä 日本'\n"), ["if a:", "    b = 'ä 日本'"]);
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
