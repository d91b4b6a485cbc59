//! Masks secrets inside JSON: every string, and nothing else. Untouched parts stay token for token.
//!
//! Strings are checked decoded, not as written; a value together with its key, because some
//! secrets are recognised only by their names. Keys are masked, too. Numbers are not.

use std::ops::Range;

use recount_json::{Kind, Scanner, Token, unescape};

use crate::detector::is_secret;
use crate::limits::PATHS_MAX;
use crate::redactor::Redactor;
use crate::scan::mask;

/// A member of the outermost object that the caller judges, and its replacement.
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
    /// Masks the strings of JSON. `None`: there is nothing to mask. `keep` decides for each place whether it
    /// stays as it is.
    pub fn json(
        &self,
        text: &str,
        field: Option<JsonField<'_>>,
        keep: &dyn Fn(&str) -> bool,
    ) -> Option<MaskedJson> {
        let replaces = field.is_some_and(|field| field.value.is_some());
        if !replaces && !self.may_contain_secret(text.as_bytes()) {
            return None;
        }
        let mut walk = Walk {
            redactor: self,
            text,
            scanner: Scanner::trusting(text),
            written: 0,
            out: String::new(),
            paths: Vec::new(),
            path: String::new(),
            field,
            keep,
        };
        let outermost = walk.token();
        walk.value(outermost, 0, None);
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
    scanner: Scanner<'a>,
    /// How much of the text is in `out`, changed or not.
    written: usize,
    out: String,
    paths: Vec<String>,
    path: String,
    field: Option<JsonField<'a>>,
    keep: &'a dyn Fn(&str) -> bool,
}

impl Walk<'_> {
    fn token(&mut self) -> Token {
        next(&mut self.scanner).expect("an open value has an end")
    }

    /// The caller that admitted the JSON bounds the recursion.
    fn value(&mut self, token: Token, depth: usize, key: Option<&str>) {
        match token.kind {
            Kind::ObjectStart => self.object(depth),
            Kind::ArrayStart => self.array(depth, key),
            Kind::Text => self.string(&token, key),
            _ => {}
        }
    }

    fn array(&mut self, depth: usize, key: Option<&str>) {
        let path = self.path.len();
        for index in 0.. {
            let token = self.token();
            if token.kind == Kind::ArrayEnd {
                break;
            }
            self.path.push_str(&format!("/{index}"));
            self.value(token, depth + 1, key);
            self.path.truncate(path);
        }
    }

    fn object(&mut self, depth: usize) {
        let path = self.path.len();
        let mut starred: Vec<String> = Vec::new();
        loop {
            let token = self.token();
            if token.kind == Kind::ObjectEnd {
                break;
            }
            let key = self.key(&token, &mut starred);
            self.path.push('/');
            self.path.push_str(&key.replace('~', "~0").replace('/', "~1"));
            match self.field {
                Some(field) if depth == 0 && field.name == key => {
                    let range = skip(&mut self.scanner);
                    if let Some(value) = field.value {
                        self.replace(range, &quoted(value));
                        self.paths.push(self.path.clone());
                    }
                }
                _ => {
                    let token = self.token();
                    self.value(token, depth + 1, Some(&key));
                }
            }
            self.path.truncate(path);
        }
    }

    /// Reads a key, masked if needed. If two keys of one object become equal, a number replaces their last bytes.
    fn key(&mut self, token: &Token, starred: &mut Vec<String>) -> String {
        let unescaped = unescape(&self.text[token.inside()]);
        let masked = self.redactor.text(&unescaped);
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
        if key != unescaped {
            let path = format!("{}/{}", self.path, key.replace('~', "~0").replace('/', "~1"));
            if (self.keep)(&path) {
                return unescaped.into_owned();
            }
            self.replace(token.start..token.end, &quoted(&key));
            self.paths.push(path);
        }
        starred.push(key.clone());
        key
    }

    fn string(&mut self, token: &Token, key: Option<&str>) {
        let unescaped = unescape(&self.text[token.inside()]);
        // A key may identify its value as a secret, if it is a name and no sentence.
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/@".contains(&byte);
        let key = key.filter(|key| key.bytes().all(is_name));
        let before = key.map_or(0, |key| key.len() + 1);
        let mut bytes = Vec::with_capacity(before + unescaped.len());
        if let Some(key) = key {
            bytes.extend_from_slice(key.as_bytes());
            // Whether a member is a named value is decided for all of it, but cookies are parts.
            bytes.push(if key.to_ascii_lowercase().ends_with("cookie") { b'=' } else { b'`' });
        }
        bytes.extend_from_slice(unescaped.as_bytes());
        let spans: Vec<Range<usize>> = self
            .redactor
            .spans(&bytes)
            .into_iter()
            .map(|span| span.start.max(before)..span.end)
            .filter(|span| span.start < span.end)
            .collect();
        let spans = match key {
            Some(key) if is_secret(key, &unescaped) => std::iter::once(before..bytes.len()).collect(),
            _ => spans,
        };
        if spans.is_empty() || (self.keep)(&self.path) {
            return;
        }
        mask(&mut bytes, &spans);
        let masked =
            String::from_utf8(bytes.split_off(before)).expect("secrets begin and end between characters");
        self.replace(token.start..token.end, &quoted(&masked));
        self.paths.push(self.path.clone());
    }

    fn replace(&mut self, range: Range<usize>, token: &str) {
        self.out.push_str(&self.text[self.written..range.start]);
        self.out.push_str(token);
        self.written = range.end;
    }
}

fn next(scanner: &mut Scanner<'_>) -> Option<Token> {
    scanner.token().expect("JSON that was let in can be read")
}

fn skip(scanner: &mut Scanner<'_>) -> Range<usize> {
    scanner.skip().expect("JSON that was let in can be read")
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text can be written as JSON")
}

/// Adds the masked places of an object to its member `redacted_paths`, after those it has
/// already. If the member is not a list, nothing is added.
pub fn with_paths(object: &str, paths: &[String]) -> String {
    let list: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    let list = list.join(",");
    let mut scanner = Scanner::trusting(object);
    while let Some(token) = next(&mut scanner) {
        if token.kind != Kind::Key {
            continue;
        }
        let Range { start, end } = skip(&mut scanner);
        if unescape(&object[token.inside()]) == "redacted_paths" {
            let value = match object[start..end].strip_suffix(']') {
                Some(open) if open.trim() == "[" => format!("[{list}]"),
                Some(open) => format!("{open},{list}]"),
                None if &object[start..end] == "null" => format!("[{list}]"),
                None => return object.to_owned(),
            };
            return format!("{}{value}{}", &object[..start], &object[end..]);
        }
    }
    let open = object.trim_end();
    let open = &open[..open.len() - 1];
    let comma = if open.trim() == "{" { "" } else { "," };
    format!("{open}{comma}\"redacted_paths\":[{list}]}}")
}
