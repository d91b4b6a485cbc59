//! Deltas of call inputs while the model writes them: pieces of JSON text, with secrets masked in each string.
//!
//! Each string is decoded, masked and encoded again, so an escape cannot hide a secret. The first character that cannot
//! be JSON ends the deltas of its call. Pure. It must not know how events are reported. Start with [`CallInputs`].

use std::collections::BTreeMap;
use std::sync::Arc;

use recount_event::family::assistant::ToolCallInputDelta;
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::{Redactor, StreamRedactor};

use crate::limits;

/// The inputs of one turn's calls.
pub(crate) struct CallInputs {
    turn_index: u64,
    redactor: Arc<Redactor>,
    /// By the index of the call in the response.
    calls: BTreeMap<usize, OpenInput>,
}

/// One input that the model is writing.
struct OpenInput {
    id: Option<ForeignId>,
    redactor: Arc<Redactor>,
    at: JsonPosition,
    /// Bytes that the model wrote.
    bytes: usize,
    /// Whether its deltas have ended.
    is_over: bool,
    ready: String,
}

/// The position of the next character in the JSON text.
enum JsonPosition {
    Outside,
    Inside(Box<OpenString>),
}

struct OpenString {
    masking: StreamRedactor,
    escape: Escape,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

enum Escape {
    None,
    Open,
    Digits(String),
}

impl CallInputs {
    pub(crate) fn new(turn_index: u64, redactor: Arc<Redactor>) -> Self {
        CallInputs { turn_index, redactor, calls: BTreeMap::new() }
    }

    /// Adds the next piece of the input of a call, by the index of the call in the response.
    pub(crate) fn push(&mut self, call: usize, text: &str) {
        if call >= limits::MODEL_CALLS_MAX {
            return;
        }
        let redactor = &self.redactor;
        let input = self.calls.entry(call).or_insert_with(|| OpenInput {
            id: None,
            redactor: redactor.clone(),
            at: JsonPosition::Outside,
            bytes: 0,
            is_over: false,
            ready: String::new(),
        });
        input.bytes += text.len();
        input.is_over |= input.bytes > limits::CALL_INPUT_DELTAS_BYTES_MAX;
        for letter in text.chars() {
            if input.is_over {
                return;
            }
            input.push_char(letter);
        }
    }

    pub(crate) fn has_deltas(&self) -> bool {
        self.calls.values().any(|input| !input.ready.is_empty())
    }

    /// Takes the deltas. The id of a call is generated with its first delta.
    pub(crate) fn take_drafts(&mut self, mint: impl Fn() -> ForeignId) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for input in self.calls.values_mut().filter(|input| !input.ready.is_empty()) {
            let id = input.id.get_or_insert_with(&mint).clone();
            let delta = ToolCallInputDelta::new(self.turn_index, id, std::mem::take(&mut input.ready));
            drafts.push(Payload::AssistantToolCallInputDelta(Box::new(delta)).into());
        }
        drafts
    }

    /// The id of a call that has logged deltas.
    pub(crate) fn id(&self, call: usize) -> Option<ForeignId> {
        self.calls.get(&call)?.id.clone()
    }
}

impl OpenInput {
    fn push_char(&mut self, letter: char) {
        match &mut self.at {
            JsonPosition::Outside if letter == '"' => {
                let masking = StreamRedactor::new(self.redactor.clone());
                self.ready.push('"');
                self.at =
                    JsonPosition::Inside(Box::new(OpenString { masking, escape: Escape::None, high: None }));
            }
            JsonPosition::Outside
                if "{}[]:,+-.eE \t\r\ntruefalsn".contains(letter) || letter.is_ascii_digit() =>
            {
                self.ready.push(letter);
            }
            JsonPosition::Outside => self.is_over = true,
            JsonPosition::Inside(string) => match string.push_char(letter) {
                Some(text) => {
                    let certain = string.masking.push(&text);
                    self.ready.push_str(&quoted(&certain));
                }
                None if letter == '"' && matches!(string.escape, Escape::None) => {
                    let rest = string.masking.finish();
                    self.ready.push_str(&quoted(&rest));
                    self.ready.push('"');
                    self.at = JsonPosition::Outside;
                }
                None => {}
            },
        }
    }
}

