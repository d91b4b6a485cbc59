//! Reads a JSON text into cells, in one pass. See [`Reader::read`].

use std::collections::BTreeSet;

use super::doc::{Cell, Doc, ESCAPED, Facts, NOT_ASCII, REAL, Sort, path};
use super::fault::{Fault, Place, SyntaxError};
use crate::limits;

/// Reads texts one after another, with the same memory.
#[derive(Default)]
pub struct Reader {
    cells: Vec<Cell>,
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
        let mut scanner =
            Scanner { bytes: text.as_bytes(), text, at: 0, cells: &mut self.cells, facts: Facts::default() };
        match scanner.document() {
            Ok(()) => {
                let facts = scanner.facts;
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

type Scan<T> = Result<T, (Fault, usize)>;

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    cells: &'a mut Vec<Cell>,
    facts: Facts,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl Scanner<'_> {
    fn document(&mut self) -> Scan<()> {
        if self.text.len() > limits::JSON_BYTES_MAX {
            return Err((Fault::TooLong(self.text.len()), 0));
        }
        if self.text.starts_with('\u{feff}') {
            return Err((Fault::ByteOrderMark, 0));
        }
        self.space();
        if self.at == self.bytes.len() {
            return Err((Fault::Empty, 0));
        }
        self.value(0)?;
        self.space();
        if self.at < self.bytes.len() {
            return Err((self.odd(Fault::After), self.at));
        }
        Ok(())
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// What is wrong with what stands here: some things have a name of their own.
    fn odd(&self, otherwise: Fault) -> Fault {
        let rest = &self.text[self.at..];
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

    fn unexpected<T>(&self, expected: &'static str) -> Scan<T> {
        match self.text[self.at..].chars().next() {
            None => Err((Fault::Truncated, self.at)),
            Some(found) => Err((self.odd(Fault::Unexpected(found, expected)), self.at)),
        }
    }

    fn value(&mut self, depth: usize) -> Scan<()> {
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Sort::Bool),
            Some(b'f') => self.word("false", Sort::Bool),
            Some(b'n') => self.word("null", Sort::Null),
            _ => self.unexpected("a value"),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 32 bits can count")]
    fn push(&mut self, sort: Sort, start: usize, end: usize, flags: u8) -> usize {
        let at = self.cells.len();
        self.cells.push(Cell { start: start as u32, end: end as u32, next: at as u32 + 1, sort, flags });
        at
    }

    fn open(&mut self, sort: Sort, depth: usize) -> Scan<usize> {
        if depth > limits::JSON_DEPTH_MAX {
            return Err((Fault::TooDeep(limits::JSON_DEPTH_MAX), self.at));
        }
        self.facts.deepest = self.facts.deepest.max(depth);
        let cell = self.push(sort, self.at, self.at, 0);
        self.cells[cell].next = 0;
        self.at += 1;
        self.space();
        Ok(cell)
    }

    #[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 32 bits can count")]
    fn close(&mut self, cell: usize) {
        self.at += 1;
        let next = self.cells.len() as u32;
        self.cells[cell].end = self.at as u32;
        self.cells[cell].next = next;
    }

    fn object(&mut self, depth: usize) -> Scan<()> {
        let cell = self.open(Sort::Object, depth)?;
        if self.bytes.get(self.at) == Some(&b'}') {
            self.close(cell);
            return Ok(());
        }
        let mut seen = Seen::default();
        loop {
            if self.bytes.get(self.at) != Some(&b'"') {
                return self.unexpected("a key in quotes");
            }
            let start = self.at;
            let key = self.string()?;
            // The key stays open until its value is there, so that a fault in between has its path.
            if self.seen(&mut seen, cell, key) {
                let name = self.name(key).into_owned();
                self.cells[key].next = 0;
                return Err((Fault::DuplicateKey(name), start));
            }
            self.space();
            if self.bytes.get(self.at) != Some(&b':') {
                self.cells[key].next = 0;
                return self.unexpected("`:`");
            }
            self.at += 1;
            self.space();
            if let Err(error) = self.value(depth) {
                if self.cells.len() == key + 1 {
                    self.cells[key].next = 0;
                }
                return Err(error);
            }
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => {
                    let comma = self.at;
                    self.at += 1;
                    self.space();
                    if self.bytes.get(self.at) == Some(&b'}') {
                        return Err((Fault::TrailingComma('}'), comma));
                    }
                }
                Some(b'}') => break,
                _ => return self.unexpected("`,` or `}`"),
            }
        }
        self.close(cell);
        Ok(())
    }

    /// Whether the key was there before. Few keys share a bit, so few are compared; many keys are sorted.
    fn seen(&self, seen: &mut Seen, object: usize, key: usize) -> bool {
        let cell = self.cells[key];
        let name = &self.bytes[cell.start as usize..cell.end as usize];
        let escaped = cell.flags & ESCAPED != 0;
        seen.escaped |= escaped;
        seen.count += 1;
        if seen.count > limits::KEYS_COMPARED_MAX {
            if seen.sorted.is_empty() {
                seen.sorted.extend(self.keys(object, key).map(|earlier| self.name(earlier).into_owned()));
            }
            return !seen.sorted.insert(self.name(key).into_owned());
        }
        if !seen.take(name) && !seen.escaped {
            return false;
        }
        if seen.escaped {
            return self.keys(object, key).any(|earlier| self.name(earlier) == self.name(key));
        }
        self.keys(object, key).any(|earlier| {
            let cell = self.cells[earlier];
            &self.bytes[cell.start as usize..cell.end as usize] == name
        })
    }

    /// The cells of an object's keys before this one.
    fn keys(&self, object: usize, before: usize) -> impl Iterator<Item = usize> {
        let first = (object + 1 < before).then_some(object + 1);
        std::iter::successors(first, move |at| {
            Some(self.cells[at + 1].next as usize).filter(|next| *next < before)
        })
    }

    fn name(&self, key: usize) -> std::borrow::Cow<'_, str> {
        let doc = Doc { text: self.text, cells: self.cells, facts: self.facts };
        doc.node(u32::try_from(key).unwrap_or(0)).str().unwrap_or_default()
    }

    fn array(&mut self, depth: usize) -> Scan<()> {
        let cell = self.open(Sort::Array, depth)?;
        if self.bytes.get(self.at) == Some(&b']') {
            self.close(cell);
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => {
                    let comma = self.at;
                    self.at += 1;
                    self.space();
                    if self.bytes.get(self.at) == Some(&b']') {
                        return Err((Fault::TrailingComma(']'), comma));
                    }
                }
                Some(b']') => break,
                _ => return self.unexpected("`,` or `]`"),
            }
        }
        self.close(cell);
        Ok(())
    }

    fn word(&mut self, word: &'static str, sort: Sort) -> Scan<()> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.push(sort, self.at, self.at + word.len(), 0);
            self.at += word.len();
            return Ok(());
        }
        if word.as_bytes().starts_with(rest) {
            return Err((Fault::Truncated, self.bytes.len()));
        }
        self.unexpected("a value")
    }

