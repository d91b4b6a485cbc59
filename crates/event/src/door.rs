//! The door: JSON from outside is checked once and loses its white space; nothing else about it changes.
//! [`draft`] takes a whole event from a producer, [`compact`] any JSON.
//!
//! Refused: what is not JSON, duplicate keys, nesting beyond the limit, lone surrogates, integers that
//! some readers would round, numbers no reader can hold. Everything else is kept token for token.

use std::collections::BTreeSet;

use crate::event::Draft;
use crate::limits;
use crate::registry::{Payload, PayloadError};

/// Why JSON was refused. The place is a byte offset in the text that was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (at byte {at})")]
pub struct DoorError {
    pub at: usize,
    pub reason: String,
}

/// Why what a producer sent is not an event. Displayed, it is a sentence for the producer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// Not JSON, or JSON that not every reader would read alike.
    #[error("data is refused: {0}")]
    Json(#[from] DoorError),
    #[error("data has {bytes} bytes without white space and may have {max}: keep large things as artifacts")]
    TooLarge { bytes: usize, max: usize },
    #[error("data is {found} and must be an object")]
    NotAnObject { found: &'static str },
    /// The type's name or its fields are not right.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

/// Takes what a producer says happened: the type's name and the text of `data`. The text is checked,
/// loses its white space and is kept as it is from then on.
pub fn draft(type_name: &str, data: &str) -> Result<Draft, DraftError> {
    let verbatim = compact(data)?;
    if verbatim.len() > limits::DATA_BYTES_MAX {
        return Err(DraftError::TooLarge { bytes: verbatim.len(), max: limits::DATA_BYTES_MAX });
    }
    let found = match verbatim.as_bytes()[0] {
        b'{' => None,
        b'[' => Some("an array"),
        b'"' => Some("a string"),
        b't' | b'f' => Some("a boolean"),
        b'n' => Some("null"),
        _ => Some("a number"),
    };
    if let Some(found) = found {
        return Err(DraftError::NotAnObject { found });
    }
    let payload = Payload::read(type_name, &verbatim)?;
    if let Some(reason) = payload.breach() {
        return Err(PayloadError::DataMalformed { type_name: type_name.to_owned(), reason }.into());
    }
    Ok(Draft { payload, verbatim: Some(verbatim.into()) })
}

/// Checks one JSON value and gives it back without white space outside strings.
pub fn compact(text: &str) -> Result<String, DoorError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, out: String::with_capacity(text.len()) };
    reader.value(0)?;
    reader.skip_space();
    if reader.at < reader.bytes.len() {
        return Err(reader.fail("something follows the value"));
    }
    Ok(reader.out)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    out: String,
}

impl<'a> Reader<'a> {
    fn fail(&self, reason: impl Into<String>) -> DoorError {
        DoorError { at: self.at, reason: reason.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.at += 1;
            self.out.push(wanted as char);
        }
        there
    }

