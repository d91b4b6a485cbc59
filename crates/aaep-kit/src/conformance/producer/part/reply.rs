//! Builds the replies that the suite sends: valid ones, and ones with a single error.

use recount_aaep::Kind;
use serde_json::{Value, json};

use crate::conformance::producer::harness::{Harness, Trouble};
use crate::conformance::talk::Talk;
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
    pub(super) fn of(talk: &Talk, number: usize) -> PromptRef {
        let (token, event) = talk.read(|lines| {
            let line = &lines[number];
            (line.str("reply_token").to_owned(), line.str("event_id").to_owned())
        });
        PromptRef { token, event, subscription: subscription(talk) }
    }

    /// Whether it is the same prompt, perhaps of another subscription: each may have a token of its own.
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
pub(super) async fn turn_down(harness: &Harness<'_>, talk: &Talk, prompt: usize) -> Result<(), Trouble> {
    talk.send_text(&PromptRef::of(talk, prompt).decide(harness, "reject").to_string()).await?;
    harness.end_of_line(talk, prompt).await;
    Ok(())
}

/// How a subscription is called in replies; who had no handshake has no name, and any will do.
pub(super) fn subscription(talk: &Talk) -> String {
    talk.id.clone().unwrap_or_else(|| "sub_conformance".to_owned())
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

/// The lines around what happened to a prompt, for evidence.
pub(super) fn shown(lines: &[Line], numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().filter_map(|number| lines.get(number)).map(Line::shown).collect()
}