    fn number(&mut self) -> Scan<()> {
        let start = self.at;
        let bytes = self.bytes;
        let digits = |from: usize| {
            let mut to = from;
            while bytes.get(to).is_some_and(u8::is_ascii_digit) {
                to += 1;
            }
            to
        };
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = at;
        at = digits(at);
        if at == whole {
            return if at == bytes.len() {
                Err((Fault::Truncated, at))
            } else {
                Err((self.odd(Fault::NumberForm), start))
            };
        }
        if bytes[whole] == b'0' && at > whole + 1 {
            return Err((Fault::NumberForm, start));
        }
        let mut flags = 0;
        if bytes.get(at) == Some(&b'.') {
            flags = REAL;
            let from = at + 1;
            at = digits(from);
            if at == from {
                return Err((if at == bytes.len() { Fault::Truncated } else { Fault::NumberForm }, start));
            }
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            flags = REAL;
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            let from = at;
            at = digits(from);
            if at == from {
                return Err((if at == bytes.len() { Fault::Truncated } else { Fault::NumberForm }, start));
            }
        }
        self.at = at;
        let cell = self.push(Sort::Number, start, at, flags);
        // Sixteen digits are the first that can be beyond 2^53.
        if flags == 0 && at - whole >= 16 && self.facts.big_integer.is_none() {
            let size: f64 = self.text[whole..at].parse().unwrap_or(f64::INFINITY);
            if size > limits::INTEGER_MAX || &self.text[whole..at] == "9007199254740993" {
                self.facts.big_integer = u32::try_from(cell).ok();
            }
        }
        Ok(())
    }

