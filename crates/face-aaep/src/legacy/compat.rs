//! Converts events and replies for old subscribers, which deviate from the specification. Pure.
//!
//! They read only `summary_normal`, show choices as a list of texts named `options`, and send replies without
//! `subscription_id`, or with the label of a choice instead of its value. Start with [`for_old_clients`] and
//! [`whole_reply`].

use bytes::Bytes;
use recount_aaep::wire::{Choice, Decision, Response, SubscriptionId, Timestamp};
use recount_aaep::{Body, Event, Message};
use serde_json::{Map, Value};

/// An event with the extra fields that old clients read.
pub(crate) fn for_old_clients(event: &Event) -> Bytes {
    let text = event.to_json();
    let added = match &event.body {
        Body::OutputStreaming(output) if !output.chunk.is_empty() && event.summaries.normal.is_none() => {
            ("summary_normal", Value::from(output.chunk.as_str()))
        }
        Body::AwaitingClarification(prompt) => match &prompt.choices {
            Some(choices) => {
                ("options", choices.iter().map(|choice| Value::from(choice.label.as_str())).collect())
            }
            None => return text.into(),
        },
        _ => return text.into(),
    };
    match serde_json::from_str::<Map<String, Value>>(&text) {
        Ok(mut whole) => {
            whole.insert(added.0.to_owned(), added.1);
            Value::Object(whole).to_string().into()
        }
        Err(_) => text.into(),
    }
}

/// The fields of each kind of reply. Other fields are dropped, so that they do not invalidate a reply.
const FIELDS: [(&str, &[&str]); 2] = [
    (
        "confirmation.reply",
        &["reply_token", "decision", "decided_by", "decision_rationale", "modified_action"],
    ),
    ("clarification.reply", &["reply_token", "response", "decided_by", "confidence"]),
];

/// Whether a message has the type of a reply.
pub(crate) fn is_reply(kind: &str) -> bool {
    FIELDS.iter().any(|(known, _)| *known == kind)
}

/// Completes a reply: its subscription, the time, and the value of a choice instead of its label. `None` if it is still
/// not a valid reply.
pub(crate) fn whole_reply(
    sent: &Map<String, Value>,
    subscription: &SubscriptionId,
    now_ms: u64,
    choices: &[Choice],
) -> Option<Message> {
    let kind = sent.get("type").and_then(Value::as_str)?;
    let (_, fields) = FIELDS.iter().find(|(known, _)| *known == kind)?;
    let known = |(name, _): &(&String, &Value)| fields.contains(&name.as_str());
    let mut reply: Map<String, Value> =
        sent.iter().filter(known).map(|(name, value)| (name.clone(), value.clone())).collect();
    let label = sent.get("response").and_then(Value::as_str);
    let is_value = choices.iter().any(|choice| Some(choice.value.as_str()) == label);
    let named = choices.iter().find(|choice| Some(choice.label.as_str()) == label).filter(|_| !is_value);
    if let Some(choice) = named {
        reply.insert("response".to_owned(), choice.value.as_str().into());
    }
    let now = Timestamp::of_millis(i64::try_from(now_ms).unwrap_or(i64::MAX));
    reply.insert("type".to_owned(), kind.into());
    reply.insert("subscription_id".to_owned(), subscription.as_str().into());
    reply.insert("timestamp".to_owned(), now.to_string().into());
    let message = Message::parse(&Value::Object(reply).to_string()).ok()?;
    match &message {
        Message::ConfirmationReply(reply) if matches!(reply.decision, Decision::Other(_)) => None,
        Message::ClarificationReply(reply) if reply.response == Response::Text(String::new()) => None,
        _ => Some(message),
    }
}

#[cfg(test)]
mod tests {
    use recount_aaep::build::{self, Draft, Frame};
    use recount_aaep::wire::{Boundary, ReplyToken};
    use serde_json::json;

    use super::*;

    fn seen<B: Into<Body>>(draft: Draft<B>) -> Value {
        let event = Frame::new("sess_1", "agent", "en-US").unwrap().event("evt_1", 0, draft).unwrap();
        serde_json::from_slice(&for_old_clients(&event)).unwrap()
    }

    fn question() -> Draft<recount_aaep::wire::AwaitingClarification> {
        let token = ReplyToken::new("rpl_4f8a2e7d9c1b6a3f").unwrap();
        build::clarification("Which city?", token, 60)
            .choice("lagos", "Lagos in Nigeria")
            .choice("oslo", "Oslo")
    }

    #[test]
    fn output_is_spoken_and_choices_are_shown_as_texts() {
        let output = seen(build::output("Good morning.", 0, Boundary::Sentence).output_id("out_1"));
        assert_eq!(
            (&output["summary_normal"], &output["chunk"]),
            (&json!("Good morning."), &output["chunk"])
        );
        let empty = seen(build::last_output("", 13).output_id("out_1"));
        assert_eq!(empty.get("summary_normal"), None);
        assert_eq!(seen(question())["options"], json!(["Lagos in Nigeria", "Oslo"]));
        let changed = seen(build::state_changed("idle", "thinking", "Thinking."));
        assert_eq!(changed["summary_normal"], "Thinking.");
    }

    #[test]
    fn a_reply_is_completed_and_a_label_is_replaced_by_its_value() {
        let subscription = SubscriptionId::new("sub_1").unwrap();
        let choices = [
            Choice { value: "lagos".into(), label: "Lagos in Nigeria".into() },
            Choice { value: "Oslo".into(), label: "lagos".into() },
        ];
        let reply = |sent: Value| whole_reply(sent.as_object().unwrap(), &subscription, 1_000, &choices);
        for (sent, response) in [("Lagos in Nigeria", "lagos"), ("lagos", "lagos"), ("Lima", "Lima")] {
            let sent =
                json!({ "type": "clarification.reply", "reply_token": "rpl_1", "response": sent, "more": 1 });
            let Some(Message::ClarificationReply(reply)) = reply(sent) else { panic!("{response}") };
            assert_eq!(serde_json::to_value(&reply).unwrap()["response"], response);
            assert_eq!(reply.subscription_id, subscription);
        }
        let sent = json!({
            "type": "confirmation.reply", "reply_token": "rpl_1", "decision": "accept",
            "subscription_id": "sub_of_another", "timestamp": "yesterday",
        });
        let Some(Message::ConfirmationReply(confirmation)) = reply(sent) else { panic!("it is a reply") };
        assert_eq!(confirmation.subscription_id, subscription);
        for wrong in [
            json!({ "type": "confirmation.reply", "reply_token": "rpl_1", "decision": "perhaps" }),
            json!({ "type": "clarification.reply", "reply_token": "rpl_1", "response": "" }),
            json!({ "type": "subscription.close" }),
        ] {
            assert!(reply(wrong.clone()).is_none(), "{wrong}");
        }
    }
}
