//! What the wire formats of providers share: calls that come in pieces, and values that must be objects.
//!
//! Look at [`GatheredCall`]. It must never know one provider from another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::turn::StopReason;
use serde_json::{Value, json};

use super::{Failure, Message, Piece, Request, failure};
use crate::limits;

/// A call whose input comes in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GatheredCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: String,
}

impl GatheredCall {
    /// The whole call. A model that writes nothing means no arguments.
    pub(super) fn piece(self) -> Piece {
        let input = if self.input.trim().is_empty() { "{}".to_owned() } else { self.input };
        Piece::Call { provider_call_id: self.id, name: self.name, input }
    }
}

/// Counts what calls of one answer hold, against their bounds.
#[derive(Debug, Default)]
pub(super) struct CallRoom {
    calls: usize,
    bytes: usize,
}

impl CallRoom {
    pub(super) fn take_call(&mut self, who: &str) -> Result<(), Failure> {
        self.calls += 1;
        if self.calls <= limits::MODEL_CALLS_MAX {
            return Ok(());
        }
        let limit = limits::MODEL_CALLS_MAX;
        Err(malformed(who, &format!("makes more than {limit} calls (MODEL_CALLS_MAX)")))
    }

    pub(super) fn take_bytes(&mut self, who: &str, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= limits::MODEL_CALL_BYTES_MAX {
            return Ok(());
        }
        let limit = limits::MODEL_CALL_BYTES_MAX;
        Err(malformed(who, &format!("has calls of more than {limit} bytes (MODEL_CALL_BYTES_MAX)")))
    }
}

pub(super) fn malformed(who: &str, what: &str) -> Failure {
    failure::plain("model_malformed", format!("the answer of {who} {what}"))
}

/// How an answer ended that said so with a word for a good end: whether it calls decides, because servers say one
/// and do the other.
pub(super) fn end_or_calls(has_calls: bool) -> StopReason {
    if has_calls { StopReason::ToolUse } else { StopReason::EndTurn }
}

/// The input of an earlier call. Providers take objects only, and refuse the whole conversation otherwise.
pub(super) fn object(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { json!({ "raw": input }) }
}

/// The name of a tool as every provider takes it. Models call tools that nobody offered, and applications bring tools
/// with names of their own kind; one that a provider refuses would cost the whole conversation.
pub(crate) fn plain_name(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let name = name.chars().map(|letter| if plain(letter) { letter } else { '_' });
    let name: String = name.take(limits::MODEL_TOOL_NAME_CHARS_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

pub(super) fn in_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Calls that were made before: made-up ids go on from there, so they are unique in the conversation.
pub(super) fn calls_before(request: &Request) -> usize {
    let calls = |message: &Message| match message {
        Message::Assistant { calls, .. } => calls.len(),
        _ => 0,
    };
    request.messages.iter().map(calls).sum()
}