    /// Reads a string; answers with its cell.
    fn string(&mut self) -> Scan<usize> {
        let start = self.at + 1;
        let bytes = self.bytes;
        let mut at = start;
        let mut flags = 0;
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
                if word & HIGHS != 0 {
                    flags |= NOT_ASCII;
                }
                if stops != 0 {
                    at += (stops.trailing_zeros() / 8) as usize;
                    break;
                }
                at += 8;
            }
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    flags |= ESCAPED;
                    at = self.escape(at)?;
                }
                Some(byte @ 0..=0x1F) => return Err((Fault::Control(u32::from(*byte)), at)),
                Some(byte) => {
                    if *byte >= 0x80 {
                        flags |= NOT_ASCII;
                    }
                    at += 1;
                }
                None => return Err((Fault::Truncated, at)),
            }
        }
        let cell = self.push(Sort::Text, start, at, flags);
        if at - start > limits::STRING_BYTES_SOFT && self.facts.long_string.is_none() {
            self.facts.long_string = u32::try_from(cell).ok();
        }
        self.at = at + 1;
        Ok(cell)
    }

    /// Checks one escape; answers with the place behind it.
    fn escape(&self, at: usize) -> Scan<usize> {
        match self.bytes.get(at + 1) {
            None => Err((Fault::Truncated, self.bytes.len())),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                let first = self.hex(at + 2, at)?;
                match first {
                    0xD800..=0xDBFF => {
                        if self.bytes.len() < at + 12 && self.bytes[at + 6..].iter().all(|b| *b != b'"') {
                            return Err((Fault::Truncated, self.bytes.len()));
                        }
                        if self.bytes.get(at + 6..at + 8) != Some(b"\\u") {
                            return Err((Fault::LoneSurrogate(first), at));
                        }
                        match self.hex(at + 8, at + 6)? {
                            0xDC00..=0xDFFF => Ok(at + 12),
                            _ => Err((Fault::LoneSurrogate(first), at)),
                        }
                    }
                    0xDC00..=0xDFFF => Err((Fault::LoneSurrogate(first), at)),
                    _ => Ok(at + 6),
                }
            }
            Some(_) => Err((Fault::Escape, at)),
        }
    }

    fn hex(&self, at: usize, escape: usize) -> Scan<u32> {
        let Some(digits) = self.bytes.get(at..at + 4) else {
            return Err((Fault::Truncated, self.bytes.len()));
        };
        let mut code = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16).ok_or((Fault::Escape, escape))?;
            code = code * 16 + value;
        }
        Ok(code)
    }
}

/// Which keys an object may have had: one bit for each of 256 sums.
#[derive(Default)]
struct Seen {
    bits: [u64; 4],
    escaped: bool,
    count: usize,
    /// All keys, once there are many.
    sorted: BTreeSet<String>,
}

impl Seen {
    /// Whether a key with this sum was taken before.
    #[inline]
    fn take(&mut self, name: &[u8]) -> bool {
        let length = name.len();
        let byte = |at: usize| name.get(at).copied().map_or(0, usize::from);
        let sum = length
            .wrapping_mul(101)
            .wrapping_add(byte(0) * 31)
            .wrapping_add(byte(length.wrapping_sub(1)) * 17)
            .wrapping_add(byte(length / 2) * 131)
            .wrapping_add(byte(length * 3 / 4) * 7)
            % 256;
        let (word, bit) = (sum / 64, 1_u64 << (sum % 64));
        let taken = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        taken
    }
}
