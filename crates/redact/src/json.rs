//! Masking inside JSON: every string, and nothing else. What is not touched stays token for token.
//!
//! Strings are looked at as what they say, not as they are written; a value together with its key, because some
//! secrets are told by their names alone. Keys are masked, too. Numbers are not.

use std::borrow::Cow;
use std::ops::Range;

use crate::limits::PATHS_MAX;
use crate::redactor::Redactor;
use crate::scan::mask;

/// A member of the outermost object that is somebody else's to judge, and what is to stand there instead.
#[derive(Debug, Clone, Copy)]
pub struct JsonField<'a> {
    pub name: &'a str,
    pub value: Option<&'a str>,
}

/// JSON in which something was masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedJson {
    pub text: String,
    /// Where, as JSON Pointers, at most [`PATHS_MAX`].
    pub paths: Vec<String>,
}

impl Redactor {
    /// Masks what JSON says. `None`: there is nothing to mask. `keep` is asked for each place whether it is to
    /// stay as it is.
    pub fn json(
        &self,
        text: &str,
        field: Option<JsonField<'_>>,
        keep: &dyn Fn(&str) -> bool,
    ) -> Option<MaskedJson> {
        let replaces = field.is_some_and(|field| field.value.is_some());
        if !replaces && !self.may_say(text.as_bytes()) {
            return None;
        }
        let mut walk = Walk {
            redactor: self,
            text,
            at: 0,
            written: 0,
            out: String::new(),
            paths: Vec::new(),
            path: String::new(),
            field,
            keep,
        };
        walk.value(0, None);
        if walk.paths.is_empty() {
            return None;
        }
        walk.out.push_str(&text[walk.written..]);
        walk.paths.truncate(PATHS_MAX);
        Some(MaskedJson { text: walk.out, paths: walk.paths })
    }
}

/// Goes through JSON that is known to be good.
struct Walk<'a> {
    redactor: &'a Redactor,
    text: &'a str,
    at: usize,
    /// How much of the text is in `out`, changed or not.
    written: usize,
    out: String,
    paths: Vec<String>,
    path: String,
    field: Option<JsonField<'a>>,
    keep: &'a dyn Fn(&str) -> bool,
}

