//! The JSON parser, with error messages for authors of events. Start at [`Reader::read`].

use recount_json::{Doc, Place, ReadFault, Reason, unescape};

use super::fault::{Fault, SyntaxError};
use crate::limits;

/// Parses texts one after another and reuses its memory.
#[derive(Default)]
pub struct Reader {
    texts: recount_json::Reader,
}

impl Reader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses bytes that should be UTF-8.
    pub fn read_bytes<'d>(&'d mut self, bytes: &'d [u8]) -> Result<Doc<'d>, SyntaxError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.read(text),
            Err(error) => {
                let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                Err(SyntaxError {
                    fault: Fault::NotUtf8,
                    offset: good.len(),
                    place: Place::of(good, good.len()),
                    path: String::new(),
                })
            }
        }
    }

    /// Parses one JSON value, with optional white space around it.
    pub fn read<'d>(&'d mut self, text: &'d str) -> Result<Doc<'d>, SyntaxError> {
        let refused =
            |fault, offset, path| SyntaxError { fault, offset, place: Place::of(text, offset), path };
        if text.len() > limits::JSON_BYTES_MAX {
            return Err(refused(Fault::TooLong(text.len()), 0, String::new()));
        }
        if text.starts_with('\u{feff}') {
            return Err(refused(Fault::ByteOrderMark, 0, String::new()));
        }
        self.texts.read(text, limits::JSON_DEPTH_MAX).map_err(|ReadFault { fault, path }| {
            let (fault, offset) = describe(text, fault);
            refused(fault, offset, path)
        })
    }
}

/// Converts a fault of the scanner and its offset. A truncated text is always reported as truncated.
fn describe(text: &str, fault: recount_json::Fault) -> (Fault, usize) {
    let recount_json::Fault { reason, at, start } = fault;
    let rest = &text[at..];
    match reason {
        Reason::Colon => unexpected(text, at, "`:`"),
        Reason::Control => (Fault::Control(u32::from(text.as_bytes()[at])), at),
        Reason::Digit if &text[start..at] == "-" => {
            if rest.is_empty() {
                (Fault::Truncated, at)
            } else {
                (odd(&text[start..], Fault::NumberForm), start)
            }
        }
        Reason::Digit => (if rest.is_empty() { Fault::Truncated } else { Fault::NumberForm }, start),
        Reason::DuplicateKey { end } => {
            (Fault::DuplicateKey(unescape(&text[start + 1..end - 1]).into_owned()), start)
        }
        Reason::End if text.trim_ascii().is_empty() => (Fault::Empty, 0),
        Reason::End | Reason::Unterminated => (Fault::Truncated, text.len()),
        Reason::Escape if rest.len() == 1 => (Fault::Truncated, text.len()),
        Reason::Escape => (Fault::Escape, at),
        Reason::HexDigits => {
            digits(text, at + 2).map_or((Fault::Truncated, text.len()), |_| (Fault::Escape, at))
        }
        Reason::Key => {
            trailing_comma(text, at, '}').unwrap_or_else(|| unexpected(text, at, "a key in quotes"))
        }
        Reason::LeadingZero => (Fault::NumberForm, start),
        Reason::NextItem => unexpected(text, at, "`,` or `]`"),
        Reason::NextMember => unexpected(text, at, "`,` or `}`"),
        Reason::Rest => (odd(rest, Fault::After), at),
        Reason::Surrogate => surrogate(text, at),
        Reason::TooDeep(levels) => (Fault::TooDeep(levels), at),
        Reason::TooLong(_) => (Fault::TooLong(text.len()), at),
        Reason::Value if ["true", "false", "null"].iter().any(|word| word.starts_with(rest)) => {
            (Fault::Truncated, text.len())
        }
        Reason::Value => trailing_comma(text, at, ']').unwrap_or_else(|| unexpected(text, at, "a value")),
    }
}

/// The specific fault of the text at this offset, if it is a known mistake.
fn odd(rest: &str, otherwise: Fault) -> Fault {
    if rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#') {
        Fault::Comment
    } else if rest.starts_with("NaN") {
        Fault::NotANumber("NaN")
    } else if rest.starts_with("Infinity") || rest.starts_with("+Infinity") {
        Fault::NotANumber("Infinity")
    } else if rest.starts_with("-Infinity") {
        Fault::NotANumber("-Infinity")
    } else {
        otherwise
    }
}

fn unexpected(text: &str, at: usize, expected: &'static str) -> (Fault, usize) {
    match text[at..].chars().next() {
        None => (Fault::Truncated, at),
        Some(found) => (odd(&text[at..], Fault::Unexpected(found, expected)), at),
    }
}

fn trailing_comma(text: &str, at: usize, end: char) -> Option<(Fault, usize)> {
    let before = text[..at].trim_end_matches([' ', '\n', '\r', '\t']).strip_suffix(',')?;
    text[at..].starts_with(end).then_some((Fault::TrailingComma(end), before.len()))
}

fn digits(text: &str, at: usize) -> Option<&[u8]> {
    text.as_bytes().get(at..at + 4)
}

/// The fault of half a surrogate pair: the text may be truncated, or the other half may be invalid.
fn surrogate(text: &str, at: usize) -> (Fault, usize) {
    let bytes = text.as_bytes();
    let code = u32::from_str_radix(&text[at + 2..at + 6], 16).unwrap_or(0xFFFD);
    let alone = (Fault::LoneSurrogate(code), at);
    if code >= 0xDC00 {
        return alone;
    }
    if bytes.len() < at + 12 && bytes[at + 6..].iter().all(|byte| *byte != b'"') {
        return (Fault::Truncated, bytes.len());
    }
    if bytes.get(at + 6..at + 8) != Some(b"\\u") {
        return alone;
    }
    match digits(text, at + 8) {
        None => (Fault::Truncated, bytes.len()),
        Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => alone,
        Some(_) => (Fault::Escape, at + 6),
    }
}
