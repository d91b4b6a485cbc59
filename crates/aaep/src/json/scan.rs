//! Reads a JSON text into cells, in one pass. See [`Reader::read`].

use recount_json::{Kind, Reason, Scanner, Token, unescape};

use super::doc::{Cell, Doc, ESCAPED, Facts, NOT_ASCII, REAL, Sort, path};
use super::fault::{Fault, Place, SyntaxError};
use crate::limits;

/// Reads texts one after another, with the same memory.
#[derive(Default)]
pub struct Reader {
    cells: Vec<Cell>,
    /// Objects and arrays whose end has not been read yet.
    open: Vec<usize>,
}

impl Reader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads bytes that are to be UTF-8.
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

    /// Reads one JSON value; white space may stand around it.
    pub fn read<'d>(&'d mut self, text: &'d str) -> Result<Doc<'d>, SyntaxError> {
        self.cells.clear();
        self.open.clear();
        let mut filler =
            Filler { text, cells: &mut self.cells, open: &mut self.open, facts: Facts::default() };
        match filler.document() {
            Ok(()) => {
                let facts = filler.facts;
                Ok(Doc { text, cells: &self.cells, facts })
            }
            Err((fault, offset)) => Err(SyntaxError {
                fault,
                offset,
                place: Place::of(text, offset),
                path: path(text, &self.cells, |cell| cell.next == 0),
            }),
        }
    }
}

/// Puts the tokens of a text into cells.
struct Filler<'a> {
    text: &'a str,
    cells: &'a mut Vec<Cell>,
    open: &'a mut Vec<usize>,
    facts: Facts,
}

impl Filler<'_> {
    fn document(&mut self) -> Result<(), (Fault, usize)> {
        if self.text.len() > limits::JSON_BYTES_MAX {
            return Err((Fault::TooLong(self.text.len()), 0));
        }
        if self.text.starts_with('\u{feff}') {
            return Err((Fault::ByteOrderMark, 0));
        }
        let mut scanner = Scanner::strict(self.text, limits::JSON_DEPTH_MAX);
        // A key stays open until its value is there, so that a fault in between has its path.
        let mut key = None;
        loop {
            match scanner.token() {
                Ok(Some(token)) => key = self.take(token),
                Ok(None) => return Ok(()),
                Err(fault) => {
                    if let Reason::DuplicateKey { end } = fault.reason {
                        key = Some(self.push(Sort::Text, fault.start + 1, end - 1, 0));
                    }
                    if let Some(key) = key {
                        self.cells[key].next = 0;
                    }
                    return Err(named(self.text, fault));
                }
            }
        }
    }

    /// Answers with the cell of a key.
    #[inline]
    fn take(&mut self, token: Token) -> Option<usize> {
        let (start, end) = (token.start, token.end);
        match token.kind {
            Kind::ObjectStart => self.begin(Sort::Object, start),
            Kind::ArrayStart => self.begin(Sort::Array, start),
            Kind::ObjectEnd | Kind::ArrayEnd => self.close(end),
            Kind::Key => return Some(self.string(token)),
            Kind::Text => drop(self.string(token)),
            Kind::Integer => self.integer(start, end),
            Kind::Real => drop(self.push(Sort::Number, start, end, REAL)),
            Kind::Bool => drop(self.push(Sort::Bool, start, end, 0)),
            Kind::Null => drop(self.push(Sort::Null, start, end, 0)),
        }
        None
    }

    #[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 32 bits can count")]
    fn push(&mut self, sort: Sort, start: usize, end: usize, flags: u8) -> usize {
        let at = self.cells.len();
        self.cells.push(Cell { start: start as u32, end: end as u32, next: at as u32 + 1, sort, flags });
        at
    }

    fn begin(&mut self, sort: Sort, start: usize) {
        let cell = self.push(sort, start, start, 0);
        self.cells[cell].next = 0;
        self.open.push(cell);
        self.facts.deepest = self.facts.deepest.max(self.open.len());
    }

    #[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 32 bits can count")]
    fn close(&mut self, end: usize) {
        let Some(cell) = self.open.pop() else { return };
        let next = self.cells.len() as u32;
        self.cells[cell].end = end as u32;
        self.cells[cell].next = next;
    }

    fn integer(&mut self, start: usize, end: usize) {
        let cell = self.push(Sort::Number, start, end, 0);
        let digits = self.text[start..end].trim_start_matches('-');
        // Sixteen digits are the first that can be beyond 2^53.
        if digits.len() >= 16 && self.facts.big_integer.is_none() {
            let size: f64 = digits.parse().unwrap_or(f64::INFINITY);
            if size > limits::INTEGER_MAX || digits == "9007199254740993" {
                self.facts.big_integer = u32::try_from(cell).ok();
            }
        }
    }

    fn string(&mut self, token: Token) -> usize {
        let inside = token.inside();
        let escaped = if token.is_escaped { ESCAPED } else { 0 };
        let not_ascii = if token.is_ascii { 0 } else { NOT_ASCII };
        let cell = self.push(Sort::Text, inside.start, inside.end, escaped | not_ascii);
        if inside.len() > limits::STRING_BYTES_SOFT && self.facts.long_string.is_none() {
            self.facts.long_string = u32::try_from(cell).ok();
        }
        cell
    }
}

/// The fault and its place as people who write events are told: a text that was cut off is that, whatever it lacks.
fn named(text: &str, fault: recount_json::Fault) -> (Fault, usize) {
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
        Reason::Value if ["true", "false", "null"].iter().any(|word| word.starts_with(rest)) => {
            (Fault::Truncated, text.len())
        }
        Reason::Value => trailing_comma(text, at, ']').unwrap_or_else(|| unexpected(text, at, "a value")),
    }
}

/// What is wrong with what stands here: some things have a name of their own.
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

/// Half of a pair, which may be half because the text was cut off or the other half is no number.
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
