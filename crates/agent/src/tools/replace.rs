//! Replaces an exact text in a file, or explains why it cannot, so that a model can correct the call.
//!
//! Start at [`replace`]. Pure, on bytes. A model does not see line ends: in a file with CRLF line ends, a text that
//! does not occur as given is searched with CRLF.

use memchr::memmem;

use crate::tools::ending::{CallFailure, cut};
use crate::tools::limits;

/// Returns the new bytes and the number of replacements.
pub(crate) fn replace(
    bytes: &[u8],
    old: &str,
    new: &str,
    all: bool,
) -> Result<(Vec<u8>, usize), CallFailure> {
    if old == new {
        return Err(CallFailure::failed(
            "no_change",
            "old_text and new_text are identical; nothing was changed",
        ));
    }
    if old.is_empty() {
        return Err(CallFailure::failed(
            "invalid_input",
            "old_text is empty; create new files with write_file",
        ));
    }
    let (mut old, mut new) = (old.to_owned(), new.to_owned());
    let mut places: Vec<usize> = memmem::find_iter(bytes, old.as_bytes()).collect();
    if places.is_empty() && memmem::find(bytes, b"\r\n").is_some() && !old.contains('\r') {
        (old, new) = (with_returns(&old), with_returns(&new));
        places = memmem::find_iter(bytes, old.as_bytes()).collect();
    }
    match places.len() {
        0 => return Err(CallFailure::failed("text_not_found", not_found(bytes, &old))),
        1 => {}
        _ if all => {}
        count => return Err(CallFailure::failed("text_not_unique", too_often(bytes, &places, count))),
    }
    let size =
        (bytes.len() - places.len() * old.len()).saturating_add(places.len().saturating_mul(new.len()));
    if size > limits::EDIT_FILE_BYTES_MAX {
        let most = limits::EDIT_FILE_BYTES_MAX;
        let message = format!("the edited file would have {size} bytes; the limit is {most}");
        return Err(CallFailure::failed("file_too_large", message));
    }
    let mut out = Vec::with_capacity(size);
    let mut from = 0;
    for place in &places {
        out.extend_from_slice(&bytes[from..*place]);
        out.extend_from_slice(new.as_bytes());
        from = place + old.len();
    }
    out.extend_from_slice(&bytes[from..]);
    Ok((out, places.len()))
}

fn with_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn too_often(bytes: &[u8], places: &[usize], count: usize) -> String {
    let mut rows: Vec<String> = Vec::new();
    let (mut row, mut from) = (1, 0);
    for place in places.iter().take(limits::OCCURRENCES_LISTED_MAX) {
        row += memchr::memchr_iter(b'\n', &bytes[from..*place]).count();
        from = *place;
        rows.push(row.to_string());
    }
    let more = if count > rows.len() { ", …" } else { "" };
    format!(
        "old_text occurs {count} times in the file, on lines {}{more}; include more context so that it is \
         unique, or set replace_all",
        rows.join(", ")
    )
}

fn not_found(bytes: &[u8], old: &str) -> String {
    const NOT_FOUND: &str = "old_text was not found in the file";
    let Some(target) = old.lines().find(|line| !line.trim().is_empty()) else {
        return format!("{NOT_FOUND}; it has only whitespace, so include the text around it");
    };
    let Some((number, line, score)) = nearest(bytes, target) else {
        return format!("{NOT_FOUND}; read the file again");
    };
    let line = cut(&String::from_utf8_lossy(line), limits::LINE_QUOTED_CHARS);
    let why = if score == EXACT {
        "which matches its first line, but the following lines differ"
    } else if score == SPACES {
        "which differs in whitespace"
    } else {
        "which differs"
    };
    format!("{NOT_FOUND}; the closest line is {number}, {why}: {line}")
}

const EXACT: u32 = 1_002;
const SPACES: u32 = 1_001;

/// The most similar line, if one is similar enough.
fn nearest<'a>(bytes: &'a [u8], target: &str) -> Option<(usize, &'a [u8], u32)> {
    let target = target.trim_end_matches('\r').as_bytes();
    let pairs = pairs(target);
    let lines = bytes.split(|byte| *byte == b'\n').take(limits::NEAREST_LINES_MAX);
    let mut best: Option<(usize, &[u8], u32)> = None;
    for (index, line) in lines.enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let score = if memmem::find(line, target).is_some() {
            EXACT
        } else if line.trim_ascii() == target.trim_ascii() {
            SPACES
        } else {
            alike(&pairs, line)
        };
        if score >= limits::LIKENESS_MIN && best.is_none_or(|(_, _, most)| score > most) {
            best = Some((index + 1, line, score));
        }
    }
    best
}