    /// Reads one value inside `depth` objects and arrays. Recursion is bounded by that depth.
    fn value(&mut self, depth: usize) -> Result<(), DoorError> {
        self.skip_space();
        match self.peek() {
            Some(b'{' | b'[') if depth == limits::JSON_DEPTH_MAX => {
                Err(self.fail(format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX)))
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err(self.fail("no JSON value begins like this")),
            None => Err(self.fail("the text ends where a value should be")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), DoorError> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            self.out.push_str(word);
            Ok(())
        } else {
            Err(self.fail("no JSON value begins like this"))
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), DoorError> {
        self.take(b'{');
        self.skip_space();
        if self.take(b'}') {
            return Ok(());
        }
        let mut keys = Keys::default();
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.fail("a key must be a string"));
            }
            let key_at = self.at;
            let key = self.string()?;
            if !keys.insert(key) {
                return Err(DoorError {
                    at: key_at,
                    reason: "the same key comes twice in one object".into(),
                });
            }
            self.skip_space();
            if !self.take(b':') {
                return Err(self.fail("a colon must follow the key"));
            }
            self.value(depth + 1)?;
            self.skip_space();
            if self.take(b',') {
                continue;
            }
            if self.take(b'}') {
                return Ok(());
            }
            return Err(self.fail("a comma or the end of the object must follow"));
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), DoorError> {
        self.take(b'[');
        self.skip_space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.skip_space();
            if self.take(b',') {
                continue;
            }
            if self.take(b']') {
                return Ok(());
            }
            return Err(self.fail("a comma or the end of the array must follow"));
        }
    }

    /// Copies a string token and answers what it says, for comparing keys.
    fn string(&mut self) -> Result<std::borrow::Cow<'a, str>, DoorError> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                None => return Err(self.fail("the text ends within a string")),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(byte) if byte < 0x20 => return Err(self.fail("a control character must be escaped")),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let token = &self.text[start..self.at];
        self.out.push_str(token);
        if escaped {
            let said = serde_json::from_str::<String>(token)
                .map_err(|_| DoorError { at: start, reason: "the string is malformed".into() })?;
            Ok(said.into())
        } else {
            Ok(token[1..token.len() - 1].into())
        }
    }

    fn escape(&mut self) -> Result<(), DoorError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let unit = self.hex4(self.at + 2)?;
                match unit {
                    0xD800..=0xDBFF => {
                        let low_follows = self.bytes.get(self.at + 6) == Some(&b'\\')
                            && self.bytes.get(self.at + 7) == Some(&b'u')
                            && matches!(self.hex4(self.at + 8), Ok(0xDC00..=0xDFFF));
                        if !low_follows {
                            return Err(self.fail("half of a surrogate pair stands alone"));
                        }
                        self.at += 12;
                    }
                    0xDC00..=0xDFFF => return Err(self.fail("half of a surrogate pair stands alone")),
                    _ => self.at += 6,
                }
            }
            _ => return Err(self.fail("no such escape")),
        }
        Ok(())
    }

    fn hex4(&self, from: usize) -> Result<u32, DoorError> {
        let digits = self.bytes.get(from..from + 4).filter(|four| four.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return Err(self.fail("four hex digits must follow \\u")) };
        let text = std::str::from_utf8(digits).map_err(|_| self.fail("four hex digits must follow \\u"))?;
        u32::from_str_radix(text, 16).map_err(|_| self.fail("four hex digits must follow \\u"))
    }

    fn digits(&mut self) -> Result<(), DoorError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fail("a digit must follow"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), DoorError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fail("a number must not begin with 0"));
            }
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let token = &self.text[start..self.at];
        let fits = if whole {
            let size: Option<u64> = token.trim_start_matches('-').parse().ok();
            size.is_some_and(|size| size < limits::INTEGER_MAX)
        } else {
            token.parse::<f64>().is_ok_and(f64::is_finite)
        };
        if !fits {
            return Err(DoorError {
                at: start,
                reason: "the number is too large; send it as a string".into(),
            });
        }
        self.out.push_str(token);
        Ok(())
    }
}

/// The keys of one object. Most objects are small, and for those a list is quicker than a set.
/// The set is ordered, not hashed: a producer cannot make it slow, and nothing here draws randomness.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<std::borrow::Cow<'a, str>>,
    many: BTreeSet<std::borrow::Cow<'a, str>>,
}

const FEW_KEYS: usize = 16;

impl<'a> Keys<'a> {
    /// Whether the key is new.
    fn insert(&mut self, key: std::borrow::Cow<'a, str>) -> bool {
        if self.many.is_empty() && self.few.len() < FEW_KEYS {
            let new = !self.few.contains(&key);
            self.few.push(key);
            return new;
        }
        self.many.extend(self.few.drain(..));
        self.many.insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_keeps_the_text_and_reads_the_payload() {
        let draft =
            draft("run.checkpoint_saved", " { \"checkpoint_id\" : \"ckpt_1\", \"later\": [1.0, 1e2] } ")
                .expect("a good draft");
        assert_eq!(draft.verbatim.as_deref(), Some(r#"{"checkpoint_id":"ckpt_1","later":[1.0,1e2]}"#));
        assert_eq!(draft.payload.type_name(), "run.checkpoint_saved");
    }

    #[test]
    fn a_draft_says_in_a_sentence_why_it_is_refused() {
        let sentence = |type_name: &str, data: &str| draft(type_name, data).unwrap_err().to_string();
        assert_eq!(sentence("ext.a.b", "{,}"), "data is refused: a key must be a string (at byte 1)");
        assert_eq!(sentence("ext.a.b", "[]"), "data is an array and must be an object");
        assert_eq!(sentence("ext.a.b", "\"{}\""), "data is a string and must be an object");
        assert_eq!(sentence("ext.a.b", "-1"), "data is a number and must be an object");
        assert_eq!(sentence("ext.a.b", " null "), "data is null and must be an object");
        assert!(sentence("Shout", "{}").contains("Shout"), "{}", sentence("Shout", "{}"));
        assert_eq!(
            sentence("run.checkpoint_saved", "{}"),
            "the data of run.checkpoint_saved does not fit: missing field `checkpoint_id`"
        );
        assert_eq!(
            sentence("tool.invoked", r#"{"tool_name":7,"turn_index":"first"}"#),
            "the data of tool.invoked does not fit: missing field `tool_call_id`; field `tool_name`: invalid type: \
             integer `7`, expected a string; field `turn_index`: invalid type: string \"first\", expected u64"
        );
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::DATA_BYTES_MAX));
        assert!(sentence("ext.a.b", &large).starts_with("data has 1048584 bytes"), "{}", large.len());
    }
}