impl OpenString {
    /// The decoded text that the character completes, if any. `None` at the end of the string.
    fn push_char(&mut self, letter: char) -> Option<String> {
        match &mut self.escape {
            Escape::None if letter == '"' => None,
            Escape::None if letter == '\\' => {
                self.escape = Escape::Open;
                None
            }
            Escape::None => Some(letter.to_string()),
            Escape::Open if letter == 'u' => {
                self.escape = Escape::Digits(String::new());
                None
            }
            Escape::Open => {
                self.escape = Escape::None;
                let decoded = match letter {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                };
                Some(decoded.to_string())
            }
            Escape::Digits(digits) => {
                digits.push(letter);
                if digits.len() < 4 {
                    return None;
                }
                let unit = u16::from_str_radix(digits, 16).unwrap_or(0xfffd);
                self.escape = Escape::None;
                self.push_unit(unit)
            }
        }
    }

    fn push_unit(&mut self, unit: u16) -> Option<String> {
        let units: Vec<u16> = self.high.take().into_iter().chain([unit]).collect();
        if units.len() == 1 && (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return None;
        }
        Some(String::from_utf16_lossy(&units))
    }
}

/// A text as part of a JSON string.
fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).expect("text can be written as JSON");
    json[1..json.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn inputs() -> CallInputs {
        CallInputs::new(0, Arc::new(Redactor::shapes()))
    }

    /// The logged deltas of an input that arrives in pieces of `letters` characters.
    fn logged(text: &str, letters: usize) -> String {
        let mut inputs = inputs();
        let mut logged = String::new();
        let all: Vec<char> = text.chars().collect();
        for piece in all.chunks(letters) {
            inputs.push(0, &piece.iter().collect::<String>());
            for draft in inputs.take_drafts(|| ForeignId::parse("call_1").unwrap()) {
                let Payload::AssistantToolCallInputDelta(delta) = draft.payload else { panic!() };
                assert_eq!((delta.turn_index, delta.tool_call_id.as_str()), (0, "call_1"));
                logged.push_str(&delta.delta);
            }
        }
        logged
    }

    #[test]
    fn the_deltas_join_to_the_input() {
        let input = json!({ "path": "a\"b\\c\n", "edits": [{ "n": -1.5e3, "ok": true, "no": null }], "é": "😀\u{1}" });
        let escaped = r#"{"path":"a\u0022b\u005cc\u000a","edits":[{"n":-1.5e3,"ok":true,"no":null}],"\u00e9":"\ud83d\ude00\u0001"}"#;
        for text in [input.to_string(), escaped.to_owned()] {
            for letters in [1, 2, 7, 1_000] {
                let read: Value = serde_json::from_str(&logged(&text, letters)).unwrap();
                assert_eq!(read, input, "{text}");
            }
        }
    }

    #[test]
    fn a_secret_is_masked_however_it_is_written() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let hidden: String = secret.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        for written in [secret, &hidden] {
            for letters in [1, 5, 1_000] {
                let deltas = logged(&format!(r#"{{"command":"echo {written} > f"}}"#), letters);
                let read: Value = serde_json::from_str(&deltas).unwrap();
                let command = read["command"].as_str().unwrap();
                assert!(!command.contains(secret) && command.starts_with("echo "), "{command}");
            }
        }
    }

    #[test]
    fn invalid_json_and_the_size_limit_end_the_deltas() {
        assert_eq!(logged(r#"{"a":1} ghp_secret"#, 3), r#"{"a":1} "#);
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::CALL_INPUT_DELTAS_BYTES_MAX));
        assert!(logged(&long, 1_000).len() <= limits::CALL_INPUT_DELTAS_BYTES_MAX);
        let mut inputs = inputs();
        inputs.push(limits::MODEL_CALLS_MAX, "{}");
        assert!(!inputs.has_deltas());
    }
}
