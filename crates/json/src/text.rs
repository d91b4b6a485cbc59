//! The inside of a string: finds its end, checks its escapes, decodes them. Must not know what surrounds it.

use std::borrow::Cow;

use crate::fault::Reason;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The inside of a string that was checked.
pub(crate) struct Inside {
    /// Where the closing quote is.
    pub(crate) end: usize,
    pub(crate) is_escaped: bool,
    pub(crate) is_ascii: bool,
}

/// Reads from after the opening quote to the closing one.
pub(crate) fn inside(bytes: &[u8], start: usize, pairs: bool) -> Result<Inside, (Reason, usize)> {
    let mut at = start;
    let (mut is_escaped, mut is_ascii) = (false, true);
    loop {
        // Eight bytes at a time, until one is a quote, a backslash or a control character.
        while let Some(eight) = bytes.get(at..at + 8) {
            let mut word = [0; 8];
            word.copy_from_slice(eight);
            let word = u64::from_le_bytes(word);
            let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
            let stops = zero(word ^ (ONES * 0x22))
                | zero(word ^ (ONES * 0x5C))
                | (word.wrapping_sub(ONES * 0x20) & !word & HIGHS);
            is_ascii &= word & HIGHS == 0;
            if stops != 0 {
                at += (stops.trailing_zeros() / 8) as usize;
                break;
            }
            at += 8;
        }
        match bytes.get(at) {
            Some(b'"') => return Ok(Inside { end: at, is_escaped, is_ascii }),
            Some(b'\\') => {
                is_escaped = true;
                at = escape(bytes, at, pairs)?;
            }
            Some(0..=0x1F) => return Err((Reason::Control, at)),
            Some(byte) => {
                is_ascii &= byte.is_ascii();
                at += 1;
            }
            None => return Err((Reason::Unterminated, at)),
        }
    }
}

/// Checks one escape; answers with the place after it.
fn escape(bytes: &[u8], at: usize, pairs: bool) -> Result<usize, (Reason, usize)> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match hex(bytes, at + 2).ok_or((Reason::HexDigits, at))? {
            0xD800..=0xDBFF if pairs => {
                let low = bytes.get(at + 6..at + 8).filter(|sign| *sign == b"\\u").and(hex(bytes, at + 8));
                match low {
                    Some(0xDC00..=0xDFFF) => Ok(at + 12),
                    _ => Err((Reason::Surrogate, at)),
                }
            }
            0xDC00..=0xDFFF if pairs => Err((Reason::Surrogate, at)),
            _ => Ok(at + 6),
        },
        _ => Err((Reason::Escape, at)),
    }
}

fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

/// Decodes the inside of a string token, without its quotes. Half of a surrogate pair becomes U+FFFD.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(mut at) = raw.find('\\') else { return Cow::Borrowed(raw) };
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        text.push_str(&rest[..at]);
        let mut used = 2;
        match rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\') {
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => {
                let unit = |at: usize| hex(rest.as_bytes(), at).unwrap_or(0xFFFD);
                let (first, low) = (unit(at + 2), unit(at + 8));
                let is_pair = (0xD800..0xDC00).contains(&first)
                    && (0xDC00..0xE000).contains(&low)
                    && rest[at + 6..].starts_with("\\u");
                let code = if is_pair { 0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00) } else { first };
                used = if is_pair { 12 } else { 6 };
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => text.push(char::from(other)),
        }
        rest = rest.get(at + used..).unwrap_or_default();
        let Some(next) = rest.find('\\') else { break };
        at = next;
    }
    text.push_str(rest);
    Cow::Owned(text)
}
