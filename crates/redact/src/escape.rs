//! Recognizes escape sequences of terminals, such as colours: as a terminal reads them, and as source code, JSON and
//! shells spell them (`\u001b[31m`).
//!
//! A word may begin directly after a sequence, although most sequences end in a letter. It must not know what is
//! searched for. Look at [`sequences`].

use std::ops::Range;

use crate::limits::ESCAPE_BYTES_MAX;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// How the escape character is spelled after one or more backslashes.
const ESC_SPELLINGS: &[&[u8]] = &[b"u001b", b"x1b", b"033", b"e", b"u{1b}"];
const BEL_SPELLINGS: &[&[u8]] = &[b"u0007", b"x07", b"007", b"a"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    No,
    /// The text ends within it.
    Cut,
    Until(usize),
}

/// A byte, or one of its spellings.
fn byte(bytes: &[u8], at: usize, raw: u8, spellings: &[&[u8]]) -> Part {
    match bytes.get(at) {
        Some(byte) if *byte == raw => return Part::Until(at + 1),
        Some(b'\\') => {}
        _ => return Part::No,
    }
    let name = at + bytes[at..].iter().take(ESCAPE_BYTES_MAX).take_while(|byte| **byte == b'\\').count();
    let rest = &bytes[name..];
    let mut part = Part::No;
    for spelling in spellings {
        let same = rest.iter().zip(*spelling).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        if same == spelling.len() {
            return Part::Until(name + same);
        }
        if same == rest.len() {
            part = Part::Cut;
        }
    }
    part
}

/// The sequence that begins here. A longer one than [`ESCAPE_BYTES_MAX`] is none.
fn sequence(bytes: &[u8], at: usize) -> Part {
    let bytes = &bytes[..bytes.len().min(at + ESCAPE_BYTES_MAX + 1)];
    let part = sequence_in(bytes, at);
    match part {
        Part::Until(end) if end > at + ESCAPE_BYTES_MAX => Part::No,
        Part::Cut if bytes.len() > at + ESCAPE_BYTES_MAX => Part::No,
        part => part,
    }
}

fn sequence_in(bytes: &[u8], at: usize) -> Part {
    let Part::Until(kind) = byte(bytes, at, ESC, ESC_SPELLINGS) else {
        return byte(bytes, at, ESC, ESC_SPELLINGS);
    };
    let spelled = kind > at + 1;
    let Some(first) = bytes.get(kind) else { return Part::Cut };
    // After the byte that names its kind: bytes of one range, and a last byte.
    let (middle, last) = match first {
        b'[' => (0x20..=0x3f, 0x40..=0x7e),
        b']' => return string(bytes, kind + 1),
        _ if spelled => return Part::No,
        b'P' | b'X' | b'^' | b'_' => return string(bytes, kind + 1),
        0x20..=0x2f => (0x20..=0x2f, 0x30..=0x7e),
        0x30..=0x7e => return Part::Until(kind + 1),
        _ => return Part::No,
    };
    let end = kind + 1 + bytes[kind + 1..].iter().take_while(|byte| middle.contains(*byte)).count();
    match bytes.get(end) {
        None => Part::Cut,
        Some(byte) if last.contains(byte) => Part::Until(end + 1),
        Some(_) => Part::No,
    }
}

/// Text up to a bell or an escape and a backslash.
fn string(bytes: &[u8], from: usize) -> Part {
    let mut at = from;
    while at < bytes.len() {
        match byte(bytes, at, BEL, BEL_SPELLINGS) {
            Part::No => {}
            end => return end,
        }
        match byte(bytes, at, ESC, ESC_SPELLINGS) {
            Part::Until(end) => {
                // A backslash is spelled with twice as many as the escape.
                let count = |from: usize| bytes[from..].iter().take_while(|byte| **byte == b'\\').count();
                return match bytes.get(end) {
                    Some(b'\\') => Part::Until(end + count(end).min((2 * count(at)).max(1))),
                    Some(_) => Part::No,
                    None => Part::Cut,
                };
            }
            Part::Cut => return Part::Cut,
            Part::No => at += 1,
        }
    }
    Part::Cut
}

/// Whether a sequence may begin at this backslash or escape.
pub(crate) fn may_begin(bytes: &[u8], at: usize) -> bool {
    byte(bytes, at, ESC, ESC_SPELLINGS) != Part::No
}

/// Whether a text may have sequences. Fast.
pub(crate) fn may_be_in(bytes: &[u8]) -> bool {
    memchr::memchr2(ESC, b'\\', bytes).is_some()
}

/// Whether a sequence begins here.
pub(crate) fn begins_at(bytes: &[u8], at: usize, ended: bool) -> bool {
    match sequence(bytes, at) {
        Part::No => false,
        Part::Cut => !ended,
        Part::Until(_) => true,
    }
}

/// Whether a sequence ends directly before a place.
pub(crate) fn ends_at(bytes: &[u8], at: usize) -> bool {
    let least = at.saturating_sub(ESCAPE_BYTES_MAX);
    memchr::memrchr2_iter(ESC, b'\\', &bytes[least..at])
        .any(|place| sequence(&bytes[..at], least + place) == Part::Until(at))
}

/// The sequences of a text, in order. Where the text may continue, also one that it cuts at its end.
pub(crate) fn sequences(bytes: &[u8], ended: bool) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(at) = memchr::memchr2(ESC, b'\\', &bytes[from..]).map(|place| from + place) {
            match sequence(bytes, at) {
                Part::Until(end) => {
                    from = end;
                    return Some(at..end);
                }
                Part::Cut if !ended => {
                    from = bytes.len();
                    return Some(at..from);
                }
                // A backslash that others follow is looked at with them.
                _ => from = at + 1 + bytes[at + 1..].iter().take_while(|byte| **byte == b'\\').count(),
            }
        }
        from = bytes.len();
        None
    })
}

/// Adds the parts of a range between the sequences in it.
pub(crate) fn around(bytes: &[u8], ended: bool, range: Range<usize>, parts: &mut Vec<Range<usize>>) {
    let Range { mut start, end } = range;
    for sequence in sequences(&bytes[start..], ended) {
        let (from, until) = (range.start + sequence.start, range.start + sequence.end);
        if from >= end {
            break;
        }
        parts.push(start..from);
        start = until.min(end);
    }
    parts.push(start..end);
}