/// Adjacent bytes, sorted, without surrounding whitespace.
fn pairs(text: &[u8]) -> Vec<[u8; 2]> {
    let text = text.trim_ascii();
    let text = &text[..text.len().min(limits::LINE_QUOTED_CHARS)];
    let mut pairs: Vec<[u8; 2]> = text.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.sort_unstable();
    pairs
}

/// The similarity of two lines: the share of common pairs, in thousandths.
fn alike(target: &[[u8; 2]], line: &[u8]) -> u32 {
    let pairs = pairs(line);
    let (mut shared, mut at) = (0_usize, 0);
    for pair in target {
        while at < pairs.len() && pairs[at] < *pair {
            at += 1;
        }
        if at < pairs.len() && pairs[at] == *pair {
            shared += 1;
            at += 1;
        }
    }
    let all = target.len() + pairs.len();
    u32::try_from((2_000 * shared).checked_div(all).unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Outcome;
    use proptest::prelude::*;

    fn error_text(bytes: &str, old: &str, new: &str) -> String {
        Outcome::from(replace(bytes.as_bytes(), old, new, false).unwrap_err()).output
    }

    #[test]
    fn text_is_replaced_exactly_and_the_rest_stays() {
        for (before, old, new, all, after) in [
            ("a b c", "b", "x", false, "a x c"),
            ("a\nb\n", "a\nb", "c", false, "c\n"),
            ("aXaX", "X", "", true, "aa"),
            ("aaa", "aa", "b", true, "ba"),
            ("\u{FEFF}a\n", "a", "b", false, "\u{FEFF}b\n"),
            ("a\r\nb\r\n", "a\nb\n", "c\nd\n", false, "c\r\nd\r\n"),
            ("a\r\nb\n", "b\n", "c\n", false, "a\r\nc\n"),
            ("a\r\nb\r\n", "a", "c", false, "c\r\nb\r\n"),
        ] {
            let (got, _) = replace(before.as_bytes(), old, new, all).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), after, "{before:?} {old:?}");
        }
        assert_eq!(replace(b"\xFFa\xFE", "a", "b", false).unwrap(), (b"\xFFb\xFE".to_vec(), 1));
    }

    #[test]
    fn errors_name_the_lines() {
        for (before, old, new, message) in [
            (
                "x\nx\ny x\n",
                "x",
                "z",
                "old_text occurs 3 times in the file, on lines 1, 2, 3; include more context so that it is unique, or set replace_all",
            ),
            ("a", "a", "a", "old_text and new_text are identical; nothing was changed"),
            (
                "fn a() {\n    let total = 1;\n}\n",
                "let totals = 1;",
                "",
                "old_text was not found in the file; the closest line is 2, which differs:     let total = 1;",
            ),
            (
                "fn a() {\n    b();\n}\n",
                "\tb();\n",
                "",
                "old_text was not found in the file; the closest line is 2, which differs in whitespace:     b();",
            ),
            (
                "first\nsecond\n",
                "first\nthird\n",
                "",
                "old_text was not found in the file; the closest line is 1, which matches its first line, but the following lines differ: first",
            ),
            ("abc\n", "entirely other", "", "old_text was not found in the file; read the file again"),
            (
                "abc\n",
                "  ",
                "",
                "old_text was not found in the file; it has only whitespace, so include the text around it",
            ),
        ] {
            assert_eq!(error_text(before, old, new), message);
        }
        let many = "x\n".repeat(1_000);
        assert!(
            error_text(&many, "x", "y")
                .contains("occurs 1000 times in the file, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;")
        );
        let grows =
            replace(many.as_bytes(), "x", &"y".repeat(limits::EDIT_FILE_BYTES_MAX / 100), true).unwrap_err();
        assert!(Outcome::from(grows).output.starts_with("the edited file would have 41944000 bytes"));
    }

    proptest! {
        #[test]
        fn the_result_equals_that_of_the_standard_library(text in "[ab\n]{0,20}", old in "[ab]{1,3}", new in "[abc]{0,3}") {
            prop_assume!(old != new);
            match replace(text.as_bytes(), &old, &new, true) {
                Ok((got, times)) => {
                    prop_assert_eq!(got, text.replace(&old, &new).into_bytes());
                    prop_assert_eq!(times, text.matches(&old).count());
                }
                Err(_) => prop_assert!(!text.contains(&old)),
            }
        }
    }
}
