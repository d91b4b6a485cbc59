//! The inputs of calls while the model writes them: pieces of JSON text, with secrets masked within each string.
//!
//! A string is read as what it says, masked, and written again, so that an escape hides nothing. What cannot be JSON ends the
//! pieces of its call. Look at [`CallInputs`]. Pure. It must not know how events are reported.

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
    /// By the place of the call in the answer.
    calls: BTreeMap<usize, OpenInput>,
}

/// One input on its way.
struct OpenInput {
    id: Option<ForeignId>,
    redactor: Arc<Redactor>,
    at: At,
    /// Bytes that the model wrote.
    bytes: usize,
    /// Nothing more is logged of it.
    is_over: bool,
    ready: String,
}

/// Where in the JSON text the next character stands.
enum At {
    Outside,
    Inside(Box<OpenString>),
}

struct OpenString {
    masking: StreamRedactor,
    escape: Escape,
    /// The first half of a character that JSON writes in two escapes.
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

    /// Takes in what the model wrote next of the input of a call, by its place in the answer.
    pub(crate) fn piece(&mut self, call: usize, text: &str) {
        if call >= limits::MODEL_CALLS_MAX {
            return;
        }
        let redactor = &self.redactor;
        let input = self.calls.entry(call).or_insert_with(|| OpenInput {
            id: None,
            redactor: redactor.clone(),
            at: At::Outside,
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
            input.letter(letter);
        }
    }

    /// Whether something can be logged.
    pub(crate) fn has_more(&self) -> bool {
        self.calls.values().any(|input| !input.ready.is_empty())
    }

    /// What can be logged, each call under its id, which is made when it is first needed.
    pub(crate) fn take(&mut self, mint: impl Fn() -> ForeignId) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for input in self.calls.values_mut().filter(|input| !input.ready.is_empty()) {
            let id = input.id.get_or_insert_with(&mint).clone();
            let delta = ToolCallInputDelta::new(self.turn_index, id, std::mem::take(&mut input.ready));
            drafts.push(Payload::AssistantToolCallInputDelta(Box::new(delta)).into());
        }
        drafts
    }

    /// The id under which pieces of a call were logged.
    pub(crate) fn id(&self, call: usize) -> Option<ForeignId> {
        self.calls.get(&call)?.id.clone()
    }
}

impl OpenInput {
    fn letter(&mut self, letter: char) {
        match &mut self.at {
            At::Outside if letter == '"' => {
                let masking = StreamRedactor::new(self.redactor.clone());
                self.ready.push('"');
                self.at = At::Inside(Box::new(OpenString { masking, escape: Escape::None, high: None }));
            }
            At::Outside if "{}[]:,+-.eE \t\r\ntruefalsn".contains(letter) || letter.is_ascii_digit() => {
                self.ready.push(letter);
            }
            At::Outside => self.is_over = true,
            At::Inside(string) => match string.letter(letter) {
                Some(said) => {
                    let certain = string.masking.push(&said);
                    self.ready.push_str(&quoted(&certain));
                }
                None if letter == '"' && matches!(string.escape, Escape::None) => {
                    let rest = string.masking.finish();
                    self.ready.push_str(&quoted(&rest));
                    self.ready.push('"');
                    self.at = At::Outside;
                }
                None => {}
            },
        }
    }
}

impl OpenString {
    /// What the string says with this letter, if it says anything yet. Nothing at its end.
    fn letter(&mut self, letter: char) -> Option<String> {
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
                let said = match letter {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                };
                Some(said.to_string())
            }
            Escape::Digits(digits) => {
                digits.push(letter);
                if digits.len() < 4 {
                    return None;
                }
                let unit = u16::from_str_radix(digits, 16).unwrap_or(0xfffd);
                self.escape = Escape::None;
                self.unit(unit)
            }
        }
    }

    fn unit(&mut self, unit: u16) -> Option<String> {
        let units: Vec<u16> = self.high.take().into_iter().chain([unit]).collect();
        if units.len() == 1 && (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return None;
        }
        Some(String::from_utf16_lossy(&units))
    }
}

/// A text as it stands within a JSON string.
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

    /// All that is logged of an input that comes in pieces of so many letters.
    fn logged(text: &str, letters: usize) -> String {
        let mut inputs = inputs();
        let mut said = String::new();
        let all: Vec<char> = text.chars().collect();
        for piece in all.chunks(letters) {
            inputs.piece(0, &piece.iter().collect::<String>());
            for draft in inputs.take(|| ForeignId::parse("call_1").unwrap()) {
                let Payload::AssistantToolCallInputDelta(delta) = draft.payload else { panic!() };
                assert_eq!((delta.turn_index, delta.tool_call_id.as_str()), (0, "call_1"));
                said.push_str(&delta.delta);
            }
        }
        said
    }

    #[test]
    fn the_pieces_are_the_input() {
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
                let said = logged(&format!(r#"{{"command":"echo {written} > f"}}"#), letters);
                let read: Value = serde_json::from_str(&said).unwrap();
                let command = read["command"].as_str().unwrap();
                assert!(!command.contains(secret) && command.starts_with("echo "), "{command}");
            }
        }
    }

    #[test]
    fn what_is_no_json_and_what_is_too_long_ends_the_pieces() {
        assert_eq!(logged(r#"{"a":1} ghp_secret"#, 3), r#"{"a":1} "#);
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::CALL_INPUT_DELTAS_BYTES_MAX));
        assert!(logged(&long, 1_000).len() <= limits::CALL_INPUT_DELTAS_BYTES_MAX);
        let mut inputs = inputs();
        inputs.piece(limits::MODEL_CALLS_MAX, "{}");
        assert!(!inputs.has_more());
    }
}
