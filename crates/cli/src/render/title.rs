//! Titles for what has none: the first sentence of a request, cut between words. Entry point: [`of_request`].

use super::flow::{beginning, columns};

/// Columns of a title that is made.
const COLUMNS_MAX: usize = 60;

/// `None` where the request has no word.
pub(crate) fn of_request(request: &str) -> Option<String> {
    let line = request
        .lines()
        .map(|line| line.trim_start_matches(['#', '>', '-', '*', ' ', '\t']))
        .find(|line| line.chars().any(char::is_alphanumeric))?;
    let sentence = first_sentence(line.trim());
    let mut title = String::new();
    for word in sentence.split_whitespace() {
        let more = if title.is_empty() { columns(word) } else { columns(&title) + 1 + columns(word) };
        if more > COLUMNS_MAX {
            let first = if title.is_empty() { beginning(word, COLUMNS_MAX - 2).to_owned() } else { title };
            return Some(format!("{}…", first.trim_end_matches([',', ';', ':', '-', ' '])));
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
    }
    Some(title)
}

/// Up to the first full stop that ends a sentence. A question or an exclamation keeps its mark.
fn first_sentence(line: &str) -> &str {
    let mut letters = line.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let ends = letters.peek().is_none_or(|(_, next)| next.is_whitespace());
        match letter {
            '.' if ends && !is_abbreviation(&line[..at]) => return &line[..at],
            '?' | '!' if ends => return &line[..=at],
            '。' => return &line[..at],
            '？' | '！' => return &line[..at + letter.len_utf8()],
            _ => {}
        }
    }
    line
}

/// Whether the dot after this belongs to the word, as in `e.g.` or after one letter.
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    word.contains('.') || word.chars().count() == 1 && word.chars().all(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_sentence() {
        for (request, title) in [
            ("Fix the tests. Then tell me.", Some("Fix the tests")),
            ("Is it done? I hope so.", Some("Is it done?")),
            ("# Clear up\n\nRemove old files.", Some("Clear up")),
            (
                "Read v1.2.3 of main.rs, e.g. the head. Then stop",
                Some("Read v1.2.3 of main.rs, e.g. the head"),
            ),
            ("\n  \n- look   here", Some("look here")),
            ("日本語です。次。", Some("日本語です")),
            (" \n---\n", None),
            ("", None),
        ] {
            assert_eq!(of_request(request).as_deref(), title, "{request:?}");
        }
    }

    #[test]
    fn a_long_one_is_cut_between_words() {
        let long = "Test the parser of configuration files, so that unknown keys name the nearest known key";
        let title = of_request(long).unwrap();
        assert_eq!(title, "Test the parser of configuration files, so that unknown keys…");
        let word = of_request(&"x".repeat(200)).unwrap();
        assert!(columns(&word) <= COLUMNS_MAX && word.ends_with('…'));
    }
}
