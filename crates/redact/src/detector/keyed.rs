//! Detects secrets by the name before them, or by an id within them.

use super::{Hit, base64, digit_and_letter, mixed, word_dash};
use crate::scan::{Verdict, Window};

/// Bytes between a name and its value: quotes, an equals sign or a colon, blanks, and these once more escaped.
pub(crate) const BETWEEN_MAX: usize = 12;

fn between(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'=' | b':' | b'>' | b'\\' | b'`')
}

/// Where the value after a name begins; `None` without a separator. The value may be
/// after the end of the text.
fn value(window: &Window<'_>, hit: Hit) -> Option<usize> {
    let bytes = &window.bytes[hit.end..window.len().min(hit.end + BETWEEN_MAX)];
    let value = hit.end + bytes.iter().take_while(|byte| between(**byte)).count();
    (value > hit.end || value == window.len()).then_some(value)
}

/// A run of base64 of so many bytes after a name.
fn run(window: &Window<'_>, hit: Hit, min: usize, max: usize, looks: fn(&[u8]) -> bool) -> Verdict {
    let Some(value) = value(window, hit) else { return Verdict::No };
    let end = window.run(value, max + 1, base64);
    let bytes = end - value;
    let open = window.may_go_on(end);
    if bytes > max || (bytes < min && !open) {
        return Verdict::No;
    }
    if open {
        return Verdict::Open { from: value };
    }
    let masked = (value..end).any(|at| window.is_masked(at));
    if !masked && !looks(&window.bytes[value..end]) {
        return Verdict::No;
    }
    Verdict::Yes { from: value, to: end, goes_on: false }
}

/// 40 letters of base64 after `secret_access_key` and similar names.
pub(super) fn aws(window: &Window<'_>, hit: Hit) -> Verdict {
    run(window, hit, 40, 40, |value| digit_and_letter(value) && mixed(value))
}

/// A key of 32 or 64 bytes in base64 after `AccountKey` or `SharedAccessKey`.
pub(super) fn azure(window: &Window<'_>, hit: Hit) -> Verdict {
    run(window, hit, 40, 100, digit_and_letter)
}

/// `rct_`, the token's id and an underscore, which stay, and then at least 32 letters of base64.
pub(super) fn recount(window: &Window<'_>, hit: Hit) -> Verdict {
    const ID: usize = 26;
    const MIN: usize = 32;
    if !window.word_begins(hit.at) {
        return Verdict::No;
    }
    let id = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let end = window.run(hit.end, ID, id);
    if end < hit.end + ID {
        return if window.may_go_on(end) { Verdict::Open { from: end } } else { Verdict::No };
    }
    match window.get(end) {
        Some(b'_') => {}
        None if !window.ended => return Verdict::Open { from: end },
        _ => return Verdict::No,
    }
    let from = end + 1;
    let to = window.run(from, usize::MAX, word_dash);
    let open = window.may_go_on(to);
    if to - from >= MIN {
        Verdict::Yes { from, to, goes_on: open }
    } else if open {
        Verdict::Open { from }
    } else {
        Verdict::No
    }
}
