//! Validates requests: converts the protocol's JSON to commands for the engine. All input is checked here, once, also
//! against the capabilities of the agent. Pure.

mod image;
mod message;
mod query;
mod seed;
mod setup;
mod turn;

use recount_event::{Code, Json, SessionId};
use serde::de::DeserializeOwned;

pub(crate) use self::image::data_url;
pub(crate) use self::message::{MessageContent, run_title};
pub(crate) use self::query::{
    Kind, cursor, history_kind, idempotency_key, last_event_id, listing, traceparent, watching,
};
pub(crate) use self::seed::call_ids;
pub(crate) use self::setup::{Change, config, fork, new_title, session};
pub(crate) use self::turn::{Answer, CallResponse, Turn, TurnInput, no_call, turn};
use crate::error::Refusal;
use crate::project::TurnId;
use crate::wire;

pub(crate) type Accepted<T> = Result<T, Refusal>;

/// Replaces a secret in responses; if it is sent back, the secret stays unchanged.
pub(crate) const PLACEHOLDER: &str = "***";

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::BodyMalformed, detail)
}

/// Parses a JSON object.
pub(crate) fn body<T: DeserializeOwned>(bytes: &[u8]) -> Accepted<T> {
    wire::read(bytes).map_err(|why| malformed(why.to_string()))
}

/// The session in a path. An invalid id matches no session.
pub(crate) fn session_id(text: &str) -> Accepted<SessionId> {
    text.parse().map_err(|_| no_session(text))
}

/// One message for sessions that never existed, that were deleted, and that the caller may not see.
pub(crate) fn no_session(text: &str) -> Refusal {
    let advice = "GET /sessions lists the sessions";
    Refusal::new(Code::SessionNotFound, format!("session {:?} not found; {advice}", shortened(text)))
}

pub(crate) fn turn_id(text: &str) -> Accepted<TurnId> {
    text.parse().map_err(|_| no_turn(text))
}

pub(crate) fn no_turn(text: impl std::fmt::Display) -> Refusal {
    let text = text.to_string();
    let advice = "the response header aap-turn-id has the id of a turn";
    Refusal::new(
        Code::TurnNotFound,
        format!("turn {:?} not found in this session; {advice}", shortened(&text)),
    )
}

/// A number in canonical form; no other form was ever sent.
fn plain_number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text && *number < (1 << 53))
}

/// The length of a text as JSON.
fn encoded_len(value: &impl serde::Serialize) -> usize {
    Json::of(value).map_or(usize::MAX, |json| json.text().len())
}

/// The beginning of a text from outside, for messages.
pub(crate) fn shortened(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    // P-077
    #[test]
    fn bodies_that_not_every_reader_reads_alike_are_refused() {
        let long = format!("{}1{}", "[".repeat(80), "]".repeat(80));
        for bad in
            ["", "{", "[]", "null", "{\"a\":1,\"a\":2}", "{\"a\":\"\\ud800\"}", "{\"a\":1} x", long.as_str()]
        {
            let refusal = body::<serde_json::Value>(bad.as_bytes()).unwrap_err();
            assert_eq!(refusal.code, Code::BodyMalformed, "{bad}");
        }
        assert_eq!(body::<serde_json::Value>(b"{\"a\":\"\xff\"}").unwrap_err().code, Code::BodyMalformed);
    }
}