impl Walk<'_> {
    fn space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Recursion is bounded by who let the JSON in.
    fn value(&mut self, depth: usize, key: Option<&str>) {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth, key),
            Some(b'"') => self.string(key),
            _ => {
                let rest = &self.text.as_bytes()[self.at..];
                self.at += rest.iter().take_while(|byte| !matches!(byte, b',' | b'}' | b']')).count();
            }
        }
    }

    fn array(&mut self, depth: usize, key: Option<&str>) {
        self.at += 1;
        let path = self.path.len();
        for index in 0.. {
            self.space();
            if matches!(self.peek(), None | Some(b']')) {
                break;
            }
            self.path.push_str(&format!("/{index}"));
            self.value(depth + 1, key);
            self.path.truncate(path);
            self.space();
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn object(&mut self, depth: usize) {
        self.at += 1;
        let path = self.path.len();
        let mut starred: Vec<String> = Vec::new();
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                break;
            }
            let token = self.token();
            let key = self.key(token, &mut starred);
            self.space();
            self.at += 1;
            self.path.push('/');
            self.path.push_str(&key.replace('~', "~0").replace('/', "~1"));
            match self.field {
                Some(field) if depth == 0 && field.name == key => {
                    self.space();
                    let begin = self.at;
                    self.skip();
                    if let Some(value) = field.value {
                        self.replace(begin..self.at, &quoted(value));
                        self.paths.push(self.path.clone());
                    }
                }
                _ => self.value(depth + 1, Some(&key)),
            }
            self.path.truncate(path);
            self.space();
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    /// Reads a key, masked if it must be. Two keys of one object that become alike are told apart by a number
    /// in the place of their last bytes.
    fn key(&mut self, token: Range<usize>, starred: &mut Vec<String>) -> String {
        let said = said(&self.text[token.clone()]);
        let masked = self.redactor.text(&said);
        let mut key = masked.to_string();
        if !key.contains('*') {
            return key;
        }
        for number in 1.. {
            if !starred.contains(&key) {
                break;
            }
            let number = number.to_string();
            let from = masked.len().saturating_sub(number.len());
            key = match masked.get(..from) {
                Some(beginning) => format!("{beginning}{number}"),
                None => format!("{masked}{number}"),
            };
        }
        if key != said {
            let path = format!("{}/{}", self.path, key.replace('~', "~0").replace('/', "~1"));
            if (self.keep)(&path) {
                return said.into_owned();
            }
            self.replace(token, &quoted(&key));
            self.paths.push(path);
        }
        starred.push(key.clone());
        key
    }

    fn string(&mut self, key: Option<&str>) {
        let token = self.token();
        let said = said(&self.text[token.clone()]);
        // What the key says may be what tells the value.
        let before = key.map_or(0, |key| key.len() + 1);
        let mut bytes = Vec::with_capacity(before + said.len());
        if let Some(key) = key {
            bytes.extend_from_slice(key.as_bytes());
            bytes.push(b'=');
        }
        bytes.extend_from_slice(said.as_bytes());
        let spans: Vec<Range<usize>> = self
            .redactor
            .spans(&bytes)
            .into_iter()
            .map(|span| span.start.max(before)..span.end)
            .filter(|span| span.start < span.end)
            .collect();
        if spans.is_empty() || (self.keep)(&self.path) {
            return;
        }
        mask(&mut bytes, &spans);
        let masked =
            String::from_utf8(bytes.split_off(before)).expect("secrets begin and end between characters");
        self.replace(token, &quoted(&masked));
        self.paths.push(self.path.clone());
    }

    /// Passes a string token.
    fn token(&mut self) -> Range<usize> {
        let begin = self.at;
        self.at = end_of_string(self.text.as_bytes(), begin);
        begin..self.at
    }

    /// Passes a value.
    fn skip(&mut self) {
        self.at = end_of_value(self.text.as_bytes(), self.at);
    }

    fn replace(&mut self, range: Range<usize>, token: &str) {
        self.out.push_str(&self.text[self.written..range.start]);
        self.out.push_str(token);
        self.written = range.end;
    }
}

fn end_of_string(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at.min(text.len())..]) {
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

fn end_of_value(text: &[u8], begin: usize) -> usize {
    let (mut at, mut depth) = (begin, 0usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return at;
        }
    }
    at
}

fn said(token: &str) -> Cow<'_, str> {
    let inner = &token[1..token.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return inner.into();
    }
    serde_json::from_str::<String>(token).expect("a string that was let in can be read").into()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text can be written as JSON")
}

/// Names the places that were masked in an object, in its member `redacted_paths`; what stands there already
/// stays. Where something else than a list stands there, nothing is named.
pub fn with_paths(object: &str, paths: &[String]) -> String {
    let list: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    let list = list.join(",");
    let bytes = object.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        let Some(quote) = memchr::memchr(b'"', &bytes[at..]).map(|found| at + found) else { break };
        let end = end_of_string(bytes, quote);
        let Some(colon) = memchr::memchr(b':', &bytes[end..]).map(|found| end + found) else { break };
        let begin =
            colon + 1 + bytes[colon + 1..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let close = end_of_value(bytes, begin);
        if said(&object[quote..end]) == "redacted_paths" {
            let value = object[begin..close].trim_end();
            let value = match value.strip_suffix(']') {
                Some(open) if open.trim() == "[" => format!("[{list}]"),
                Some(open) => format!("{open},{list}]"),
                None if value == "null" => format!("[{list}]"),
                None => return object.to_owned(),
            };
            return format!("{}{value}{}", &object[..begin], &object[close..]);
        }
        at = close + 1;
    }
    let open = object.trim_end();
    let open = &open[..open.len() - 1];
    let comma = if open.trim() == "{" { "" } else { "," };
    format!("{open}{comma}\"redacted_paths\":[{list}]}}")
}
