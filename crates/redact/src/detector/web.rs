//! Detects secrets of the web: authorizations, JSON web tokens, passwords in addresses.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::{Hit, base64, beyond_shown, digit_and_letter, word_dash, word_dash_dot};
use crate::limits::{BASIC_BYTES_MAX, JWT_HEADER_BYTES_MAX, USERINFO_BYTES_MAX};
use crate::scan::{Verdict, Window};

/// A header that decodes and names an algorithm, a dot, and the rest.
pub(super) fn jwt(window: &Window<'_>, hit: Hit) -> Verdict {
    const REST_MIN: usize = 8;
    if !window.word_begins(hit.at) || hit.at > 0 && matches!(window.bytes[hit.at - 1], b'_' | b'-') {
        return Verdict::No;
    }
    let header_end = window.run(hit.at, JWT_HEADER_BYTES_MAX, word_dash);
    match window.get(header_end) {
        Some(b'.') => {}
        None if !window.ended && header_end - hit.at < JWT_HEADER_BYTES_MAX => {
            return Verdict::Open { from: window.len() };
        }
        _ => return Verdict::No,
    }
    let header = URL_SAFE_NO_PAD.decode(&window.bytes[hit.at..header_end]);
    if !header.is_ok_and(|header| memchr::memmem::find(&header, b"\"alg\"").is_some()) {
        return Verdict::No;
    }
    let from = header_end + 1;
    let to = window.run(from, usize::MAX, word_dash_dot);
    let open = window.may_go_on(to);
    if to - from >= REST_MIN {
        Verdict::Yes { from, to, goes_on: open }
    } else if open {
        Verdict::Open { from }
    } else {
        Verdict::No
    }
}

fn named(window: &Window<'_>, hit: Hit) -> bool {
    hit.at
        .checked_sub(1)
        .is_some_and(|first| matches!(window.bytes[first], b'B' | b'b') && window.word_begins(first))
}

/// Where the value after a scheme begins, and whether a line ends before it. `None` without anything between them.
fn after_scheme(window: &Window<'_>, scheme_end: usize) -> Option<(usize, bool)> {
    const BETWEEN_MAX: usize = 16;
    let (mut at, mut breaks) = (scheme_end, false);
    while at < scheme_end + BETWEEN_MAX {
        match window.get(at) {
            Some(b' ' | b'\t') => {}
            Some(b'\n' | b'\r') => breaks = true,
            // The break of a line may be spelled.
            Some(b'\\') => match window.get(at + 1) {
                Some(b'n' | b'r' | b't') => {
                    at += 1;
                    breaks = true;
                }
                Some(b'\\') => {}
                None if !window.ended => {}
                _ => break,
            },
            _ => break,
        }
        at += 1;
    }
    (at > scheme_end || window.may_go_on(at)).then_some((at, breaks))
}

