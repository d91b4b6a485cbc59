//! Shortens and cleans texts of the log for fields and sentences: removes control characters and limits the length. `…`
//! marks omitted text.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::limits;

/// A text for the middle of a sentence: one line, without ids.
pub(super) fn quoted(text: &str) -> String {
    let line = text.split(|character: char| character.is_whitespace() || character.is_control());
    let line = line.filter(|word| !word.is_empty()).map(without_id).collect::<Vec<_>>().join(" ");
    cut(undirected(line), limits::QUOTED_CHARS_MAX)
}

/// Kinds of ids, by prefix, and what is spoken instead: an id cannot be remembered by ear.
const IDS: &[(&str, &str)] = &[
    ("run", "run"),
    ("task", "task"),
    ("chat", "session"),
    ("sess", "session"),
    ("art", "artifact"),
    ("appr", "approval"),
    ("clar", "question"),
    ("hand", "handoff"),
    ("ckpt", "checkpoint"),
    ("call", "call"),
    ("evt", "event"),
    ("tok", "token"),
];

/// Characters of an id after its prefix.
const ID_CHARS: usize = 26;

/// A word, or the kind of the id that it is.
fn without_id(word: &str) -> &str {
    let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let known = core.split_once('_').filter(|(_, rest)| {
        rest.len() == ID_CHARS && rest.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    });
    let kind = known.and_then(|(prefix, _)| IDS.iter().find(|(known, _)| *known == prefix));
    kind.map_or(word, |(_, spoken)| spoken)
}

/// A text without the marks around its code: of several, those within may be part of a command.
pub(super) fn without_outer_ticks(text: &str) -> String {
    match (text.find('`'), text.rfind('`')) {
        (Some(first), Some(last)) if first < last => {
            [&text[..first], &text[first + 1..last], &text[last + 1..]].concat()
        }
        _ => text.to_owned(),
    }
}

/// A text without the marks around its code, for facts that need no decision.
pub(super) fn without_ticks(text: String) -> String {
    if text.matches('`').count().is_multiple_of(2) { text.replace('`', "") } else { text }
}

/// Removes characters that change the direction of the following text. They could reverse a sentence or close its
/// isolates.
fn undirected(mut text: String) -> String {
    text.retain(|character| !matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'));
    text
}

/// A text for a field of its own: lines are kept.
pub(super) fn field(text: &str) -> String {
    let allowed = |character: char| matches!(character, '\n' | '\t') || !character.is_control();
    let text: String =
        text.chars().map(|character| if allowed(character) { character } else { ' ' }).collect();
    cut(undirected(text).trim().to_owned(), limits::FIELD_CHARS_MAX)
}

/// The same for an optional text; `None` if it is empty.
pub(super) fn some_field(text: Option<&str>) -> Option<String> {
    text.map(field).filter(|text| !text.is_empty())
}

/// A sentence with a final mark, so that another can follow.
pub(super) fn ended(text: String) -> String {
    let ends =
        |last: char| matches!(last, '.' | '!' | '?' | '…' | ':' | ';' | '。' | '！' | '？' | '؟' | '।');
    let closing = ['"', '\'', ')', '”', '’', '»', '`'];
    if text.is_empty() || text.trim_end_matches(closing).ends_with(ends) { text } else { text + "." }
}

pub(super) fn some_quoted(text: Option<&str>) -> Option<String> {
    text.map(quoted).filter(|text| !text.is_empty())
}

/// The spoken form of a change's size: `+2/-1 lines`, which tools write, becomes `2 lines added, 1 removed`.
pub(super) fn aloud(text: String) -> String {
    let number = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    for (at, _) in text.match_indices('+') {
        let added = &text[at + 1..];
        let (added, rest) = added.split_at(number(added));
        let Some(removed) = rest.strip_prefix("/-") else { continue };
        let (removed, rest) = removed.split_at(number(removed));
        let rest = rest.strip_prefix(" lines").or_else(|| rest.strip_prefix(" line"));
        if let (false, false, Some(rest)) = (added.is_empty(), removed.is_empty(), rest) {
            let lines = if added == "1" { "line" } else { "lines" };
            return format!("{}{added} {lines} added, {removed} removed{rest}", &text[..at]);
        }
    }
    text
}

fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => {
            let end = text.grapheme_indices(true).map(|(at, _)| at).take_while(|at| *at <= end).last();
            format!("{}…", &text[..end.unwrap_or(0)])
        }
    }
}

