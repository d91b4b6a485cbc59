//! Reads a JSON text token by token. Look at [`Scanner::token`].

use std::ops::Range;

use crate::fault::{Fault, Reason};
use crate::keys::{Keys, Seen};
use crate::text::{inside, unescape};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Key,
    Text,
    /// A number without fraction and exponent.
    Integer,
    /// Any other number.
    Real,
    Bool,
    Null,
}

/// A piece of the text. Commas and colons are no tokens of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// Where it begins and ends; of keys and strings with their quotes.
    pub start: usize,
    pub end: usize,
    /// The comma or colon before it.
    pub sign: Option<char>,
    /// Whether a key or string has escapes.
    pub is_escaped: bool,
    /// Whether a key or string is written with ASCII alone.
    pub is_ascii: bool,
}

impl Token {
    /// The range between the quotes of a key or string.
    pub fn inside(&self) -> Range<usize> {
        self.start + 1..self.end - 1
    }
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    FirstItem,
    FirstKey,
    Colon,
    /// A comma or the end of what is open; at the top, the end of the text.
    More,
}

#[derive(Debug)]
enum Open<'a> {
    Object(Seen<'a>),
    Array,
}

/// Reads one JSON text, with optional white space around it.
#[derive(Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    next: Next,
    open: Vec<Open<'a>>,
    keys: Keys<'a>,
    depth_max: usize,
    is_strict: bool,
}

impl<'a> Scanner<'a> {
    /// Refuses duplicate keys, lone surrogates and nesting beyond `depth_max`.
    pub fn strict(text: &'a str, depth_max: usize) -> Self {
        Scanner::new(text, depth_max, true)
    }

    /// Takes whatever the grammar takes, for a text that was let in before.
    pub fn trusting(text: &'a str) -> Self {
        Scanner::new(text, usize::MAX, false)
    }

    fn new(text: &'a str, depth_max: usize, is_strict: bool) -> Self {
        let (open, keys) = (Vec::new(), Keys::default());
        Scanner { text, bytes: text.as_bytes(), at: 0, next: Next::Value, open, keys, depth_max, is_strict }
    }

    /// How many objects and arrays are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The next token; `None` after the last one.
    pub fn token(&mut self) -> Result<Option<Token>, Fault> {
        self.space();
        let mut sign = None;
        if self.next == Next::More {
            match (self.open.last(), self.bytes.get(self.at)) {
                (Some(_), Some(b',')) => {
                    sign = Some(',');
                    self.at += 1;
                    self.space();
                }
                (Some(Open::Object(_)), Some(b'}')) => return Ok(Some(self.close(Kind::ObjectEnd))),
                (Some(Open::Array), Some(b']')) => return Ok(Some(self.close(Kind::ArrayEnd))),
                (Some(Open::Object(_)), _) => return Err(self.fault(Reason::NextMember)),
                (Some(Open::Array), _) => return Err(self.fault(Reason::NextItem)),
                (None, None) => return Ok(None),
                (None, Some(_)) => return Err(self.fault(Reason::Rest)),
            }
        }
        let byte = self.bytes.get(self.at);
        let token = match (self.next, byte) {
            (Next::FirstKey, Some(b'}')) => return Ok(Some(self.close(Kind::ObjectEnd))),
            (Next::FirstItem, Some(b']')) => return Ok(Some(self.close(Kind::ArrayEnd))),
            (Next::FirstKey, _) => self.key()?,
            (Next::More, _) if matches!(self.open.last(), Some(Open::Object(_))) => self.key()?,
            (Next::Colon, Some(b':')) => {
                sign = Some(':');
                self.at += 1;
                self.space();
                self.value()?
            }
            (Next::Colon, _) => return Err(self.fault(Reason::Colon)),
            (Next::Value | Next::FirstItem | Next::More, _) => self.value()?,
        };
        Ok(Some(Token { sign, ..token }))
    }

