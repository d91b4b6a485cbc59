//! Grapheme clusters (UAX #29): where text can be cut without splitting a character. It must not know words or events.
//! See [`between_characters`], [`characters_up_to`] and [`may_grow`].

use unicode_segmentation::GraphemeCursor;

use super::punctuation::{is_closing, is_pause, is_terminal};

/// Whether a grapheme cluster ends at this offset.
pub(super) fn between_characters(text: &str, at: usize) -> bool {
    // The cursor has the whole text, so it needs no more context.
    GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(false)
}

/// The last offset up to `most` bytes that splits no grapheme cluster.
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
        // A cluster longer than `most`, such as a base with many marks, is cut between two marks.
        _ => text.floor_char_boundary(most).max(text.chars().next().map_or(0, char::len_utf8)),
    }
}

/// The offset of the last grapheme cluster.
pub(super) fn last_character(text: &str) -> usize {
    let mut cursor = GraphemeCursor::new(text.len(), text.len(), true);
    cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0)
}

/// Whether the next character is likely to belong to the last cluster: emoji, flags, jamo, joiners.
pub(super) fn may_grow(text: &str) -> bool {
    let last = &text[last_character(text)..];
    if last.ends_with(|c| matches!(c, '\u{200D}' | '\u{1F1E6}'..='\u{1F1FF}' | '\u{1100}'..='\u{11FF}')) {
        return true;
    }
    last.chars().next().is_some_and(|base| !(base.is_alphanumeric() || is_settled(base)))
}

/// Whether no meaningful combining mark can follow this character.
pub(super) fn is_settled(last: char) -> bool {
    (last.is_whitespace() && last != '\r')
        || (last.is_ascii_punctuation() && last != '#' && last != '*')
        || (is_terminal(last) && !matches!(last, '‼' | '⁉'))
        || (is_closing(last) && last != '*')
        || is_pause(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_not_split() {
        let text = "e\u{301}👩\u{200D}💻🇳🇬x";
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let between: Vec<usize> = places.into_iter().filter(|at| between_characters(text, *at)).collect();
        assert_eq!(between, [0, 3, 14, 22, 23]);
        assert_eq!(characters_up_to(text, 13), 3);
        assert_eq!(characters_up_to(text, 21), 14);
        assert_eq!(characters_up_to(&"e\u{301}".repeat(9), 10), 9);
        assert_eq!(characters_up_to(&format!("e{}", "\u{301}".repeat(9)), 10), 9);
        assert_eq!((last_character(text), last_character("x🇳🇬"), last_character("")), (22, 1, 0));
        for (text, grows) in [
            ("👩", true),
            ("👩\u{200D}", true),
            ("🇳", true),
            ("e", false),
            ("e\u{301}", false),
            ("e ", false),
            ("!", false),
            ("؟", false),
        ] {
            assert_eq!(may_grow(text), grows, "{text}");
        }
    }
}
