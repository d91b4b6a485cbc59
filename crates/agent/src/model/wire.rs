//! Parts that the wire formats of providers share: streamed calls, usage figures, and values that must be objects.
//!
//! It must not depend on a single provider. Start with [`PartialCall`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::turn::StopReason;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Failure, Message, Piece, Request, failure};
use crate::limits::{MODEL_CALLS_MAX, MODEL_TOOL_NAME_CHARS_MAX};
use crate::model::limits;

/// A call whose input arrives in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartialCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: String,
}

impl PartialCall {
    /// The complete call. An empty input means no arguments.
    pub(super) fn into_piece(self) -> Piece {
        let input = if self.input.trim().is_empty() { "{}".to_owned() } else { self.input };
        Piece::Call { provider_call_id: self.id, name: self.name, input }
    }
}

/// Counts the calls of one response and their bytes against the limits.
#[derive(Debug, Default)]
pub(super) struct CallCounter {
    calls: usize,
    bytes: usize,
}

impl CallCounter {
    pub(super) fn add_call(&mut self, provider: &str) -> Result<(), Failure> {
        self.calls += 1;
        if self.calls <= MODEL_CALLS_MAX {
            return Ok(());
        }
        let limit = MODEL_CALLS_MAX;
        Err(malformed(provider, &format!("has more than {limit} calls (MODEL_CALLS_MAX)")))
    }

    pub(super) fn add_bytes(&mut self, provider: &str, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= limits::MODEL_CALL_BYTES_MAX {
            return Ok(());
        }
        let limit = limits::MODEL_CALL_BYTES_MAX;
        Err(malformed(provider, &format!("has calls of more than {limit} bytes (MODEL_CALL_BYTES_MAX)")))
    }
}

pub(super) fn malformed(provider: &str, what: &str) -> Failure {
    failure::plain("model_malformed", format!("the response of {provider} {what}"))
}

/// Reads an event of a stream. Some servers cut a text in the middle of a surrogate pair. Each half is read as U+FFFD
/// then, and the second value is `true`.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<(T, bool), serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(read) => Ok((read, false)),
        Err(why) => match replace_lone_surrogates(text) {
            Some(text) => serde_json::from_str(&text).map(|read| (read, true)),
            None => Err(why),
        },
    }
}

/// A JSON text with U+FFFD for each half of a surrogate pair; `None` if there is none.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let digits = text.get(at + 2..at + 6).filter(|_| bytes[at..].starts_with(b"\\u"))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(slash) = memchr::memchr(b'\\', &bytes[at..]).map(|found| at + found) {
        at = match unit(slash) {
            Some(0xD800..=0xDBFF) if matches!(unit(slash + 6), Some(0xDC00..=0xDFFF)) => slash + 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(&text[kept..slash]);
                out.push('\u{fffd}');
                kept = slash + 6;
                kept
            }
            _ => slash + 2,
        };
        if at >= bytes.len() {
            break;
        }
    }
    out.push_str(&text[kept..]);
    (kept > 0).then_some(out)
}

/// A usage figure of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Of(u64),
    /// Negative, or not a number.
    Unreadable,
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let count = value.as_u64().or_else(|| {
            let count = value.as_f64().filter(|count| *count >= 0.0)?;
            // A larger value becomes the largest number.
            Some(count as u64)
        });
        Ok(count.map_or(Count::Unreadable, Count::Of))
    }
}

impl Count {
    /// The number, if it can be read.
    pub(super) fn of(count: Option<Count>) -> Option<u64> {
        match count {
            Some(Count::Of(number)) => Some(number),
            Some(Count::Unreadable) | None => None,
        }
    }
}

/// The stop reason of a regular end. The calls decide, because servers send reasons that do not match.
pub(super) fn end_or_calls(has_calls: bool) -> StopReason {
    if has_calls { StopReason::ToolUse } else { StopReason::EndTurn }
}

/// The input of an earlier call. Providers accept only objects, and reject the whole conversation otherwise.
pub(super) fn object(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { json!({ "raw": input }) }
}

/// A tool name that every provider accepts. Models call unknown tools, and applications define tools with arbitrary
/// names. One rejected name would fail the whole conversation.
pub(crate) fn plain_name(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let name = name.chars().map(|letter| if plain(letter) { letter } else { '_' });
    let name: String = name.take(MODEL_TOOL_NAME_CHARS_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

pub(super) fn in_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The number of earlier calls. Generated ids continue from it, so they are unique in the conversation.
pub(super) fn calls_before(request: &Request) -> usize {
    let calls = |message: &Message| match message {
        Message::Assistant { calls, .. } => calls.len(),
        _ => 0,
    };
    request.messages.iter().map(calls).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (text, expected) in [
            (r#""plain""#, None),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud800""#, None),
            (r#""a\ud800""#, Some("\"a\u{fffd}\"")),
            (r#""\ud800\ud83d\ude00\udc00é""#, Some("\"\u{fffd}\\ud83d\\ude00\u{fffd}é\"")),
            (r#""\\\udbff\\""#, Some("\"\\\\\u{fffd}\\\\\"")),
            ("\"\\ud8", None),
            ("\\", None),
        ] {
            assert_eq!(replace_lone_surrogates(text).as_deref(), expected, "{text}");
        }
        assert_eq!(read::<String>(r#""a\ud800""#).unwrap(), ("a\u{fffd}".to_owned(), true));
        assert!(read::<String>(r#""a\ud8"#).is_err());
    }

    #[test]
    fn usage_figures_of_all_servers_are_read() {
        for (text, count) in [
            ("7", Count::Of(7)),
            ("7.0", Count::Of(7)),
            ("1e300", Count::Of(u64::MAX)),
            ("18446744073709551616", Count::Of(u64::MAX)),
            ("-1", Count::Unreadable),
            ("\"7\"", Count::Unreadable),
            ("{}", Count::Unreadable),
        ] {
            assert_eq!(serde_json::from_str::<Count>(text).unwrap(), count, "{text}");
        }
        assert_eq!(serde_json::from_str::<Option<Count>>("null").unwrap(), None);
    }
}
