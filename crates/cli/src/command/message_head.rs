//! Finds the id, the method and the kind of a JSON-RPC message without parsing the rest. See [`HeadScanner`].
//!
//! It must not allocate in proportion to the message, and it may be fed in pieces. It checks no syntax: forwarding does
//! not depend on it.

/// The id, the method and the kind at the top level of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The id as JSON text, such as `7` or `"a"`. Absent in notifications, and where it is longer than the bound.
    pub(super) id: Option<String>,
    pub(super) method: Option<String>,
    pub(super) has_error: bool,
    /// Whether the message is one JSON object, judged by brackets and strings only.
    pub(super) is_object: bool,
}

impl Head {
    /// The head of a complete message.
    pub(super) fn of(message: &[u8]) -> Self {
        let mut scanner = HeadScanner::default();
        scanner.feed(message);
        scanner.finish()
    }

    /// The id of a request.
    pub(super) fn request(&self) -> Option<(&str, &str)> {
        Some((self.id.as_deref()?, self.method.as_deref()?))
    }

    /// The id of a response.
    pub(super) fn response(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| self.method.is_none())
    }
}

/// Bytes of an id or a method; a longer one is not captured.
const CAPTURE_BYTES_MAX: usize = 512;

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Expect {
    #[default]
    Object,
    Key,
    Colon,
    Value,
    End,
}

/// Where the scanner is in a string.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum InString {
    #[default]
    No,
    Yes,
    /// After a backslash.
    Escaped,
}

/// Scans a message piece by piece.
#[derive(Default)]
pub(super) struct HeadScanner {
    depth: u32,
    expect: Expect,
    in_string: InString,
    is_capturing: bool,
    captured: Vec<u8>,
    key: Vec<u8>,
    is_broken: bool,
    head: Head,
}

impl HeadScanner {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.in_string == InString::Yes && !self.is_capturing {
                // Long strings are most of a long message.
                match bytes.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                    Some(0) => {}
                    Some(plain) => {
                        bytes = &bytes[plain..];
                        continue;
                    }
                    None => return,
                }
            }
            match self.in_string {
                InString::No => self.byte(byte),
                InString::Yes | InString::Escaped => self.string_byte(byte),
            }
            bytes = rest;
        }
    }

    pub(super) fn finish(mut self) -> Head {
        self.head.is_object = self.expect == Expect::End && !self.is_broken && self.in_string == InString::No;
        if !self.head.is_object {
            return Head::default();
        }
        self.head
    }

    fn string_byte(&mut self, byte: u8) {
        self.capture(byte);
        if self.in_string == InString::Escaped {
            self.in_string = InString::Yes;
        } else if byte == b'\\' {
            self.in_string = InString::Escaped;
        } else if byte == b'"' {
            self.in_string = InString::No;
            if self.depth == 1 && self.expect == Expect::Key {
                self.expect = Expect::Colon;
                self.key = std::mem::take(&mut self.captured);
                self.is_capturing = false;
            }
        }
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'"' => {
                self.is_broken |= self.depth == 0;
                if self.depth == 1 && self.expect == Expect::Key {
                    self.captured.clear();
                    self.is_capturing = true;
                }
                self.in_string = InString::Yes;
                self.capture(byte);
            }
            b'{' | b'[' => {
                self.is_broken |= self.depth == 0 && (byte != b'{' || self.expect != Expect::Object);
                self.depth += 1;
                if self.depth == 1 {
                    self.expect = Expect::Key;
                } else {
                    self.capture(byte);
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                    self.expect = Expect::End;
                } else {
                    self.capture(byte);
                }
                self.is_broken |= self.depth == 0;
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => {
                self.end_value();
                self.expect = Expect::Key;
            }
            b':' if self.depth == 1 && self.expect == Expect::Colon => {
                self.expect = Expect::Value;
                self.captured.clear();
                self.is_capturing = matches!(&*self.key, b"\"id\"" | b"\"method\"" | b"\"error\"");
            }
            _ => {
                self.is_broken |= self.depth == 0;
                self.capture(byte);
            }
        }
    }

    fn end_value(&mut self) {
        if self.expect != Expect::Value || !std::mem::take(&mut self.is_capturing) {
            return;
        }
        let captured = std::mem::take(&mut self.captured);
        let Ok(text) = String::from_utf8(captured) else { return };
        match &*self.key {
            b"\"id\"" if text.len() <= CAPTURE_BYTES_MAX => self.head.id = id_text(&text),
            b"\"method\"" => self.head.method = serde_json::from_str(&text).ok(),
            b"\"error\"" => self.head.has_error = text != "null",
            _ => {}
        }
    }

    /// One byte beyond the bound is kept, which marks that it was exceeded.
    fn capture(&mut self, byte: u8) {
        if self.is_capturing && self.captured.len() <= CAPTURE_BYTES_MAX {
            self.captured.push(byte);
        }
    }
}

/// An id in the one form that all texts of it have; `None` for null and for what is no id.
pub(super) fn id_text(text: &str) -> Option<String> {
    let id: serde_json::Value = serde_json::from_str(text).ok()?;
    (id.is_string() || id.is_number()).then(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: Option<&str>, method: Option<&str>, has_error: bool) -> Head {
        Head { id: id.map(str::to_owned), method: method.map(str::to_owned), has_error, is_object: true }
    }

    #[test]
    fn the_top_level_is_found_wherever_it_is() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"id":8,"method":"x"}}"#,
                head(Some("7"), Some("initialize"), false),
            ),
            (
                r#" { "params" : [{"id":1}, "}\"{"] , "method" : "session/update" } "#,
                head(None, Some("session/update"), false),
            ),
            (r#"{"result":{"a":"\\"},"id":"a\"b"}"#, head(Some(r#""a\"b""#), None, false)),
            (r#"{"id":"\u0061/\/","result":1}"#, head(Some(r#""a//""#), None, false)),
            (r#"{"id":null,"error":{"code":-32603,"message":"id"}}"#, head(None, None, true)),
            (r#"{"id":1,"error":null,"result":1}"#, head(Some("1"), None, false)),
            ("{}", head(None, None, false)),
        ];
        for (message, expected) in cases {
            assert_eq!(Head::of(message.as_bytes()), expected, "{message}");
            let mut scanner = HeadScanner::default();
            message.as_bytes().iter().for_each(|byte| scanner.feed(&[*byte]));
            assert_eq!(scanner.finish(), expected, "byte by byte: {message}");
        }
    }

    #[test]
    fn what_is_no_object_has_no_head() {
        for message in [
            "",
            "[1]",
            "7",
            "{\"id\":1",
            "{\"id\":\"1}",
            "{\"id\":1}}",
            "{\"id\":1}{\"id\":2}",
            "x{\"id\":1}",
        ] {
            assert_eq!(Head::of(message.as_bytes()), Head::default(), "{message}");
        }
    }

    #[test]
    fn an_id_beyond_the_bound_is_none() {
        let message = format!("{{\"id\":\"{}\",\"method\":\"m\"}}", "x".repeat(CAPTURE_BYTES_MAX));
        assert_eq!(Head::of(message.as_bytes()), head(None, Some("m"), false));
    }
}
