//! Parses what subscribers send: handshakes, replies, closes. It validates nothing.

use recount_aaep::json::Reader;
use recount_aaep::rule::{Findings, Profile, Severity, check_message, message_kind};
use recount_aaep::table::MessageKind;
use serde_json::Value;
use tokio::time::Instant;

use super::producer::{Input, Observation, StreamSurface};

/// A received message.
#[derive(Debug, Clone)]
pub(super) struct ReceivedMessage {
    pub at: Instant,
    pub surface: StreamSurface,
    pub text: String,
    pub kind: Option<MessageKind>,
    pub value: Value,
}

impl ReceivedMessage {
    /// The message of an input, if it is one.
    pub(super) fn of(seen: &Observation) -> Option<ReceivedMessage> {
        let Input::Message { text, surface } = &seen.what else { return None };
        let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        let name = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let kind = MessageKind::of_name(name);
        Some(ReceivedMessage { at: seen.at, surface: *surface, text: text.clone(), kind, value })
    }

    pub(super) fn all(seen: &[Observation]) -> Vec<ReceivedMessage> {
        seen.iter().filter_map(ReceivedMessage::of).collect()
    }

    pub(super) fn is_reply(&self) -> bool {
        matches!(self.kind, Some(MessageKind::ConfirmationReply | MessageKind::ClarificationReply))
    }

    pub(super) fn token(&self) -> &str {
        self.value.get("reply_token").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn decision(&self) -> &str {
        self.value.get("decision").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn subscription(&self) -> &str {
        self.value.get("subscription_id").and_then(Value::as_str).unwrap_or_default()
    }

    /// The errors and warnings on its form. `/events` and `/messages` have no handshake, so replies need no
    /// subscription id there.
    pub(super) fn form_problems(&self) -> (Vec<String>, Vec<String>) {
        let profile = if self.surface.is_versioned() { Profile::Strict } else { Profile::Compat };
        let mut findings = Findings::new(profile);
        let mut reader = Reader::new();
        match reader.read(&self.text) {
            Err(error) => return (vec![error.to_string()], Vec::new()),
            Ok(doc) => {
                let Some(reading) = recount_aaep::Reading::of(doc) else {
                    return (vec!["it is not an object".into()], Vec::new());
                };
                match message_kind(&reading) {
                    Some(kind) => check_message(kind, &reading, &mut findings),
                    None => {
                        return (vec!["its type is not a message type of the protocol".into()], Vec::new());
                    }
                }
            }
        }
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for finding in findings.take() {
            let text = if finding.path.is_empty() {
                finding.message.clone()
            } else {
                format!("{} at `{}`", finding.message, finding.path)
            };
            match finding.severity {
                Severity::Error => errors.push(text),
                Severity::Warning => warnings.push(text),
                Severity::Note => {}
            }
        }
        (errors, warnings)
    }
}
