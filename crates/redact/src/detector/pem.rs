//! Detects private keys as text: `-----BEGIN … PRIVATE KEY-----`, lines of base64, `-----END`.
//!
//! The first and the last line stay. Line breaks may be real, or written as `\n` in JSON or an environment
//! variable, or have become blanks. Lines may be short, in quotes, or after what marks the lines of a diff, a comment or
//! a search.

use super::Hit;
use crate::limits::{LINE_PREFIX_BYTES_MAX, SHOWN_BYTES_MAX};
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
    let lines = Lines { window, prefix: prefix(window, hit.at) };
    let mut at = dashes;
    for _ in 0..HEADERS_MAX {
        let begin = lines.gap(at).end;
        match header(window, begin) {
            Header::None => break,
            Header::Unclear(from) => return Verdict::Open { from },
            Header::Until(end) => at = end,
        }
    }
    lines.body(lines.gap(at))
}

/// What is before the first line of a key on that line: a mark of a diff or a comment, or the name of a file.
fn prefix<'a>(window: &Window<'a>, at: usize) -> &'a [u8] {
    let before = &window.bytes[at.saturating_sub(LINE_PREFIX_BYTES_MAX)..at];
    match memchr::memrchr(b'\n', before) {
        Some(newline) => &before[newline + 1..],
        None if at < LINE_PREFIX_BYTES_MAX && window.from == 0 => before,
        None => &[],
    }
}

fn letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// The text between two lines.
struct Gap {
    end: usize,
    /// Whether a line ends in it.
    breaks: bool,
    /// Whether it has other bytes than blanks and line breaks.
    marked: bool,
}

/// The lines of a key.
struct Lines<'a, 'b> {
    window: &'b Window<'a>,
    /// What may be before each.
    prefix: &'a [u8],
}

impl Lines<'_, '_> {
    /// The key itself, after the gap before its first letter.
    fn body(&self, before: Gap) -> Verdict {
        let window = self.window;
        let begin = before.end;
        let mut sure = begin;
        let mut letters = 0;
        // Its first lines may be short.
        let mut at = begin;
        loop {
            let end = window.run(at, usize::MAX, letter);
            letters += end - at;
            if letters >= FIRST_MIN {
                sure = sure.max(end);
                break;
            }
            if window.may_go_on(end) {
                return Verdict::Open { from: begin };
            }
            if matches!(window.get(end), Some(b' ' | b'\t')) {
                return Verdict::No;
            }
            let gap = self.gap(end);
            if window.may_go_on(gap.end) {
                return Verdict::Open { from: begin };
            }
            if end == at || !gap.breaks {
                return Verdict::No;
            }
            sure = end;
            at = gap.end;
        }
        loop {
            let gap = self.gap(sure);
            let end = window.run(gap.end, usize::MAX, letter);
            let group = end - gap.end;
            if window.may_go_on(end) {
                // The text between two lines belongs to the key when another line follows. Digits may be the
                // number of a line.
                let numbers = window.bytes[gap.end..end].iter().all(u8::is_ascii_digit);
                let to = if gap.breaks && !gap.marked && !numbers { end } else { sure };
                return Verdict::Yes { from: begin, to, goes_on: true };
            }
            let long = group >= FIRST_MIN || (group > 0 && window.bytes[end - 1] == b'=');
            let is_line = group > 0 && gap.end > sure && (long || (gap.breaks && !gap.marked));
            if !is_line {
                return Verdict::Yes { from: begin, to: sure, goes_on: false };
            }
            sure = end;
        }
    }

    /// The text between two lines: blanks, line breaks, quotes and what marks the lines of a text.
    fn gap(&self, from: usize) -> Gap {
        let window = self.window;
        let mut gap = Gap { end: from, breaks: false, marked: false };
        while let Some(byte) = window.get(gap.end) {
            let next = window.get(gap.end + 1);
            match byte {
                b' ' | b'\t' => gap.end += 1,
                b'\n' | b'\r' => {
                    gap.end += 1;
                    gap.breaks = true;
                    self.skip_prefix(&mut gap);
                }
                b'\\' if matches!(next, Some(b'n' | b'r')) || window.is_masked(gap.end + 1) => {
                    gap.end += 2;
                    gap.breaks = true;
                }
                // It may yet be a line break.
                b'\\' if window.may_go_on(gap.end + 1) => gap.end += 1,
                b'"' | b'\'' | b',' | b'\\' => self.mark(&mut gap),
                b'>' | b'|' | b'#' | b'*' if gap.breaks && !window.is_masked(gap.end) => self.mark(&mut gap),
                // Texts are joined with it; it is a letter as well.
                b'+' if matches!(next, Some(b' ' | b'\t' | b'\n' | b'\r' | b'\\')) => self.mark(&mut gap),
                b'+' if window.may_go_on(gap.end + 1) => gap.end += 1,
                b'-' if gap.breaks && next.is_some_and(|byte| byte != b'-') => self.mark(&mut gap),
                b'-' if gap.breaks && window.may_go_on(gap.end + 1) => self.mark(&mut gap),
                b'0'..=b'9' if gap.breaks => match self.line_number(gap.end) {
                    Some(end) => {
                        gap.end = end;
                        gap.marked = true;
                    }
                    None => break,
                },
                _ => break,
            }
        }
        gap
    }

    fn mark(&self, gap: &mut Gap) {
        gap.end += 1;
        gap.marked = true;
    }

    /// Digits and a colon or a dash, as search programs print them.
    fn line_number(&self, from: usize) -> Option<usize> {
        let end = self.window.run(from, 7, |byte| byte.is_ascii_digit());
        matches!(self.window.get(end), Some(b':' | b'-' | b'|')).then_some(end + 1)
    }

    /// The same bytes as before the first line; search programs write a dash in place of the last colon.
    fn skip_prefix(&self, gap: &mut Gap) {
        let rest = &self.window.bytes[gap.end..];
        let Some((last, start)) = self.prefix.split_last() else { return };
        let is_same = rest.starts_with(start)
            && rest.get(start.len()).is_some_and(|byte| byte == last || (*last == b':' && *byte == b'-'));
        let is_cut = self.window.may_go_on(gap.end + rest.len())
            && rest.len() <= start.len()
            && start.starts_with(rest);
        if is_same {
            gap.end += self.prefix.len();
            gap.marked = true;
        } else if is_cut {
            gap.end = self.window.len();
        }
    }
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
