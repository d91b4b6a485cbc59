//! Shows foreign text safely: characters that control a terminal or change text direction are written as escapes.
//! Nothing is lost.

use std::fmt::Write;

use super::aaep::rule::Severity;
use super::model::Totals;

/// Whether a character controls the display or reorders text instead of being visible.
pub(super) fn steers(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{200e}' | '\u{200f}' | '\u{061c}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Whether a text can be shown unchanged.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) || !text.chars().any(steers)
}

/// Writes one line: control characters as `\u{1b}`, a line end as `\n`.
pub(super) fn push_line(out: &mut String, text: &str) {
    if is_plain(text) {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if steers(c) => {
                write!(out, "\\u{{{:x}}}", u32::from(c)).expect("writing to a string cannot fail")
            }
            c => out.push(c),
        }
    }
}

/// Writes JSON with control characters as escapes; the meaning is the same.
pub(super) fn push_json(out: &mut String, json: &str) {
    if is_plain(json) {
        return out.push_str(json);
    }
    for c in json.chars() {
        if steers(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        } else {
            out.push(c);
        }
    }
}

/// `1 error`, `2 errors`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", grouped(number)) }
}

/// `100,002`: digits in groups.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `2 errors and 1 note`, or `no problems`.
pub(super) fn problems(totals: &Totals) -> String {
    let all = [
        (totals.errors, "error", "errors"),
        (totals.warnings, "warning", "warnings"),
        (totals.notes, "note", "notes"),
    ];
    let some: Vec<String> =
        all.iter().filter(|row| row.0 > 0).map(|(number, one, many)| count(*number, one, many)).collect();
    if some.is_empty() { "no problems".to_owned() } else { list(&some) }
}

/// `a, b and c`.
pub(super) fn list(some: &[String]) -> String {
    match some.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
        Severity::Note => "Note",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let shown = |text: &str| {
            let mut out = String::new();
            push_line(&mut out, text);
            out
        };
        assert_eq!(shown("a\u{1b}[2J\u{9b}\u{7f}\n\r\tb"), r"a\u{1b}[2J\u{9b}\u{7f}\n\r\tb");
        assert_eq!(shown("\u{202e}x\u{2069}\u{e0001}"), r"\u{202e}x\u{2069}\u{e0001}");
        assert_eq!(shown("plain, ä, שלום, 👩‍🚀"), "plain, ä, שלום, 👩‍🚀");
    }

    #[test]
    fn json_means_the_same() {
        let json = serde_json::to_string("\u{202e}\u{9b}\u{e0001}ä\n").unwrap();
        let mut out = String::new();
        push_json(&mut out, &json);
        assert_eq!(out, r#""\u202e\u009b\udb40\udc01ä\n""#);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), "\u{202e}\u{9b}\u{e0001}ä\n");
    }

    #[test]
    fn problems_are_counted_in_words() {
        let of = |errors, warnings, notes| problems(&Totals { errors, warnings, notes, ..Totals::default() });
        assert_eq!(of(0, 0, 0), "no problems");
        assert_eq!(of(1, 0, 0), "1 error");
        assert_eq!(of(2, 0, 1), "2 errors and 1 note");
        assert_eq!(of(1_000, 0, 0), "1,000 errors");
        assert_eq!([0, 12, 999, 12_345, 1_234_567].map(grouped), ["0", "12", "999", "12,345", "1,234,567"]);
        assert_eq!(of(1, 2, 3), "1 error, 2 warnings and 3 notes");
    }
}