/// `Bearer` and at least 12 bytes of a token, with a digit among the first 12 or capitals between small letters; on
/// another line with a digit and a letter.
pub(super) fn bearer(window: &Window<'_>, hit: Hit) -> Verdict {
    const MIN: usize = 12;
    if !named(window, hit) {
        return Verdict::No;
    }
    let Some((from, breaks)) = after_scheme(window, hit.end) else { return Verdict::No };
    let class = |byte: u8| word_dash_dot(byte) || matches!(byte, b'~' | b'+' | b'/' | b'=');
    let least = window.run(from, MIN, class);
    if least < from + MIN {
        let open = window.may_go_on(least);
        return if open { Verdict::Open { from: beyond_shown(window, from) } } else { Verdict::No };
    }
    let beginning = &window.bytes[from..from + MIN];
    let masked = (from..from + MIN).any(|at| window.is_masked(at));
    let capitals =
        beginning.windows(2).filter(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
    let looks = match breaks {
        true => digit_and_letter(beginning) && beginning.iter().all(|byte| word_dash(*byte)),
        false => beginning.iter().any(u8::is_ascii_digit) || capitals.count() >= 2,
    };
    if !masked && !looks {
        return Verdict::No;
    }
    let to = window.run(least, usize::MAX, class);
    Verdict::Yes { from, to, goes_on: window.may_go_on(to) }
}

/// `Basic` and base64 that decodes to a name, a colon and a password.
pub(super) fn basic(window: &Window<'_>, hit: Hit) -> Verdict {
    const MIN: usize = 6;
    if !named(window, hit) {
        return Verdict::No;
    }
    let Some((from, _)) = after_scheme(window, hit.end) else { return Verdict::No };
    let to = window.run(from, BASIC_BYTES_MAX + 1, base64);
    let bytes = to - from;
    if bytes > BASIC_BYTES_MAX {
        return Verdict::No;
    }
    if window.may_go_on(to) {
        return Verdict::Open { from: beyond_shown(window, from) };
    }
    if bytes < MIN {
        return Verdict::No;
    }
    if !(from..to).any(|at| window.is_masked(at)) {
        let encoded = &window.bytes[from..to];
        let decoded = STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded));
        let is_pair = decoded
            .is_ok_and(|text| text.contains(&b':') && text.iter().all(|byte| (0x20..0x7f).contains(byte)));
        if !is_pair {
            return Verdict::No;
        }
    }
    Verdict::Yes { from, to, goes_on: false }
}

/// The address of an incoming webhook: what is after the word for its kind.
pub(super) fn slack_hook(window: &Window<'_>, hit: Hit) -> Verdict {
    const MIN: usize = 24;
    let kind = window.run(hit.end, 16, |byte| byte.is_ascii_lowercase());
    match window.get(kind) {
        Some(b'/') if kind > hit.end => {}
        None if !window.ended => return Verdict::Open { from: window.len() },
        _ => return Verdict::No,
    }
    let from = kind + 1;
    let class = |byte: u8| word_dash(byte) || byte == b'/';
    let least = window.run(from, MIN, class);
    if least < from + MIN {
        return if window.may_go_on(least) { Verdict::Open { from } } else { Verdict::No };
    }
    let masked = (from..least).any(|at| window.is_masked(at));
    if !masked && !digit_and_letter(&window.bytes[from..least]) {
        return Verdict::No;
    }
    let to = window.run(least, usize::MAX, class);
    Verdict::Yes { from, to, goes_on: window.may_go_on(to) }
}

/// `scheme://user:password@host`: the password.
pub(super) fn password(window: &Window<'_>, hit: Hit) -> Verdict {
    if hit.at == 0 || !window.bytes[hit.at - 1].is_ascii_alphanumeric() {
        return Verdict::No;
    }
    let end = window.run(hit.end, USERINFO_BYTES_MAX, userinfo);
    let open = window.may_go_on(end) && end - hit.end < USERINFO_BYTES_MAX;
    let colon = memchr::memchr(b':', &window.bytes[hit.end..end]).map(|place| hit.end + place);
    let Some(colon) = colon else {
        return if open { Verdict::Open { from: window.len() } } else { Verdict::No };
    };
    let from = colon + 1;
    let password = &window.bytes[from..end];
    // A placeholder of a template or an example.
    if matches!(password, [b'$' | b'{' | b'(', ..] | [b'%', b's' | b'(', ..]) {
        return Verdict::No;
    }
    if open {
        // Up to five digits are a port.
        let port = password.len() <= 5 && password.iter().all(u8::is_ascii_digit);
        return Verdict::Open { from: if port { window.len() } else { from } };
    }
    if password.is_empty() || window.get(end) != Some(b'@') {
        return Verdict::No;
    }
    Verdict::Yes { from, to: end, goes_on: false }
}

/// Bytes that may be before the `@` of an address.
fn userinfo(byte: u8) -> bool {
    byte > b' '
        && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'[' | b'@')
}