/// Splits a text into pieces of at most [`limits::PIECE_BYTES`], between grapheme clusters. A longer cluster is split.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > limits::PIECE_BYTES {
        let whole = rest.floor_char_boundary(limits::PIECE_BYTES);
        let seen = rest.grapheme_indices(true).map(|(at, _)| at).take_while(|at| *at <= whole).last();
        let end = seen.filter(|end| *end > 0).unwrap_or(whole);
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_one_line_and_fields_keep_theirs() {
        assert_eq!(quoted(" a\n\n b\u{1b}[0m\tc "), "a b [0m c");
        assert_eq!(field(" a\n b\u{0}c "), "a\n b c");
        let turned = "keep \u{202E}reven\u{202C} \u{2069}it";
        assert_eq!((quoted(turned), field(turned)), ("keep reven it".into(), "keep reven it".into()));
        assert_eq!((some_field(Some(" \n")), some_quoted(None)), (None, None));
    }

    #[test]
    fn ids_are_not_spoken() {
        let id = "01M8JS9S5RQ4221ACB499CASBV";
        for (text, spoken) in [
            (format!("run_{id} has finished"), "run has finished"),
            (format!("see (appr_{id}), or clar_{id}."), "see approval or question"),
            (format!("run_{} and shop_{id}", &id[1..]), &*format!("run_{} and shop_{id}", &id[1..])),
            ("snake_case call_back".to_owned(), "snake_case call_back"),
        ] {
            assert_eq!(quoted(&text), spoken);
        }
    }

    #[test]
    fn marks_of_code_are_not_spoken_but_those_of_a_command_are() {
        for (text, action, fact) in [
            ("Run `ls`.", "Run ls.", "Run ls."),
            ("Run `echo `rm x``.", "Run echo `rm x`.", "Run echo rm x."),
            ("Run ` ls", "Run ` ls", "Run ` ls"),
        ] {
            assert_eq!(without_outer_ticks(text), action);
            assert_eq!(without_ticks(text.to_owned()), fact);
        }
    }

    #[test]
    fn a_sentence_is_ended_once() {
        for (text, whole) in
            [("Go on", "Go on."), ("Go on.", "Go on."), ("(Why?)", "(Why?)"), ("", ""), ("لماذا؟", "لماذا؟")]
        {
            assert_eq!(ended(text.to_owned()), whole);
        }
    }

    #[test]
    fn the_size_of_a_change_is_spoken_in_words() {
        for (written, spoken) in [
            ("greet.sh: 1 hunk, +1/-1 line", "greet.sh: 1 hunk, 1 line added, 1 removed"),
            ("2 files, +2/-12 lines.", "2 files, 2 lines added, 12 removed."),
            ("1 + 1 is 2, +3/-0 lines", "1 + 1 is 2, 3 lines added, 0 removed"),
            ("+1/-x line, +/-2 lines, +1/-1", "+1/-x line, +/-2 lines, +1/-1"),
        ] {
            assert_eq!(aloud(written.to_owned()), spoken);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_marked() {
        let flag = "🇩🇪";
        let long = quoted(&flag.repeat(limits::QUOTED_CHARS_MAX));
        assert!(long.ends_with("🇩🇪…") && long.chars().count() <= limits::QUOTED_CHARS_MAX + 1);
        let exact = "x".repeat(limits::FIELD_CHARS_MAX);
        assert_eq!(field(&exact), exact);
    }

    #[test]
    fn pieces_are_short_and_join_to_the_text() {
        for text in [
            String::new(),
            "a".repeat(20_000),
            "é".repeat(9_001),
            "👩‍👩‍👧‍👦".repeat(3_000),
            "\u{301}".repeat(9_000),
        ] {
            let pieces = pieces(&text);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| piece.len() <= limits::PIECE_BYTES));
        }
        let family = "👩‍👩‍👧‍👦";
        assert!(pieces(&family.repeat(3_000)).iter().all(|piece| piece.len() % family.len() == 0));
    }
}