    /// Skips the next value and returns its range. Must be called only where a value is due.
    pub fn skip(&mut self) -> Result<Range<usize>, Fault> {
        let depth = self.depth();
        let Some(first) = self.token()? else { return Ok(self.at..self.at) };
        let mut end = first.end;
        while self.depth() > depth {
            let Some(token) = self.token()? else { break };
            end = token.end;
        }
        Ok(first.start..end)
    }

    fn fault(&self, reason: Reason) -> Fault {
        Fault { reason, at: self.at, start: self.at }
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// Takes the bytes up to `end` as a token.
    #[inline]
    fn take(&mut self, kind: Kind, end: usize, next: Next) -> Token {
        let start = std::mem::replace(&mut self.at, end);
        self.next = next;
        Token { kind, start, end, sign: None, is_escaped: false, is_ascii: true }
    }

    fn open(&mut self, kind: Kind) -> Result<Token, Fault> {
        if self.open.len() >= self.depth_max {
            return Err(self.fault(Reason::TooDeep(self.depth_max)));
        }
        let (open, next) = match kind {
            Kind::ObjectStart => (Open::Object(self.keys.open()), Next::FirstKey),
            _ => (Open::Array, Next::FirstItem),
        };
        self.open.push(open);
        Ok(self.take(kind, self.at + 1, next))
    }

    fn close(&mut self, kind: Kind) -> Token {
        if let Some(Open::Object(seen)) = self.open.pop() {
            self.keys.close(&seen);
        }
        self.take(kind, self.at + 1, Next::More)
    }

    fn value(&mut self) -> Result<Token, Fault> {
        match self.bytes.get(self.at) {
            Some(b'"') => self.string(Kind::Text, Next::More),
            Some(b'{') => self.open(Kind::ObjectStart),
            Some(b'[') => self.open(Kind::ArrayStart),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Kind::Bool),
            Some(b'f') => self.word("false", Kind::Bool),
            Some(b'n') => self.word("null", Kind::Null),
            Some(_) => Err(self.fault(Reason::Value)),
            None => Err(self.fault(Reason::End)),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<Token, Fault> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.fault(Reason::Value));
        }
        Ok(self.take(kind, self.at + word.len(), Next::More))
    }

    fn key(&mut self) -> Result<Token, Fault> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.fault(Reason::Key));
        }
        let token = self.string(Kind::Key, Next::Colon)?;
        if self.is_strict
            && let Some(Open::Object(seen)) = self.open.last_mut()
            && !self.keys.insert(seen, unescape(&self.text[token.inside()]))
        {
            let reason = Reason::DuplicateKey { end: token.end };
            return Err(Fault { reason, at: token.start, start: token.start });
        }
        Ok(token)
    }

    fn string(&mut self, kind: Kind, next: Next) -> Result<Token, Fault> {
        let start = self.at;
        let inside = inside(self.bytes, start + 1, self.is_strict).map_err(|(reason, at)| Fault {
            reason,
            at,
            start,
        })?;
        let token = self.take(kind, inside.end + 1, next);
        Ok(Token { is_escaped: inside.is_escaped, is_ascii: inside.is_ascii, ..token })
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let (bytes, start) = (self.bytes, self.at);
        let fault = |reason, at| Fault { reason, at, start };
        let digits = |from: usize| {
            let count = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if count == 0 { Err(fault(Reason::Digit, from)) } else { Ok(from + count) }
        };
        let whole = start + usize::from(bytes[start] == b'-');
        let mut at = digits(whole)?;
        if bytes[whole] == b'0' && at > whole + 1 {
            return Err(fault(Reason::LeadingZero, whole + 1));
        }
        let mut kind = Kind::Integer;
        if bytes.get(at) == Some(&b'.') {
            kind = Kind::Real;
            at = digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            kind = Kind::Real;
            at += 1;
            at = digits(at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-'))))?;
        }
        Ok(self.take(kind, at, Next::More))
    }
}
