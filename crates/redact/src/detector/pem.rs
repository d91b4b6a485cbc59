//! Detects private keys as text: `-----BEGIN … PRIVATE KEY-----`, lines of base64, `-----END`.
//!
//! The first and the last line stay. Line breaks may be real, or written as `\n` in JSON or an environment
//! variable, or have become blanks.

use super::Hit;
use crate::limits::SHOWN_BYTES_MAX;
use crate::scan::{Verdict, Window};

const LABEL_BYTES_MAX: usize = 48;
/// Lines such as `Proc-Type: 4,ENCRYPTED` between the first line and the key.
const HEADERS_MAX: usize = 4;
const HEADER_BYTES_MAX: usize = 120;
/// The shortest first line of a key; what is shorter is talk about keys.
const FIRST_MIN: usize = 16;

pub(super) fn private_key(window: &Window<'_>, hit: Hit) -> Verdict {
    let label_end = window.run(hit.end, LABEL_BYTES_MAX, |byte| {
        byte.is_ascii_uppercase() || matches!(byte, b' ' | b'0'..=b'9')
    });
    if window.may_go_on(label_end) {
        return Verdict::Open { from: window.len() };
    }
    let label = &window.bytes[hit.end..label_end];
    if !label.windows(11).any(|words| words == b"PRIVATE KEY") {
        return Verdict::No;
    }
    let dashes = window.run(label_end, 5, |byte| byte == b'-');
    if dashes < label_end + 5 {
        return if window.may_go_on(dashes) { Verdict::Open { from: window.len() } } else { Verdict::No };
    }
    let mut at = dashes;
    for _ in 0..HEADERS_MAX {
        let begin = gap(window, at).end;
        match header(window, begin) {
            Header::None => break,
            Header::Unclear(from) => return Verdict::Open { from },
            Header::Until(end) => at = end,
        }
    }
    let begin = gap(window, at).end;
    body(window, begin)
}

/// The key itself, from its first letter on.
fn body(window: &Window<'_>, begin: usize) -> Verdict {
    let mut sure = window.run(begin, usize::MAX, letter);
    if sure < begin + FIRST_MIN {
        return if window.may_go_on(sure) { Verdict::Open { from: begin } } else { Verdict::No };
    }
    loop {
        let gap = gap(window, sure);
        let end = window.run(gap.end, usize::MAX, letter);
        let group = end - gap.end;
        if window.may_go_on(end) {
            // The text between two lines belongs to the key when another line follows.
            let to = if group > 0 && gap.breaks { end } else { sure };
            return Verdict::Yes { from: begin, to, goes_on: true };
        }
        let is_line = group > 0 && gap.end > sure && (gap.breaks || group >= FIRST_MIN);
        if !is_line {
            return Verdict::Yes { from: begin, to: sure, goes_on: false };
        }
        sure = end;
    }
}

fn letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

struct Gap {
    end: usize,
    /// Whether a line ends in it.
    breaks: bool,
}

/// The text between two lines.
fn gap(window: &Window<'_>, from: usize) -> Gap {
    let mut gap = Gap { end: from, breaks: false };
    while let Some(byte) = window.get(gap.end) {
        match byte {
            b' ' | b'\t' => gap.end += 1,
            b'\n' | b'\r' => {
                gap.end += 1;
                gap.breaks = true;
            }
            b'\\' if matches!(window.get(gap.end + 1), Some(b'n' | b'r')) => {
                gap.end += 2;
                gap.breaks = true;
            }
            // It may yet be a line break.
            b'\\' if window.may_go_on(gap.end + 1) => gap.end += 1,
            _ => break,
        }
    }
    gap
}

enum Header {
    None,
    /// And from where on it may be the key instead.
    Unclear(usize),
    Until(usize),
}

/// `Word-Word: anything`, up to the end of its line.
fn header(window: &Window<'_>, begin: usize) -> Header {
    let name = window.run(begin, 24, |byte| byte.is_ascii_alphabetic() || byte == b'-');
    if window.may_go_on(name) {
        return if name == begin { Header::None } else { Header::Unclear(name.min(begin + SHOWN_BYTES_MAX)) };
    }
    if name == begin || window.get(name) != Some(b':') {
        return Header::None;
    }
    let end = window.run(name, HEADER_BYTES_MAX, |byte| !matches!(byte, b'\n' | b'\r' | b'\\'));
    if window.may_go_on(end) { Header::Unclear(window.len()) } else { Header::Until(end) }
}
