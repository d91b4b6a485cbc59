//! Replacing a piece of text in a file exactly, or saying why it cannot be done so that a model can correct it.
//!
//! Look at [`replace`]. Pure, on bytes. A model sees lines and not what ends them: where a file ends its lines with
//! carriage return and newline and the text does not occur as it was given, it is looked for with these.

use memchr::memmem;

use crate::tools::ending::{Stop, cut};
use crate::tools::limits;

/// The new bytes, and how often the text was replaced.
pub(crate) fn replace(bytes: &[u8], old: &str, new: &str, all: bool) -> Result<(Vec<u8>, usize), Stop> {
    if old == new {
        return Err(Stop::failed("no_change", "old_text and new_text are the same; nothing would change"));
    }
    if old.is_empty() {
        return Err(Stop::failed("invalid_input", "old_text is empty; to make a new file use write_file"));
    }
    let (mut old, mut new) = (old.to_owned(), new.to_owned());
    let mut places: Vec<usize> = memmem::find_iter(bytes, old.as_bytes()).collect();
    if places.is_empty() && memmem::find(bytes, b"\r\n").is_some() && !old.contains('\r') {
        (old, new) = (with_returns(&old), with_returns(&new));
        places = memmem::find_iter(bytes, old.as_bytes()).collect();
    }
    match places.len() {
        0 => return Err(Stop::failed("text_not_found", not_found(bytes, &old))),
        1 => {}
        _ if all => {}
        count => return Err(Stop::failed("text_not_unique", too_often(bytes, &places, count))),
    }
    let size =
        (bytes.len() - places.len() * old.len()).saturating_add(places.len().saturating_mul(new.len()));
    if size > limits::EDIT_FILE_BYTES_MAX {
        let most = limits::EDIT_FILE_BYTES_MAX;
        let message = format!("the file would have {size} bytes and may have {most} to be edited");
        return Err(Stop::failed("file_too_large", message));
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
    for place in places.iter().take(limits::PLACES_TOLD_MAX) {
        row += memchr::memchr_iter(b'\n', &bytes[from..*place]).count();
        from = *place;
        rows.push(row.to_string());
    }
    let more = if count > rows.len() { ", …" } else { "" };
    format!(
        "old_text stands {count} times in the file, in lines {}{more}; give more of the text around the one that is \
         meant, or set replace_all",
        rows.join(", ")
    )
}

fn not_found(bytes: &[u8], old: &str) -> String {
    const SAID: &str = "old_text is not in the file";
    let Some(wanted) = old.lines().find(|line| !line.trim().is_empty()) else {
        return format!("{SAID}; it is only white space, give the text around it");
    };
    let Some((number, line, score)) = nearest(bytes, wanted) else { return format!("{SAID}; read it again") };
    let line = cut(&String::from_utf8_lossy(line), limits::LINE_TOLD_CHARS);
    let why = if score == EXACT {
        "which is its first line, but what follows differs"
    } else if score == SPACES {
        "which differs in white space"
    } else {
        "which is not the same"
    };
    format!("{SAID}; nearest is line {number}, {why}: {line}")
}

const EXACT: u32 = 1_002;
const SPACES: u32 = 1_001;

/// The line that is most like this one, when one is like it at all.
fn nearest<'a>(bytes: &'a [u8], wanted: &str) -> Option<(usize, &'a [u8], u32)> {
    let wanted = wanted.trim_end_matches('\r').as_bytes();
    let pairs = pairs(wanted);
    let lines = bytes.split(|byte| *byte == b'\n').take(limits::NEAREST_LINES_MAX);
    let mut best: Option<(usize, &[u8], u32)> = None;
    for (index, line) in lines.enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let score = if memmem::find(line, wanted).is_some() {
            EXACT
        } else if line.trim_ascii() == wanted.trim_ascii() {
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

/// Neighbouring bytes, sorted, white space around left out.
fn pairs(text: &[u8]) -> Vec<[u8; 2]> {
    let text = text.trim_ascii();
    let text = &text[..text.len().min(limits::LINE_TOLD_CHARS)];
    let mut pairs: Vec<[u8; 2]> = text.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.sort_unstable();
    pairs
}

/// How many pairs two lines share, in thousandths of all they have.
fn alike(wanted: &[[u8; 2]], line: &[u8]) -> u32 {
    let pairs = pairs(line);
    let (mut shared, mut at) = (0_usize, 0);
    for pair in wanted {
        while at < pairs.len() && pairs[at] < *pair {
            at += 1;
        }
        if at < pairs.len() && pairs[at] == *pair {
            shared += 1;
            at += 1;
        }
    }
    let all = wanted.len() + pairs.len();
    u32::try_from((2_000 * shared).checked_div(all).unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Outcome;
    use proptest::prelude::*;

    fn said(bytes: &str, old: &str, new: &str) -> String {
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
    fn what_is_wrong_is_told_with_lines() {
        for (before, old, new, told) in [
            (
                "x\nx\ny x\n",
                "x",
                "z",
                "old_text stands 3 times in the file, in lines 1, 2, 3; give more of the text around the one that is \
                 meant, or set replace_all",
            ),
            ("a", "a", "a", "old_text and new_text are the same; nothing would change"),
            (
                "fn a() {\n    let total = 1;\n}\n",
                "let totals = 1;",
                "",
                "old_text is not in the file; nearest is line 2, which is not the same:     let total = 1;",
            ),
            (
                "fn a() {\n    b();\n}\n",
                "\tb();\n",
                "",
                "old_text is not in the file; nearest is line 2, which differs in white space:     b();",
            ),
            (
                "first\nsecond\n",
                "first\nthird\n",
                "",
                "old_text is not in the file; nearest is line 1, which is its first line, but what follows differs: first",
            ),
            ("abc\n", "entirely other", "", "old_text is not in the file; read it again"),
            (
                "abc\n",
                "  ",
                "",
                "old_text is not in the file; it is only white space, give the text around it",
            ),
        ] {
            assert_eq!(said(before, old, new), told);
        }
        let many = "x\n".repeat(1_000);
        assert!(
            said(&many, "x", "y")
                .contains("stands 1000 times in the file, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;")
        );
        let grows =
            replace(many.as_bytes(), "x", &"y".repeat(limits::EDIT_FILE_BYTES_MAX / 100), true).unwrap_err();
        assert!(Outcome::from(grows).output.starts_with("the file would have 41944000 bytes"));
    }

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_does(text in "[ab\n]{0,20}", old in "[ab]{1,3}", new in "[abc]{0,3}") {
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
