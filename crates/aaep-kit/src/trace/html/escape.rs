//! Escapes foreign text in HTML: it never becomes markup, never changes the direction of its surroundings, and
//! invisible characters are shown.

use std::fmt::Write;

use super::super::sentence::{Languages, PieceKind, Sentence, TextDirection};
use super::super::shown::steers;

/// Whether a text needs no escaping at all.
fn is_simple(text: &str) -> bool {
    text.bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) && !matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\''))
}

fn push_char(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        c => out.push(c),
    }
}

fn push_sign(out: &mut String, c: char) {
    write!(out, "<span class=\"sign\">U+{:04X}</span>", u32::from(c))
        .expect("writing to a string cannot fail");
}

/// Escapes for element content: a name, an id, a message.
pub(super) fn push(out: &mut String, text: &str) {
    if is_simple(text) {
        return out.push_str(text);
    }
    for c in text.chars() {
        if steers(c) { push_sign(out, c) } else { push_char(out, c) }
    }
}

/// Escapes the message of a rule, whose values are between backticks.
pub(super) fn push_message(out: &mut String, message: &str) {
    let parts = message.split('`');
    let pairs = parts.clone().count() % 2 == 1;
    for (at, part) in parts.enumerate() {
        match at % 2 {
            _ if !pairs => {
                out.push_str(if at > 0 { "`" } else { "" });
                push(out, part);
            }
            0 => push(out, part),
            _ => {
                out.push_str("<code>");
                push(out, part);
                out.push_str("</code>");
            }
        }
    }
}

/// Escapes for attributes and `title`, which cannot contain elements.
pub(super) fn push_plain(out: &mut String, text: &str) {
    if is_simple(text) {
        return out.push_str(text);
    }
    for c in text.chars() {
        if steers(c) {
            write!(out, "U+{:04X}", u32::from(c)).expect("writing to a string cannot fail");
        } else {
            push_char(out, c);
        }
    }
}

/// Escapes a text for people. Line ends and the marks and isolates of bidirectional text are kept; isolates are
/// balanced, so that none extends beyond the text. Overrides and embeddings are shown.
pub(super) fn push_text(out: &mut String, text: &str) {
    if is_simple(text) {
        return out.push_str(text);
    }
    let mut open = 0_u32;
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\u{200e}' | '\u{200f}' | '\u{61c}' => out.push(c),
            '\u{2066}'..='\u{2068}' => {
                open += 1;
                out.push(c);
            }
            '\u{2069}' if open > 0 => {
                open -= 1;
                out.push(c);
            }
            c if steers(c) => push_sign(out, c),
            c => push_char(out, c),
        }
    }
    (0..open).for_each(|_| out.push('\u{2069}'));
}

/// Writes a sentence: own words, names in a fixed-width face, texts isolated and with their language.
pub(super) fn push_sentence(out: &mut String, sentence: &Sentence, languages: &Languages) {
    for (piece, language, text) in sentence.body() {
        match piece {
            PieceKind::Text => {
                let (tag, direction) = languages.get(language);
                out.push_str("“<bdi lang=\"");
                out.push_str(tag);
                if direction != TextDirection::Auto {
                    out.push_str("\" dir=\"");
                    out.push_str(direction.word());
                }
                out.push_str("\">");
                push_text(out, text);
                out.push_str("</bdi>”");
            }
            PieceKind::Name if text.is_empty() => out.push_str("“”"),
            PieceKind::Name => {
                out.push_str("<code>");
                push(out, text);
                out.push_str("</code>");
            }
            _ => out.push_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup_and_nothing_turns_around() {
        let mut out = String::new();
        push(&mut out, "<b a='1'>&\"\u{202e}\u{0}</b>");
        assert_eq!(
            out,
            "&lt;b a=&#39;1&#39;&gt;&amp;&quot;<span class=\"sign\">U+202E</span><span class=\"sign\">U+0000</span>&lt;/b&gt;"
        );
        out.clear();
        push_plain(&mut out, "\"\u{2066}\n");
        assert_eq!(out, "&quot;U+2066U+000A");
    }

    #[test]
    fn isolates_of_a_text_are_balanced() {
        let mut out = String::new();
        push_text(&mut out, "a\u{2069}\u{2067}b\nc\u{202e}");
        assert_eq!(
            out,
            "a<span class=\"sign\">U+2069</span>\u{2067}b\nc<span class=\"sign\">U+202E</span>\u{2069}"
        );
    }
}
