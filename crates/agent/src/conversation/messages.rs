//! The messages of a conversation for a request to a provider: roles alternate, results follow their calls, and call
//! ids are unique.
//!
//! It must not depend on one provider. Start with [`Conversation::messages`].

use std::collections::BTreeSet;

use super::{Conversation, HistoryCall, HistoryItem, ModelTurn, StoredPart, VisiblePictures};
use crate::model::{Call, CallResult, Message, Part};

impl Conversation {
    /// The messages that are sent to the model. A note replaces a picture that is not in `pictures`.
    pub fn messages(&self, pictures: VisiblePictures<'_>) -> Vec<Message> {
        let sent = |parts: &[StoredPart]| {
            parts.iter().filter(|part| part.has_content()).map(|part| part.part(pictures)).collect()
        };
        let mut messages = Vec::new();
        let mut ids = CallIds::default();
        let summary = self.summary.as_ref().filter(|summary| !summary.trim().is_empty());
        // Whether the last message is input that the model responds to.
        let mut is_input = summary.is_some();
        messages.extend(summary.map(|summary| Message::User(vec![Part::Text(summary.clone())])));
        for entry in &self.history {
            match &entry.item {
                // Providers reject messages without content.
                item if !item.has_content() => {}
                HistoryItem::User(parts) => {
                    is_input = true;
                    messages.push(Message::User(sent(parts)));
                }
                HistoryItem::Turn(turn) => {
                    if !is_input {
                        messages.push(continue_message());
                    }
                    is_input = !turn.calls.is_empty();
                    push_turn(turn, &sent, &mut ids, &mut messages);
                }
            }
        }
        if !is_input {
            messages.push(continue_message());
        }
        messages
    }
}

/// The user message that replaces missing input, so that the model continues. It is always the same.
fn continue_message() -> Message {
    Message::User(vec![Part::Text("Go on.".to_owned())])
}

/// Adds the text and the calls of a turn, and the results of the calls.
fn push_turn(
    turn: &ModelTurn,
    sent: &impl Fn(&[StoredPart]) -> Vec<Part>,
    ids: &mut CallIds,
    messages: &mut Vec<Message>,
) {
    let text = turn.texts.join("");
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for call in &turn.calls {
        let id = ids.id_of(call);
        results.push(call.result_message(id.clone(), sent));
        calls.push(Call { id, name: call.name.clone(), input: call.input.clone() });
    }
    messages.push(Message::Assistant { text: (!text.is_empty()).then_some(text), calls });
    if !results.is_empty() {
        messages.push(Message::Results(results));
    }
}

impl HistoryItem {
    fn has_content(&self) -> bool {
        match self {
            HistoryItem::User(parts) => parts.iter().any(StoredPart::has_content),
            HistoryItem::Turn(turn) => {
                !turn.calls.is_empty() || turn.texts.iter().any(|text| !text.trim().is_empty())
            }
        }
    }
}

impl HistoryCall {
    fn result_message(&self, call_id: String, sent: &impl Fn(&[StoredPart]) -> Vec<Part>) -> CallResult {
        match &self.result {
            Some(result) => CallResult { call_id, parts: sent(&result.parts), is_error: result.is_error },
            // Providers reject a conversation with a call that has no result.
            None => {
                let unsettled = "the outcome of this call is unknown".to_owned();
                CallResult { call_id, parts: vec![Part::Text(unsettled)], is_error: true }
            }
        }
    }
}

/// The call ids of one request. A call keeps the id that the provider gave. If that id is empty or already used, the
/// call gets our own id, because providers reject duplicate ids.
#[derive(Default)]
struct CallIds(BTreeSet<String>);

impl CallIds {
    fn id_of(&mut self, call: &HistoryCall) -> String {
        let own = call.tool_call_id.as_ref().map(ToString::to_string);
        let candidates = [Some(call.provider_call_id.clone()), own];
        for id in candidates.into_iter().flatten().filter(|id| !id.is_empty()) {
            if self.reserve(&id) {
                return id;
            }
        }
        let mut number = self.0.len() + 1;
        loop {
            let id = format!("call_{number}");
            if self.reserve(&id) {
                return id;
            }
            number += 1;
        }
    }

    /// Reserves an id. Some providers replace special characters, so ids that differ only in these are duplicates.
    fn reserve(&mut self, id: &str) -> bool {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        self.0.insert(id.chars().map(plain).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::StoredResult;

    #[test]
    fn duplicate_call_ids_are_replaced() {
        let call = |id: &str| HistoryCall {
            tool_call_id: None,
            provider_call_id: id.into(),
            name: "look".into(),
            input: serde_json::json!({}),
            result: Some(StoredResult { parts: vec![StoredPart::Text(id.into())], is_error: false }),
        };
        let mut conversation = Conversation::default();
        let turn = ModelTurn { texts: vec![], calls: vec![call("a.1"), call("a.1"), call("a-1"), call("")] };
        conversation.push(HistoryItem::Turn(turn), None);
        let messages = conversation.messages(None);
        let Message::Assistant { calls, .. } = &messages[1] else { panic!("{messages:?}") };
        let Message::Results(results) = &messages[2] else { panic!("{messages:?}") };
        let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a.1", "call_2", "call_3", "call_4"]);
        assert!(results.iter().zip(ids).all(|(result, id)| result.call_id == id));
    }

    #[test]
    fn consecutive_messages_stay_separate_and_keep_their_attachments() {
        let payload = |name: &str, data: &str| recount_event::Payload::read(name, data).unwrap();
        let at = |sequence| (recount_event::RunId::new(1.into()), sequence);
        let mut conversation = Conversation::default();
        let seed = serde_json::json!({ "role": "user", "content": [
            { "type": "text", "text": "a" }, { "type": "text", "text": "b" },
        ]});
        conversation.seed(&seed);
        conversation.apply(&payload("user.message", r#"{"text":"first"}"#), at(1));
        conversation.apply(&payload("user.message", r#"{"text":"second"}"#), at(2));
        let attached = r#"{"artifact_id":"art_1","kind":"image","mime":"image/png"}"#;
        conversation.apply(&payload("user.attachment", attached), at(3));
        let texts =
            |texts: &[&str]| Message::User(texts.iter().map(|text| Part::Text((*text).into())).collect());
        let hidden = "[image that cannot be shown: art_1]";
        assert_eq!(
            conversation.messages(None),
            [texts(&["a", "b"]), texts(&["first"]), texts(&["second", hidden])]
        );
    }

    #[test]
    fn messages_without_content_are_left_out() {
        let mut conversation = Conversation { summary: Some(String::new()), ..Conversation::default() };
        let texts =
            |texts: &[&str]| texts.iter().map(|text| StoredPart::Text((*text).into())).collect::<Vec<_>>();
        let turn = |text: &str| HistoryItem::Turn(ModelTurn { texts: vec![text.into()], calls: vec![] });
        conversation.push(HistoryItem::User(texts(&[" ", ""])), None);
        conversation.push(turn("Hello."), None);
        conversation.push(HistoryItem::User(texts(&["", "hi"])), None);
        conversation.push(turn("\n"), None);
        let user = |text: &str| Message::User(vec![Part::Text(text.into())]);
        let assistant = |text: &str| Message::Assistant { text: Some(text.into()), calls: vec![] };
        assert_eq!(conversation.messages(None), [user("Go on."), assistant("Hello."), user("hi")]);
        conversation.push(turn("Yes."), None);
        conversation.push(HistoryItem::User(texts(&["\t"])), None);
        assert_eq!(conversation.messages(None)[3..], [assistant("Yes."), user("Go on.")]);
    }
}
