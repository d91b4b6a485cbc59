//! Builds the replies that the suite sends: valid ones, and ones with a single error.

use recount_aaep::Kind;
use serde_json::{Value, json};

use crate::conformance::conversation::Conversation;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::transcript::Line;

/// The identifiers that a reply to a prompt needs.
#[derive(Clone)]
pub(super) struct PromptRef {
    pub(super) token: String,
    /// The id of the prompt's event.
    pub(super) event: String,
    pub(super) subscription: String,
}

impl PromptRef {
    pub(super) fn of(conversation: &Conversation, number: usize) -> PromptRef {
        let (token, event) = conversation.read(|lines| {
            let line = &lines[number];
            (line.str("reply_token").to_owned(), line.str("event_id").to_owned())
        });
        PromptRef { token, event, subscription: subscription(conversation) }
    }

    /// Whether it is the same prompt, possibly of another subscription: each may have its own token.
    pub(super) fn is(&self, line: &Line) -> bool {
        line.is(Kind::AwaitingConfirmation)
            && (line.str("event_id") == self.event || line.str("reply_token") == self.token)
    }

    pub(super) fn decide(&self, harness: &Harness<'_>, decision: &str) -> Value {
        json!({
            "type": "confirmation.reply", "reply_token": self.token, "decision": decision,
            "subscription_id": self.subscription, "timestamp": harness.now(),
        })
    }

    pub(super) fn answer(&self, harness: &Harness<'_>, response: Value) -> Value {
        json!({
            "type": "clarification.reply", "reply_token": self.token, "response": response,
            "subscription_id": self.subscription, "timestamp": harness.now(),
        })
    }
}

/// Rejects a prompt, and waits until its session has ended.
pub(super) async fn turn_down(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
) -> Result<(), PartError> {
    conversation
        .send_text(&PromptRef::of(conversation, prompt).decide(harness, "reject").to_string())
        .await?;
    harness.end_of_line(conversation, prompt).await;
    Ok(())
}

/// The subscription id in replies. Without a handshake any id is accepted.
pub(super) fn subscription(conversation: &Conversation) -> String {
    conversation.id.clone().unwrap_or_else(|| "sub_conformance".to_owned())
}

/// A value with other fields.
pub(super) fn with(mut value: Value, over: Value) -> Value {
    if let (Some(fields), Value::Object(over)) = (value.as_object_mut(), over) {
        fields.extend(over);
    }
    value
}

/// A value without some of its fields.
pub(super) fn without(mut value: Value, names: &[&str]) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}

/// The lines around the settling of a prompt, as evidence.
pub(super) fn shown(lines: &[Line], numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().filter_map(|number| lines.get(number)).map(Line::shown).collect()
}
