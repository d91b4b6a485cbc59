//! Checks JSON from outside once and removes its white space; nothing else about it changes.
//! [`draft`] takes a whole event from a producer, [`compact`] any JSON.
//!
//! Refused: invalid JSON, duplicate keys, nesting beyond the limit, lone surrogates, integers that
//! some readers would round, numbers out of range. Everything else is kept token for token.

use recount_json::{Fault, Kind, Scanner};

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
    #[error("data is invalid: {0}")]
    Json(#[from] DoorError),
    #[error(
        "data has {bytes} bytes without whitespace; the limit is {max}: store large content as artifacts"
    )]
    TooLarge { bytes: usize, max: usize },
    #[error("data is {found}; it must be an object")]
    NotAnObject { found: &'static str },
    /// The type's name or its fields are not right.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

/// Takes an event from a producer: the name of its type and the text of `data`. The text is checked,
/// loses its white space and is kept unchanged from then on.
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
    let mut scanner = Scanner::strict(text, limits::JSON_DEPTH_MAX);
    let mut out = String::with_capacity(text.len());
    while let Some(token) = scanner.token()? {
        let raw = &text[token.start..token.end];
        let fits = match token.kind {
            Kind::Integer => {
                let size: Option<u64> = raw.trim_start_matches('-').parse().ok();
                size.is_some_and(|size| size < limits::INTEGER_MAX)
            }
            Kind::Real => raw.parse::<f64>().is_ok_and(f64::is_finite),
            _ => true,
        };
        if !fits {
            let reason = "the number is too large; send it as a string".into();
            return Err(DoorError { at: token.start, reason });
        }
        out.extend(token.sign);
        out.push_str(raw);
    }
    Ok(out)
}

impl From<Fault> for DoorError {
    fn from(fault: Fault) -> Self {
        DoorError { at: fault.at, reason: fault.reason.to_string() }
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
    fn a_refused_draft_has_a_reason_in_one_sentence() {
        let sentence = |type_name: &str, data: &str| draft(type_name, data).unwrap_err().to_string();
        assert_eq!(sentence("ext.a.b", "{,}"), "data is invalid: a key must be a string (at byte 1)");
        assert_eq!(sentence("ext.a.b", "[]"), "data is an array; it must be an object");
        assert_eq!(sentence("ext.a.b", "\"{}\""), "data is a string; it must be an object");
        assert_eq!(sentence("ext.a.b", "-1"), "data is a number; it must be an object");
        assert_eq!(sentence("ext.a.b", " null "), "data is null; it must be an object");
        assert!(sentence("Shout", "{}").contains("Shout"), "{}", sentence("Shout", "{}"));
        assert_eq!(
            sentence("run.checkpoint_saved", "{}"),
            "the data of run.checkpoint_saved is invalid: missing field `checkpoint_id`"
        );
        assert_eq!(
            sentence("tool.invoked", r#"{"tool_name":7,"turn_index":"first"}"#),
            "the data of tool.invoked is invalid: missing field `tool_call_id`; field `tool_name`: invalid \
             type: integer `7`, expected a string; field `turn_index`: invalid type: string \"first\", \
             expected u64"
        );
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::DATA_BYTES_MAX));
        assert!(sentence("ext.a.b", &large).starts_with("data has 1048584 bytes"), "{}", large.len());
    }
}
